package config

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

func act(name, key string) *Action {
	return &Action{Meta: entity.Meta{ID: "act_" + name}, Key: key, KeyName: "agent", Tool: "event_replay",
		Arguments: `{}`, Path: "/v1/events/" + name + "/replay", Body: `{}`}
}

// An action is decided on once, within its life, and ends once.
func TestActions(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx, n := t.Context(), node(t, conf, Config{Node: "a"})
		n.SetOwner(true)
		a, err := n.CreateAction(ctx, act("one", "key_1"))
		if err != nil || a.State != ActionPending || a.Account != n.Account().ID {
			t.Fatalf("%+v, %v", a, err)
		}
		if _, err := n.CreateAction(ctx, act("one", "key_2")); !errors.Is(err, ErrConflict) {
			t.Errorf("an id twice: %v", err)
		}
		must(n.EndAction(ctx, a.ID, ActionDone, ""))(t)
		if a, _ := n.Action(a.ID); a.State != ActionPending {
			t.Errorf("a pending act ended: %+v", a)
		}
		var one, other error
		var both sync.WaitGroup
		both.Go(func() { _, one = n.DecideAction(ctx, a.ID, "usr_1", ActionApproved) })
		both.Go(func() { _, other = n.DecideAction(ctx, a.ID, "usr_1", ActionDeclined) })
		both.Wait()
		if (one == nil) == (other == nil) || !errors.Is(errors.Join(one, other), ErrActionDecided) {
			t.Errorf("two decisions: %v, %v", one, other)
		}
		b, err := n.CreateAction(ctx, act("two", "key_1"))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = n.DecideAction(ctx, b.ID, "usr_1", ActionApproved); err != nil || b.State != ActionApproved ||
			!b.EndedAt.IsZero() {
			t.Errorf("%+v, %v", b, err)
		}
		for _, to := range []ActionState{ActionDone, ActionFailed} {
			if b, err = n.EndAction(ctx, b.ID, to, "queued"); err != nil || b.State != ActionDone || b.Result != "queued" {
				t.Errorf("%+v, %v", b, err)
			}
		}
		aged := act("late", "key_1")
		aged.CreatedAt = time.Now().Add(-ActionLife)
		late := must(n.CreateAction(ctx, aged))(t)
		is.Equal(t, late.StateAt(time.Now()), ActionExpired, "after its life it")
		if _, err := n.DecideAction(ctx, late.ID, "usr_1", ActionApproved); !errors.Is(err, ErrActionDecided) {
			t.Errorf("approved after its life: %v", err)
		}
		if all := n.Actions(n.Account().ID, nil); len(all) != 3 {
			t.Errorf("%d acts", len(all))
		}
		if open := n.PendingActions(n.Account().ID); len(open) != 1 || open[0].ID != late.ID ||
			n.PendingActions("acc_x") != nil {
			t.Errorf("pending %+v", open)
		}
	})
}

// Of equal actions of two keys that are approved at the same time, on one node or on two, one is approved. A minute
// later another may be.
func TestEqualActionsAreApprovedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := pair(t, conf, conf)
		f := func(name string, one, other *testNode) {
			t.Helper()
			actions := []*Action{act(name, "key_1"), act(name, "key_2"), act(name, "key_3")}
			for i, x := range actions {
				x.ID += fmt.Sprint("_", i)
				must(one.CreateAction(ctx, x))(t)
			}
			noError(t, other.Sync(ctx))
			var first, second error
			var both sync.WaitGroup
			both.Go(func() { _, first = one.DecideAction(ctx, actions[0].ID, "usr_1", ActionApproved) })
			both.Go(func() { _, second = other.DecideAction(ctx, actions[1].ID, "usr_1", ActionApproved) })
			both.Wait()
			if (first == nil) == (second == nil) || !errors.Is(errors.Join(first, second), ErrActionRepeated) {
				t.Errorf("%s: %v, %v", name, first, second)
			}
			if _, err := other.DecideAction(ctx, actions[2].ID, "usr_1", ActionDeclined); err != nil {
				t.Errorf("%s: declined: %v", name, err)
			}
			winner, loser := actions[0].ID, actions[1].ID
			if first != nil {
				winner, loser = loser, winner
			}
			time.Sleep(ActionRepeatAfter - time.Second)
			if name == "waits" {
				time.Sleep(ActionRepeatAfter) // for another try
				if _, err := one.DecideAction(ctx, loser, "usr_1", ActionApproved); !errors.Is(err, ErrActionRepeated) {
					t.Errorf("while the other is being made: %v", err)
				}
				return
			}
			if _, err := other.EndAction(ctx, winner, ActionDone, ""); err != nil {
				t.Error(err)
			}
			if _, err := one.DecideAction(ctx, loser, "usr_1", ActionApproved); !errors.Is(err, ErrActionRepeated) {
				t.Errorf("%s: after the change: %v", name, err)
			}
			time.Sleep(time.Second)
			if _, err := one.DecideAction(ctx, loser, "usr_1", ActionApproved); err != nil {
				t.Errorf("%s: a minute later: %v", name, err)
			}
		}
		f("one", a, a)
		f("two", a, b)
		f("waits", a, b)
	})
}

