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
	"github.com/eventrelay/relay/pkg/stream"
)

func act(name, key string) *Act {
	return &Act{Meta: Meta{ID: "act_" + name}, Key: key, KeyName: "agent", Tool: "event_replay",
		Arguments: `{}`, Path: "/v1/events/" + name + "/replay", Body: `{}`}
}

// An act is decided on once, within its life, and ends once.
func TestActs(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx, n := t.Context(), node(t, conf, Config{Node: "a"})
		n.SetOwner(true)
		a, err := n.CreateAct(ctx, act("one", "key_1"))
		if err != nil || a.State != ActPending || a.Account != n.Account().ID {
			t.Fatalf("%+v, %v", a, err)
		}
		if _, err := n.CreateAct(ctx, act("one", "key_2")); !errors.Is(err, ErrConflict) {
			t.Errorf("an id twice: %v", err)
		}
		must(n.EndAct(ctx, a.ID, ActDone, ""))(t)
		if a, _ := n.Act(a.ID); a.State != ActPending {
			t.Errorf("a pending act ended: %+v", a)
		}
		var one, other error
		var both sync.WaitGroup
		both.Go(func() { _, one = n.DecideAct(ctx, a.ID, "usr_1", ActApproved) })
		both.Go(func() { _, other = n.DecideAct(ctx, a.ID, "usr_1", ActDeclined) })
		both.Wait()
		if (one == nil) == (other == nil) || !errors.Is(errors.Join(one, other), ErrActDecided) {
			t.Errorf("two decisions: %v, %v", one, other)
		}
		b, err := n.CreateAct(ctx, act("two", "key_1"))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = n.DecideAct(ctx, b.ID, "usr_1", ActApproved); err != nil || b.State != ActApproved ||
			!b.EndedAt.IsZero() {
			t.Errorf("%+v, %v", b, err)
		}
		for _, to := range []ActState{ActDone, ActFailed} {
			if b, err = n.EndAct(ctx, b.ID, to, "queued"); err != nil || b.State != ActDone || b.Result != "queued" {
				t.Errorf("%+v, %v", b, err)
			}
		}
		aged := act("late", "key_1")
		aged.CreatedAt = time.Now().Add(-ActLife)
		late := must(n.CreateAct(ctx, aged))(t)
		if got := late.StateAt(time.Now()); got != ActExpired {
			t.Errorf("after its life it is %s", got)
		}
		if _, err := n.DecideAct(ctx, late.ID, "usr_1", ActApproved); !errors.Is(err, ErrActDecided) {
			t.Errorf("approved after its life: %v", err)
		}
		if all := n.Acts(n.Account().ID, nil); len(all) != 3 {
			t.Errorf("%d acts", len(all))
		}
		if open := n.PendingActs(n.Account().ID); len(open) != 1 || open[0].ID != late.ID || n.PendingActs("acc_x") != nil {
			t.Errorf("pending %+v", open)
		}
	})
}

// Of equal acts of two keys that are approved at the same time, on one node or on two, one is approved. A minute later
// another may be.
func TestEqualActsAreApprovedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := pair(t, conf, conf)
		f := func(name string, one, other *testNode) {
			t.Helper()
			acts := []*Act{act(name, "key_1"), act(name, "key_2"), act(name, "key_3")}
			for i, x := range acts {
				x.ID += fmt.Sprint("_", i)
				must(one.CreateAct(ctx, x))(t)
			}
			noError(t, other.Sync(ctx))
			var first, second error
			var both sync.WaitGroup
			both.Go(func() { _, first = one.DecideAct(ctx, acts[0].ID, "usr_1", ActApproved) })
			both.Go(func() { _, second = other.DecideAct(ctx, acts[1].ID, "usr_1", ActApproved) })
			both.Wait()
			if (first == nil) == (second == nil) || !errors.Is(errors.Join(first, second), ErrActRepeated) {
				t.Errorf("%s: %v, %v", name, first, second)
			}
			if _, err := other.DecideAct(ctx, acts[2].ID, "usr_1", ActDeclined); err != nil {
				t.Errorf("%s: declined: %v", name, err)
			}
			winner, loser := acts[0].ID, acts[1].ID
			if first != nil {
				winner, loser = loser, winner
			}
			time.Sleep(ActRepeatAfter - time.Second)
			if name == "waits" {
				time.Sleep(ActRepeatAfter) // for another try
				if _, err := one.DecideAct(ctx, loser, "usr_1", ActApproved); !errors.Is(err, ErrActRepeated) {
					t.Errorf("while the other is being made: %v", err)
				}
				return
			}
			if _, err := other.EndAct(ctx, winner, ActDone, ""); err != nil {
				t.Error(err)
			}
			if _, err := one.DecideAct(ctx, loser, "usr_1", ActApproved); !errors.Is(err, ErrActRepeated) {
				t.Errorf("%s: after the change: %v", name, err)
			}
			time.Sleep(time.Second)
			if _, err := one.DecideAct(ctx, loser, "usr_1", ActApproved); err != nil {
				t.Errorf("%s: a minute later: %v", name, err)
			}
		}
		f("one", a, a)
		f("two", a, b)
		f("waits", a, b)
	})
}

