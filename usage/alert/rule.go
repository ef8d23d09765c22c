package alert

import (
	"time"

	"github.com/eventrelay/relay/pkg/config/alerting"
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
	sourceFailing
	ruleCount // the number of rules
)

// resolvedSuffix ends the type of a notice that says that an alert is over.
const resolvedSuffix = ".resolved"

// ruleTable is what each rule is called, in the settings and in notices.
var ruleTable = [ruleCount]struct {
	messageType string // of its notices, without the prefix "alert."
	setting     string // its name in the settings
	enabled     func(*alerting.AlertRules) bool
	fired, over string // titles of its notices; over is empty if there is none
}{
	deliveryFailed: {
		messageType: "delivery.failed",
		setting:     "delivery_failed",
		enabled:     func(s *alerting.AlertRules) bool { return s.DeliveryFailed.Enabled },
		fired:       "A delivery failed for good",
		over:        "Deliveries arrive again",
	},
	consecutiveFailures: {
		messageType: "destination.failing",
		setting:     "consecutive_failures",
		enabled:     func(s *alerting.AlertRules) bool { return s.ConsecutiveFailures.Enabled },
		fired:       "Several attempts in a row failed",
		over:        "Attempts succeed again",
	},
	failureRate: {
		messageType: "destination.failure_rate",
		setting:     "failure_rate",
		enabled:     func(s *alerting.AlertRules) bool { return s.FailureRate.Enabled },
		fired:       "Too many attempts fail",
		over:        "Fewer attempts fail again",
	},
	backlogAge: {
		messageType: "destination.backlog",
		setting:     "backlog_age",
		enabled:     func(s *alerting.AlertRules) bool { return s.BacklogAge.Enabled },
		fired:       "Deliveries have waited too long",
		over:        "The backlog is back to normal",
	},
	destinationHeld: {
		messageType: "destination.held",
		setting:     "destination_state",
		enabled:     func(s *alerting.AlertRules) bool { return s.DestinationState.Enabled },
		fired:       "Deliveries are held: the circuit breaker is open",
		over:        "Deliveries have resumed",
	},
	destinationGone: {
		messageType: "destination.disabled",
		setting:     "destination_state",
		enabled:     func(s *alerting.AlertRules) bool { return s.DestinationState.Enabled },
		fired:       "The destination was disabled: it is gone (410) or asked for it",
		over:        "The destination is enabled again",
	},
	verificationFailed: {
		messageType: "endpoint.verification_failed",
		setting:     "verification_failed",
		enabled:     func(s *alerting.AlertRules) bool { return s.VerificationFailed.Enabled },
		fired:       "Incoming events are rejected: their signatures are invalid",
		over:        "Signatures of incoming events are valid again",
	},
	usageShare: {
		messageType: "usage.threshold",
		setting:     "usage",
		enabled:     func(s *alerting.AlertRules) bool { return s.Usage.Enabled },
		fired:       "A usage threshold is reached",
		over:        "Usage is below the threshold again",
	},
	recoveryEnded: {
		messageType: "recovery.ended",
		setting:     "recovery",
		enabled:     func(s *alerting.AlertRules) bool { return s.Recovery.Enabled },
		fired:       "A recovery job has ended",
	},
	processingMissing: {
		messageType: "processing.missing",
		setting:     "processing_missing",
		enabled:     func(s *alerting.AlertRules) bool { return s.ProcessingMissing.Enabled },
		fired:       "Delivered events were not processed",
		over:        "Delivered events are processed again",
	},
	sourceFailing: {
		messageType: "endpoint.source_failing",
		setting:     "source_failing",
		enabled:     func(s *alerting.AlertRules) bool { return s.SourceFailing.Enabled },
		fired:       "An endpoint cannot read its source or ask its provider for events",
		over:        "The endpoint reads its source and asks its provider again",
	},
}

func (r rule) messageType() string { return ruleTable[r].messageType }

func (r rule) settingName() string { return ruleTable[r].setting }

// enabled reports whether the rule is switched on.
func (r rule) enabled(s *alerting.AlertRules) bool { return ruleTable[r].enabled(s) }

// headline returns the title of a notice: over is false when the alert fires and true when it is resolved.
func (r rule) headline(over bool) string {
	if over {
		return ruleTable[r].over
	}
	return ruleTable[r].fired
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

// ruleResult is the result of a rule at a moment.
type ruleResult uint8

const (
	inconclusive ruleResult = iota // neither: the alert keeps its state
	bad
	good
)

// evaluation is the result of one rule, with the measured value and its threshold.
type evaluation struct {
	rule             rule
	result           ruleResult
	value, threshold any
	event            string // that somebody should look at, evt_…; empty: none
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
// from before its last transition, and never while the endpoint is muted or the rule is off. A rule that is off
// resolves a firing alert without a notice. A mute does not end one, so its end is announced as well.
func nextTransition(a *alerting.Alert, f evaluation, s *alerting.AlertSettings, overrides alerting.EndpointAlerts,
	at logPosition,
	now time.Time) (
	_ transition, announce bool) {
	firing := a != nil && a.Firing
	enabled, muted := f.rule.enabled(&s.Rules) && overrides.Enabled, now.Before(overrides.MutedUntil)
	if a != nil && a.Partition == at.partition && at.position < a.Position && now.Sub(a.Since) < rereadTime {
		return unchanged, false
	}
	switch {
	case firing && !enabled:
		return resolve, false
	case firing && f.result == good:
		return resolve, true
	case !firing && enabled && !muted && f.result == bad:
		if a != nil && now.Sub(a.FiredAt) < time.Duration(s.CooldownSeconds)*time.Second {
			return unchanged, false
		}
		return fire, true
	}
	return unchanged, false
}
