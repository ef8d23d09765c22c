package conflog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// countedConn counts what is read from a connection.
type countedConn struct {
	net.Conn
	read *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// What nodes read to know each other, to wait at a barrier and to pass messages on does not grow with the square of
// their number: for twice the nodes it is about twice as much.
func TestNodesReadLittleOfEachOther(t *testing.T) {
	var read [2]int64
	for i, nodes := range []int{32, 64} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) { read[i] = bytesRead(t, nodes) })
	}
	t.Logf("32 nodes read %d bytes in 5 s, 64 read %d", read[0], read[1])
	if read[1] > 5*read[0]/2 {
		t.Errorf("32 nodes read %d bytes, 64 nodes %d", read[0], read[1])
	}
}

// bytesRead returns how much that many nodes read from the broker in five seconds with one change, which all have
// applied when the barrier ends, and with a message.
func bytesRead(t *testing.T, count int) (all5s int64) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var read, messages atomic.Int64
		dial := conf.DialFunc
		conf.DialFunc = func(ctx context.Context, network, host string) (net.Conn, error) {
			c, err := dial(ctx, network, host)
			return countedConn{c, &read}, err
		}
		var all []*testNode
		var starting sync.WaitGroup
		first := node(t, conf, Config{Node: "n0"})
		first.Messages.Handle(func([]byte) { messages.Add(1) })
		text, k := first.createKey(t)
		all = append(all, first)
		for i := range count - 1 {
			n := start(t, conf, Config{Node: fmt.Sprint("n", i+1)})
			starting.Go(func() { <-n.Ready() })
			n.Messages.Handle(func([]byte) { messages.Add(1) })
			all = append(all, n)
		}
		starting.Wait()
		time.Sleep(5 * time.Second)
		read.Store(0)
		began := time.Now()
		must.Do(t, first.revoke(t.Context(), k.ID))
		for _, n := range all {
			must.ErrorIs(t, n.authenticate(text), errRevoked, "after the barrier node %s answers", n.cfg.Node)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the barrier took %v", took)
		}
		must.Do(t, first.Messages.Send(t.Context(), []byte("x")))
		time.Sleep(5*time.Second - time.Since(began))
		for _, n := range all {
			if living := n.Nodes(); len(living) != count {
				t.Errorf("node %s knows %d nodes of %d", n.cfg.Node, len(living), count)
			}
		}
		if messages.Load() != int64(count-1) {
			t.Errorf("the message arrived at %d nodes of %d", messages.Load(), count-1)
		}
		all5s = read.Load()
	})
	return all5s
}

// When the level is raised, nodes stop to read each other's heartbeats at different times. Before, meanwhile and after
// it no node accepts a key whose revocation was answered, and nodes of the previous version find all heartbeats.
func TestRevocationsWhileTheLevelIsRaised(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		startOldLog(t, conf)
		var cold kit.Freezer
		a, b := pair(t, conf, freezable(&cold, conf))
		revoke := func(by, other *testNode) (took time.Duration) {
			t.Helper()
			text, k := by.createKey(t)
			must.Do(t, other.Sync(t.Context()))
			began := time.Now()
			must.Do(t, by.revoke(t.Context(), k.ID))
			if err := other.authenticate(text); !errors.Is(err, errRevoked) && !errors.Is(err, ErrLease) {
				t.Fatalf("after the answer node %s returns %v", other.cfg.Node, err)
			}
			return time.Since(began)
		}
		revoke(a, b)
		if d, _ := a.peers.newest(); a.usesDigests() || d.Aggregator != "" || len(a.Nodes()) != 2 {
			t.Fatalf("at level 1: digest %+v, nodes %+v", d, a.Nodes())
		}
		cold.Freeze(t) // node b does not learn of the level for now
		must.Get(finalize(t, conf))(t)
		must.Do(t, a.Sync(t.Context()))
		text, k := a.createKey(t)
		must.Do(t, a.revoke(t.Context(), k.ID))
		if err := b.authenticate(text); b.usesDigests() || !errors.Is(err, ErrLease) {
			t.Fatalf("frozen at level 1, node b returns %v", err)
		}
		cold.Thaw()
		must.Do(t, b.Sync(t.Context()))
		for range 10 {
			revoke(b, a)
			revoke(a, b)
		}
		time.Sleep(2 * time.Second)
		if took := max(revoke(a, b), revoke(b, a)); took > time.Second || len(a.Nodes()) != 2 || len(b.Nodes()) != 2 {
			t.Errorf("after it a revocation takes %v; nodes %+v", took, b.Nodes())
		}
	})
}