// What a key asked for is refused when the key has ended, and says why.
func TestActsEndWithTheirKey(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx, n := WithOrigin(t.Context(), Origin{Actor: "usr_1"}), node(t, conf, Config{Node: "a"})
		f := func(want ActRefusal, k NewKey, end func(*Key)) {
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
		f(ActRefusal{}, NewKey{Scope: ReadWrite, Agent: true}, alive)
		f(ActRefusal{KeyReadOnly: true}, NewKey{Scope: Read}, alive)
		f(ActRefusal{KeyRevoked: true}, NewKey{Scope: ReadWrite}, func(k *Key) {
			noError(t, n.RevokeKey(ctx, k.ID))
		})
		f(ActRefusal{KeyExpired: true}, NewKey{Scope: ReadWrite, ExpiresAt: time.Now().Add(time.Minute)}, func(*Key) {
			time.Sleep(time.Minute)
		})
		if got, err := n.RefusalOf(act("x", "key_x")); !got.KeyUnknown || err != nil {
			t.Errorf("of a key that is gone: %+v, %v", got, err)
		}
	})
}

// A refusal ends a pending or an approved act once, and the audit log has the reason.
func TestRefusedActs(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx, n := WithOrigin(t.Context(), Origin{Actor: "usr_1"}), node(t, conf, Config{Node: "a"})
		why := ActRefusal{KeyRevoked: true}
		for _, state := range []ActState{ActPending, ActApproved} {
			a, err := n.CreateAct(ctx, act(string(state), "key_1"))
			if err == nil && state == ActApproved {
				a, err = n.DecideAct(ctx, a.ID, "usr_1", ActApproved)
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := n.RefuseAct(ctx, a, "usr_1", why, "because")
			if err != nil || got.State != ActRefused || got.ActRefusal != why || got.Result != "because" ||
				got.DecidedBy != "usr_1" || got.Approved != (state == ActApproved) || got.EndedAt.IsZero() {
				t.Errorf("%+v, %v", got, err)
			}
			if _, err := n.RefuseAct(ctx, a, "usr_1", why, "again"); !errors.Is(err, ErrActDecided) {
				t.Errorf("%s: refused twice: %v", state, err)
			}
			if got, err = n.EndAct(ctx, a.ID, ActDone, ""); err != nil || got.State != ActRefused {
				t.Errorf("done after that: %+v, %v", got, err)
			}
			entry := n.Outbox(audit.Query{Account: n.Account().ID, Entities: []string{a.ID}, Limit: 1})
			if len(entry) == 0 || !slices.Contains(entry[0].Changes, "key_revoked") {
				t.Errorf("the audit log has %+v", entry)
			}
		}
	})
}

// Acts of the day before are removed.
func TestOldActsAreRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx, n := t.Context(), node(t, conf, Config{Node: "a"})
		n.SetOwner(true)
		for _, name := range []string{"old", "new"} {
			a := act(name, "key_1")
			if name == "old" {
				a.CreatedAt = time.Now().Add(-actRetention)
			}
			must(n.CreateAct(ctx, a))(t)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if all := n.Acts(n.Account().ID, nil); len(all) != 1 || all[0].ID != "act_new" {
			t.Errorf("acts %+v", all)
		}
	})
}

