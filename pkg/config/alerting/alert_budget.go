package alerting

import (
	"slices"
	"time"
)

// Ids of the two alerts that hold a budget instead of the state of a rule.
const (
	AlertMailBudget = "budget/mail"
	AlertTestBudget = "budget/test"
)

// AlertBudget counts sent messages for the limits of alert messages. It is stored in an Alert that never fires, so that
// all nodes share it and it survives restarts. A budget that has not changed for 25 hours is removed like any resolved
// alert.
type AlertBudget struct {
	Sent []AlertSent `json:"sent,omitempty"` // within the last hour, oldest first
	// Holder is the node that has the lease until HeldUntil: the sender of notices, or the node that runs a test.
	Holder    string    `json:"holder,omitempty"`
	HeldUntil time.Time `json:"held_until,omitzero"`
	NextAt    time.Time `json:"next_at,omitzero"` // earliest time of the next digest
}

// AlertSent is one sent message or test.
type AlertSent struct {
	ID    string    `json:"id,omitempty"` // id of the notice
	At    time.Time `json:"at"`
	Mails int       `json:"mails,omitempty"` // number of recipients of a test mail
}

// budgetWindow is how long a sent message is counted.
const budgetWindow = time.Hour

// RecordSent adds a sent message and drops those older than an hour.
func (b *AlertBudget) RecordSent(s AlertSent) {
	b.Sent = slices.DeleteFunc(b.Sent, func(old AlertSent) bool { return s.At.Sub(old.At) >= budgetWindow })
	b.Sent = append(b.Sent, s)
}

// SentWithin returns what was sent in the window before now, an hour at most. b may be nil.
func (b *AlertBudget) SentWithin(now time.Time, window time.Duration) []AlertSent {
	if b == nil {
		return nil
	}
	i := slices.IndexFunc(b.Sent, func(s AlertSent) bool { return now.Sub(s.At) < min(window, budgetWindow) })
	if i < 0 {
		return nil
	}
	return b.Sent[i:]
}

// Held reports whether a node has the lease. b may be nil.
func (b *AlertBudget) Held(now time.Time) bool { return b != nil && now.Before(b.HeldUntil) }

// ChangeBudget calls alter with the budget of the alert, which is empty at first.
func (a *Alert) ChangeBudget(alter func(*AlertBudget) error) error {
	if a.Budget == nil {
		a.Budget = &AlertBudget{}
	}
	return alter(a.Budget)
}
