package finding

import (
	"slices"
	"time"
)

// Status says what people did about a finding.
type Status string

// Statuses of a finding.
const (
	Open         Status = "open"
	Acknowledged Status = "acknowledged"
	Resolved     Status = "resolved"
	Ignored      Status = "ignored"
)

// Statuses are all of them, in the order of a finding's life.
var Statuses = []Status{Open, Acknowledged, Resolved, Ignored}

// nextStatuses are the statuses that people can give a finding. The service opens resolved and ignored findings again.
var nextStatuses = map[Status][]Status{
	Open:         {Acknowledged, Resolved, Ignored},
	Acknowledged: {Open, Resolved, Ignored},
	Resolved:     {Open},
	Ignored:      {Open},
}

// Next returns the statuses that people can give a finding with status s.
func (s Status) Next() []Status { return slices.Clone(nextStatuses[s]) }

// MayBecome reports whether people can change the status of a finding from s to another one.
func (s Status) MayBecome(to Status) bool { return slices.Contains(nextStatuses[s], to) }

// Outstanding reports whether somebody still has to act: the finding is neither resolved nor ignored.
func (s Status) Outstanding() bool { return s == Open || s == Acknowledged }

// Resolutions are the reasons for which a finding is resolved.
var Resolutions = []string{"revoked", "removed", "false_positive"}

// IgnoreReasons are the reasons for which a finding is ignored.
var IgnoreReasons = []string{"false_positive", "used_in_tests", "accepted_risk"}

// RegressionDelay is how long after its resolution a secret may still be seen without being opened again: what was on
// its way then needs time to arrive.
const RegressionDelay = time.Hour

// Regresses reports whether a hit opens a finding that was resolved at resolvedAt. The line's own time counts, so that
// old lines which arrive late open nothing; hits that nobody has verified open nothing either.
func (h *Hit) Regresses(resolvedAt time.Time) bool {
	return !h.Unverified && h.ObservedAt.Sub(resolvedAt) > RegressionDelay
}

// TripwireReminder is how often people are notified of a tripwire that is used again while they know of it.
const TripwireReminder = time.Hour

// FloodReminder is how often people are notified of a flood that goes on: it hides new secrets.
const FloodReminder = 24 * time.Hour

// Transition is a change of a finding about which people are notified.
type Transition string

// Transitions. Unchanged is no transition.
const (
	Unchanged Transition = ""
	Opened    Transition = "opened"    // it was seen for the first time, or verified for the first time
	Reopened  Transition = "reopened"  // it was seen again after its resolution, or is ignored no longer
	Continued Transition = "continued" // see FloodReminder and TripwireReminder
)