// What a key asked for is refused when the key has ended, and says why.
func TestActionsEndWithTheirKey(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx, n := WithOrigin(t.Context(), Origin{Actor: "usr_1"}), node(t, conf, Config{Node: "a"})
		f := func(want ActionRefusal, k NewKey, end func(*Key)) {
			t.Helper()
			k.Name = "agent"
			_, key, err := n.CreateKey(ctx, k)
			if err != nil {
				t.Fatal(err)
			}
			a := act(key.ID, key.ID)
			a.Account = n.Account().ID
			end(key)
			if got, err := n.RefusalOf(a); got != want || err != nil {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		alive := func(*Key) {}
		f(ActionRefusal{}, NewKey{Scope: ReadWrite, Agent: true}, alive)
		f(ActionRefusal{KeyReadOnly: true}, NewKey{Scope: Read}, alive)
		f(ActionRefusal{KeyRevoked: true}, NewKey{Scope: ReadWrite}, func(k *Key) {
			noError(t, n.RevokeKey(ctx, k.ID))
		})
		f(ActionRefusal{KeyExpired: true}, NewKey{Scope: ReadWrite, ExpiresAt: time.Now().Add(time.Minute)}, func(*Key) {
			time.Sleep(time.Minute)
		})
		if got, err := n.RefusalOf(act("x", "key_x")); !got.KeyUnknown || err != nil {
			t.Errorf("of a key that is gone: %+v, %v", got, err)
		}
	})
}

// A refusal ends a pending or an approved action once, and the audit log has the reason.
func TestRefusedActions(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx, n := WithOrigin(t.Context(), Origin{Actor: "usr_1"}), node(t, conf, Config{Node: "a"})
		why := ActionRefusal{KeyRevoked: true}
		for _, state := range []ActionState{ActionPending, ActionApproved} {
			a, err := n.CreateAction(ctx, act(string(state), "key_1"))
			if err == nil && state == ActionApproved {
				a, err = n.DecideAction(ctx, a.ID, "usr_1", ActionApproved)
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := n.RefuseAction(ctx, a, "usr_1", why, "because")
			if err != nil || got.State != ActionRefused || got.ActionRefusal != why || got.Result != "because" ||
				got.DecidedBy != "usr_1" || got.Approved != (state == ActionApproved) || got.EndedAt.IsZero() {
				t.Errorf("%+v, %v", got, err)
			}
			if _, err := n.RefuseAction(ctx, a, "usr_1", why, "again"); !errors.Is(err, ErrActionDecided) {
				t.Errorf("%s: refused twice: %v", state, err)
			}
			if got, err = n.EndAction(ctx, a.ID, ActionDone, ""); err != nil || got.State != ActionRefused {
				t.Errorf("done after that: %+v, %v", got, err)
			}
			entry := n.Outbox(audit.Query{Account: n.Account().ID, Entities: []string{a.ID}, Limit: 1})
			if len(entry) == 0 || !slices.Contains(entry[0].Changes, "key_revoked") {
				t.Errorf("the audit log has %+v", entry)
			}
		}
	})
}

// Actions of the day before are removed.
func TestOldActionsAreRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx, n := t.Context(), node(t, conf, Config{Node: "a"})
		n.SetOwner(true)
		for _, name := range []string{"old", "new"} {
			a := act(name, "key_1")
			if name == "old" {
				a.CreatedAt = time.Now().Add(-actionRetention)
			}
			must(n.CreateAction(ctx, a))(t)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if all := n.Actions(n.Account().ID, nil); len(all) != 1 || all[0].ID != "act_new" {
			t.Errorf("acts %+v", all)
		}
	})
}

