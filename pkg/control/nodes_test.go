package control

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/pkg/stream"
)

// fetchKey is what a fetch request begins with in Kafka's protocol.
const fetchKey = 1

// ice stops the connections of one node: what is read or written waits until it thaws.
type ice struct {
	only  func(uint16) bool // which connections, by their first request; nil = all
	mu    sync.Mutex        // guards solid
	solid chan struct{}     // closed when it thaws; nil while it is liquid
}

// freeze lasts until thaw, or the end of the test, before its nodes are stopped.
func (i *ice) freeze(t *testing.T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.solid = make(chan struct{})
	t.Cleanup(i.thaw)
}

func (i *ice) thaw() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.solid != nil {
		close(i.solid)
		i.solid = nil
	}
}

// around returns the configuration of a node whose connections it stops.
func (i *ice) around(t testing.TB, conf stream.Config) stream.Config {
	dial := conf.DialFunc
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	conf.DialFunc = func(ctx context.Context, network, host string) (net.Conn, error) {
		conn, err := dial(ctx, network, host)
		if err != nil {
			return nil, err
		}
		return &iceConn{Conn: conn, ice: i, stops: i.only == nil, closed: make(chan struct{})}, nil
	}
	return conf
}

type iceConn struct {
	net.Conn
	ice    *ice
	mu     sync.Mutex // guards what follows
	stops  bool
	read   time.Time // deadlines
	write  time.Time
	once   sync.Once
	closed chan struct{}
}

func (c *iceConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *iceConn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	c.read = at
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(at)
}

func (c *iceConn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	c.write = at
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(at)
}

