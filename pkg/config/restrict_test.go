package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/conflog/trie"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

// TestRestrictionWaitsForEveryNode: changes that stop something wait for a frozen node, like deletions; others do not.
func TestRestrictionWaitsForEveryNode(t *testing.T) {
	e := func(name string, strict bool, change func(*Endpoint)) {
		testRestrictionWaits(t, name, strict, func(n *testNode) *Endpoint {
			e := endpoint(n.Keyring)
			e.Destinations = append(e.Destinations, e.Destinations[0])
			e.Destinations[1].ID = "dst_second"
			return e
		}, change)
	}
	e("rename", false, func(e *Endpoint) { e.Name = "x" })
	e("add a destination", false, func(e *Endpoint) {
		e.Destinations = append(e.Destinations, Destination{ID: "dst_third", URL: "https://example.com"})
	})
	e("disable the endpoint", true, func(e *Endpoint) { e.Enabled = false })
	e("disable a destination", true, func(e *Endpoint) { e.Destinations[1].Enabled = false })
	e("pause the endpoint", true, func(e *Endpoint) { e.Paused = true })
	e("pause a destination", true, func(e *Endpoint) { e.Destinations[1].Paused = true })
	e("purge a destination", true, func(e *Endpoint) { e.Destinations[1].PurgeBefore = time.Now() })
	e("remove a destination", true, func(e *Endpoint) { e.Destinations = e.Destinations[:1] })
	e("delete an endpoint", true, nil)

	newDrain := func(n *testNode) *leak.Drain { return drain(n.Keyring, "one", "token") }
	testRestrictionWaits(t, "rename a drain", false, newDrain, func(d *leak.Drain) { d.Name = "x" })
	testRestrictionWaits(t, "pause a drain", true, newDrain, func(d *leak.Drain) { d.Paused = true })
	testRestrictionWaits(t, "sign a drain", true, newDrain, func(d *leak.Drain) { d.Sealed.SigningSecret = "test:x" })
	testRestrictionWaits(t, "delete a drain", true, newDrain, nil)
	newDSN := func(n *testNode) *leak.DSN { return dsn(n.Keyring, "one", "key") }
	testRestrictionWaits(t, "rename a DSN", true, newDSN, func(d *leak.DSN) { d.Name = "x" })
	testRestrictionWaits(t, "delete a DSN", true, newDSN, nil)
	aDomain := func(*testNode) *leak.Domain { return newDomain("1", "a.example", time.Time{}) }
	testRestrictionWaits(t, "check a domain", false, aDomain, func(d *leak.Domain) { d.Checked.Seen = "x" })
	testRestrictionWaits(t, "delete a domain", true, aDomain, nil)
	aUser := func(*testNode) *User { return newUser("a@example.com", ReadWrite) }
	testRestrictionWaits(t, "record a sign-in", false, aUser, func(u *User) { u.LastSignInAt = time.Now() })
	testRestrictionWaits(t, "let a user only read", true, aUser, func(u *User) { u.Scope = Read })
	aFixture := func(*testNode) *Fixture { return testFixture(t, "one", time.Hour) }
	testRestrictionWaits(t, "rename a fixture", false, aFixture, func(f *Fixture) { f.Name = "x" })
	testRestrictionWaits(t, "delete a fixture", false, aFixture, nil)
}

// testRestrictionWaits changes a value of a kind, or deletes it if change is nil, while another node is frozen.
func testRestrictionWaits[T any, P entity.Pointer[T]](
	t *testing.T, name string, strict bool, create func(*testNode) P, change func(P)) {
	t.Run(name, func(t *testing.T) {
		bubble(t, func(t *testing.T, conf stream.Config) {
			var cold kit.Freezer
			a, _ := pair(t, conf, freezable(&cold, conf))
			v, err := entity.Create(t.Context(), a, create(a))
			if err != nil {
				t.Fatal(err)
			}
			cold.Freeze(t)
			began := time.Now()
			if change == nil {
				err = entity.Delete[T, P](t.Context(), a, entity.IDOf(v))
			} else {
				_, err = entity.Update(t.Context(), a, entity.IDOf(v), func(v P) error { change(v); return nil })
			}
			if took := time.Since(began); err != nil || (took > time.Second) != strict {
				t.Fatalf("took %s, %v", took, err)
			}
		})
	})
}