// Two nodes do not admit more pending acts of a key together than one, and an expired act leaves its place.
func TestActsAreBoundedOnAllNodes(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := pair(t, conf, conf)
		var made, refused atomic.Int32
		var all sync.WaitGroup
		for name, n := range map[string]*testNode{"a": a, "b": b} {
			all.Go(func() {
				for i := range MaxPendingActs {
					switch _, err := n.CreateAct(ctx, act(fmt.Sprint(name, i), "key_1")); {
					case err == nil:
						made.Add(1)
					case errors.Is(err, ErrTooManyActs):
						refused.Add(1)
					default:
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		all.Wait()
		if made.Load() != MaxPendingActs || refused.Load() != MaxPendingActs {
			t.Errorf("%d made, %d refused", made.Load(), refused.Load())
		}
		expired := equal("expired", "key_3")
		expired.CreatedAt = time.Now().Add(-ActLife)
		for _, x := range []*Act{expired, equal("again", "key_3")} {
			if got, err := b.CreateAct(ctx, x); err != nil || got.ID != x.ID {
				t.Errorf("%s: %+v, %v", x.ID, got, err)
			}
		}
		if x, _ := b.Act(expired.ID); x.Hash != nil {
			t.Error("an expired act has its place still")
		}
		var one, other *Act
		all.Go(func() { one, _ = a.CreateAct(ctx, equal("x", "key_2")) })
		all.Go(func() { other, _ = b.CreateAct(ctx, equal("y", "key_2")) })
		all.Wait()
		if one == nil || other == nil || one.ID != other.ID {
			t.Errorf("two acts for equal requests: %+v, %+v", one, other)
		}
	})
}

// equal returns an act whose request does not depend on its name.
func equal(name, key string) *Act {
	a := act("same", key)
	a.ID = "act_" + name
	return a
}

// The audit log says what an act is about, and which act made a change.
func TestAuditOfActs(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"})
		ctx := WithOrigin(t.Context(), Origin{Actor: "usr_1"})
		asked := act("one", "key_1")
		asked.Resources = []string{"/v1/events/evt_1", "/v1/endpoints/ep_1"}
		must(n.CreateAct(ctx, asked))(t)
		must(n.DecideAct(ctx, asked.ID, "usr_1", ActApproved))(t)
		by := WithOrigin(ctx, Origin{Actor: "usr_1", Related: asked.ID})
		must(n.AddRecovery(by, &Recovery{Meta: Meta{ID: "rec_1"}}))(t)
		for entity, want := range map[string][]string{
			"evt_1": {"act.updated act_one", "act.created act_one"}, "rec_1": {"recovery.created rec_1"},
			asked.ID: {"recovery.created rec_1", "act.updated act_one", "act.created act_one"},
		} {
			var got []string
			for _, e := range n.Outbox(audit.Query{Account: n.Account().ID, Entities: []string{entity}, Limit: 10}) {
				got = append(got, e.Action+" "+e.Entity)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", entity, got, want)
			}
		}
	})
}

// Two nodes that create acts at the same time exceed the bound of those that are remembered by one at most.
func TestRememberedActsAreBoundedOnAllNodes(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		ctx := t.Context()
		a, b := pair(t, conf, conf)
		for i := range MaxActsOfKey - 2 {
			declined := act(fmt.Sprint(i), "key_1")
			declined.State = ActDeclined
			must(Create(ctx, a, declined))(t)
		}
		var all sync.WaitGroup
		for name, n := range map[string]*testNode{"a": a, "b": b} {
			all.Go(func() {
				for i := range 5 {
					if _, err := n.CreateAct(ctx, act(fmt.Sprint(name, i), "key_1")); err != nil &&
						!errors.Is(err, ErrTooManyActs) {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		all.Wait()
		noError(t, a.Sync(ctx))
		if n := len(a.Acts(a.Account().ID, nil)); n < MaxActsOfKey || n > MaxActsOfKey+1 {
			t.Errorf("%d acts", n)
		}
	})
}

func TestActsAreBounded(t *testing.T) {
	ctx, n := t.Context(), node(t, broker(t), Config{Node: "a"})
	for i := range MaxPendingActs {
		must(n.CreateAct(ctx, act(fmt.Sprint(i), "key_1")))(t)
	}
	if _, err := n.CreateAct(ctx, act("more", "key_1")); !errors.Is(err, ErrTooManyActs) {
		t.Errorf("one more of the key: %v", err)
	}
	if _, err := n.CreateAct(ctx, act("other", "key_2")); err != nil {
		t.Errorf("of another key: %v", err)
	}
	if again, err := n.CreateAct(ctx, act("0", "key_1")); err != nil || again.ID != "act_0" {
		t.Errorf("the same again: %+v, %v", again, err)
	}
}
