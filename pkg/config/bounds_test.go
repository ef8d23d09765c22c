package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// sized is a record that puts an endpoint whose JSON has about that many bytes.
func sized(t *testing.T, name string, size int) record {
	t.Helper()
	return record{
		Kind: "endpoint", ID: name, Pre: preAbsent, Op: opPut,
		Value: rawEndpoint(t, name, "token of "+name, strings.Repeat("x", size)),
	}
}

// Bounds are judged by apply, from the state and the record alone: growth beyond one is refused, what is beyond it
// already stays, may shrink, be switched off and be deleted.
func TestBoundsAreJudgedByApply(t *testing.T) {
	c := newCodec()
	s := &state{}
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
	f("a small endpoint", applied, sized(t, "ep_1", 10))
	f("a large endpoint", applied, sized(t, "ep_2", MaxEntity/2))
	f("one larger than an entity may be", full, sized(t, "ep_3", MaxEntity))
	f("growing beyond it", full, again(sized(t, "ep_1", MaxEntity), preExists))

	crowd := func(change func(*set)) {
		next := *s
		change(&next.sets[kindEndpoint])
		s = &next
	}
	crowd(func(set *set) { set.bySeq.len += MaxEndpoints - 2 })
	next, got, _ := apply(s, parsed(t, c, sized(t, "ep_4", 1)))
	if got != full || next.seq != s.seq+1 {
		t.Fatalf("one endpoint more than may be: %s", got)
	}
	if _, got, _ := apply(s, parsed(t, c, again(sized(t, "ep_1", 20), preExists))); got != applied {
		t.Fatalf("a change while there are as many as may be: %s", got)
	}
	crowd(func(set *set) { set.bySeq.len -= MaxEndpoints - 2 })

	other := int64(MaxState) // beyond the bound, as a log of before may be
	crowd(func(set *set) { set.bytes += other })
	refused := func(what string, want result, r record) {
		t.Helper()
		if _, got, _ := apply(s, parsed(t, c, r)); got != want {
			t.Errorf("%s in a full configuration: %s, want %s", what, got, want)
		}
	}
	refused("a new endpoint", full, sized(t, "ep_4", 1))
	refused("growth", full, again(sized(t, "ep_1", 20), preExists))
	refused("shrinking", applied, again(sized(t, "ep_2", 1000), preExists))
	off := again(sized(t, "ep_1", 20), preExists)
	off.Exempt = true
	refused("what is exempt", applied, off)
	refused("deleting", applied, record{Kind: "endpoint", ID: "ep_2", Pre: preExists, Op: opDelete})
	crowd(func(set *set) { set.bytes -= other })
	checkIndexes(t, c, s)
}

// Tombstones are bounded by their number, the oldest goes first.
func TestTombstonesAreBounded(t *testing.T) {
	c := newCodec()
	var graves set
	for i := range maxTombstones {
		graves.addGrave(&entity{id: fmt.Sprint("ep_dead", i), kind: kindEndpoint, rev: int64(i + 1), deleted: time.Now().UnixMilli()})
	}
	s := &state{seq: maxTombstones, level: newestLevel}
	s.sets[kindEndpoint] = graves
	create := sized(t, "ep_1", 1)
	create.SeqSeen = s.seq
	s, _, _ = apply(s, parsed(t, c, create))
	s, got, err := apply(s, parsed(t, c, record{
		SeqSeen: s.seq, Kind: "endpoint", ID: "ep_1", Pre: preExists, Op: opDelete, At: time.Now(),
	}))
	set := &s.sets[kindEndpoint]
	if got != applied || err != nil || set.graves.len > maxTombstones || set.find("ep_1") == nil || set.find("ep_dead0") != nil {
		t.Errorf("%s, %v: %d tombstones", got, err, set.graves.len)
	}
}

// In a full configuration, and while the audit log takes nothing, what takes something away is done, and so are
// erasures; the rest is refused with its reason.
func TestTakingAwayIsAlwaysDone(t *testing.T) {
	fill := map[string]struct {
		change func(*state)
		want   error
	}{
		"full":     {func(s *state) { s.sets[kindAlertSettings].bytes += MaxState }, ErrStateFull},
		"no audit": {func(s *state) { s.sets[kindTrail].bySeq.len += maxTrail }, ErrUnavailable},
	}
	for name, f := range fill {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			n := node(t, broker(t), Config{Node: "a"})
			e := n.create(t)
			_, k, err := n.CreateKey(ctx, "k", ReadWrite, false, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := n.AddUser(ctx, "ops@example.com"); err != nil {
				t.Fatal(err)
			}
			n.inject(f.change)
			if _, err := n.CreateEndpoint(ctx, endpoint(n.keyring)); !errors.Is(err, f.want) {
				t.Errorf("a new endpoint: %v", err)
			}
			grow := func(e *Endpoint) error { e.Enabled, e.Name = false, strings.Repeat("n", 100); return nil }
			if _, err := n.UpdateEndpoint(ctx, e.ID, grow); !errors.Is(err, f.want) {
				t.Errorf("disabling and growing at once: %v", err)
			}
			must := func(what string, err error) {
				t.Helper()
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			_, err = n.UpdateEndpoint(ctx, e.ID, func(e *Endpoint) error {
				e.Enabled, e.Paused = false, true
				e.Destinations[0].Enabled, e.Destinations[0].StateReason = false, "gone_410"
				e.Destinations[0].PurgeBefore = time.Now()
				return nil
			})
			must("disabling", err)
			must("revoking", n.RevokeKey(ctx, k.ID))
			_, _, err = n.ResetUser(ctx, "ops@example.com")
			must("resetting a user", err)
			must("removing a user", n.RemoveUser(ctx, "ops@example.com"))
			must("deleting", n.DeleteEndpoint(ctx, e.ID))
			d, err := id.NewGenerator(nil).New(0)
			must("an id", err)
			_, err = n.ErasePayload(ctx, d)
			must("erasing", err)
			if got, _ := n.Endpoint(e.ID); got != nil || !n.Erased(d) {
				t.Error("it was answered, and not done")
			}
		})
	}
}

