package alert

import (
	"time"

	"github.com/eventrelay/relay/pkg/config"
)

// rule is one kind of alert. The setting destination_state is two: a destination may be held, or gone.
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
	rules // how many there are
)

// resolved is what the type of a message ends with that says an alert is over.
const resolved = ".resolved"

// topic is the type of a rule's messages, after "alert.".
func (r rule) topic() string {
	return [rules]string{"delivery.failed", "destination.failing", "destination.failure_rate", "destination.backlog",
		"destination.held",
		"destination.disabled", "endpoint.verification_failed", "usage.threshold", "recovery.ended", "processing.missing"}[r]
}

// setting is what the settings call it.
func (r rule) setting() string {
	return [rules]string{"delivery_failed", "consecutive_failures", "failure_rate", "backlog_age", "destination_state",
		"destination_state", "verification_failed", "usage", "recovery", "processing_missing"}[r]
}

// on reports whether the settings want it.
func (r rule) on(s *config.AlertRules) bool {
	return [rules]bool{s.DeliveryFailed.Enabled, s.ConsecutiveFailures.Enabled, s.FailureRate.Enabled,
		s.BacklogAge.Enabled,
		s.DestinationState.Enabled,
		s.DestinationState.Enabled, s.VerificationFailed.Enabled, s.Usage.Enabled, s.Recovery.Enabled,
		s.ProcessingMissing.Enabled}[r]
}

// headline is what a message says in a line, when the alert fires and when it is over.
func (r rule) headline(over bool) string {
	if over {
		return [rules]string{"Deliveries arrive again", "Attempts succeed again", "Fewer attempts fail again",
			"No delivery waits for long any more",
			"Deliveries go on", "The destination is enabled again", "Signatures of incoming events are good again",
			"Usage is below the mark again",
			"", "Delivered events are processed again"}[r]
	}
	return [rules]string{"A delivery failed for good", "Attempts fail one after the other", "Too many attempts fail",
		"Deliveries wait for long",
		"Deliveries are held: the breaker is open", "The destination is gone (410) and was disabled",
		"Signatures of incoming events are refused",
		"Much of the allowance is used", "A recovery job has ended", "Delivered events were not processed"}[r]
}

// ruleNamed returns the rule whose topic begins an alert's id.
func ruleNamed(topic string) (rule, bool) {
	for r := range rules {
		if r.topic() == topic {
			return r, true
		}
	}
	return 0, false
}

// subject is what an alert is about.
type subject struct {
	endpoint, destination string
	// other names what is neither, such as a share of the allowance or a recovery job.
	other string
}

// idOf names an alert: each rule and subject has one.
func idOf(r rule, s subject) string {
	return r.topic() + "/" + s.endpoint + "/" + s.destination + s.other
}

// place is a position in a partition's log, up to which the log was known.
type place struct {
	partition int32
	position  int64
}

// step is what becomes of an alert.
type step uint8

const (
	stay step = iota
	fire
	resolve
)

// readAgain is for how long after a change records from before it may be read again. The bound is there for a log
// that was made anew, whose positions begin at the beginning.
const readAgain = time.Hour

// next is the rule of all alerts: they change on transitions only, fire again no sooner than the cooldown allows,
// never for something that stood in the log before the last change, and never while the endpoint is muted or the
// rule is off; then an alert that fires ends without a word. a is nil when it has never changed.
func next(a *config.Alert, f finding, s *config.AlertSettings, own config.EndpointAlerts, at place, now time.Time) (
	_ step, told bool) {
	firing := a != nil && a.Firing
	heard := f.rule.on(&s.Rules) && own.Enabled && !now.Before(own.MutedUntil)
	if a != nil && a.Partition == at.partition && at.position < a.Position && now.Sub(a.Since) < readAgain {
		return stay, false
	}
	switch {
	case firing && !heard:
		return resolve, false
	case firing && f.result == good:
		return resolve, true
	case !firing && heard && f.result == bad:
		if a != nil && now.Sub(a.FiredAt) < time.Duration(s.CooldownSeconds)*time.Second {
			return stay, false
		}
		return fire, true
	}
	return stay, false
}
