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
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/id"
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
