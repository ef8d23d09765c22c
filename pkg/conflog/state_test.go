package conflog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// rawEndpoint returns the JSON of an endpoint whose token has that hash.
func rawEndpoint(t testing.TB, id, token, name string) json.RawMessage {
	t.Helper()
	h := hashOf(token)
	b := must.Get(json.Marshal(&Thing{ID: id, Hash: h[:], Name: name}))(t)
	return b
}

func parsed(t testing.TB, c *parser, r record) record {
	t.Helper()
	r.V, r.OpID = recordVersion, cmp.Or(r.OpID, id.Random("op_")) // no op_id is applied twice
	b := must.Get(json.Marshal(r))(t)
	return c.parse(b)
}

// TestApply checks the result of each operation and precondition.
func TestApply(t *testing.T) {
	c := testParser()
	s := newState(testParser().kinds)
	at := time.Date(2026, 8, 21, 0, 0, 0, 0, time.UTC)
	f := func(want result, r record) {
		t.Helper()
		if r.At.IsZero() {
			r.At = at
		}
		before := s
		seq := before.seq
		next, got, err := apply(s, parsed(t, c, r))
		if err != nil || got != want {
			t.Fatalf("%s, want %s (%v)", got, want, err)
		}
		if next.seq != seq+1 || before.seq != seq {
			t.Fatal("sequence")
		}
		s = next
		checkIndexes(t, c, s)
	}
	put := func(pre string, rev int64, id, token string) record {
		return record{Kind: "endpoint", ID: id, Pre: pre, Rev: rev, Op: opPut, Value: rawEndpoint(t, id, token, "n")}
	}
	del := func(pre, id string) record { return record{Kind: "endpoint", ID: id, Pre: pre, Op: opDelete} }

	f(applied, put(preAbsent, 0, "ep_1", "t1"))
	f(conflict, put(preAbsent, 0, "ep_1", "t1"))
	f(taken, put(preAbsent, 0, "ep_2", "t1"))
	f(conflict, put(preExists, 0, "ep_2", "t2"))
	f(applied, put(preAbsent, 0, "ep_2", "t2"))
	f(applied, put(preRev, 1, "ep_1", "t1"))
	f(conflict, put(preRev, 1, "ep_1", "t1"))
	f(taken, put(preRev, 6, "ep_1", "t2"))
	f(applied, put(preRev, 6, "ep_1", "t3"))
	f(applied, put(preExists, 0, "ep_2", "t1")) // ep_1 has it no longer
	f(conflict, put("", 0, "ep_1", "t1"))
	f(conflict, del(preAbsent, "ep_9"))
	f(conflict, del(preExists, "ep_9"))
	f(applied, del(preExists, "ep_1"))
	f(conflict, del(preExists, "ep_1"))
	f(conflict, put(preRev, 9, "ep_1", "t3"))
	f(invalid, record{Kind: "endpoint", ID: "ep_2", Pre: preExists, Op: "merge"})
	f(invalid, record{Kind: "comet", ID: "x", Pre: preAbsent, Op: opPut, Value: json.RawMessage(`{}`)})
	f(invalid, record{Kind: "endpoint", Pre: preAbsent, Op: opPut, Value: rawEndpoint(t, "", "t", "n")})
	f(invalid, record{Kind: "endpoint", ID: "ep_5", Pre: preAbsent, Op: opPut, Value: rawEndpoint(t, "ep_6", "t6", "n")})
	f(invalid, record{Kind: "endpoint", ID: "ep_5", Pre: preAbsent, Op: opPut, Value: json.RawMessage(`{"id":"ep_5"}`)})
	f(invalid, record{Kind: "endpoint", ID: "ep_5", Pre: preAbsent, Op: opPut, Value: json.RawMessage(`null`)})
	account := func(id string) record {
		return record{Kind: "account", ID: id, Pre: preAbsent, Op: opPut, Value: json.RawMessage(`{"id":"` + id + `"}`)}
	}
	f(applied, account("acc_1"))
	f(taken, account("acc_2"))

	set := s.sets[kindEndpoint]
	if e := set.find("ep_1"); e == nil || e.packed != nil || e.deletedAt != at.UnixMilli() {
		t.Fatalf("tombstone: %+v", e)
	}
	if ep := thing(c, set.findLiving("ep_2")); ep.Rev != 10 || ep.Seq != 5 || ep.Name != "n" {
		t.Fatalf("placed at rev %d, seq %d", ep.Rev, ep.Seq)
	}
	// A tombstone is dropped by a deletion 60 days later, or when its id is created again.
	f(applied, put(preAbsent, 0, "ep_1", "t7"))
	if set = s.sets[kindEndpoint]; set.tombstones.Len != 0 {
		t.Fatal("a living entity has a tombstone")
	}
	f(applied, del(preExists, "ep_1"))
	late := del(preExists, "ep_2")
	late.At = at.Add(tombstoneLife + time.Second)
	f(applied, late)
	if set = s.sets[kindEndpoint]; set.find("ep_1") != nil || set.find("ep_2") == nil || set.tombstones.Len != 1 {
		t.Fatal("tombstones after 60 days")
	}
}