// Recovery jobs of 30 days are bounded, and none is forgotten before.
func TestRecoveryHistoryIsBounded(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	old := Recovery{Meta: Meta{Account: n.Account().ID, CreatedAt: time.Now()}, State: RecoveryCancelled, Settled: true}
	n.inject(func(s *state) {
		for i := range MaxRecoveries - 1 {
			old.ID = fmt.Sprint("rec_", i)
			raw, err := json.Marshal(old)
			if err != nil {
				t.Error(err)
			}
			s.add(&entity{
				id: old.ID, kind: kindRecovery, seq: int64(1_000_000 + i), packed: n.codec.pack(raw), size: int32(len(raw)),
			})
		}
	})
	job := func(name string) error {
		_, err := n.AddRecovery(context.Background(), &Recovery{Meta: Meta{ID: name, Account: n.Account().ID}, State: RecoveryReady})
		return err
	}
	if err := job("rec_last"); err != nil {
		t.Fatal(err)
	}
	if err := job("rec_more"); !errors.Is(err, ErrRecoveryHistory) {
		t.Errorf("one more than may be: %v", err)
	}
	_, err := n.UpdateRecovery(t.Context(), "rec_last", func(j *Recovery) error {
		j.Destinations = []RecoveryDestination{{ID: strings.Repeat("d", 100)}}
		j.End(RecoveryCancelled, StopCancelled, time.Now())
		return nil
	})
	if err != nil {
		t.Errorf("cancelling the last: %v", err)
	}
	unsettled, forgotten := n.UnsettledRecoveries(time.Now().Add(-time.Minute))
	if len(unsettled)+len(forgotten) != 0 || n.view.Load().sets[kindRecovery].bySeq.len != MaxRecoveries {
		t.Errorf("%d unsettled, %d to be forgotten", len(unsettled), len(forgotten))
	}
}

// What is still to be done, and the sizes, are the same after a restart from a snapshot.
func TestSizesSurviveASnapshot(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		n := node(t, conf, Config{Node: "a"})
		n.create(t)
		for i, state := range []RecoveryState{RecoveryReady, RecoveryCancelled} {
			job := &Recovery{Meta: Meta{ID: fmt.Sprint("rec_", i)}, State: state, Settled: state.Ended()}
			if _, err := n.AddRecovery(t.Context(), job); err != nil {
				t.Fatal(err)
			}
		}
		v := n.view.Load()
		if _, err := n.writeSnapshot(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		if err := n.reader.Trim(t.Context(), controlLog, v.next); err != nil {
			t.Fatal(err)
		}
		n.stop()
		n = node(t, conf, Config{Node: "a"})
		again := n.view.Load()
		checkIndexes(t, n.codec, again.state)
		if unsettled, _ := n.UnsettledRecoveries(time.Time{}); len(unsettled) != 1 || again.bytes() != v.bytes() {
			t.Errorf("%d unsettled, %d bytes instead of %d", len(unsettled), again.bytes(), v.bytes())
		}
	})
}

// checkSizes holds what is counted in a set to what is there.
func checkSizes(t testing.TB, c *codec, k kind, set *set) {
	t.Helper()
	var bytes int64
	open := 0
	for e := range set.bySeq.below(math.MaxUint64) {
		raw := c.unpack(e)
		bytes += int64(len(raw))
		if is, err := c.openLine(k, raw); err != nil || is != e.open {
			t.Fatalf("%s is open: %v (%v)", e.id, e.open, err)
		}
		if _, found := set.open.get(uint64(e.seq)); found != e.open {
			t.Fatalf("%s is among the open ones: %v", e.id, found)
		}
		if e.open {
			open++
		}
	}
	if bytes != set.bytes || open != set.open.len {
		t.Fatalf("%s: %d bytes are counted, there are %d; %d open, %d counted", k, set.bytes, bytes, open, set.open.len)
	}
}

// The expiry of a key is judged by the time that the nodes agree on.
func TestKeysExpireByTheBrokersClock(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	text, _, err := n.CreateKey(t.Context(), "k", Read, false, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Authenticate(text); err != nil {
		t.Fatal(err)
	}
	n.correction.Store(int64(2 * time.Hour)) // this node's clock is two hours late
	if _, err := n.Authenticate(text); !errors.Is(err, ErrInvalidKey) {
		t.Errorf("a key that has expired by the broker's clock: %v", err)
	}
}