// Two nodes do not admit more pending actions of a key together than one, and an expired action leaves its place.
func TestActionsAreBoundedOnAllNodes(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := pair(t, conf, conf)
		var made, refused atomic.Int32
		var all sync.WaitGroup
		for name, n := range map[string]*testNode{"a": a, "b": b} {
			all.Go(func() {
				for i := range MaxPendingActions {
					switch _, err := n.CreateAction(ctx, act(fmt.Sprint(name, i), "key_1")); {
					case err == nil:
						made.Add(1)
					case errors.Is(err, ErrTooManyActions):
						refused.Add(1)
					default:
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		all.Wait()
		if made.Load() != MaxPendingActions || refused.Load() != MaxPendingActions {
			t.Errorf("%d made, %d refused", made.Load(), refused.Load())
		}
		expired := equal("expired", "key_3")
		expired.CreatedAt = time.Now().Add(-ActionLife)
		for _, x := range []*Action{expired, equal("again", "key_3")} {
			if got, err := b.CreateAction(ctx, x); err != nil || got.ID != x.ID {
				t.Errorf("%s: %+v, %v", x.ID, got, err)
			}
		}
		if x, _ := b.Action(expired.ID); x.Hash != nil {
			t.Error("an expired act has its place still")
		}
		var one, other *Action
		all.Go(func() { one, _ = a.CreateAction(ctx, equal("x", "key_2")) })
		all.Go(func() { other, _ = b.CreateAction(ctx, equal("y", "key_2")) })
		all.Wait()
		if one == nil || other == nil || one.ID != other.ID {
			t.Errorf("two acts for equal requests: %+v, %+v", one, other)
		}
	})
}

// equal returns an action whose request does not depend on its name.
func equal(name, key string) *Action {
	a := act("same", key)
	a.ID = "act_" + name
	return a
}

// The audit log says what an action is about, and which action made a change.
func TestAuditOfActions(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"})
		ctx := WithOrigin(t.Context(), Origin{Actor: "usr_1"})
		asked := act("one", "key_1")
		asked.Resources = []string{"/v1/events/evt_1", "/v1/endpoints/ep_1"}
		must(n.CreateAction(ctx, asked))(t)
		must(n.DecideAction(ctx, asked.ID, "usr_1", ActionApproved))(t)
		by := WithOrigin(ctx, Origin{Actor: "usr_1", Related: asked.ID})
		must(n.AddRecovery(by, &jobs.Recovery{Meta: entity.Meta{ID: "rec_1"}}))(t)
		for entity, want := range map[string][]string{
			"evt_1": {"act.updated act_one", "act.created act_one"}, "rec_1": {"recovery.created rec_1"},
			asked.ID: {"recovery.created rec_1", "act.updated act_one", "act.created act_one"},
		} {
			var got []string
			for _, e := range n.Outbox(audit.Query{Account: n.Account().ID, Entities: []string{entity}, Limit: 10}) {
				got = append(got, e.Action+" "+e.Entity)
			}
			is.List(t, got, want, entity)
		}
	})
}

// Two nodes that create actions at the same time exceed the bound of those that are remembered by one at most.
func TestRememberedActionsAreBoundedOnAllNodes(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := pair(t, conf, conf)
		for i := range MaxActionsOfKey - 2 {
			declined := act(fmt.Sprint(i), "key_1")
			declined.State = ActionDeclined
			must(entity.Create(ctx, a, declined))(t)
		}
		var all sync.WaitGroup
		for name, n := range map[string]*testNode{"a": a, "b": b} {
			all.Go(func() {
				for i := range 5 {
					if _, err := n.CreateAction(ctx, act(fmt.Sprint(name, i), "key_1")); err != nil &&
						!errors.Is(err, ErrTooManyActions) {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		all.Wait()
		noError(t, a.Sync(ctx))
		if n := len(a.Actions(a.Account().ID, nil)); n < MaxActionsOfKey || n > MaxActionsOfKey+1 {
			t.Errorf("%d acts", n)
		}
	})
}

func TestActionsAreBounded(t *testing.T) {
	ctx, n := t.Context(), node(t, broker(t), Config{Node: "a"})
	for i := range MaxPendingActions {
		must(n.CreateAction(ctx, act(fmt.Sprint(i), "key_1")))(t)
	}
	if _, err := n.CreateAction(ctx, act("more", "key_1")); !errors.Is(err, ErrTooManyActions) {
		t.Errorf("one more of the key: %v", err)
	}
	if _, err := n.CreateAction(ctx, act("other", "key_2")); err != nil {
		t.Errorf("of another key: %v", err)
	}
	if again, err := n.CreateAction(ctx, act("0", "key_1")); err != nil || again.ID != "act_0" {
		t.Errorf("the same again: %+v, %v", again, err)
	}
}