// TestHashCollisions: an entity whose hash agrees with another's in the first 64 bits is refused, not confused with it.
func TestHashCollisions(t *testing.T) {
	c := testParser()
	s, _, err := apply(newState(testParser().kinds), parsed(t, c, record{
		Kind: "endpoint", ID: "ep_1", Pre: preAbsent, Op: opPut, Value: rawEndpoint(t, "ep_1", "t1", "n"),
	}))
	must.Do(t, err)
	set := s.sets[kindEndpoint]
	e := set.findLiving("ep_1")
	set.byID = set.byID.Put(hash64("ep_2"), e)
	near := hashOf("t1")
	near[HashLen-1] ^= 1
	if set.find("ep_2") != nil || set.findByHash(near) != nil {
		t.Fatal("an entity was confused with another")
	}
	_, res, err := apply(s, parsed(t, c, record{
		Kind: "endpoint", ID: "ep_2", Pre: preAbsent, Op: opPut, Value: rawEndpoint(t, "ep_2", "t2", "n"),
	}))
	if err != nil || res != taken {
		t.Fatalf("an id that collides: %s, %v", res, err)
	}
}

// TestValueIsOneLine: no value breaks the lines of a snapshot.
func TestValueIsOneLine(t *testing.T) {
	c := testParser()
	s, res, err := apply(newState(testParser().kinds),
		c.parse([]byte(`{"v":1,"op_id":"op_1","kind":"account","id":"acc_1","pre":"absent","op":"put","value":{
		"id": "acc_1"
	}}`)))
	if err != nil || res != applied {
		t.Fatal(res, err)
	}
	var lines bytes.Buffer
	must.Do(t, c.writeLines(&lines, s.sets[kindAccount].newest()))
	if back, err := c.readLines(lines.Bytes()); err != nil || len(back) != 1 || thing(c, back[0]).ID != "acc_1" {
		t.Fatalf("read back: %v, %v", back, err)
	}
}

// checkIndexes compares the tries of a state with each other.
func checkIndexes(t testing.TB, c *parser, s *state) {
	t.Helper()
	for k, set := range s.sets {
		hashed := 0
		checkSizes(t, c, Kind(k), set)
		for e := range set.bySeq.Below(math.MaxUint64) {
			if e.packed == nil || set.findLiving(e.ID) != e {
				t.Fatalf("%s is not found by its id", e.ID)
			}
			for _, h := range hashesOf(e.Hash, e.FormerHash) {
				hashed++
				must.Equal(t, set.findByHash(h), e, "%s is not found by its hash", e.ID)
			}
		}
		for e := range set.tombstones.Below(math.MaxUint64) {
			if e.packed != nil || set.find(e.ID) != e {
				t.Fatalf("tombstone %s is not found", e.ID)
			}
		}
		if set.byHash.Len != hashed || set.byID.Len != set.bySeq.Len+set.tombstones.Len {
			t.Fatalf("%s: %d by hash, want %d; %d by id, %d living, %d dead", c.kinds.name(Kind(k)), set.byHash.Len, hashed,
				set.byID.Len, set.bySeq.Len, set.tombstones.Len)
		}
	}
}

func TestGapIsRefused(t *testing.T) {
	c := testParser()
	s := newState(c.kinds)
	s.seq = 4
	if _, _, err := apply(s, parsed(t, c, record{SeqSeen: 4, Kind: "endpoint", ID: "x"})); err != nil {
		t.Fatal(err)
	}
	if _, _, err := apply(s, parsed(t, c, record{SeqSeen: 5, Kind: "endpoint", ID: "x"})); !errors.Is(err, errGap) {
		t.Fatalf("the writer had applied more records than there are: %v", err)
	}
	if _, _, err := apply(s, record{V: recordVersion + 1}); err == nil {
		t.Fatal("a record of a newer version was applied")
	}
}

