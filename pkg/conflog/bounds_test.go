package conflog

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

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
