package conflog

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func rawThing(t testing.TB, v Thing) json.RawMessage {
	t.Helper()
	b := must.Get(json.Marshal(v))(t)
	return b
}

// A transaction changes two entities, or neither of them: each has its own precondition, and its own bounds.
func TestTransactionIsAllOrNothing(t *testing.T) {
	c := testParser()
	c.kinds.infos[kindRun].Bounds = Bounds{MaxPending: 1, ErrPending: ErrStateFull}
	c.kinds.infos[kindAlert].Bounds = Bounds{MaxCount: 2, ErrCount: ErrStateFull}
	s := newState(c.kinds)
	s.level = newestLevel
	both := func(runPre string, runRev int64, run Thing, pre string, rev int64, alert Thing) record {
		return record{Kind: "run", ID: run.ID, Pre: runPre, Rev: runRev, Op: opPut, Value: rawThing(t, run),
			Level:  newestLevel,
			Second: &second{Kind: "alert", ID: alert.ID, Pre: pre, Rev: rev, Value: rawThing(t, alert)}}
	}
	f := func(what string, want result, r record) {
		t.Helper()
		next, got, err := apply(s, parsed(t, c, r))
		if err != nil || got != want {
			t.Fatalf("%s: %s, want %s (%v)", what, got, want, err)
		}
		if want != applied && (next.sets[kindRun] != s.sets[kindRun] || next.sets[kindAlert] != s.sets[kindAlert] ||
			next.sets[KindOutbox] != s.sets[KindOutbox]) {
			t.Fatalf("%s: one half was applied", what)
		}
		s = next
		checkIndexes(t, c, s)
	}
	f("two new ones", applied, both(preAbsent, 0, Thing{ID: "r1", Open: true}, preAbsent, 0, Thing{ID: "a1"}))
	r, a := s.sets[kindRun].findLiving("r1"), s.sets[kindAlert].findLiving("a1")
	if r == nil || a == nil || r.Rev != a.Rev {
		t.Fatalf("the entities are %+v and %+v", r, a)
	}
	f("the second exists", conflict, both(preAbsent, 0, Thing{ID: "r2"}, preAbsent, 0, Thing{ID: "a1"}))
	f("the first exists", conflict, both(preAbsent, 0, Thing{ID: "r1"}, preAbsent, 0, Thing{ID: "a2"}))
	f("a stale second", conflict, both(preRev, 1, Thing{ID: "r1"}, preRev, 9, Thing{ID: "a1"}))
	f("a stale first", conflict, both(preRev, 9, Thing{ID: "r1"}, preRev, 1, Thing{ID: "a1"}))
	f("as many pending as may be", full, both(preAbsent, 0, Thing{ID: "r2", Open: true}, preAbsent, 0, Thing{ID: "a2"}))
	f("both replaced", applied, both(preRev, 1, Thing{ID: "r1"}, preRev, 1, Thing{ID: "a1", Name: "n"}))
	exempt := both(preAbsent, 0, Thing{ID: "r2", Open: true}, preAbsent, 0, Thing{ID: "a2"})
	f("room again", applied, exempt)
	exempt = both(preRev, 7, Thing{ID: "r1", Open: true}, preRev, 8, Thing{ID: "a2"})
	f("pending again", full, exempt)
	exempt.Exempt = true
	f("pending again, outside the bounds", applied, exempt)
	f("no room for the second", full, both(preAbsent, 0, Thing{ID: "r3"}, preAbsent, 0, Thing{ID: "a3"}))

	same := both(preAbsent, 0, Thing{ID: "r4"}, preAbsent, 0, Thing{ID: "r5"})
	same.Second.Kind = "run"
	f("one kind twice", invalid, same)
	audited := both(preAbsent, 0, Thing{ID: "r4"}, preAbsent, 0, Thing{ID: "acc"})
	audited.Second.Kind = "account"
	f("an audited second", invalid, audited)
	other := both(preAbsent, 0, Thing{ID: "r4"}, preAbsent, 0, Thing{ID: "a1"})
	other.Second.ID = "a9"
	f("another id in the value", invalid, other)
	unknown := both(preAbsent, 0, Thing{ID: "r4"}, preAbsent, 0, Thing{ID: "a1"})
	unknown.Second.Kind = "comet"
	f("an unknown kind", invalid, unknown)
	log := both(preAbsent, 0, Thing{ID: "r4"}, preAbsent, 0, Thing{ID: "log"})
	log.Second.Kind = "log"
	f("a kind of the log", invalid, log)
}

// Of two nodes that write the same transaction one wins, and the other sees its entities.
func TestTransactionHasOneWriter(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := node(t, conf, Config{Node: "a"}), node(t, conf, Config{Node: "b"})
		var all sync.WaitGroup
		errs := make(chan error, 2)
		wins := make(chan string, 2)
		for _, n := range []*testNode{a, b} {
			all.Go(func() {
				wrote := false
				_, res, err := n.Transact(t.Context(), kindRun, "r", func(v *View, old *Entity) (NewValue, SecondValue, error) {
					if wrote = old == nil; !wrote {
						return NewValue{}, SecondValue{}, nil
					}
					count := 0
					if e := v.FindLiving(kindAlert, "a"); e != nil {
						count = thing(n.parser, e).Count
					}
					alert := rawThing(t, Thing{ID: "a", Count: count + 1})
					return NewValue{Value: rawThing(t, Thing{ID: "r"})},
						SecondValue{kindAlert, "a", NewValue{Value: alert}}, nil
				})
				if err == nil && wrote {
					wins <- n.cfg.Node
					if res.Entity == nil || res.Second == nil {
						err = errors.New("the result lacks an entity")
					}
				}
				errs <- err
			})
		}
		all.Wait()
		for range 2 {
			must.Do(t, <-errs)
		}
		is.Equal(t, len(wins), 1, "nodes wrote the transaction")
		if got := thing(a.parser, a.View().FindLiving(kindAlert, "a")); got == nil || got.Count != 1 {
			t.Errorf("the second entity is %+v", got)
		}
	})
}
