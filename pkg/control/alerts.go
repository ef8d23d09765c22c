package control

import "time"

// AlertSettings are an account's channels and rules. There is one, its id is that of the account.
type AlertSettings struct {
	Meta
}

// Alert is the state of one rule for one thing; a transition is a conditional change of it, so that one node of all
// announces it. Its id is the rule and what it is about.
type Alert struct {
	Meta
	Firing bool      `json:"firing"`
	Since  time.Time `json:"since"` // of the last transition
}
