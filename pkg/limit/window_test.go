package limit

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// clock is a time that a test sets.
type clock struct{ now time.Time }

// alone returns a limiter without Redis, which does not run, and its clock.
func alone(t *testing.T) (*Limiter, *clock) {
	t.Helper()
	c := &clock{time.Unix(1e9, 0)}
	l := must.Get(
		New(DefaultConfig(), Deps{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return c.now }}))(t)
	return l, c
}

// wantWait fails unless a claim of key has to wait that long; 0 = it is counted.
func wantWait(t *testing.T, w *Window, key string, most int, want time.Duration) {
	t.Helper()
	is.Equal(t, w.Claim(t.Context(), key, most), want, "%s waits for", key)
}

func TestWindow(t *testing.T) {
	l, c := alone(t)
	w := l.NewWindow("test", time.Minute)
	wantWait(t, w, "a", 2, 0)
	c.now = c.now.Add(50 * time.Second)
	wantWait(t, w, "a", 2, 0)
	wantWait(t, w, "b", 2, 0)
	wantWait(t, w, "a", 2, 10*time.Second)
	w.Release(t.Context(), "a")
	wantWait(t, w, "a", 2, 0)
	wantWait(t, w, "a", 2, 10*time.Second)
	c.now = c.now.Add(10 * time.Second)
	wantWait(t, w, "a", 2, 0)
	wantWait(t, w, "b", 2, 0)
	wantWait(t, w, "b", 2, 50*time.Second)
	for range 3 { // more than were claimed
		w.Release(t.Context(), "b")
	}
	wantWait(t, w, "b", 2, 0)
	wantWait(t, w, "b", 2, 0)
	wantWait(t, w, "b", 2, time.Minute)
}

// A window that ends between two sweeps begins anew, and limits again.
func TestWindowEndsBetweenSweeps(t *testing.T) {
	l, c := alone(t)
	w := l.NewWindow("test", time.Minute)
	c.now = c.now.Add(time.Minute)
	wantWait(t, w, "a", 1, 0)
	c.now = c.now.Add(30 * time.Second)
	wantWait(t, w, "b", 1, 0)
	c.now = c.now.Add(30 * time.Second)
	wantWait(t, w, "c", 1, 0) // sweeps
	c.now = c.now.Add(30*time.Second - 1)
	wantWait(t, w, "b", 1, 1)
	c.now = c.now.Add(1)
	wantWait(t, w, "b", 1, 0)
	wantWait(t, w, "b", 1, time.Minute)
}

// Memory is bounded: a new key replaces one whose window ends early, and keys whose window has ended are removed.
func TestWindowIsBounded(t *testing.T) {
	l, c := alone(t)
	w := l.NewWindow("test", time.Minute)
	w.most = 100
	for i := range 1000 {
		wantWait(t, w, fmt.Sprint(i), 1, 0)
		c.now = c.now.Add(time.Millisecond)
	}
	wantWait(t, w, "999", 1, time.Minute-time.Millisecond)
	is.Equal(t, len(w.local), w.most, "keys")
	c.now = c.now.Add(time.Minute)
	wantWait(t, w, "new", 1, 0)
	is.Equal(t, len(w.local), 1, "keys after their windows have ended")
}

// Nodes count together, and a key's count ends with its window.
func TestWindowIsShared(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) {
		one, two := node(t, url).NewWindow("test", time.Minute), node(t, url).NewWindow("test", time.Minute)
		ctx := t.Context()
		wantWait(t, one, "a", 3, 0)
		wantWait(t, one, "a", 3, 0)
		wantWait(t, two, "a", 3, 0)
		for _, w := range []*Window{one, two} {
			if wait := w.Claim(ctx, "a", 3); wait <= 0 || wait > time.Minute {
				t.Errorf("waits for %s", wait)
			}
		}
		two.Release(ctx, "a")
		wantWait(t, one, "a", 3, 0)
		keys, err := one.limiter.client.Keys(ctx, "window:*").Result()
		if err != nil || len(keys) != 1 || strings.Contains(keys[0], ":a") {
			t.Fatalf("%q, %v", keys, err)
		}
		if ttl := one.limiter.client.PTTL(ctx, keys[0]).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("%s lives for %s", keys[0], ttl)
		}
		// When Redis loses its data, each node still knows what it has counted itself.
		must.Do(t, one.limiter.client.FlushAll(ctx).Err())
		if wait := one.Claim(ctx, "a", 3); wait <= 0 {
			t.Error("nothing is known after the loss")
		}
		// A release of a window that has ended counts below zero nowhere, and leaves no key without an end.
		two.Release(ctx, "c")
		is.Equal(t, one.limiter.client.Exists(ctx, windowKey(sha256.Sum256([]byte("c"))).inRedis("test")).Val(), 0,
			"a release left a key")
	})
}

