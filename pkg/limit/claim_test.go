package limit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func newID(t testing.TB) id.ID {
	t.Helper()
	d := must.Get(id.Parse("x_", id.Random("x_")))(t)
	return d
}

// Nodes of two versions read each other's claims.
func TestClaimsAreThoseOfEarlierVersions(t *testing.T) {
	is.Equal(t, claimKey("k\x00"), "claim:MDijIW-6HpVdkK3c4Kd9Rr3ve1HP63Oic5iaaOCT8iU", "key")
	const event = "01m7w6h6kk00r00w2s1cbs4f8h"
	d := must.Get(id.Parse("", event))(t)
	for value, want := range map[string]claim.Claim{
		"pending:" + event + ":hash": {State: claim.Pending, Event: d, Note: "hash"},
		"stored:" + event + ":!a:b":  {State: claim.Stored, Event: d, Note: "!a:b"},
		"stored:" + event + ":":      {State: claim.Stored, Event: d},
		"lease:1:2":                  {},
	} {
		got := parseClaim(value)
		is.Same(t, got, want)
		if state, _, _ := strings.Cut(value, ":"); want.State != claim.Unavailable &&
			claimValue(state, got.Event, got.Note) != value {
			t.Errorf("%q is written as %q", value, claimValue(state, got.Event, got.Note))
		}
	}
}

func TestClaim(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) {
		a, b := node(t, url), node(t, url)
		ctx, first, second := t.Context(), newID(t), newID(t)
		f := func(l *Limiter, event id.ID, want claim.Claim) {
			t.Helper()
			is.Same(t, l.Claim(ctx, "k", event, "n:2", 30*time.Second), want)
		}
		f(a, first, claim.Claim{State: claim.New, Event: first, Note: "n:2"})
		f(b, second, claim.Claim{State: claim.Pending, Event: first, Note: "n:2"})
		f(a, first, claim.Claim{State: claim.New, Event: first, Note: "n:2"}) // requested again because the answer was lost
		b.Release(ctx, "k", second)                                           // a claim of another event
		f(b, second, claim.Claim{State: claim.Pending, Event: first, Note: "n:2"})
		a.Release(ctx, "k", first)
		f(b, second, claim.Claim{State: claim.New, Event: second, Note: "n:2"})
		must.Do(t, b.MarkStored(ctx, "k", second, "hash", time.Minute))
		b.Release(ctx, "k", second) // Release leaves stored keys alone
		f(a, first, claim.Claim{State: claim.Stored, Event: second, Note: "hash"})
		is.Equal(t, a.Claim(ctx, "other", first, "", 30*time.Second).State, claim.New, "another key is in state")
		// Redis keeps a key without a window for ever.
		must.Do(t, b.MarkStored(ctx, "brief", second, "", 0))
		if left := b.client.PTTL(ctx, claimKey("brief")).Val(); left > time.Second || left == -1 {
			t.Errorf("a key without a window is kept for %v", left)
		}
	})
}

// Redis 6 refuses SET with both NX and GET, so a claim does without.
func TestClaimOnRedis6(t *testing.T) {
	l := node(t, "redis://"+embedded(t))
	l.client.AddHook(redis6{})
	if err := l.client.Do(t.Context(), "set", "k", "v", "nx", "get").Err(); err == nil {
		t.Fatal("the hook does not refuse the command")
	}
	first, second := newID(t), newID(t)
	if got := l.Claim(t.Context(), "k", first, "", 30*time.Second); got.State != claim.New {
		t.Errorf("%+v", got)
	}
	if got := l.Claim(t.Context(), "k", second, "", 30*time.Second); got.State != claim.Pending || got.Event != first {
		t.Errorf("%+v", got)
	}
}

// redis6 refuses a command as Redis 6.2 does.
type redis6 struct{}

func (redis6) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (redis6) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		options := strings.ToLower(fmt.Sprint(cmd.Args()...))
		if cmd.Name() == "set" && strings.Contains(options, "nx") && strings.Contains(options, "get") {
			cmd.SetErr(errors.New("ERR syntax error"))
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

func (h redis6) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		for _, cmd := range cmds {
			pass := func(context.Context, goredis.Cmder) error { return nil }
			if err := h.ProcessHook(pass)(ctx, cmd); err != nil {
				return err
			}
		}
		return next(ctx, cmds)
	}
}

// If many nodes claim a key at once, one gets it.
func TestClaimRace(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) {
		nodes := []*Limiter{node(t, url), node(t, url)}
		var won, pending atomic.Int32
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				switch nodes[i%2].Claim(t.Context(), "k", newID(t), "", 30*time.Second).State {
				case claim.New:
					won.Add(1)
				case claim.Pending:
					pending.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || pending.Load() != 39 {
			t.Errorf("%d won, %d pending", won.Load(), pending.Load())
		}
	})
}

// Claims in Redis expire, and do not reveal what the sender sent.
func TestClaimsExpire(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) {
		l, ctx := node(t, url), t.Context()
		l.Claim(ctx, "secret", newID(t), "", 30*time.Second)
		must.Do(t, l.MarkStored(ctx, "secret2", newID(t), "", time.Hour))
		keys, err := l.client.Keys(ctx, "*").Result()
		if err != nil || len(keys) != 2 {
			t.Fatal(keys, err)
		}
		for key, most := range map[string]time.Duration{
			claimKey("secret"): 30 * time.Second, claimKey("secret2"): time.Hour} {
			if ttl := l.client.PTTL(ctx, key).Val(); ttl <= most/2 || ttl > most {
				t.Errorf("%s lives for %v, want %v", key, ttl, most)
			}
		}
		must.Do(t, l.client.Set(ctx, claimKey("odd"), "something else", 0).Err())
		is.Equal(t, l.Claim(ctx, "odd", newID(t), "", 30*time.Second), claim.Claim{},
			"a value of another program was parsed as")
	})
}

