package api_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// withRedis gives the API a limiter on a Redis of its own.
func withRedis(t testing.TB) (*miniredis.Miniredis, func(*api.Config, *api.Deps)) {
	redis := miniredis.RunT(t)
	return redis, withRedisAt(t, redis.Addr())
}

func withRedisAt(t testing.TB, address string) func(*api.Config, *api.Deps) {
	cfg := limit.DefaultConfig()
	cfg.URL, cfg.Timeout = "redis://"+address, 10*time.Second // a loaded machine may pause for longer than 50 ms
	l := must.Get(limit.New(cfg, limit.Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = l.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return func(_ *api.Config, deps *api.Deps) { deps.LimiterStore = l }
}

const paid = `{"type":"order.paid","data":{"n":1}}`

func (c *client) sendOnce(target, key, body string) *answer {
	c.t.Helper()
	return c.do("POST", target, body, "Idempotency-Key", key)
}

// replayed checks whether the answer is marked as a repeat.
func (a *answer) replayed(want bool) *answer {
	a.t.Helper()
	if got := a.Header.Get("Idempotent-Replayed"); (got == "true") != want || !want && got != "" ||
		a.Header.Get("Idempotency-Status") != "" {
		a.t.Errorf("%s: Idempotent-Replayed %q, Idempotency-Status %q", a.call, got, a.Header.Get("Idempotency-Status"))
	}
	return a
}

func TestRepeatedSend(t *testing.T) {
	redis, remembering := withRedis(t)
	c := newClient(t, remembering)
	target := "/v1/endpoints/" + c.endpoint(nil).text("id") + "/events"
	key := strings.Repeat("k", 255)
	first := c.sendOnce(target, key, paid).want(202).replayed(false)
	again := c.sendOnce(target, key, paid).want(202).replayed(true)
	if string(first.raw) != string(again.raw) || len(c.fake.events) != 1 {
		t.Errorf("%s\nthen %s, %d events", first.raw, again.raw, len(c.fake.events))
	}
	d, _ := id.Parse(id.Event, first.text("id"))
	is.Equal(t, c.fake.events[d].IdempotencyKey, key, "stored with the key")
	c.fake.details[d] = func(x *event.Detail) { x.Status = event.Delivered }
	if later := c.sendOnce(target, key, paid).want(202).replayed(true); later.text("status") != "delivered" ||
		later.text("id") != first.text("id") {
		t.Errorf("%s", later.raw)
	}
	c.sendOnce(target, key, `{"type":"order.paid","data":{"n":2}}`).wantError(
		400, "idempotency_mismatch", "Idempotency-Key").replayed(false)
	c.sendOnce(target, key, `broken`).wantError(400, "idempotency_mismatch", "Idempotency-Key")
	c.sendOnce(target, "k", paid).want(202).replayed(false)
	c.sendOnce("/v1/endpoints/"+c.endpoint(nil).text("id")+"/events", key, paid).want(202).replayed(false) // another path
	c.do("POST", target, paid).want(202).replayed(false)
	is.Equal(t, len(c.fake.events), 4, "events")
	warned := c.sendOnce(target, "w", `{"type":"a","data":{},"dta":1}`).want(202)
	if c.sendOnce(target, "w", `{"type":"a","data":{},"dta":1}`).want(202).replayed(true).
		text("warnings.0.param") != warned.text("warnings.0.param") {
		t.Error("the repeat has no warning")
	}
	redis.FastForward(24*time.Hour - time.Second)
	c.sendOnce(target, key, paid).want(202).replayed(true)
	redis.FastForward(2 * time.Second)
	if c.sendOnce(target, key, paid).want(202).replayed(false).text("id") == first.text("id") {
		t.Error("a day later it is still the first event")
	}
	c.fake.EventFunc = func(context.Context, string, id.ID) (*event.Detail, error) { return nil, event.ErrUnavailable }
	c.sendOnce(target, key, paid).wantError(503, "unavailable", "").replayed(false)
}

func TestRefusedSendIsRepeated(t *testing.T) {
	_, remembering := withRedis(t)
	c := newClient(t, remembering)
	name := c.endpoint(nil).text("id")
	target := "/v1/endpoints/" + name + "/events"
	for i, bad := range []struct{ body, kind, param string }{
		{`{"data":{}}`, "invalid_request", "type"}, {`{"type":"a","data":[]}`, "invalid_request", "data"},
		{`{`, "invalid_request", ""}, {``, "invalid_request", "type"},
		{`{"type":"a","data":{},"` + strings.Repeat("x", 1<<10) + `":1,"` + strings.Repeat("x", 1<<10) + `":2}`,
			"invalid_request", strings.Repeat("x", 197) + "…"},
	} {
		key := fmt.Sprint("bad", i)
		first := c.sendOnce(target, key, bad.body).wantError(400, bad.kind, bad.param).replayed(false)
		again := c.sendOnce(target, key, bad.body).wantError(400, bad.kind, bad.param).replayed(true)
		is.Equal(t, first.text("error.message"), again.text("error.message"), "%s, then %s", first.raw, again.raw)
		c.sendOnce(target, key, paid).wantError(400, "idempotency_mismatch", "Idempotency-Key")
	}
	c.do("PATCH", "/v1/endpoints/"+name, `{"enabled":false}`).want(200)
	c.sendOnce(target, "disabled", paid).wantError(400, "invalid_state", "").replayed(false)
	c.do("PATCH", "/v1/endpoints/"+name, `{"enabled":true}`).want(200)
	c.sendOnce(target, "disabled", paid).wantError(400, "invalid_state", "").replayed(true)
	c.sendOnce(target, "enabled", paid).want(202)
	c.do("PATCH", "/v1/endpoints/"+name, `{"enabled":false}`).want(200)
	c.sendOnce(target, "enabled", paid).want(202).replayed(true)
	// A request that is refused before its body is read claims no key.
	c.do("PATCH", "/v1/endpoints/"+name, `{"enabled":true}`).want(200)
	c.do("POST", target, paid, "Idempotency-Key", "type", "Content-Type", "text/plain").want(400)
	c.as(readKey).do("POST", target, paid, "Idempotency-Key", "type").want(403)
	c.sendOnce(target, "type", paid).want(202).replayed(false)
}

// Server errors are not remembered. A log that certainly did not store the event releases the key at once. After one
// that may have stored it, a repeat stores the event under the same id, and only when it is not in the log.
func TestFailedSendKeepsOrReleasesItsKey(t *testing.T) {
	_, remembering := withRedis(t)
	var ahead atomic.Int64
	c := newClient(t, remembering, func(_ *api.Config, d *api.Deps) {
		d.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	target := "/v1/endpoints/" + c.endpoint(nil).text("id") + "/events"
	for _, err := range []error{stream.ErrBufferFull, stream.ErrNotStored, id.ErrClock} {
		c.fake.AcceptFunc = func(context.Context, *event.Event) error { return fmt.Errorf("produce: %w", err) }
		c.sendOnce(target, err.Error(), paid).wantError(503, "unavailable", "").replayed(false)
		c.fake.AcceptFunc = nil
		c.sendOnce(target, err.Error(), paid).want(202).replayed(false)
	}
	var inDoubt id.ID
	c.fake.AcceptFunc = func(_ context.Context, e *event.Event) error { inDoubt = e.ID; return context.DeadlineExceeded }
	c.sendOnce(target, "unknown", paid).wantError(503, "unavailable", "")
	c.sendOnce(target+"/batch", "batch", batchOf(paid)).wantError(503, "unavailable", "")
	inBatch := inDoubt
	c.sendOnce(target, "unknown2", paid).wantError(503, "unavailable", "")
	c.fake.AcceptFunc = nil
	// known without waiting
	c.sendOnce(target, "unknown", `{"type":"b","data":{}}`).wantError(400, "idempotency_mismatch", "Idempotency-Key")
	ahead.Store(int64(claim.TakeOverAfter))
	c.fake.EventFunc = func(context.Context, string, id.ID) (*event.Detail, error) { return nil, event.ErrUnavailable }
	c.sendOnce(target, "unknown2", paid).wantError(429, "rate_limited", "Idempotency-Key")
	c.fake.EventFunc = nil
	c.sendOnce(target, "unknown2", paid).want(202).replayed(false).wantID(inDoubt)
	c.sendOnce(target, "unknown2", paid).want(202).replayed(true).wantID(inDoubt)
	is.Equal(t, c.sendOnce(target+"/batch", "batch", batchOf(paid)).want(202).get("data.0.id"),
		any(inBatch.Text(id.Event)), "the event of the batch")
}

func (a *answer) wantID(d id.ID) {
	a.t.Helper()
	is.Equal(a.t, a.text("id"), d.Text(id.Event), "%s: the event", a.call)
}

func TestSendWithoutRedis(t *testing.T) {
	redis, remembering := withRedis(t)
	c := newClient(t, remembering)
	target := "/v1/endpoints/" + c.endpoint(nil).text("id") + "/events"
	unavailable := func(a *answer) {
		t.Helper()
		if a.Header.Get("Idempotency-Status") != "unavailable" || a.Header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%v %s", a.Header, a.raw)
		}
	}
	accepting := func(body string) *answer {
		return c.do("POST", target, body, "Idempotency-Key", "away", "Idempotency-Unavailable", "accept")
	}
	redis.SetError("LOADING")
	if a := c.sendOnce(target, "away", paid).wantError(503, "unavailable", "").replayed(false); a.Header.Get(
		"Retry-After") == "" {
		t.Errorf("no Retry-After: %s", a.raw)
	}
	c.sendOnce(target+"/batch", "away", batchOf(paid)).wantError(503, "unavailable", "").replayed(false)
	is.Equal(t, len(c.fake.events), 0, "events without a claim")
	unavailable(accepting(paid).want(202))
	unavailable(accepting(`{"type":""}`).wantError(400, "invalid_request", "type"))
	c.do("POST", target, paid, "Idempotency-Key", "away", "Idempotency-Unavailable", "refuse").wantError(
		400, "invalid_request", "Idempotency-Unavailable")
	redis.SetError("")
	// between the steps: the claim is kept, and a repeat finds the event
	c.fake.AcceptFunc = func(context.Context, *event.Event) error { redis.SetError("LOADING"); return nil }
	var half *answer
	kit.WaitFor(t, "claims work again", func() bool {
		half = c.sendOnce(target, "half", paid)
		return half.Status == 202
	})
	unavailable(half)
	redis.SetError("")
	kit.WaitFor(t, "the repeat finds it", func() bool {
		a := c.sendOnce(target, "half", paid)
		return a.Status == 202 && a.text("id") == half.text("id")
	})
	is.Equal(t, len(c.fake.events), 2, "events")
}

// stillRunning is a limiter store in which another call has claimed every key.
type stillRunning struct {
	*fake
	event id.ID
	kept  atomic.Int64
}

func (m *stillRunning) Claim(_ context.Context, _ string, _ id.ID, note string, _ time.Duration) claim.Claim {
	return claim.Claim{State: claim.Pending, Event: m.event, Note: note}
}

func (m *stillRunning) MarkStored(_ context.Context, _ string, event id.ID, _ string, _ time.Duration) error {
	if event == m.event {
		m.kept.Add(1)
	}
	return nil
}

// keyStore is a limiter store that notes the keys that are claimed.
type keyStore struct {
	*fake
	mu   sync.Mutex // guards keys
	keys []string
}

func (m *keyStore) Claim(_ context.Context, key string, event id.ID, note string, _ time.Duration) claim.Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys = append(m.keys, key)
	return claim.Claim{State: claim.New, Event: event, Note: note}
}

// A node of an earlier version finds the claims under the same keys, or a repeat would be stored again there.
func TestIdempotencyClaimsHaveTheKeysOfEarlierVersions(t *testing.T) {
	memory := &keyStore{}
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.LimiterStore = memory })
	memory.fake = c.fake
	events := "/v1/endpoints/" + c.endpoint(nil).text("id") + "/events"
	c.sendOnce(events, "k", paid).want(202)
	c.sendOnce(events+"/batch", "k", `{"events":[`+paid+`]}`).want(202)
	prefix := "idempotency\x00" + configuration.Account().ID + "\x00" + events
	is.List(t, memory.keys, []string{prefix + "\x00k", prefix + "/batch\x00k\x00", prefix + "/batch\x00k/0"})
}