// randomRecords converts bytes to records with few ids, tokens and revisions, so that preconditions often hold and
// often fail, and now and then to garbage.
func randomRecords(t testing.TB, data []byte) [][]byte {
	t.Helper()
	r := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(append(data, make([]byte, 8)...)), uint64(len(data))))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	var out [][]byte
	for i, b := range data {
		if b%23 == 0 {
			out = append(out, data[:i]) // not a record
			continue
		}
		id := fmt.Sprintf("ep_%d", b%7)
		value := rawEndpoint(t, id, fmt.Sprintf("t%d", r.IntN(9)), fmt.Sprint(r.IntN(3)))
		k := pick("endpoint", "endpoint", "endpoint", "key", "run", "account", "comet")
		if k == "account" || k == "run" {
			value = json.RawMessage(`{"id":"` + id + `"}`)
		}
		if k == "key" {
			h := hashOf(fmt.Sprint(r.IntN(5)))
			value, _ = json.Marshal(Thing{ID: id, Hash: h[:]})
		}
		rec := must.Get(json.Marshal(record{
			V: recordVersion, OpID: fmt.Sprint(i), SeqSeen: int64(r.IntN(i + 1)), Kind: k, ID: id,
			Pre: pick(preAbsent, preAbsent, preExists, preRev, preRev, ""), Rev: int64(r.IntN(i + 1)),
			Op: pick(opPut, opPut, opPut, opDelete, opForget, "merge"), Value: value,
			At: time.Unix(int64(i)*int64(r.IntN(40*86400)), 0).UTC(),
		}))(t)
		out = append(out, rec)
	}
	return out
}

// run applies records and checks that earlier states do not change.
func run(t testing.TB, c *parser, records [][]byte) *state {
	t.Helper()
	s := newState(c.kinds)
	for _, b := range records {
		before := encoded(t, c, s)
		next, _, err := apply(s, c.parse(b))
		if !bytes.Equal(before, encoded(t, c, s)) {
			t.Fatal("apply changed its argument")
		}
		if err != nil {
			continue
		}
		s = next
	}
	checkIndexes(t, c, s)
	return s
}

func TestApplyIsDeterministic(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		data := make([]byte, 60)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		records := randomRecords(t, data)
		a, b := testParser(), testParser()
		if !bytes.Equal(encoded(t, a, run(t, a, records)), encoded(t, b, run(t, b, records))) {
			t.Fatal("the same log gave two different states")
		}
	}
}

// FuzzApply applies random records and raw bytes: it must not panic, must reach the same state twice, and must keep the
// indexes consistent.
func FuzzApply(f *testing.F) {
	f.Add([]byte("a few bytes"), []byte(`{"v":1}`))
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 23, 46},
		[]byte(`{"v":1,"kind":"endpoint","id":"ep_1","pre":"absent","op":"put","value":{"id":"ep_1"}}`))
	f.Add([]byte{}, []byte(`[]`))
	f.Fuzz(func(t *testing.T, data, raw []byte) {
		records := append(randomRecords(t, data[:min(len(data), 60)]), raw)
		a, b := testParser(), testParser()
		if !bytes.Equal(encoded(t, a, run(t, a, records)), encoded(t, b, run(t, b, records))) {
			t.Fatal("the same log gave two different states")
		}
	})
}

// sizedRecord returns a record that puts an endpoint whose JSON has about that many bytes.
func sizedRecord(t *testing.T, name string, size int) record {
	t.Helper()
	return record{
		Kind: "endpoint", ID: name, Pre: preAbsent, Op: opPut,
		Value: rawEndpoint(t, name, "token of "+name, strings.Repeat("x", size)),
	}
}

