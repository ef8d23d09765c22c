package config

import (
	"context"
	"errors"
	"time"
)

// acts has the methods for changes that agents ask for.
type acts struct{ *core }

// Act is a change that an agent asked for. It takes effect once, after a person has approved it.
type Act struct {
	Meta
	Key     string `json:"key"` // id of the API key that asked
	KeyName string `json:"key_name"`
	Tool    string `json:"tool"`
	// Arguments are those of the tool, a JSON object.
	Arguments string `json:"arguments"`
	Summary   string `json:"summary"`        // what will happen, in our words
	Note      string `json:"note,omitempty"` // by the agent, cleaned for display
	// Path and Body, JSON, are the request of /v1 that makes the change, a POST whose repetition changes nothing more.
	Path string `json:"path"`
	Body string `json:"body"`
	// Resources are what the change is about, paths of /v1; Revision is their state when the agent asked. If it is another
	// one when a person approves, nothing is changed.
	Resources []string `json:"resources"`
	Revision  string   `json:"revision"`
	RemoteIP  string   `json:"remote_ip,omitempty"` // of the agent

	State     ActState `json:"state"` // see StateAt
	DecidedBy string   `json:"decided_by,omitempty"`
	// Approved or Declined is set with the decision, so that the audit log names it among the changed members.
	Approved  bool      `json:"approved,omitempty"`
	Declined  bool      `json:"declined,omitempty"`
	DecidedAt time.Time `json:"decided_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Result    string    `json:"result,omitempty"` // what /v1 answered, cleaned for display
}

// ActState is the state of an act.
type ActState string

// States of an act.
const (
	ActPending  ActState = "pending"  // waits for a person
	ActApproved ActState = "approved" // a person has approved it, and it is being done
	ActDone     ActState = "done"
	ActFailed   ActState = "failed" // /v1 refused it
	ActDeclined ActState = "declined"
	ActExpired  ActState = "expired"  // nobody decided in time
	ActConflict ActState = "conflict" // its resource was changed before the approval
)

var actStates = []string{string(ActPending), string(ActApproved), string(ActDone), string(ActFailed),
	string(ActDeclined), string(ActConflict)}

// Bounds of acts.
const (
	// ActLife is how long a person may take to decide.
	ActLife = 10 * time.Minute
	// MaxPendingActs bounds the acts of an API key that wait for a person.
	MaxPendingActs = 20
	// MaxActsOfKey bounds the acts of an API key that are remembered.
	MaxActsOfKey = 200
	// MaxActs bounds the acts of all keys that are remembered.
	MaxActs = 2000
	// actRetention is how long an act is remembered after it was asked for; the audit log has it longer.
	actRetention = 24 * time.Hour

	maxActText = 4000    // bytes of each text
	maxActJSON = 8 << 10 // bytes of arguments and body, each
)

// Errors of acts.
var (
	// ErrTooManyActs means that a bound of acts is reached.
	ErrTooManyActs = errors.New("too many changes are asked for: at most 20 of a key wait for a person, and 200 of a " +
		"key are remembered for a day")
	// ErrActDecided means that an act does not wait for a person any more.
	ErrActDecided = errors.New("this was decided before, or its time is over")
)

// StateAt returns the state at a time: an act that nobody decided on expires.
func (a *Act) StateAt(now time.Time) ActState {
	if a.State == ActPending && !now.Before(a.ExpiresAt()) {
		return ActExpired
	}
	return a.State
}

// ExpiresAt is until when a person may decide.
func (a *Act) ExpiresAt() time.Time { return a.CreatedAt.Add(ActLife) }

// Act returns the act with that id; nil unless it is Present.
func (c acts) Act(id string) (*Act, Presence) { return findEntity[*Act](c.core, kindAct, id) }

// Acts returns the remembered acts of an account for which keep returns true, newest first.
func (c acts) Acts(account string, keep func(*Act) bool) []*Act {
	page, _ := listEntities(c.core, kindAct, account, 0, MaxActs, keep)
	return page
}

// CreateAct creates a pending act, or returns the one with the same request that waits already. Account and times are
// set where they are empty. It returns ErrConflict when the id exists, and ErrTooManyActs when the key has too many; of
// calls at the same time on several nodes a few more succeed.
func (c acts) CreateAct(ctx context.Context, a *Act) (*Act, error) {
	c.actMu.Lock()
	defer c.actMu.Unlock()
	kept, pending, now := 0, 0, c.now()
	for e := range c.View().NewestFirst(kindAct, 0) {
		if x := c.value(e).(*Act); x.Key == a.Key {
			kept++
			if x.StateAt(now) == ActPending {
				if pending++; x.Path == a.Path && x.Body == a.Body && x.Revision == a.Revision {
					return x, nil
				}
			}
		}
	}
	if kept >= MaxActsOfKey || pending >= MaxPendingActs {
		return nil, ErrTooManyActs
	}
	filled := *a
	filled.State = ActPending
	return addEntity(ctx, c.core, kindAct, &filled)
}

// DecideAct records what a person decided: to is ActApproved, ActDeclined or ActConflict. Of several decisions one
// wins; the others get ErrActDecided. It returns when this node and its living peers know the decision.
func (c acts) DecideAct(ctx context.Context, id, person string, to ActState) (*Act, error) {
	return updateEntity(ctx, c.core, kindAct, id, func(a *Act) error {
		now := c.now().UTC()
		if a.StateAt(now) != ActPending {
			return ErrActDecided
		}
		a.State, a.DecidedBy, a.DecidedAt = to, person, now
		a.Approved, a.Declined = to == ActApproved, to == ActDeclined
		if to != ActApproved {
			a.EndedAt = now
		}
		return nil
	})
}

// EndAct records how an approved act ended: to is ActDone or ActFailed. An act that has ended stays as it is.
func (c acts) EndAct(ctx context.Context, id string, to ActState, result string) (*Act, error) {
	return updateEntity(ctx, c.core, kindAct, id, func(a *Act) error {
		if a.State != ActApproved {
			return nil
		}
		a.State, a.Result, a.EndedAt = to, result, c.now().UTC()
		return nil
	})
}

func (a *Act) validate() error {
	return errors.Join(requireOneOf("state", string(a.State), actStates...),
		requireRange("summary", len(a.Summary), 0, maxActText), requireRange("note", len(a.Note), 0, maxActText),
		requireRange("result", len(a.Result), 0, maxActText), requireRange("arguments", len(a.Arguments), 0, maxActJSON),
		requireRange("body", len(a.Body), 0, maxActJSON))
}
