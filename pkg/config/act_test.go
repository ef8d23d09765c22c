package config

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
		if _, err := n.EndAct(ctx, a.ID, ActDone, ""); err != nil {
			t.Fatal(err)
		}
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
		late, err := n.CreateAct(ctx, aged)
		if err != nil {
			t.Fatal(err)
		}
		if got := late.StateAt(time.Now()); got != ActExpired {
			t.Errorf("after its life it is %s", got)
		}
		if _, err := n.DecideAct(ctx, late.ID, "usr_1", ActApproved); !errors.Is(err, ErrActDecided) {
			t.Errorf("approved after its life: %v", err)
		}
		if all := n.Acts(n.Account().ID, nil); len(all) != 3 {
			t.Errorf("%d acts", len(all))
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
			if _, err := n.CreateAct(ctx, a); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if all := n.Acts(n.Account().ID, nil); len(all) != 1 || all[0].ID != "act_new" {
			t.Errorf("acts %+v", all)
		}
	})
}

func TestActsAreBounded(t *testing.T) {
	ctx, n := t.Context(), node(t, broker(t), Config{Node: "a"})
	for i := range MaxPendingActs {
		if _, err := n.CreateAct(ctx, act(fmt.Sprint(i), "key_1")); err != nil {
			t.Fatal(err)
		}
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
	large := act("large", "key_3")
	large.Body = `"` + strings.Repeat("a", maxActJSON) + `"`
	if err := large.validate(); err == nil {
		t.Error("a body of more than 8 KiB is valid")
	}
}