// apply enforces the bounds from the state and the record alone. It refuses growth beyond a bound. An entity that is
// already beyond one stays, and may shrink, be disabled and be deleted.
func TestApplyEnforcesBounds(t *testing.T) {
	c := testParser()
	s := newState(testParser().kinds)
	f := func(what string, want result, r record) {
		t.Helper()
		next, got, err := apply(s, parsed(t, c, r))
		if err != nil || got != want {
			t.Fatalf("%s: %s, want %s (%v)", what, got, want, err)
		}
		s = next
		checkIndexes(t, c, s)
	}
	again := func(r record, pre string) record { r.Pre = pre; return r }
	f("a small endpoint", applied, sizedRecord(t, "ep_1", 10))
	f("a large endpoint", applied, sizedRecord(t, "ep_2", MaxEntityBytes/2))
	f("one larger than an entity may be", full, sizedRecord(t, "ep_3", MaxEntityBytes))
	f("growing beyond it", full, again(sizedRecord(t, "ep_1", MaxEntityBytes), preExists))

	changeSet := func(change func(*set)) {
		next := *s
		next.sets = slices.Clone(s.sets)
		change(next.ownSet(kindEndpoint))
		s = &next
	}
	changeSet(func(set *set) { set.bySeq.Len += maxEndpoints - 2 })
	next, got, _ := apply(s, parsed(t, c, sizedRecord(t, "ep_4", 1)))
	if got != full || next.seq != s.seq+1 {
		t.Fatalf("one endpoint more than the maximum: %s", got)
	}
	if _, got, _ := apply(s, parsed(t, c, again(sizedRecord(t, "ep_1", 20), preExists))); got != applied {
		t.Fatalf("a change at the maximum number of endpoints: %s", got)
	}
	changeSet(func(set *set) { set.bySeq.Len -= maxEndpoints - 2 })

	other := int64(MaxStateBytes) // beyond the bound, as the log of an older version may be
	changeSet(func(set *set) { set.bytes += other })
	refused := func(what string, want result, r record) {
		t.Helper()
		if _, got, _ := apply(s, parsed(t, c, r)); got != want {
			t.Errorf("%s in a full configuration: %s, want %s", what, got, want)
		}
	}
	refused("a new endpoint", full, sizedRecord(t, "ep_4", 1))
	refused("growth", full, again(sizedRecord(t, "ep_1", 20), preExists))
	refused("shrinking", applied, again(sizedRecord(t, "ep_2", 1000), preExists))
	off := again(sizedRecord(t, "ep_1", 20), preExists)
	off.Exempt = true
	refused("what is exempt", applied, off)
	refused("deleting", applied, record{Kind: "endpoint", ID: "ep_2", Pre: preExists, Op: opDelete})
	changeSet(func(set *set) { set.bytes -= other })
	checkIndexes(t, c, s)
}

// The number of tombstones is bounded; the oldest goes first.
func TestTombstonesAreBounded(t *testing.T) {
	c := testParser()
	var tombstones set
	for i := range maxTombstones {
		tombstones.addTombstone(&Entity{
			ID: fmt.Sprint("ep_dead", i), Kind: kindEndpoint, Rev: int64(i + 1), deletedAt: time.Now().UnixMilli()})
	}
	s := newState(c.kinds)
	s.seq, s.level, s.sets[kindEndpoint] = maxTombstones, newestLevel, &tombstones
	create := sizedRecord(t, "ep_1", 1)
	create.SeqSeen = s.seq
	s, _, _ = apply(s, parsed(t, c, create))
	s, got, err := apply(s, parsed(t, c, record{
		SeqSeen: s.seq, Kind: "endpoint", ID: "ep_1", Pre: preExists, Op: opDelete, At: time.Now(),
	}))
	set := s.sets[kindEndpoint]
	if got != applied || err != nil || set.tombstones.Len > maxTombstones || set.find("ep_1") == nil ||
		set.find("ep_dead0") != nil {
		t.Errorf("%s, %v: %d tombstones", got, err, set.tombstones.Len)
	}
}

// Pending entities and sizes are the same after a restart from a snapshot.
func TestSizesSurviveASnapshot(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"})
		n.create(t)
		for i, open := range []bool{true, false} {
			name := fmt.Sprint("later_", i)
			raw := mustJSON(t, Thing{ID: name, Open: open})
			must.Get(n.Create(t.Context(), kindLater, name, raw))(t)
		}
		v := n.view.Load()
		must.Get(n.writeSnapshot(t.Context(), v))(t)
		must.Do(t, n.reader.Trim(t.Context(), recordLog, v.nextOffset))
		n.stop()
		n = node(t, conf, Config{Node: "a"})
		again := n.view.Load()
		checkIndexes(t, n.parser, again.state)
		if again.sets[kindLater].pending.Len != 1 || again.bytes() != v.bytes() {
			t.Errorf("%d pending, %d bytes, want %d", again.sets[kindLater].pending.Len, again.bytes(), v.bytes())
		}
	})
}

// checkSizes compares the counters of a set with its entities.
func checkSizes(t testing.TB, c *parser, k Kind, set *set) {
	t.Helper()
	var bytes int64
	open := 0
	for e := range set.bySeq.Below(math.MaxUint64) {
		raw := c.unpack(e.packed)
		bytes += int64(len(raw))
		if _, found := set.pending.Get(uint64(e.Seq)); found != e.Pending {
			t.Fatalf("%s is in the pending index: %v", e.ID, found)
		}
		if e.Pending {
			open++
		}
	}
	if bytes != set.bytes || open != set.pending.Len {
		t.Fatalf("kind %d: counted %d bytes, want %d; %d pending, counted %d", k, set.bytes, bytes, open,
			set.pending.Len)
	}
}

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
