package config

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/conflog"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/kit"
)

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
