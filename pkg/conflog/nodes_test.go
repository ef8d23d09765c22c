package conflog

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// pair starts two nodes and waits until each has a heartbeat of the other.
func pair(t *testing.T, confA, confB stream.Config) (a, b *testNode) {
	t.Helper()
	a, b = node(t, confA, Config{Node: "a"}), node(t, confB, Config{Node: "b"})
	time.Sleep(time.Second)
	return a, b
}

// TestConcurrentUpdatesAreSerial lets two nodes increment the same counter. The sum shows that no update is lost, the
// revisions show that there is one order.
func TestConcurrentUpdatesAreSerial(t *testing.T) { concurrentUpdates(t, broker(t)) }

func concurrentUpdates(t *testing.T, conf stream.Config) {
	const each = 40
	a, b := node(t, conf, Config{Node: "a"}), node(t, conf, Config{Node: "b"})
	e := a.create(t)
	if err := b.Sync(t.Context()); err != nil { // the wait for peers is bounded
		t.Fatal(err)
	}
	var mu sync.Mutex
	revs := make(map[int64]int)
	conflicts := 0
	var wg, haveRead sync.WaitGroup
	haveRead.Add(2)
	for _, n := range []*testNode{a, b} {
		meet := sync.OnceFunc(func() { // the first update of each node changes the same revision: one is refused
			haveRead.Done()
			haveRead.Wait()
		})
		wg.Go(func() {
			defer meet() // also if no update has come so far
			for range each {
				for {
					count := 0
					after, err := n.update(t.Context(), e.ID, func(e *Thing) {
						meet()
						e.Count++
						count = e.Count
					})
					mu.Lock()
					if errors.Is(err, ErrConflict) {
						conflicts++
						mu.Unlock()
						continue
					}
					if err != nil {
						t.Error(err)
					} else {
						revs[after.Rev] = count
					}
					mu.Unlock()
					break
				}
			}
		})
	}
	wg.Wait()
	for _, n := range []*testNode{a, b} {
		must.Do(t, n.Sync(t.Context()))
		got := n.get(e.ID)
		if got.Count != 15+2*each {
			t.Fatalf("node %s counts %d of %d", n.cfg.Node, got.Count-15, 2*each)
		}
	}
	if len(revs) != 2*each {
		t.Fatalf("%d revisions for %d updates", len(revs), 2*each)
	}
	must.Equal(t, string(stateText(t, a.Log)), string(stateText(t, b.Log)), "the nodes' states differ")
	refused := testutil.ToFloat64(a.metrics.records.WithLabelValues("conflict"))
	if refused == 0 {
		t.Fatal("no two updates conflicted: the test proves nothing")
	}
	t.Logf("%d updates, %v records refused, %d times all %d tries", 2*each, refused, conflicts, MaxWriteTries)
}

// TestReadOnAnotherNode: when a write is answered, the other living nodes have applied it.
func TestReadOnAnotherNode(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		for range 20 {
			began := time.Now()
			e := a.create(t)
			if got := b.get(e.ID); got == nil {
				t.Fatal("created on a, not yet on b")
			}
			if took := time.Since(began); took >= DefaultTiming().PeerWait {
				t.Fatalf("waited %s for b", took)
			}
		}
	})
}

// TestWaitForPeersIsBounded: a node that does not apply records delays an ordinary write by 300 ms.
func TestWaitForPeersIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var cold kit.Freezer
		a, b := pair(t, conf, freezable(&cold, conf))
		cold.Freeze(t)
		began := time.Now()
		e := a.create(t)
		must.Equal(t, time.Since(began), 300*time.Millisecond, "waited … for a frozen node")
		if b.View().Find(kindEndpoint, e.ID) != nil {
			t.Fatal("the frozen node knows it")
		}
	})
}

