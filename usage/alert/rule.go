package alert

import (
	"time"

	"github.com/eventrelay/relay/pkg/config"
)

// rule is one kind of alert. The setting destination_state has two rules: held and gone.
type rule uint8

const (
	deliveryFailed rule = iota
	consecutiveFailures
	failureRate
	backlogAge
	destinationHeld
	destinationGone
	verificationFailed
	usageShare
	recoveryEnded
	processingMissing
	ruleCount // the number of rules
)

// resolvedSuffix ends the type of a notice that says that an alert is over.
const resolvedSuffix = ".resolved"

// messageType returns the type of a rule's notices, without the prefix "alert.".
func (r rule) messageType() string {
	return [ruleCount]string{"delivery.failed", "destination.failing", "destination.failure_rate", "destination.backlog",
		"destination.held",
		"destination.disabled", "endpoint.verification_failed", "usage.threshold", "recovery.ended", "processing.missing"}[r]
}

// settingName returns the name of the rule in the settings.
func (r rule) settingName() string {
	return [ruleCount]string{"delivery_failed", "consecutive_failures", "failure_rate", "backlog_age", "destination_state",
		"destination_state", "verification_failed", "usage", "recovery", "processing_missing"}[r]
}

// enabled reports whether the rule is switched on.
func (r rule) enabled(s *config.AlertRules) bool {
	return [ruleCount]bool{s.DeliveryFailed.Enabled, s.ConsecutiveFailures.Enabled, s.FailureRate.Enabled,
		s.BacklogAge.Enabled,
		s.DestinationState.Enabled,
		s.DestinationState.Enabled, s.VerificationFailed.Enabled, s.Usage.Enabled, s.Recovery.Enabled,
		s.ProcessingMissing.Enabled}[r]
}

// headline returns the title of a notice: over is false when the alert fires and true when it is resolved.
func (r rule) headline(over bool) string {
	if over {
		return [ruleCount]string{"Deliveries arrive again", "Attempts succeed again", "Fewer attempts fail again",
			"The backlog is back to normal",
			"Deliveries have resumed", "The destination is enabled again", "Signatures of incoming events are valid again",
			"Usage is below the threshold again",
			"", "Delivered events are processed again"}[r]
	}
	return [ruleCount]string{"A delivery failed for good", "Several attempts in a row failed", "Too many attempts fail",
		"Deliveries have waited too long",
		"Deliveries are held: the circuit breaker is open", "The destination is gone (410) and was disabled",
		"Incoming events are rejected: their signatures are invalid",
		"A usage threshold is reached", "A recovery job has ended", "Delivered events were not processed"}[r]
}

// ruleOfType returns the rule with that message type, with which an alert's id begins.
func ruleOfType(messageType string) (rule, bool) {
	for r := range ruleCount {
		if r.messageType() == messageType {
			return r, true
		}
	}
	return 0, false
}

// subject is what an alert is about.
type subject struct {
	endpoint, destination string
	// other identifies what is neither: a threshold of the allowance in percent, or a recovery job.
	other string
}

// alertID returns the id of an alert: there is one for each rule and subject.
func alertID(r rule, s subject) string {
	return r.messageType() + "/" + s.endpoint + "/" + s.destination + s.other
}

// logPosition is the offset up to which a partition of a topic was read.
type logPosition struct {
	partition int32
	position  int64
}

// transition is a change of an alert's state.
type transition uint8

const (
	unchanged transition = iota
	fire
	resolve
)

// rereadTime is how long after a transition records from before it may be read again. Later, an older position means
// that the log was recreated and its offsets start at 0 again.
const rereadTime = time.Hour

// nextTransition decides the transition of an alert, and whether it is announced. a is nil if the alert has never
// fired. An alert changes only when its condition does. It fires again only after the cooldown, never for a record
// from before its last transition, and never while the endpoint is muted or the rule is off: then a firing alert is
// resolved without a notice.
func nextTransition(a *config.Alert, f evaluation, s *config.AlertSettings, overrides config.EndpointAlerts,
	at logPosition,
	now time.Time) (
	_ transition, announce bool) {
	firing := a != nil && a.Firing
	enabled := f.rule.enabled(&s.Rules) && overrides.Enabled && !now.Before(overrides.MutedUntil)
	if a != nil && a.Partition == at.partition && at.position < a.Position && now.Sub(a.Since) < rereadTime {
		return unchanged, false
	}
	switch {
	case firing && !enabled:
		return resolve, false
	case firing && f.result == good:
		return resolve, true
	case !firing && enabled && f.result == bad:
		if a != nil && now.Sub(a.FiredAt) < time.Duration(s.CooldownSeconds)*time.Second {
			return unchanged, false
		}
		return fire, true
	}
	return unchanged, false
}