// pass waits while it is frozen, as long as the deadline allows.
func (c *iceConn) pass(deadline *time.Time) error {
	c.mu.Lock()
	stops, at := c.stops, *deadline
	c.mu.Unlock()
	c.ice.mu.Lock()
	solid := c.ice.solid
	c.ice.mu.Unlock()
	if !stops || solid == nil {
		return nil
	}
	var late <-chan time.Time
	if !at.IsZero() {
		late = time.After(time.Until(at))
	}
	select {
	case <-solid:
		return nil
	case <-late:
		return os.ErrDeadlineExceeded
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *iceConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if frozen := c.pass(&c.read); frozen != nil {
		return 0, frozen
	}
	return n, err
}

// Write looks at the request's key: 4 bytes of length, 2 of key.
func (c *iceConn) Write(p []byte) (int, error) {
	if c.ice.only != nil && len(p) > 6 && c.ice.only(binary.BigEndian.Uint16(p[4:])) {
		c.mu.Lock()
		c.stops = true
		c.mu.Unlock()
	}
	if frozen := c.pass(&c.write); frozen != nil {
		return 0, frozen
	}
	return c.Conn.Write(p)
}

// pair starts two nodes that have heard of each other.
func pair(t *testing.T, confA, confB stream.Config) (a, b *testNode) {
	t.Helper()
	a, b = node(t, confA, Config{Node: "a"}), node(t, confB, Config{Node: "b"})
	time.Sleep(time.Second)
	return a, b
}

// TestConcurrentUpdatesAreSerial has two nodes count in the same field: the sum shows that no update
// was lost, the revisions that there is one order.
func TestConcurrentUpdatesAreSerial(t *testing.T) {
	const each = 100
	conf := broker(t)
	a, b := node(t, conf, Config{Node: "a"}), node(t, conf, Config{Node: "b"})
	e := a.create(t)
	var mu sync.Mutex
	revs := make(map[int64]int)
	conflicts := 0
	var wg sync.WaitGroup
	for _, n := range []*testNode{a, b} {
		wg.Go(func() {
			for range each {
				for {
					count := 0
					after, err := n.UpdateEndpoint(t.Context(), e.ID, func(e *Endpoint) error {
						e.Destinations[0].TimeoutSeconds++
						count = e.Destinations[0].TimeoutSeconds
						return nil
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
		if err := n.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, _ := n.Endpoint(e.ID)
		if got.Destinations[0].TimeoutSeconds != 15+2*each {
			t.Fatalf("node %s counts %d of %d", n.cfg.Node, got.Destinations[0].TimeoutSeconds-15, 2*each)
		}
	}
	if len(revs) != 2*each {
		t.Fatalf("%d revisions for %d updates", len(revs), 2*each)
	}
	if string(stateText(t, a.Control)) != string(stateText(t, b.Control)) {
		t.Fatal("the nodes' states differ")
	}
	refused := testutil.ToFloat64(a.metrics.records.WithLabelValues("conflict"))
	if refused == 0 {
		t.Fatal("no two updates met: this shows nothing")
	}
	t.Logf("%d updates, %v records refused, %d times all %d tries", 2*each, refused, conflicts, maxTries)
}

// TestReadOnAnotherNode: when a write is answered, the other living nodes have it.
func TestReadOnAnotherNode(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		for range 20 {
			began := time.Now()
			e := a.create(t)
			if got, _ := b.Endpoint(e.ID); got == nil {
				t.Fatal("created on a, not yet on b")
			}
			if took := time.Since(began); took >= defaultTiming().courtesy {
				t.Fatalf("b was waited for %s", took)
			}
		}
	})
}

// TestCourtesyIsBounded: a node that does not follow costs an ordinary write 300 ms.
func TestCourtesyIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var cold ice
		a, b := pair(t, conf, cold.around(t, conf))
		cold.freeze(t)
		began := time.Now()
		e := a.create(t)
		if took := time.Since(began); took != 300*time.Millisecond {
			t.Fatalf("a frozen node was waited for %s", took)
		}
		if got, p := b.Endpoint(e.ID); got != nil || p != Unknown {
			t.Fatal("the frozen node knows it")
		}
	})
}

// TestRevocationIsKnownEverywhere: from its answer on no node takes the key, and the answer is quick
// when all are well.
func TestRevocationIsKnownEverywhere(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		for range 10 {
			text, k, err := a.CreateKey(t.Context(), "k", Read, false, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.Authenticate(text); err != nil {
				t.Fatalf("new key on the other node: %v", err)
			}
			began := time.Now()
			if err := a.RevokeKey(t.Context(), k.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Authenticate(text); !errors.Is(err, ErrInvalidKey) {
				t.Fatalf("revoked on a, on b: %v", err)
			}
			if took := time.Since(began); took > time.Second {
				t.Fatalf("all nodes live, and a revocation took %s", took)
			}
		}
	})
}

// TestRevocationOutlastsAFrozenNode stops the other node's connections, all of them or only those that
// it fetches by, at various moments of its cycle. It goes on taking the key for a while, and no longer
// when the revocation is answered.
func TestRevocationOutlastsAFrozenNode(t *testing.T) {
	f := func(name string, only func(uint16) bool) {
		for step := range 6 {
			t.Run(fmt.Sprintf("%s %d", name, step), func(t *testing.T) {
				bubble(t, func(t *testing.T, conf stream.Config) {
					cold := ice{only: only}
					a, b := pair(t, conf, cold.around(t, conf))
					text, k, err := a.CreateKey(t.Context(), "k", Read, false, time.Time{})
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Duration(step) * 97 * time.Millisecond)
					cold.freeze(t)
					began := time.Now()
					answered := make(chan error, 1)
					var wg sync.WaitGroup
					wg.Go(func() { answered <- a.RevokeKey(t.Context(), k.ID) })
					time.Sleep(time.Second)
					if _, err := b.Authenticate(text); err != nil {
						t.Fatalf("1 s after it froze, the node should still take the key: %v", err)
					}
					if err := <-answered; err != nil {
						t.Fatal(err)
					}
					if _, err := b.Authenticate(text); !errors.Is(err, ErrLease) {
						t.Fatalf("revocation answered after %s, and the frozen node says %v", time.Since(began), err)
					}
					if took := time.Since(began); took < 4*time.Second || took > 5600*time.Millisecond {
						t.Fatalf("answered after %s", took)
					}
					wg.Wait()
					cold.thaw()
					time.Sleep(5 * time.Second)
					if _, err := b.Authenticate(text); !errors.Is(err, ErrInvalidKey) {
						t.Fatalf("thawed, the node says %v", err)
					}
					if age, ok := b.Lease(); !ok || age > time.Second {
						t.Fatalf("thawed, the lease is %s old", age)
					}
				})
			})
		}
	}
	f("frozen", nil)
	f("tail blocked", func(key uint16) bool { return key == fetchKey })
}

// TestGoodbye: a node that stopped in order is not waited for, and takes no key from then on.
func TestGoodbye(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Authenticate("any"); !errors.Is(err, ErrLease) {
			t.Fatalf("a stopped node authenticates: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
		e := a.create(t)
		began := time.Now()
		if err := a.DeleteEndpoint(t.Context(), e.ID); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Fatalf("a node that said goodbye was waited for %s", took)
		}
	})
}