// In a full configuration, and while the outbox is full, changes that only restrict something and erasures are
// accepted. Others are refused with the reason.
func TestRestrictionsIgnoreBounds(t *testing.T) {
	fill := map[string]struct {
		change func(*testNode)
		want   error
	}{
		"full":     {func(n *testNode) { n.inject(entity.KindAlertSettings, "bytes", conflog.MaxStateBytes) }, ErrStateFull},
		"no audit": {func(n *testNode) { n.inject(conflog.KindOutbox, "len", 100_000) }, ErrUnavailable},
	}
	for name, f := range fill {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			n := node(t, broker(t), Config{Node: "a"})
			e := n.create(t)
			_, k, err := n.CreateKey(ctx, NewKey{Name: "k", Scope: ReadWrite})
			if err != nil {
				t.Fatal(err)
			}
			ops := addUser(t, n, "ops@example.com", ReadWrite)
			second := addUser(t, n, "second@example.com", ReadWrite)
			f.change(n)
			if _, err := n.CreateEndpoint(ctx, endpoint(n.Keyring)); !errors.Is(err, f.want) {
				t.Errorf("a new endpoint: %v", err)
			}
			grow := func(e *Endpoint) error { e.Enabled, e.Name = false, strings.Repeat("n", 100); return nil }
			if _, err := n.UpdateEndpoint(ctx, e.ID, grow); !errors.Is(err, f.want) {
				t.Errorf("disabling and growing at once: %v", err)
			}
			must := func(what string, err error) {
				t.Helper()
				is.OK(t, err, what)
			}
			_, err = n.UpdateEndpoint(ctx, e.ID, func(e *Endpoint) error {
				e.Enabled, e.Paused = false, true
				e.Destinations[0].Enabled, e.Destinations[0].StateReason = false, "gone_410"
				e.Destinations[0].PurgeBefore = time.Now()
				return nil
			})
			must("disabling", err)
			must("revoking", n.RevokeKey(ctx, k.ID))
			must("ending a session", n.EndSession(ctx, ops.ID, "s", time.Now().Add(time.Hour)))
			must("ending sessions", n.EndSessions(ctx, ops.ID))
			_, err = n.SetUserScope(ctx, second.ID, Read, 0)
			must("taking the right to write", err)
			_, _, err = n.ResetUser(ctx, ops.ID, 0)
			must("resetting a user", err)
			must("removing a user", n.RemoveUser(ctx, second.ID))
			if _, err := n.SetUserScope(ctx, ops.ID, Read, 0); !errors.Is(err, ErrLastWriter) {
				t.Errorf("the last user with read_write: %v", err)
			}
			must("deleting", n.DeleteEndpoint(ctx, e.ID, 0))
			d, err := id.NewGenerator(nil).New(0)
			must("an id", err)
			_, err = n.ErasePayload(ctx, d, "")
			must("erasing", err)
			if got, _ := n.Endpoint(e.ID); got != nil || !n.Erased(d) {
				t.Error("the change was answered but not applied")
			}
		})
	}
}

// The number of recovery jobs in 30 days is bounded, and none is removed earlier.
func TestRecoveryHistoryIsBounded(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	n.inject(entity.KindRecovery, "len", MaxRecoveries-1)
	job := func(name string) error {
		_, err := n.AddRecovery(context.Background(),
			&jobs.Recovery{Meta: entity.Meta{ID: name, Account: n.Account().ID}, State: jobs.RecoveryReady})
		return err
	}
	noError(t, job("rec_last"))
	is.ErrorIs(t, job("rec_more"), ErrRecoveryHistoryFull, "one more than the maximum")
	_, err := n.UpdateRecovery(t.Context(), "rec_last", func(j *jobs.Recovery) error {
		j.Destinations = []jobs.RecoveryDestination{{ID: strings.Repeat("d", 100)}}
		j.End(jobs.RecoveryCancelled, jobs.StopCancelled, time.Now())
		return nil
	})
	is.OK(t, err, "cancelling the last")
	unsettled, forgotten := n.UnsettledRecoveries(time.Now().Add(-time.Minute))
	if len(unsettled)+len(forgotten) != 0 || n.View().Len(entity.KindRecovery) != MaxRecoveries {
		t.Errorf("%d unsettled, %d to be removed", len(unsettled), len(forgotten))
	}
}

