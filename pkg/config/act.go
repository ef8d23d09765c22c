package config

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/conflog"
)

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

	State ActState `json:"state"` // see StateAt
	// Hash is set while the act is pending: one of the MaxPendingActs places of its key. From its approval on it is that
	// of its request. Two acts cannot have one hash, so the bound holds on all nodes together, and of equal changes that
	// are approved at the same time on any nodes one is made.
	Hash      []byte `json:"hash,omitempty"`
	DecidedBy string `json:"decided_by,omitempty"`
	// Approved or Declined is set with the decision, so that the audit log names it among the changed members.
	Approved  bool      `json:"approved,omitempty"`
	Declined  bool      `json:"declined,omitempty"`
	DecidedAt time.Time `json:"decided_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Result    string    `json:"result,omitempty"` // what /v1 answered, or why it was refused; cleaned for display
	ActRefusal
}

// ActRefusal says why the service refuses an act. One member is set, so that the audit log names it among the changed
// members; none: it is not refused.
type ActRefusal struct {
	KeyRevoked  bool `json:"key_revoked,omitempty"`
	KeyExpired  bool `json:"key_expired,omitempty"`
	KeyReadOnly bool `json:"key_read_only,omitempty"`
	KeyUnknown  bool `json:"key_unknown,omitempty"` // also a bootstrap key that this node's environment does not name
	// SameChange: another act with the same request was approved less than ActRepeatAfter ago, or has not ended.
	SameChange bool `json:"same_change,omitempty"`
}

// Text returns the reason as a clause; empty if there is none.
func (r ActRefusal) Text() string {
	switch {
	case r.KeyRevoked:
		return "the API key that asked was revoked"
	case r.KeyExpired:
		return "the API key that asked has expired"
	case r.KeyReadOnly:
		return "the API key that asked may only read now"
	case r.KeyUnknown:
		return "the API key that asked does not exist any more"
	case r.SameChange:
		return "the same change was approved less than a minute ago, or is still being made; look at what it did first"
	}
	return ""
}

// ActState is the state of an act.
type ActState string

func (a *Act) hashed() hashedSecret   { return hashedSecret{hash: &a.Hash} }
func (a *Act) endsAt(*core) time.Time { return a.CreatedAt.Add(actRetention) }

// isPending: nobody has decided on it.
func (a *Act) isPending() bool { return a.State == ActPending }

// States of an act.
const (
	ActPending  ActState = "pending"  // waits for a person
	ActApproved ActState = "approved" // a person has approved it, and it is being done
	ActDone     ActState = "done"
	ActFailed   ActState = "failed" // /v1 refused it
	ActDeclined ActState = "declined"
	ActExpired  ActState = "expired"  // nobody decided in time
	ActConflict ActState = "conflict" // its resource was changed before the approval
	ActRefused  ActState = "refused"  // see ActRefusal
)

var actStates = []string{string(ActPending), string(ActApproved), string(ActDone), string(ActFailed),
	string(ActDeclined), string(ActConflict), string(ActRefused)}

// Bounds of acts.
const (
	// ActLife is how long a person may take to decide.
	ActLife = 10 * time.Minute
	// MaxPendingActs bounds the acts of an API key that wait for a person.
	MaxPendingActs = 20
	// MaxActsOfKey bounds the acts of an API key that are remembered. Each node but one may add one more: it creates one
	// act at a time, and has read those of the others before it creates its next.
	MaxActsOfKey = 200
	// MaxActs bounds the acts of all keys that are remembered.
	MaxActs = 2000
	// ActRepeatAfter is the time from an approval in which no other act with the same request is approved: the store may
	// not show the effect yet.
	ActRepeatAfter = time.Minute
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
	// ErrActRepeated means that another act with the same request was approved less than ActRepeatAfter ago, or has not
	// ended.
	ErrActRepeated = errors.New(ActRefusal{SameChange: true}.Text())
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
func (c jobs) Act(id string) (*Act, Presence) { return Get[Act](c, id) }

// Acts returns the remembered acts of an account for which keep returns true, newest first.
func (c jobs) Acts(account string, keep func(*Act) bool) []*Act {
	page, _ := List(c, account, 0, MaxActs, keep)
	return page
}

// PendingActs returns the acts of an account on which nobody has decided, newest first, those that have expired too.
func (c jobs) PendingActs(account string) []*Act {
	return valuesOf(c.core, c.View().Pending(kindAct), func(a *Act) bool { return a.Account == account })
}

// CreateAct creates a pending act, or returns the one with the same request that waits already. Account and times are
// set where they are empty. It returns ErrConflict when the id exists, and ErrTooManyActs when the key has too many: of
// those that are pending never more, of those that are remembered at most one more for each other node.
func (c jobs) CreateAct(ctx context.Context, a *Act) (*Act, error) {
	c.actMu.Lock()
	defer c.actMu.Unlock()
	for range MaxPendingActs {
		equal, place, err := c.placeOf(ctx, a)
		if err != nil || equal != nil {
			return equal, err
		}
		filled := *a
		filled.State, filled.Hash = ActPending, place
		created, err := Create(relatedTo(ctx, a), c, &filled)
		if !errors.Is(err, ErrConflict) {
			return created, err
		}
		if _, presence := c.Act(a.ID); presence != Unknown {
			return nil, err
		}
		// Another node was first to take the place.
	}
	return nil, ErrTooManyActs
}

// placeOf returns a free place for an act, or the pending act with the same request. Equal requests try the places in
// the same order, so of two at the same time on two nodes one is created.
func (c jobs) placeOf(ctx context.Context, a *Act) (equal *Act, place []byte, err error) {
	kept, now := 0, c.now()
	held := make(map[string]*Act, MaxPendingActs)
	for e := range c.View().NewestFirst(kindAct, 0) {
		x := c.value(e).(*Act)
		if x.Key != a.Key {
			continue
		}
		kept++
		if x.StateAt(now) == ActPending && x.Path == a.Path && x.Body == a.Body && x.Revision == a.Revision {
			return x, nil, nil
		}
		if x.Hash != nil {
			held[string(x.Hash)] = x
		}
	}
	if kept >= MaxActsOfKey {
		return nil, nil, ErrTooManyActs
	}
	first := int(hashOf(a.Path + a.Body + a.Revision)[0])
	for i := range MaxPendingActs {
		hash := hashOf(fmt.Sprintf("act %s %d", a.Key, (first+i)%MaxPendingActs))
		switch x := held[string(hash[:])]; {
		case x == nil:
			return nil, hash[:], nil
		case x.StateAt(now) != ActPending: // nobody decided on it in time
			if err := c.releasePlace(ctx, x); err != nil {
				return nil, nil, err
			}
			return nil, hash[:], nil
		}
	}
	return nil, nil, ErrTooManyActs
}

// releasePlace gives back the place of an act that nobody decided on in time, or that was approved long ago.
func (c jobs) releasePlace(ctx context.Context, past *Act) error {
	_, err := Update(withoutOrigin(ctx), c, past.ID, func(x *Act) error {
		if x.StateAt(c.now()) != ActPending {
			x.Hash = nil
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil // removed meanwhile
	}
	return err
}

// relatedTo names what an act is about as related to its changes, for the audit log.
func relatedTo(ctx context.Context, a *Act) context.Context {
	from := conflog.OriginOf(ctx)
	if a != nil && len(a.Resources) > 0 {
		from.Related = path.Base(a.Resources[0])
	}
	return WithOrigin(ctx, from)
}

// DecideAct records what a person decided: to is ActApproved, ActDeclined or ActConflict. Of several decisions one
// wins; the others get ErrActDecided. Of equal acts that are approved within ActRepeatAfter, or before the first has
// ended, also on several nodes at the same time, one wins; the others stay pending and get ErrActRepeated. It
// returns when this node and its living peers know the decision.
func (c jobs) DecideAct(ctx context.Context, id, person string, to ActState) (*Act, error) {
	known, _ := c.Act(id)
	var hash []byte
	if to == ActApproved && known != nil {
		sum := hashOf("change " + known.Account + " " + known.Path + " " + known.Body)
		hash = sum[:]
		if holder := c.heldBy(hash); holder != nil && holder.ID != id && c.isRepeatable(holder) {
			if err := c.releasePlace(ctx, holder); err != nil {
				return nil, err
			}
		}
	}
	decided, err := Update(relatedTo(ctx, known), c, id, func(a *Act) error {
		now := c.now().UTC()
		if a.StateAt(now) != ActPending {
			return ErrActDecided
		}
		if holder := c.heldBy(hash); holder != nil && !c.isRepeatable(holder) {
			return ErrActRepeated
		}
		a.State, a.DecidedBy, a.DecidedAt, a.Hash = to, person, now, hash
		a.Approved, a.Declined = to == ActApproved, to == ActDeclined
		if to != ActApproved {
			a.EndedAt = now
		}
		return nil
	})
	if holder := c.heldBy(hash); errors.Is(err, ErrConflict) && holder != nil && holder.ID != id {
		return nil, ErrActRepeated // the other was first in the log
	}
	return decided, err
}

func (c jobs) heldBy(hash []byte) *Act {
	if hash == nil {
		return nil
	}
	return byHash[Act](c.core, [conflog.HashLen]byte(hash))
}

func (c jobs) isRepeatable(approved *Act) bool {
	return approved.State != ActApproved && c.now().Sub(approved.DecidedAt) >= ActRepeatAfter
}

// RefusalOf returns why nothing may be done for an act any more: what a key asked for ends with the key. The error is
// ErrLease while this node cannot know.
func (c jobs) RefusalOf(a *Act) (ActRefusal, error) {
	k, err := callers(c).checkKey(a.Key)
	switch {
	case errors.Is(err, ErrLease):
		return ActRefusal{}, err
	case k == nil || k.Account != a.Account:
		return ActRefusal{KeyUnknown: true}, nil
	case !k.RevokedAt.IsZero():
		return ActRefusal{KeyRevoked: true}, nil
	case k.isExpired(c.Now()):
		return ActRefusal{KeyExpired: true}, nil
	case err != nil:
		return ActRefusal{KeyUnknown: true}, nil
	case k.Scope != ReadWrite:
		return ActRefusal{KeyReadOnly: true}, nil
	}
	return ActRefusal{}, nil
}

// RefuseAct ends an act that is pending or approved, as the caller knows it, and says why. person is who tried to
// approve a pending one. It returns ErrActDecided if the act has another state now.
func (c jobs) RefuseAct(ctx context.Context, known *Act, person string, why ActRefusal, result string) (*Act, error) {
	return Update(relatedTo(ctx, known), c, known.ID, func(a *Act) error {
		now := c.now().UTC()
		if a.StateAt(now) != known.State || a.State != ActPending && a.State != ActApproved {
			return ErrActDecided
		}
		if a.State == ActPending {
			a.DecidedBy, a.DecidedAt, a.Hash = person, now, nil
		}
		a.State, a.ActRefusal, a.Result, a.EndedAt = ActRefused, why, result, now
		return nil
	})
}

// EndAct records how an approved act ended: to is ActDone, ActFailed or ActConflict. An act that has ended stays
// as it is.
func (c jobs) EndAct(ctx context.Context, id string, to ActState, result string) (*Act, error) {
	known, _ := c.Act(id)
	return Update(relatedTo(ctx, known), c, id, func(a *Act) error {
		if a.State != ActApproved {
			return nil
		}
		a.State, a.Result, a.EndedAt = to, result, c.now().UTC()
		return nil
	})
}

func (a *Act) validate() error {
	return errors.Join(require.OneOf("state", string(a.State), actStates...),
		require.Range("summary", len(a.Summary), 0, maxActText), require.Range("note", len(a.Note), 0, maxActText),
		require.Range("result", len(a.Result), 0, maxActText), require.Range("arguments", len(a.Arguments), 0, maxActJSON),
		require.Range("body", len(a.Body), 0, maxActJSON))
}