// frozenConfiguration is a copy of the configuration, for tests in fake time.
type frozenConfiguration struct {
	*config.Control
	endpoint *config.Endpoint
}

func (f frozenConfiguration) Authenticate(string) (*config.Key, error) {
	return &config.Key{ID: "key_1", Account: f.endpoint.Account, Scope: config.ReadWrite}, nil
}

func (f frozenConfiguration) Endpoint(string) (*config.Endpoint, entity.Presence) {
	return f.endpoint, entity.Present
}

// testWhileClaimed runs a test in fake time while another call, which never ends, has claimed every key.
func testWhileClaimed(t *testing.T, test func(t *testing.T, c *client, memory *stillRunning, target string)) {
	name := newClient(t).endpoint(nil).text("id")
	ep, _ := configuration.Endpoint(name)
	synctest.Test(t, func(t *testing.T) {
		memory := &stillRunning{}
		c := newClient(t, withConfig(frozenConfiguration{configuration, ep}), func(_ *api.Config, d *api.Deps) {
			memory.event, _ = d.IDs.New(ep.Partition)
			d.LimiterStore = memory
		})
		memory.fake = c.fake
		test(t, c, memory, "/v1/endpoints/"+name+"/events")
	})
}

func TestRepeatWaitsFiveSeconds(t *testing.T) {
	testWhileClaimed(t, func(t *testing.T, c *client, memory *stillRunning, target string) {
		began := time.Now()
		a := c.sendOnce(target, "k", paid).wantError(429, "rate_limited", "Idempotency-Key").replayed(false)
		if waited := time.Since(began); waited != 5*time.Second || a.Header.Get("Retry-After") != "1" ||
			len(c.fake.events) != 0 {
			t.Errorf("waited %v, %v, %d events", waited, a.Header, len(c.fake.events))
		}
		// The first call died after it stored its event and before it recorded that.
		c.fake.events[memory.event] = &event.Event{
			ID: memory.event, Account: configuration.Account().ID, Endpoint: strings.Split(target, "/")[3],
			Source: event.SourceAPI}
		if a := c.sendOnce(target, "k", paid).want(202).replayed(true); a.text("id") != memory.event.Text(id.Event) ||
			memory.kept.Load() != 1 {
			t.Errorf("%s, kept %d times", a.raw, memory.kept.Load())
		}
		// A client that leaves meanwhile leaves no waiter.
		delete(c.fake.events, memory.event)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("left"))
		defer cancel()
		began = time.Now()
		c.doCtx(ctx, "POST", target, paid, "Idempotency-Key", "k")
		if waited := time.Since(began); waited != time.Second || len(c.fake.events) != 0 {
			t.Errorf("waited %v, %d events", waited, len(c.fake.events))
		}
	})
}

func TestWaitingRepeatsAreBounded(t *testing.T) {
	testWhileClaimed(t, func(t *testing.T, c *client, _ *stillRunning, target string) {
		began := time.Now()
		var mu sync.Mutex // guards waits
		waits := map[time.Duration]int{}
		for range 2 {
			var wg sync.WaitGroup
			for range 300 {
				wg.Go(func() {
					if a := c.sendOnce(target, "k", paid); a.Status != http.StatusTooManyRequests {
						t.Errorf("%d %s", a.Status, a.raw)
					}
					mu.Lock()
					defer mu.Unlock()
					waits[time.Since(began)]++
				})
			}
			wg.Wait()
		}
		if want := map[time.Duration]int{0: 44, 5 * time.Second: 256 + 44, 10 * time.Second: 256}; !maps.Equal(waits, want) {
			t.Errorf("waited %v, want %v", waits, want)
		}
	})
}