// The number of erasures is bounded. A payload that is erased already can be erased again.
func TestErasuresAreBounded(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	n.inject(entity.KindErasure, "len", MaxErasures-1)
	ids := id.NewGenerator(nil)
	erase := func(event id.ID) error {
		_, err := n.ErasePayload(t.Context(), event, "")
		return err
	}
	last, more := ids.NewUnbounded(0), ids.NewUnbounded(0)
	noError(t, erase(last))
	if err := erase(more); !errors.Is(err, ErrTooManyErasures) || n.Erased(more) {
		t.Errorf("one more than the maximum: %v", err)
	}
	is.OK(t, erase(last), "the last one again")
}

// Keys of a tenant leave erasures to other tenants, and those of all tenants leave some to the account.
func TestTenantsShareErasures(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	ids, set := id.NewGenerator(nil), trie.Map[*conflog.Entity]{}
	try := func(tenant string, before int, want error) {
		t.Helper()
		for range before {
			seq := set.Len + 1
			set = set.Put(uint64(seq), &conflog.Entity{Seq: int64(seq), Attributes: (&Erasure{Tenant: tenant}).Attributes()})
		}
		n.inject(entity.KindErasure, "bySeq", set)
		_, err := n.ErasePayload(t.Context(), ids.NewUnbounded(0), tenant)
		is.ErrorIs(t, err, want, tenant)
	}
	try("", 10_000, nil)
	try("one", 9_999, nil)
	try("one", 1, ErrTooManyErasures)
	for _, tenant := range []string{"two", "three", "four", "five"} {
		try(tenant, 9_999, nil)
	}
	try("six", 3, nil) // 49,999 of all tenants
	try("seven", 1, ErrTooManyErasures)
	try("", 0, nil)
}