// Of many claims at the same time, on two nodes, no more succeed than fit.
func TestClaimsOfAWindowAtTheSameTime(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) {
		windows := []*Window{node(t, url).NewWindow("test", time.Hour), node(t, url).NewWindow("test", time.Hour)}
		var claimed atomic.Int64
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				if windows[i%2].Claim(t.Context(), "a", 5) == 0 {
					claimed.Add(1)
				}
			})
		}
		wg.Wait()
		is.Equal(t, claimed.Load(), 5, "claims succeeded")
	})
}

// A client that hangs up at once is counted on all nodes all the same.
func TestSignInsOfClientsThatHangUp(t *testing.T) {
	url := "redis://" + embedded(t)
	one, two := node(t, url).NewSignIns(), node(t, url).NewSignIns()
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for range maxSignIns {
		one.Claim(gone, "ops@example.com", netip.MustParseAddr("192.0.2.1"))
	}
	if wait := two.Claim(t.Context(), "ops@example.com", netip.MustParseAddr("192.0.2.1")); wait <= 0 {
		t.Error("not refused on the other node")
	}
}

// Without Redis each node counts for itself, and no call waits for longer than its time-out.
func TestWindowWithoutRedis(t *testing.T) {
	cfg := DefaultConfig()
	cfg.URL = "redis://127.0.0.1:1"
	l := must.Get(New(cfg, Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now, Metrics: prometheus.NewRegistry()}))(t)
	w := l.NewWindow("test", time.Hour)
	for range 3 {
		wantWait(t, w, "a", 3, 0)
	}
	if wait := w.Claim(t.Context(), "a", 3); wait <= 0 {
		t.Error("a fourth is counted")
	}
}

// Five attempts with one address from one client are refused until the minute of the first has passed; one that
// succeeded does not count.
func TestSignIns(t *testing.T) {
	l, c := alone(t)
	s := l.NewSignIns()
	f := func(email, from string, want time.Duration) {
		t.Helper()
		is.Equal(t, s.Claim(t.Context(), email, netip.MustParseAddr(from)), want, "%s from %s", email, from)
	}
	for i := range maxSignIns {
		f("ops@example.com", "192.0.2.1", 0)
		if i == 0 {
			s.Release(t.Context(), "ops@example.com", netip.MustParseAddr("192.0.2.1"))
			f("ops@example.com", "192.0.2.1", 0)
		}
		c.now = c.now.Add(time.Second)
	}
	f("ops@example.com", "192.0.2.1", 55*time.Second)
	f(" OPS@example.com\n", "::ffff:192.0.2.1", 55*time.Second)
	f("ops@example.com", "192.0.2.2", 0)
	f("other@example.com", "192.0.2.1", 0)
	c.now = c.now.Add(55 * time.Second)
	f("ops@example.com", "192.0.2.1", 0)
	for range maxSignIns {
		f("ops@example.com", "2001:db8:1:2::1", 0)
	}
	f("ops@example.com", "2001:db8:1:2:ffff::9%eth0", time.Minute)
	f("ops@example.com", "2001:db8:1:3::1", 0)
}

// A client that tries many addresses is refused after twenty attempts, whether or not they are known, and keeps nobody
// else out. What is refused takes no memory and makes no other limit narrower.
func TestSignInsOfAClientAreLimited(t *testing.T) {
	l, c := alone(t)
	s := l.NewSignIns()
	client, other := netip.MustParseAddr("2001:db8:1:2::1"), netip.MustParseAddr("2001:db8:1:3::1")
	for i := range 1000 {
		wait := s.Claim(t.Context(), fmt.Sprintf("%d@example.com", i), client)
		must.Equal(t, wait > 0, i >= maxClientSignIns, "attempt %d waits for %s", i, wait)
		client = client.Next()
	}
	if len(s.pairs.local) > maxClientSignIns {
		t.Errorf("%d pairs in memory", len(s.pairs.local))
	}
	is.Equal(t, s.Claim(t.Context(), "0@example.com", other), 0, "another client waits for")
	c.now = c.now.Add(signInSpan)
	for range 4 * maxClientSignIns { // most are refused for their pair, and do not count for the client
		s.Claim(t.Context(), "ops@example.com", client)
	}
	is.Equal(t, s.Claim(t.Context(), "new@example.com", client), 0,
		"after attempts with one address the client waits for")
}