// Without Redis a claim is unavailable, without delay once the breaker is open.
func TestClaimWithoutRedis(t *testing.T) {
	none := node(t, "")
	refused := node(t, "redis://127.0.0.1:1")
	for name, l := range map[string]*Limiter{"none": none, "refused": refused} {
		want := claim.Claim{State: claim.Off}
		if l == refused {
			want.State = claim.Unavailable
		}
		for range breakAfter + 1 {
			is.Equal(t, l.Claim(t.Context(), "k", newID(t), "", 30*time.Second), want, name)
		}
		if err := l.MarkStored(t.Context(), "k", newID(t), "", time.Minute); err == nil {
			t.Errorf("%s: MarkStored returns no error", name)
		}
		l.Release(t.Context(), "k", newID(t))
	}
	if !refused.claimsBreaker.isOpen() || none.claimsBreaker.isOpen() {
		t.Errorf("breaker: refused %v, none %v", refused.claimsBreaker.isOpen(), none.claimsBreaker.isOpen())
	}
}

// slowConn is a connection to a Redis that answers late.
type slowConn struct {
	net.Conn
	late time.Duration
}

func (c slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	time.Sleep(c.late)
	return n, err
}

// A claim does not fail with a Redis that is too slow for rates.
func TestClaimWaitsForASlowRedis(t *testing.T) {
	l := node(t, "redis://"+embedded(t), func(c *Config, _ *Deps) {
		c.Timeout = DefaultConfig().Timeout
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return slowConn{conn, 2 * c.Timeout}, err
		}
	})
	kit.WaitFor(t, "the breaker of rates is open", l.breaker.isOpen)
	first := newID(t)
	is.Equal(t, l.Claim(t.Context(), "k", first, "", time.Hour).State, claim.New, "claimed")
	is.Equal(t, l.Claim(t.Context(), "k", newID(t), "", time.Hour), claim.Claim{State: claim.Pending, Event: first},
		"again")
}

// While Redis does not answer one caller asks at a time, and the others do not wait.
func TestClaimsBreaker(t *testing.T) {
	var b breaker
	for range breakAfter {
		if !b.admit(0) {
			t.Fatal("refused while closed")
		}
		b.failed(0)
	}
	admitted := 0
	for now := time.Duration(0); now < time.Minute; now += time.Millisecond {
		if b.admit(now) {
			admitted++
		}
	}
	if admitted < 25 || admitted > 40 {
		t.Errorf("asked %d times in a minute", admitted)
	}
	if !b.close() || !b.admit(0) {
		t.Error("a success does not close it")
	}
}

func TestBreakerMirror(t *testing.T) {
	eachEngine(t, func(t *testing.T, url string) {
		a, b := node(t, url), node(t, url)
		until := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		a.SetHeldUntil("dst_a", until)
		a.SetHeldUntil("dst_b", until)
		a.SetHeldUntil("dst_b", until.Add(time.Second)) // the last state counts
		want := map[string]time.Time{"dst_a": until, "dst_b": until.Add(time.Second)}
		ask := []string{"dst_x", "dst_a", "dst_b"}
		kit.WaitFor(t, "both are held", func() bool { return cmp.Equal(want, b.HeldUntil(t.Context(), ask)) })
		a.SetHeldUntil("dst_a", time.Time{})
		delete(want, "dst_a")
		kit.WaitFor(t, "one is held", func() bool { return cmp.Equal(want, b.HeldUntil(t.Context(), ask)) })
		if ttl := a.client.PTTL(t.Context(), heldKey("dst_b")).Val(); ttl <= 0 || ttl > time.Hour+time.Second {
			t.Errorf("mirrored for %v", ttl)
		}
		if got := b.HeldUntil(t.Context(), nil); len(got) != 0 {
			t.Errorf("no destinations, answer %v", got)
		}
	})
}

// States that Redis does not accept are bounded in number and written later.
func TestBreakerMirrorKeepsFailedBatches(t *testing.T) {
	addr := embedded(t)
	l := node(t, "redis://"+addr)
	kit.WaitFor(t, "Redis has answered", func() bool { return l.leasePeriod.Load() != 0 })
	for range breakAfter {
		l.breaker.failed(time.Hour) // the probe is due an hour from now
	}
	for i := range maxMirrored + 10 {
		l.SetHeldUntil(string(rune('a'+i%26))+time.Duration(i).String(), time.Now().Add(time.Hour))
	}
	time.Sleep(3 * roundInterval)
	l.breakerMirror.mu.Lock()
	n := len(l.breakerMirror.pending)
	l.breakerMirror.mu.Unlock()
	must.Equal(t, n, maxMirrored, "states pending")
	l.breaker.close()
	c := goredis.NewClient(&goredis.Options{Addr: addr})
	defer c.Close()
	kit.WaitFor(t, "all are mirrored", func() bool { return c.DBSize(t.Context()).Val() == maxMirrored })
}
