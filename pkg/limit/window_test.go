package limit

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// clock is a time that a test sets.
type clock struct{ now time.Time }

// alone returns a limiter without Redis, which does not run, and its clock.
func alone(t *testing.T) (*Limiter, *clock) {
	t.Helper()
	c := &clock{time.Unix(1e9, 0)}
	l, err := New(DefaultConfig(), Deps{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return c.now }})
	if err != nil {
		t.Fatal(err)
	}
	return l, c
}

func TestWindow(t *testing.T) {
	l, c := alone(t)
	w := l.NewWindow("test", time.Minute)
	f := func(key string, n int, left time.Duration) {
		t.Helper()
		if gotN, gotLeft := w.Count(t.Context(), key); gotN != n || gotLeft != left {
			t.Errorf("%s: %d for %s, want %d for %s", key, gotN, gotLeft, n, left)
		}
	}
	f("a", 0, 0)
	w.Add(t.Context(), "a")
	c.now = c.now.Add(50 * time.Second)
	w.Add(t.Context(), "a")
	w.Add(t.Context(), "b")
	f("a", 2, 10*time.Second)
	f("b", 1, time.Minute)
	c.now = c.now.Add(10 * time.Second)
	f("a", 0, 0)
	f("b", 1, 50*time.Second)
	w.Add(t.Context(), "a")
	f("a", 1, time.Minute)
}

// Memory is bounded: a new key replaces one whose window ends early, and keys whose window has ended are removed.
func TestWindowIsBounded(t *testing.T) {
	l, c := alone(t)
	w := l.NewWindow("test", time.Minute)
	w.most = 100
	for i := range 1000 {
		w.Add(t.Context(), fmt.Sprint(i))
		c.now = c.now.Add(time.Millisecond)
	}
	if n, _ := w.Count(t.Context(), "999"); len(w.local) != w.most || n != 1 {
		t.Errorf("%d keys, the last one counts %d", len(w.local), n)
	}
	c.now = c.now.Add(time.Minute)
	w.Add(t.Context(), "new")
	if len(w.local) != 1 {
		t.Errorf("%d keys after their windows have ended", len(w.local))
	}
}

// Nodes count together, and a key's count ends with its window.
func TestWindowIsShared(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) {
		one, two := node(t, url).NewWindow("test", time.Minute), node(t, url).NewWindow("test", time.Minute)
		ctx := t.Context()
		for range 2 {
			one.Add(ctx, "a")
		}
		two.Add(ctx, "a")
		for _, w := range []*Window{one, two} {
			if n, left := w.Count(ctx, "a"); n != 3 || left <= 0 || left > time.Minute {
				t.Errorf("%d for %s", n, left)
			}
			if n, left := w.Count(ctx, "b"); n != 0 || left != 0 {
				t.Errorf("another key: %d for %s", n, left)
			}
		}
		keys, err := one.limiter.client.Keys(ctx, "window:*").Result()
		if err != nil || len(keys) != 1 || strings.Contains(keys[0], ":a") {
			t.Fatalf("%q, %v", keys, err)
		}
		if ttl := one.limiter.client.PTTL(ctx, keys[0]).Val(); ttl <= 0 || ttl > time.Minute {
			t.Errorf("%s lives for %s", keys[0], ttl)
		}
		// When Redis loses its data, each node still knows what it has counted itself.
		if err := one.limiter.client.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if n, _ := one.Count(ctx, "a"); n != 2 {
			t.Errorf("after the loss: %d", n)
		}
	})
}

// A client that hangs up at once is counted on all nodes all the same.
func TestFailedSignInsOfClientsThatHangUp(t *testing.T) {
	url := "redis://" + embedded(t)
	one, two := node(t, url).NewSignIns(), node(t, url).NewSignIns()
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	for range maxFailedSignIns {
		one.Failed(gone, "ops@example.com", netip.MustParseAddr("192.0.2.1"))
	}
	if wait := two.Refused(t.Context(), "ops@example.com", netip.MustParseAddr("192.0.2.1")); wait <= 0 {
		t.Error("not refused on the other node")
	}
}

// Without Redis each node counts for itself, and no call waits for longer than its time-out.
func TestWindowWithoutRedis(t *testing.T) {
	l, err := New(Config{URL: "redis://127.0.0.1:1", Timeout: 50 * time.Millisecond, MaxBuckets: shardCount},
		Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	w := l.NewWindow("test", time.Minute)
	for range 3 {
		w.Add(t.Context(), "a")
	}
	if n, _ := w.Count(t.Context(), "a"); n != 3 {
		t.Errorf("%d", n)
	}
}

// Five failures with one address from one client are refused until the minute of the first has passed.
func TestFailedSignIns(t *testing.T) {
	l, c := alone(t)
	s := l.NewSignIns()
	here := netip.MustParseAddr("192.0.2.1")
	for i := range maxFailedSignIns {
		if wait := s.Refused(t.Context(), "ops@example.com", here); wait != 0 {
			t.Fatalf("refused for %s after %d failures", wait, i)
		}
		s.Failed(t.Context(), "ops@example.com", here)
		c.now = c.now.Add(time.Second)
	}
	f := func(email, from string, want time.Duration) {
		t.Helper()
		if got := s.Refused(t.Context(), email, netip.MustParseAddr(from)); got != want {
			t.Errorf("%s from %s: %s, want %s", email, from, got, want)
		}
	}
	f("ops@example.com", "192.0.2.1", 55*time.Second)
	f(" OPS@example.com\n", "::ffff:192.0.2.1", 55*time.Second)
	f("ops@example.com", "192.0.2.2", 0)
	f("other@example.com", "192.0.2.1", 0)
	c.now = c.now.Add(55 * time.Second)
	f("ops@example.com", "192.0.2.1", 0)
	for range maxFailedSignIns {
		s.Failed(t.Context(), "ops@example.com", netip.MustParseAddr("2001:db8:1:2::1"))
	}
	f("ops@example.com", "2001:db8:1:2:ffff::9%eth0", time.Minute)
	f("ops@example.com", "2001:db8:1:3::1", 0)
}
