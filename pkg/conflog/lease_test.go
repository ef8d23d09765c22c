package conflog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// TestRevocationIsKnownEverywhere: once a revocation is answered, every node rejects the key. The answer is quick when
// all nodes are healthy.
func TestRevocationIsKnownEverywhere(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		for range 10 {
			text, k := a.createKey(t)
			must.Do(t, b.authenticate(text), "new key on the other node")
			began := time.Now()
			must.Do(t, a.revoke(t.Context(), k.ID))
			must.ErrorIs(t, b.authenticate(text), errRevoked, "revoked on a, on b")
			if took := time.Since(began); took > time.Second {
				t.Fatalf("with healthy nodes a revocation took %s", took)
			}
		}
	})
}

// TestRevocationOutlastsAFrozenNode freezes connections of the other node, all of them or only those it fetches with,
// at various moments of its lease cycle. The frozen node accepts the key for a while, but no longer when the revocation
// is answered.
func TestRevocationOutlastsAFrozenNode(t *testing.T) {
	f := func(name string, only func(uint16) bool) {
		for step := range 6 {
			t.Run(fmt.Sprintf("%s %d", name, step), func(t *testing.T) {
				bubble(t, func(t *testing.T, conf stream.Config) {
					cold := kit.Freezer{Match: only}
					a, b := pair(t, conf, freezable(&cold, conf))
					text, k := a.createKey(t)
					time.Sleep(time.Duration(step) * 97 * time.Millisecond)
					cold.Freeze(t)
					began := time.Now()
					answered := make(chan error, 1)
					var wg sync.WaitGroup
					wg.Go(func() { answered <- a.revoke(t.Context(), k.ID) })
					time.Sleep(time.Second)
					must.Do(t, b.authenticate(text), "1 s after it froze, the node should still accept the key")
					must.Do(t, <-answered)
					if err := b.authenticate(text); !errors.Is(err, ErrLease) {
						t.Fatalf("revocation answered after %s, and the frozen node returns %v", time.Since(began), err)
					}
					if took := time.Since(began); took < 4*time.Second || took > 5600*time.Millisecond {
						t.Fatalf("answered after %s", took)
					}
					wg.Wait()
					cold.Thaw()
					time.Sleep(5 * time.Second)
					must.ErrorIs(t, b.authenticate(text), errRevoked, "thawed, the node returns")
					if age, ok := b.Lease(); !ok || age > time.Second {
						t.Fatalf("thawed, the lease is %s old", age)
					}
				})
			})
		}
	}
	f("frozen", nil)
	f("tail blocked", func(key uint16) bool { return key == kit.FetchKey })
}

// TestLeavingNodeIsNotAwaited: writers do not wait for a node that has stopped in order, and it accepts no key from
// then on.
func TestLeavingNodeIsNotAwaited(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		a, b := pair(t, conf, conf)
		must.Do(t, b.stop())
		must.ErrorIs(t, b.authenticate("any"), ErrLease, "a stopped node authenticates")
		time.Sleep(10 * time.Millisecond)
		e := a.create(t)
		began := time.Now()
		must.Do(t, a.remove(t.Context(), e.ID))
		if took := time.Since(began); took > time.Second {
			t.Fatalf("waited %s for a node that has left", took)
		}
	})
}

// TestBarrierWaitsForEveryNode: a change with a barrier waits for a frozen node, an ordinary change does not.
func TestBarrierWaitsForEveryNode(t *testing.T) {
	f := func(name string, strict bool, change func(ctx context.Context, n *testNode, of string) error) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, conf stream.Config) {
				var cold kit.Freezer
				a, _ := pair(t, conf, freezable(&cold, conf))
				e := a.create(t)
				cold.Freeze(t)
				began := time.Now()
				must.Do(t, change(t.Context(), a, e.ID))
				if took := time.Since(began); (took > time.Second) != strict {
					t.Fatalf("took %s", took)
				}
			})
		})
	}
	f("rename", false, func(ctx context.Context, n *testNode, of string) error {
		_, err := n.update(ctx, of, func(v *Thing) { v.Name = "x" })
		return err
	})
	f("delete", true, func(ctx context.Context, n *testNode, of string) error { return n.remove(ctx, of) })
}

// TestBarrierEndsWithItsContext: a revocation that not every node has confirmed returns an error.
func TestBarrierEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var cold kit.Freezer
		a, _ := pair(t, conf, freezable(&cold, conf))
		_, k := a.createKey(t)
		cold.Freeze(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must.ErrorIs(t, a.revoke(ctx, k.ID), ErrUnavailable, "revocation cut short")
		// A repeated call waits for the rest.
		began := time.Now()
		if err := a.revoke(t.Context(), k.ID); err != nil || time.Since(began) < 3*time.Second {
			t.Fatalf("repeat: %v after %s", err, time.Since(began))
		}
	})
}