// Keys expire by the corrected clock that all nodes share.
func TestKeysExpireByTheBrokersClock(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	text, _, err := n.CreateKey(t.Context(), NewKey{Name: "k", Scope: Read, ExpiresAt: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	must(n.Authenticate(text))(t)
	clock := reflect.ValueOf(n.Log).Elem().FieldByName("clock").Elem().FieldByName("correction")
	(*atomic.Int64)(clock.Addr().UnsafePointer()).Store(int64(2 * time.Hour)) // this node's clock is two hours behind
	if _, err := n.Authenticate(text); !errors.Is(err, ErrInvalidKey) {
		t.Errorf("a key that has expired by the broker's clock: %v", err)
	}
}

// The documented limits of one node.
const (
	ceilingEndpoints = 200_000
	ceilingBoot      = 5 * time.Second
	ceilingHeap      = 300 << 20
)

// manyEndpoints creates n endpoints concurrently.
func manyEndpoints(t testing.TB, c *testNode, n int) []string {
	t.Helper()
	ids := make([]string, n)
	var batch []conflog.BatchChange
	for i := range ids {
		e := endpoint(c.Keyring)
		hash := entity.HashOf("tok_" + e.ID)
		e.Account, e.TokenHash, e.CreatedAt, e.UpdatedAt = id.Random(id.Account), hash[:], c.Clock(), c.Clock()
		ids[i] = e.ID
		batch = append(batch, conflog.BatchChange{Kind: entity.KindEndpoint, ID: e.ID, Value: mustJSON(t, e)})
		if len(batch) == 5000 || i == n-1 {
			noError(t, c.WriteBatch(context.Background(), batch))
			batch = batch[:0]
		}
	}
	return ids
}

// TestCeiling starts a node from a snapshot and compares heap and processor time with the limits, with 10,000 endpoints
// in proportion, or with all 200,000 if RELAY_TEST_LONG=1.
func TestCeiling(t *testing.T) {
	if raced {
		t.Skip("the race detector's memory and time are not those of the service")
	}
	n := ceilingEndpoints / 20
	if os.Getenv("RELAY_TEST_LONG") != "" {
		n = ceilingEndpoints
	}
	conf := broker(t)
	a := node(t, conf, Config{Node: "a"})
	a.SetOwner(true) // empties the outbox
	ids := manyEndpoints(t, a, n)
	for end := time.Now().Add(time.Minute); a.View().Len(conflog.KindOutbox) > 500 && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
	noError(t, a.WriteSnapshot(context.Background()))
	_ = a.stop()
	a = nil // let the garbage collector free it before the measurement

	cpu, began := kit.CPUTime(t), time.Now()
	b := node(t, conf, Config{Node: "b"})
	took, cpu := time.Since(began), kit.CPUTime(t)-cpu
	// One of the nodes may have written a record of its own after the snapshot.
	if got := b.View().Len(entity.KindEndpoint); got != n {
		t.Fatalf("%d endpoints", got)
	}
	if e := b.EndpointByToken("tok_" + ids[n/2]); e == nil || e.ID != ids[n/2] {
		t.Fatal("an endpoint is missing")
	}
	_ = b.stop()
	heap := liveHeap()
	runtime.KeepAlive(b)
	b = nil // the memory that it frees is measured
	heap -= liveHeap()
	scale := ceilingEndpoints / n
	t.Logf("%d endpoints: ready in %s, %s of processor, heap %d MB (%d bytes each)",
		n, took.Round(time.Millisecond), cpu.Round(time.Millisecond), heap>>20, heap/int64(n))
	if heap*int64(scale) > ceilingHeap {
		t.Errorf("%d bytes of heap per endpoint: 200,000 would take %d MB", heap/int64(n), heap*int64(scale)>>20)
	}
	// Measure processor time, because other tests run at the same time; the margin is for their effect on the caches.
	if cpu*time.Duration(scale) > 6*ceilingBoot {
		t.Errorf("%s of processor time for %d endpoints", cpu, n)
	}
	if scale == 1 && took > ceilingBoot {
		t.Errorf("ready after %s", took)
	}
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// loadedNode returns a node with 20,000 endpoints and a key.
func loadedNode(b *testing.B) (c *testNode, tokens, ids []string, key string) {
	b.Helper()
	c = node(b, broker(b), Config{Node: "a"})
	c.SetOwner(true)
	ids = manyEndpoints(b, c, 20_000)
	for _, id := range ids {
		tokens = append(tokens, "tok_"+id)
	}
	key, _, err := c.CreateKey(context.Background(), NewKey{Name: "k", Scope: Read})
	if err != nil {
		b.Fatal(err)
	}
	return c, tokens, ids, key
}

// BenchmarkReads measures the lookups of every request, on all processors at once.
func BenchmarkReads(b *testing.B) {
	c, tokens, ids, key := loadedNode(b)
	f := func(name string, read func(i int) bool) {
		b.Run(name, func(b *testing.B) {
			var failed atomic.Bool
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if !read(i) {
						failed.Store(true)
					}
				}
			})
			if failed.Load() {
				b.Fatal("not found")
			}
		})
	}
	for _, hot := range []int{1, 1000, 10_000} {
		f(fmt.Sprintf("EndpointByToken/%d", hot), func(i int) bool { return c.EndpointByToken(tokens[i%hot]) != nil })
		f(fmt.Sprintf("Endpoint/%d", hot), func(i int) bool { _, p := c.Endpoint(ids[i%hot]); return p == entity.Present })
	}
	f("Endpoint/not cached", func(i int) bool { // a different one each time, so that the cache never has it
		e := *c.View().FindLiving(entity.KindEndpoint, ids[i%len(ids)])
		return c.endpoint(&e) != nil
	})
	f("EndpointByToken/unknown", func(int) bool { return c.EndpointByToken("nope") == nil })
	f("Authenticate", func(int) bool { _, err := c.Authenticate(key); return err == nil })
}

// BenchmarkUpdate measures a whole write: append, apply, and acknowledgement by the other nodes.
func BenchmarkUpdate(b *testing.B) {
	for _, nodes := range []int{1, 2} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			conf := broker(b)
			n := node(b, conf, Config{Node: "a"})
			for i := range nodes - 1 {
				node(b, conf, Config{Node: fmt.Sprint("b", i)})
			}
			e := n.create(b)
			for b.Loop() {
				_, err := n.UpdateEndpoint(context.Background(), e.ID, func(e *Endpoint) error {
					e.Destinations[0].TimeoutSeconds++
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