// An aggregator that hangs is replaced. It stays a living node, which barriers wait for, as long as its lease.
func TestAggregatorIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		cold := make(map[string]*kit.Freezer)
		all := make(map[string]*testNode) // by boot id
		for _, name := range []string{"a", "b", "c"} {
			f := new(kit.Freezer)
			n := node(t, freezable(f, conf), Config{Node: name})
			all[n.bootID], cold[n.bootID] = n, f
		}
		time.Sleep(3 * time.Second)
		aggregators := make(map[string]bool)
		for _, n := range all {
			d, at := n.peers.newest()
			if aggregators[d.Aggregator] = true; time.Since(at) > time.Second || len(n.Nodes()) != 3 {
				t.Fatalf("node %s has a digest of %v ago and nodes %+v", n.cfg.Node, time.Since(at), n.Nodes())
			}
		}
		must.Equal(t, len(aggregators), 1, "aggregators %v", aggregators)
		for frozen := range aggregators {
			cold[frozen].Freeze(t)
			var others []*testNode
			for boot, n := range all {
				if boot != frozen {
					others = append(others, n)
				}
			}
			text, k := others[0].createKey(t)
			must.Do(t, others[0].revoke(t.Context(), k.ID))
			is.ErrorIs(t, all[frozen].authenticate(text), ErrLease, "the frozen node returns")
			time.Sleep(8 * time.Second)
			began := time.Now()
			_, k = others[1].createKey(t)
			must.Do(t, others[1].revoke(t.Context(), k.ID))
			if took := time.Since(began); took > time.Second || len(others[0].Nodes()) != 2 {
				t.Errorf("with a new aggregator: %v, nodes %+v", took, others[0].Nodes())
			}
			cold[frozen].Thaw()
			time.Sleep(3 * time.Second)
			if n := all[frozen]; len(n.Nodes()) != 3 {
				t.Errorf("thawed, the node knows %+v", n.Nodes())
			}
		}
	})
}

// slowOffsets takes a second for each question for the end of a topic.
type slowOffsets struct{ net.Conn }

func (c slowOffsets) Write(b []byte) (int, error) {
	if len(b) > 6 && binary.BigEndian.Uint16(b[4:]) == uint16(kmsg.ListOffsets) {
		time.Sleep(time.Second)
	}
	return c.Conn.Write(b)
}

// TestSlowNodeKnowsTheOthers: the aggregator answers the first heartbeat of a node with all nodes, once. A node that
// learns slowly from where on to read reads that answer too.
func TestSlowNodeKnowsTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		node(t, conf, Config{Node: "a"})
		time.Sleep(3 * time.Second)
		slow := conf
		slow.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := conf.DialFunc(ctx, network, address)
			return slowOffsets{c}, err
		}
		b := node(t, slow, Config{Node: "b"})
		time.Sleep(10 * time.Second)
		must.Equal(t, len(b.Nodes()), 2, "nodes %+v", b.Nodes())
	})
}

// TestMessages: a message reaches the other nodes and not its sender. A forged one reaches nobody.
func TestMessages(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		atA, atB := make(chan string, 9), make(chan string, 9)
		a.Messages.Handle(func(m []byte) { atA <- string(m) })
		b.Messages.Handle(func(m []byte) { atB <- string(m) })
		_, stranger := (authenticator{offlineLog(t)}).newSecret()
		forged := mustJSON(t, message{Boot: "boot_c", Message: []byte("forged")})
		putRecord(t, conf, stream.Nodes, &stream.Record{Value: forged})
		putRecord(t, conf, stream.Nodes, stranger.sign(macHeartbeat, &stream.Record{Value: forged}))
		for _, m := range []string{"one", "two"} {
			must.Do(t, a.Messages.Send(t.Context(), []byte(m)))
		}
		if one, two := <-atB, <-atB; one != "one" || two != "two" {
			t.Errorf("node b got %q and %q", one, two)
		}
		must.Do(t, b.Messages.Send(t.Context(), []byte("three")))
		is.Equal(t, <-atA, "three", "node a got")
		time.Sleep(2 * time.Second)
		if len(atA)+len(atB) > 0 || len(a.Nodes()) != 2 {
			t.Errorf("%d and %d more messages, nodes %+v", len(atA), len(atB), a.Nodes())
		}
	})
}

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