// TestTakingAwayWaits: disabling and removing wait for a frozen node as deleting does, other updates
// do not.
func TestTakingAwayWaits(t *testing.T) {
	f := func(name string, strict bool, change func(*Endpoint)) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, conf stream.Config) {
				var cold ice
				a, _ := pair(t, conf, cold.around(t, conf))
				e, err := a.UpdateEndpoint(t.Context(), a.create(t).ID, func(e *Endpoint) error {
					e.Destinations = append(e.Destinations, e.Destinations[0])
					e.Destinations[1].ID = "dst_second"
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				cold.freeze(t)
				began := time.Now()
				if _, err := a.UpdateEndpoint(t.Context(), e.ID, func(e *Endpoint) error { change(e); return nil }); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); (took > time.Second) != strict {
					t.Fatalf("took %s", took)
				}
			})
		})
	}
	f("rename", false, func(e *Endpoint) { e.Name = "x" })
	f("add a destination", false, func(e *Endpoint) {
		e.Destinations = append(e.Destinations, Destination{ID: "dst_third", URL: "https://example.com"})
	})
	f("disable the endpoint", true, func(e *Endpoint) { e.Enabled = false })
	f("disable a destination", true, func(e *Endpoint) { e.Destinations[1].Enabled = false })
	f("remove a destination", true, func(e *Endpoint) { e.Destinations = e.Destinations[:1] })
}

// TestStrictWriteEndsWithItsCaller: a revocation that was not confirmed by all is not answered as one.
func TestStrictWriteEndsWithItsCaller(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var cold ice
		a, _ := pair(t, conf, cold.around(t, conf))
		_, k, err := a.CreateKey(t.Context(), "k", Read, false, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		cold.freeze(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := a.RevokeKey(ctx, k.ID); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("revocation cut short: %v", err)
		}
		// A repeat of it waits for the rest.
		began := time.Now()
		if err := a.RevokeKey(t.Context(), k.ID); err != nil || time.Since(began) < 3*time.Second {
			t.Fatalf("repeat: %v after %s", err, time.Since(began))
		}
	})
}

// TestWriteWithoutBroker: the outcome is unknown, the caller is told within 10 s.
func TestWriteWithoutBroker(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var cold ice
		a := node(t, cold.around(t, conf), Config{Node: "a"})
		cold.freeze(t)
		began := time.Now()
		e := endpoint(a.keyring)
		if _, err := a.CreateEndpoint(t.Context(), e); !errors.Is(err, ErrUnavailable) || time.Since(began) > 11*time.Second {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
		if _, err := a.Authenticate("any"); !errors.Is(err, ErrLease) {
			t.Fatalf("authenticate without a broker: %v", err)
		}
		cold.thaw()
		time.Sleep(10 * time.Second)
		if _, err := a.Authenticate("any"); !errors.Is(err, ErrInvalidKey) {
			t.Fatalf("authenticate with the broker again: %v", err)
		}
	})
}

// TestStopWhileTheBrokerHangs: the node waits for nothing for long.
func TestStopWhileTheBrokerHangs(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var cold ice
		a := node(t, cold.around(t, conf), Config{Node: "a"})
		cold.freeze(t)
		time.Sleep(time.Second)
		began := time.Now()
		if err := a.stop(); err != nil || time.Since(began) > 2*time.Second {
			t.Fatalf("stopped after %s: %v", time.Since(began), err)
		}
	})
}

// TestBarrierHearsItselfFirst: who has not heard its own announcement may not have heard of others
// either, and waits for every lease to run out.
func TestBarrierHearsItselfFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := alone(t)
		f := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			if err := c.barrier(t.Context(), opResult{next: 5, at: began}); err != nil || time.Since(began) != want {
				t.Fatalf("waited %s, want %s: %v", time.Since(began), want, err)
			}
		}
		f(5500 * time.Millisecond)
		c.peers.note(heartbeat{Node: c.cfg.Node, Next: 4}, time.Now(), c.timing.lease)
		f(5500 * time.Millisecond)
		c.peers.note(heartbeat{Node: c.cfg.Node, Next: 5}, time.Now(), c.timing.lease)
		f(0)
		c.peers.note(heartbeat{Node: "b", Next: 4}, time.Now(), c.timing.lease)
		f(5500 * time.Millisecond)
	})
}

// TestLeaseRunsFromTheCyclesBeginning holds the order of a cycle, on which the barrier relies.
func TestLeaseRunsFromTheCyclesBeginning(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var l lease
	f := func(want int) {
		t.Helper()
		from := l.from.Load()
		if want == 0 && from != nil || want != 0 && (from == nil || !from.Equal(at(want))) {
			t.Fatalf("lease from %v, want %d s", from, want)
		}
	}
	l.ask(at(1), 5)
	f(0)
	l.confirm(4)
	f(0)
	l.ask(at(2), 7) // does not replace the one that waits
	l.confirm(5)
	f(1)
	l.ask(at(3), 5)
	f(3)
	l.drop()
	f(0)
	l.ask(at(4), 5)
	l.confirm(9)
	f(0)
}