// TestBarrierWaitsForOwnHeartbeat: a node that has not read its own heartbeat may have missed those of others too, so
// it waits until all leases have expired.
func TestBarrierWaitsForOwnHeartbeat(t *testing.T) {
	kit.Bubble(t, func(t *testing.T) {
		c := offlineLog(t)
		f := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			if err := c.Barrier(t.Context(), WriteResult{nextOffset: 5, appliedAt: began}); err != nil ||
				time.Since(began) != want {
				t.Fatalf("waited %s, want %s: %v", time.Since(began), want, err)
			}
		}
		f(5500 * time.Millisecond)
		c.peers.record(heartbeat{Node: c.cfg.Node, Boot: c.bootID, NextOffset: 4}, time.Now(), c.timing.Lease)
		f(5500 * time.Millisecond)
		c.peers.record(heartbeat{Node: c.cfg.Node, Boot: c.bootID, NextOffset: 5}, time.Now(), c.timing.Lease)
		f(0)
		c.peers.record(heartbeat{Node: "b", Boot: "boot_b", NextOffset: 4}, time.Now(), c.timing.Lease)
		f(5500 * time.Millisecond)
	})
}

// TestLeaseRunsFromCycleStart checks the order within a lease cycle, on which the barrier relies.
func TestLeaseRunsFromCycleStart(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	var l lease
	f := func(want int) {
		t.Helper()
		from := l.confirmedFrom.Load()
		if want == 0 && from != nil || want != 0 && (from == nil || !from.Equal(at(want))) {
			t.Fatalf("lease from %v, want %d s", from, want)
		}
	}
	l.startCycle(at(1), 5)
	f(0)
	l.advance(4)
	f(0)
	l.startCycle(at(2), 7) // does not replace the cycle that waits
	l.advance(5)
	f(1)
	l.startCycle(at(3), 5)
	f(3)
	l.release()
	f(0)
	l.startCycle(at(4), 5)
	l.advance(9)
	f(0)
}

// TestLeaseCountsTheCycle: with a heartbeat that took a second the lease is a second old.
func TestLeaseCountsTheCycle(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var cold kit.Freezer
		a := node(t, freezable(&cold, conf), Config{Node: "a"}, func(c *Log) { c.timing.HeartbeatInterval = time.Hour })
		time.Sleep(time.Second) // until it has announced the records of its start
		cold.Freeze(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			is.OK(t, (membership{a.Log}).runCycle(t.Context()))
		})
		time.Sleep(time.Second)
		cold.Thaw()
		wg.Wait()
		if age, ok := a.Lease(); !ok || age != time.Second {
			t.Fatalf("lease is %s old", age)
		}
	})
}

// TestLeaseCountsSleep: the monotonic clock of a suspended machine stops, and keys may be revoked meanwhile. So the
// node accepts no key until it has confirmed the log again. A wall clock that is set back does not matter.
func TestLeaseCountsSleep(t *testing.T) {
	c := offlineLog(t)
	from := time.Now()
	c.lease.confirmedFrom.Store(&from)
	f := func(slept time.Duration, want bool) {
		t.Helper()
		c.wall = func() time.Time { return from.Add(slept).Round(0) }
		if age, ok := c.Lease(); ok != want || age < slept {
			t.Errorf("slept for %s: the lease is %s old, valid: %v", slept, age, ok)
		}
	}
	f(0, true)
	f(4*time.Second, true)
	f(6*time.Second, false)
	f(-time.Hour, true)
}

func TestClockSkew(t *testing.T) {
	base := time.Unix(1_800_000_000, 0)
	f := func(sent, appended, received int, want time.Duration) {
		t.Helper()
		at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
		is.Equal(t, clockSkew(at(sent), at(appended), at(received)), want, "skew")
	}
	f(10, 10, 10, 0)
	f(10, 11, 12, 0)
	f(10, 5, 12, -5*time.Second)
	f(10, 40, 12, 28*time.Second)
}

// A clock that is less than 2 s off is not corrected. One that is farther off is corrected: it never runs ahead of the
// broker's, and stays behind by at most the latency of a heartbeat.
func TestClockCorrection(t *testing.T) {
	base := time.Unix(1_800_000_000, 0)
	const latency = 300 * time.Millisecond // latency of a heartbeat, one way
	for _, off := range []time.Duration{
		-time.Hour, -3 * time.Second, -time.Second, 0, time.Second, 3 * time.Second, time.Hour} {
		sent, received := base.Add(off), base.Add(off+2*latency)
		appended := base.Add(latency)
		b := newClock(time.Now)
		slow := b.nextCorrection(clockSkew(sent, appended, received), appended, received.Add(latency)) // a slower heartbeat
		c := b.nextCorrection(clockSkew(sent, appended, received), appended, received)
		if later := b.nextCorrection(clockSkew(sent, appended, received), appended, received.Add(latency)); later != c ||
			off.Abs() > maxTrustedSkew &&
				slow != c-latency {
			t.Errorf("off by %v: corrected by %v after a slow heartbeat, %v after a fast one, %v after another slow one", off,
				slow, c, later)
		}
		switch behind := -(off + c); {
		case off.Abs() <= maxTrustedSkew && c != 0:
			t.Errorf("a clock that is off by %v was corrected by %v", off, c)
		case off.Abs() > maxTrustedSkew && behind != latency:
			t.Errorf("a clock that was off by %v is %v behind the broker's, want %v", off, behind, latency)
		}
	}
}