// TestWriteWithoutBroker: the outcome is unknown; the caller gets an error within 10 s.
func TestWriteWithoutBroker(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var cold kit.Freezer
		a := node(t, freezable(&cold, conf), Config{Node: "a"})
		cold.Freeze(t)
		began := time.Now()
		e := id.Random(id.Endpoint)
		if _, err := a.make(t.Context(), kindEndpoint, e); !errors.Is(err, ErrUnavailable) ||
			time.Since(began) > 11*time.Second {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		must.ErrorIs(t, a.authenticate("any"), ErrLease, "authenticate without a broker")
		cold.Thaw()
		time.Sleep(10 * time.Second)
		must.ErrorIs(t, a.authenticate("any"), errRevoked, "authenticate with the broker again")
	})
}

// TestStopWhileTheBrokerHangs: a node stops within 2 s although the broker does not answer.
func TestStopWhileTheBrokerHangs(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var cold kit.Freezer
		a := node(t, freezable(&cold, conf), Config{Node: "a"})
		cold.Freeze(t)
		time.Sleep(time.Second)
		began := time.Now()
		if err := a.stop(); err != nil || time.Since(began) > 2*time.Second {
			t.Fatalf("stopped after %s: %v", time.Since(began), err)
		}
	})
}

// TestWriteWaitsForTheAcknowledgement: the embedded engine delivers a record before it is on disk.
func TestWriteWaitsForTheAcknowledgement(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		cold := kit.Freezer{Match: func(key uint16) bool { return key == kit.ProduceKey }, ReadsOnly: true}
		a := node(t, freezable(&cold, conf), Config{Node: "a"})
		e := id.Random(id.Endpoint)
		cold.Freeze(t)
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := a.make(t.Context(), kindEndpoint, e); err != nil || time.Since(began) < time.Second {
				t.Errorf("answered after %s, before the acknowledgement: %v", time.Since(began), err)
			}
		})
		time.Sleep(time.Second - 1)
		if a.get(e) == nil {
			t.Error("the record was not delivered")
		}
		time.Sleep(time.Nanosecond)
		cold.Thaw()
		wg.Wait()
	})
}

// TestHeartbeatsAreReadWithAWrongClock: a node whose clock is an hour ahead knows the living nodes at once.
func TestHeartbeatsAreReadWithAWrongClock(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		node(t, conf, Config{Node: "a"}, func(c *Log) { c.timing.HeartbeatInterval = 4 * time.Second })
		time.Sleep(time.Second)
		b := node(t, conf, Config{Node: "b"}, func(c *Log) {
			c.now = func() time.Time { return time.Now().Add(time.Hour) }
		})
		synctest.Wait()
		must.Equal(t, len(b.peers.living(b.now(), b.timing.Lease)), 2, "living nodes")
	})
}

// TestNodesStartTogether: two nodes race to write the first record and the account; the loser continues at once.
func TestNodesStartTogether(t *testing.T) {
	lost := map[string]float64{}
	for range 50 {
		bubble(t, func(t *testing.T, conf stream.Config) {
			var nodes []*testNode
			for _, name := range []string{"a", "b", "c"} {
				nodes = append(nodes, start(t, conf, Config{Node: name}))
			}
			time.Sleep(900 * time.Millisecond)
			for _, n := range nodes {
				select {
				case <-n.Ready():
				default:
					t.Fatalf("not ready:\n%s", n.log)
				}
				must.Equal(t, n.account(), nodes[0].account(), "account")
			}
			lost["taken"] += testutil.ToFloat64(nodes[0].metrics.records.WithLabelValues("taken"))
		})
		if lost["taken"] > 0 {
			return
		}
	}
	t.Fatalf("no race was lost: the test proves nothing: %v", lost)
}

// Any number of concurrent changes of one endpoint through one node succeed without a conflict.
func TestWritersOfOneNodeAreSerialized(t *testing.T) {
	a := node(t, broker(t), Config{Node: "a"})
	e := a.create(t)
	first := e.Count
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 5 {
				if _, err := a.update(t.Context(), e.ID, func(e *Thing) { e.Count++ }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if now := a.get(e.ID); now.Count != first+80 {
		t.Errorf("%d of 80 changes were kept", now.Count-first)
	}
}
