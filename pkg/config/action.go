package config

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/conflog"
)

// Action is a change that an agent asked for. It takes effect once, after a person has approved it.
type Action struct {
	entity.Meta
	Key     string `json:"key"` // id of the API key that asked
	KeyName string `json:"key_name"`
	Tenant  string `json:"tenant,omitempty"` // of the key; people of the tenant decide, too
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

	State ActionState `json:"state"` // see StateAt
	// Hash is set while the action is pending: one of the MaxPendingActions places of its key. From its approval on it is
	// that of its request. Two actions cannot have one hash, so the bound holds on all nodes together, and of equal
	// changes that are approved at the same time on any nodes one is made.
	Hash      []byte `json:"hash,omitempty"`
	DecidedBy string `json:"decided_by,omitempty"`
	// Approved or Declined is set with the decision, so that the audit log names it among the changed members.
	Approved  bool      `json:"approved,omitempty"`
	Declined  bool      `json:"declined,omitempty"`
	DecidedAt time.Time `json:"decided_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Result    string    `json:"result,omitempty"` // what /v1 answered, or why it was refused; cleaned for display
	ActionRefusal
}

// ActionRefusal says why the service refuses an action. One member is set, so that the audit log names it among the
// changed members; none: it is not refused.
type ActionRefusal struct {
	KeyRevoked  bool `json:"key_revoked,omitempty"`
	KeyExpired  bool `json:"key_expired,omitempty"`
	KeyReadOnly bool `json:"key_read_only,omitempty"`
	KeyUnknown  bool `json:"key_unknown,omitempty"` // also a bootstrap key that this node's environment does not name
	// SameChange: another action with the same request was approved less than ActionRepeatAfter ago, or has not ended.
	SameChange bool `json:"same_change,omitempty"`
}

// Text returns the reason as a clause; empty if there is none.
func (r ActionRefusal) Text() string {
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

// ActionState is the state of an action.
type ActionState string

func (a *Action) Hashed() entity.HashedSecret   { return entity.HashedSecret{Hash: &a.Hash} }
func (a *Action) EndsAt(*entity.Core) time.Time { return a.CreatedAt.Add(actionRetention) }

// IsPending: nobody has decided on it.
func (a *Action) IsPending() bool { return a.State == ActionPending }

// States of an action.
const (
	ActionPending  ActionState = "pending"  // waits for a person
	ActionApproved ActionState = "approved" // a person has approved it, and it is being done
	ActionDone     ActionState = "done"
	ActionFailed   ActionState = "failed" // /v1 refused it
	ActionDeclined ActionState = "declined"
	ActionExpired  ActionState = "expired"  // nobody decided in time
	ActionConflict ActionState = "conflict" // its resource was changed before the approval
	ActionRefused  ActionState = "refused"  // see ActionRefusal
)

var actionStates = []string{string(ActionPending), string(ActionApproved), string(ActionDone), string(ActionFailed),
	string(ActionDeclined), string(ActionConflict), string(ActionRefused)}

// Bounds of actions.
const (
	// ActionLife is how long a person may take to decide.
	ActionLife = 10 * time.Minute
	// MaxPendingActions bounds the actions of an API key that wait for a person.
	MaxPendingActions = 20
	// MaxActionsOfKey bounds the actions of an API key that are remembered. Each node but one may add one more: it creates
	// one action at a time, and has read those of the others before it creates its next.
	MaxActionsOfKey = 200
	// MaxActions bounds the actions of all keys that are remembered.
	MaxActions = 2000
	// ActionRepeatAfter is the time from an approval in which no other action with the same request is approved: the store
	// may not show the effect yet.
	ActionRepeatAfter = time.Minute
	// actionRetention is how long an action is remembered after it was asked for; the audit log has it longer.
	actionRetention = 24 * time.Hour

	maxActionText = 4000    // bytes of each text
	maxActionJSON = 8 << 10 // bytes of arguments and body, each
)

// Errors of actions.
var (
	// ErrTooManyActions means that a bound of actions is reached.
	ErrTooManyActions = errors.New("too many changes are asked for: at most 20 of a key wait for a person, and 200 of a " +
		"key are remembered for a day")
	// ErrActionDecided means that an action does not wait for a person any more.
	ErrActionDecided = errors.New("this was decided before, or its time is over")
	// ErrActionRepeated means that another action with the same request was approved less than ActionRepeatAfter ago, or
	// has not ended.
	ErrActionRepeated = errors.New(ActionRefusal{SameChange: true}.Text())
)

// StateAt returns the state at a time: an action that nobody decided on expires.
func (a *Action) StateAt(now time.Time) ActionState {
	if a.State == ActionPending && !now.Before(a.ExpiresAt()) {
		return ActionExpired
	}
	return a.State
}

// ExpiresAt is until when a person may decide.
func (a *Action) ExpiresAt() time.Time { return a.CreatedAt.Add(ActionLife) }

// Action returns the action with that id; nil unless it is Present.
func (c requests) Action(id string) (*Action, entity.Presence) { return entity.Get[Action](c, id) }

// Actions returns the remembered actions of an account for which keep returns true, newest first.
func (c requests) Actions(account string, keep func(*Action) bool) []*Action {
	page, _ := entity.List(c, account, 0, MaxActions, keep)
	return page
}

// PendingActions returns the actions of an account on which nobody has decided, newest first, those that have expired
// too.
func (c requests) PendingActions(account string) []*Action {
	return entity.ValuesOf(c.Core, c.View().Pending(entity.KindAction),
		func(a *Action) bool { return a.Account == account })
}

// CreateAction creates a pending action, or returns the one with the same request that waits already. Account and times
// are set where they are empty. It returns ErrConflict when the id exists, and ErrTooManyActions when the key has too
// many: of those that are pending never more, of those that are remembered at most one more for each other node.
func (c requests) CreateAction(ctx context.Context, a *Action) (*Action, error) {
	c.actionMu.Lock()
	defer c.actionMu.Unlock()
	for range MaxPendingActions {
		equal, place, err := c.placeOf(ctx, a)
		if err != nil || equal != nil {
			return equal, err
		}
		filled := *a
		filled.State, filled.Hash = ActionPending, place
		created, err := entity.Create(relatedTo(ctx, a), c, &filled)
		if !errors.Is(err, ErrConflict) {
			return created, err
		}
		if _, presence := c.Action(a.ID); presence != entity.Unknown {
			return nil, err
		}
		// Another node was first to take the place.
	}
	return nil, ErrTooManyActions
}

// placeOf returns a free place for an action, or the pending action with the same request. Equal requests try the
// places in the same order, so of two at the same time on two nodes one is created.
func (c requests) placeOf(ctx context.Context, a *Action) (equal *Action, place []byte, err error) {
	kept, now := 0, c.Clock()
	held := make(map[string]*Action, MaxPendingActions)
	for e := range c.View().NewestFirst(entity.KindAction, 0) {
		x := c.Decoded(e).(*Action)
		if x.Key != a.Key {
			continue
		}
		kept++
		if x.StateAt(now) == ActionPending && x.Path == a.Path && x.Body == a.Body && x.Revision == a.Revision {
			return x, nil, nil
		}
		if x.Hash != nil {
			held[string(x.Hash)] = x
		}
	}
	if kept >= MaxActionsOfKey {
		return nil, nil, ErrTooManyActions
	}
	first := int(entity.HashOf(a.Path + a.Body + a.Revision)[0])
	for i := range MaxPendingActions {
		hash := entity.HashOf(fmt.Sprintf("act %s %d", a.Key, (first+i)%MaxPendingActions))
		switch x := held[string(hash[:])]; {
		case x == nil:
			return nil, hash[:], nil
		case x.StateAt(now) != ActionPending: // nobody decided on it in time
			if err := c.releasePlace(ctx, x); err != nil {
				return nil, nil, err
			}
			return nil, hash[:], nil
		}
	}
	return nil, nil, ErrTooManyActions
}

// releasePlace gives back the place of an action that nobody decided on in time, or that was approved long ago.
func (c requests) releasePlace(ctx context.Context, past *Action) error {
	_, err := entity.Update(entity.WithoutOrigin(ctx), c, past.ID, func(x *Action) error {
		if x.StateAt(c.Clock()) != ActionPending {
			x.Hash = nil
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return nil // removed meanwhile
	}
	return err
}

// relatedTo names what an action is about as related to its changes, for the audit log.
func relatedTo(ctx context.Context, a *Action) context.Context {
	from := conflog.OriginOf(ctx)
	if a != nil && len(a.Resources) > 0 {
		from.Related = path.Base(a.Resources[0])
	}
	return WithOrigin(ctx, from)
}

// DecideAction records what a person decided: to is ActionApproved, ActionDeclined or ActionConflict. Of several
// decisions one wins; the others get ErrActionDecided. Of equal actions that are approved within ActionRepeatAfter, or
// before the first has ended, also on several nodes at the same time, one wins; the others stay pending and get
// ErrActionRepeated. It returns when this node and its living peers know the decision.
func (c requests) DecideAction(ctx context.Context, id, person string, to ActionState) (*Action, error) {
	known, _ := c.Action(id)
	var hash []byte
	if to == ActionApproved && known != nil {
		sum := entity.HashOf("change " + known.Account + " " + known.Path + " " + known.Body)
		hash = sum[:]
		if holder := c.heldBy(hash); holder != nil && holder.ID != id && c.isRepeatable(holder) {
			if err := c.releasePlace(ctx, holder); err != nil {
				return nil, err
			}
		}
	}
	decided, err := entity.Update(relatedTo(ctx, known), c, id, func(a *Action) error {
		now := c.Clock().UTC()
		if a.StateAt(now) != ActionPending {
			return ErrActionDecided
		}
		if holder := c.heldBy(hash); holder != nil && !c.isRepeatable(holder) {
			return ErrActionRepeated
		}
		a.State, a.DecidedBy, a.DecidedAt, a.Hash = to, person, now, hash
		a.Approved, a.Declined = to == ActionApproved, to == ActionDeclined
		if to != ActionApproved {
			a.EndedAt = now
		}
		return nil
	})
	if holder := c.heldBy(hash); errors.Is(err, ErrConflict) && holder != nil && holder.ID != id {
		return nil, ErrActionRepeated // the other was first in the log
	}
	return decided, err
}

func (c requests) heldBy(hash []byte) *Action {
	if hash == nil {
		return nil
	}
	return entity.ByHash[Action](c.Core, [conflog.HashLen]byte(hash))
}

func (c requests) isRepeatable(approved *Action) bool {
	return approved.State != ActionApproved && c.Clock().Sub(approved.DecidedAt) >= ActionRepeatAfter
}

// RefusalOf returns why nothing may be done for an action any more: what a key asked for ends with the key. The error
// is ErrLease while this node cannot know.
func (c requests) RefusalOf(a *Action) (ActionRefusal, error) {
	k, err := callers(c).checkKey(a.Key)
	switch {
	case errors.Is(err, ErrLease):
		return ActionRefusal{}, err
	case k == nil || k.Account != a.Account:
		return ActionRefusal{KeyUnknown: true}, nil
	case !k.RevokedAt.IsZero():
		return ActionRefusal{KeyRevoked: true}, nil
	case k.isExpired(c.Now()):
		return ActionRefusal{KeyExpired: true}, nil
	case err != nil:
		return ActionRefusal{KeyUnknown: true}, nil
	case k.Scope != ReadWrite:
		return ActionRefusal{KeyReadOnly: true}, nil
	}
	return ActionRefusal{}, nil
}

// RefuseAction ends an action that is pending or approved, as the caller knows it, and says why. person is who tried to
// approve a pending one. It returns ErrActionDecided if the action has another state now.
func (c requests) RefuseAction(ctx context.Context, known *Action, person string, why ActionRefusal, result string) (
	*Action, error) {
	return entity.Update(relatedTo(ctx, known), c, known.ID, func(a *Action) error {
		now := c.Clock().UTC()
		if a.StateAt(now) != known.State || a.State != ActionPending && a.State != ActionApproved {
			return ErrActionDecided
		}
		if a.State == ActionPending {
			a.DecidedBy, a.DecidedAt, a.Hash = person, now, nil
		}
		a.State, a.ActionRefusal, a.Result, a.EndedAt = ActionRefused, why, result, now
		return nil
	})
}

// EndAction records how an approved action ended: to is ActionDone, ActionFailed or ActionConflict. An action that has
// ended stays as it is.
func (c requests) EndAction(ctx context.Context, id string, to ActionState, result string) (*Action, error) {
	known, _ := c.Action(id)
	return entity.Update(relatedTo(ctx, known), c, id, func(a *Action) error {
		if a.State != ActionApproved {
			return nil
		}
		a.State, a.Result, a.EndedAt = to, result, c.Clock().UTC()
		return nil
	})
}

func (a *Action) Validate() error {
	return errors.Join(require.OneOf("state", string(a.State), actionStates...),
		require.Range("summary", len(a.Summary), 0, maxActionText), require.Range("note", len(a.Note), 0, maxActionText),
		require.Range("result", len(a.Result), 0, maxActionText),
		require.Range("arguments", len(a.Arguments), 0, maxActionJSON),
		require.Range("body", len(a.Body), 0, maxActionJSON))
}
