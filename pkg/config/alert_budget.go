package config

import (
	"slices"
	"time"
)

// Ids of the alerts that hold a budget instead of a rule's state.
const (
	AlertMailBudget = "budget/mail"
	AlertTestBudget = "budget/test"
)

// AlertBudget is what the limits of alert messages remember. It stands in an Alert that never fires, so that all nodes
// share it and it survives them; one that rests for a day is forgotten like any quiet alert.
type AlertBudget struct {
	Sent []AlertSent `json:"sent,omitempty"` // of the last hour, oldest first
	// Holder has what must not run twice, a digest or a test, for itself until HeldUntil.
	Holder    string    `json:"holder,omitempty"`
	HeldUntil time.Time `json:"held_until,omitzero"`
	NextAt    time.Time `json:"next_at,omitzero"` // no digest is sent before
}

// AlertSent is one message or test.
type AlertSent struct {
	ID    string    `json:"id,omitempty"` // of the notice
	At    time.Time `json:"at"`
	Mails int       `json:"mails,omitempty"`
}

// budgetWindow is how long what was sent counts.
const budgetWindow = time.Hour

// Spend adds one to what was sent and forgets what counts no more.
func (b *AlertBudget) RecordSent(s AlertSent) {
	b.Sent = slices.DeleteFunc(b.Sent, func(old AlertSent) bool { return s.At.Sub(old.At) >= budgetWindow })
	b.Sent = append(b.Sent, s)
}

// Since is what was sent within a window before now, of an hour at most. b may be nil.
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

// Held reports whether something that must not run twice is running. b may be nil.
func (b *AlertBudget) Held(now time.Time) bool { return b != nil && now.Before(b.HeldUntil) }

// ChangeBudget gives alter the budget of the alert, an empty one at first.
func (a *Alert) ChangeBudget(alter func(*AlertBudget) error) error {
	if a.Budget == nil {
		a.Budget = &AlertBudget{}
	}
	return alter(a.Budget)
}
