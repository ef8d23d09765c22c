package api_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

const lines = "application/x-ndjson"

func (c *client) batchTarget() string {
	c.t.Helper()
	return "/v1/endpoints/" + c.endpoint(nil).text("id") + "/events/batch"
}

// batchOf returns a batch of the given items.
func batchOf(items ...string) string { return `{"events":[` + strings.Join(items, ",") + `]}` }

func TestBatch(t *testing.T) {
	c := newClient(t)
	target := c.batchTarget()
	items := []string{`{"type":"a.b","data":{"n":0}}`, `{"type":"a.c","data":{"n": 1}}`,
		`{"data":{"n":2},"type":"a.d","extra":1}`}
	for name, a := range map[string]*answer{
		"JSON":   c.do("POST", target, batchOf(items...)).want(202),
		"NDJSON": c.do("POST", target, strings.Join(items, "\r\n")+"\n\n", "Content-Type", lines+"; charset=utf-8").want(202),
	} {
		must.Equal(t, len(a.get("data").([]any)), 3, "%s: lines", name)
		for i, want := range []string{`{"n":0}`, `{"n": 1}`, `{"n":2}`} {
			line := fmt.Sprintf("data.%d.", i)
			if a.get(line+"index") != float64(i) || a.get(line+"status") != "pending" || a.get(line+"error") != nil {
				t.Errorf("%s: %s", name, a.raw)
			}
			d := must.Get(id.Parse(id.Event, a.text(line+"id")))(t)
			e := c.fake.events[d]
			if e == nil || !strings.HasSuffix(string(e.Body), `,"data":`+want+`}`) ||
				!strings.HasPrefix(string(e.Body), `{"id":"`+d.Text(id.Event)+`"`) {
				t.Errorf("%s: stored %+v", name, e)
			}
			if e.Source != event.SourceAPI || e.ContentType() != "application/json" && name == "NDJSON" {
				t.Errorf("%s: source %s, content type %s", name, e.Source, e.ContentType())
			}
		}
		is.Equal(t, a.text("warnings.0.param"), "events[2].extra", "%s: %s", name, a.raw)
	}
	if row := c.do("POST", "/v1/endpoints/"+
		c.endpoint(map[string]any{"destinations": []any{map[string]any{"url": "https://example.com", "enabled": false}}}).
			text("id")+
		"/events/batch", batchOf(items[0])).want(202); row.text("data.0.status") != "skipped" {
		t.Errorf("%s", row.raw)
	}
}

func TestBatchItemsFailAlone(t *testing.T) {
	c := newClient(t, func(cfg *api.Config, _ *api.Deps) { cfg.MaxBody = 1000 })
	target := c.batchTarget()
	good := `{"type":"a.b","data":{}}`
	deep := func(n int) string {
		return `{"type":"a.b","data":` + strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat("}", n-1) + `}`
	}
	padded := func(n int) string { // an item of n bytes
		frame := `{"type":"a.b","data":{"p":""}}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", n-len(frame))+`"`, 1)
	}
	for _, x := range []struct{ item, kind, param string }{
		{`{"data":{}}`, "invalid_request", ".type"},
		{`{"type":"a b","data":{}}`, "invalid_request", ".type"},
		{`{"type":"a.b"}`, "invalid_request", ".data"},
		{`{"type":"a.b","data":[]}`, "invalid_request", ".data"},
		{`{"type":"a.b","data":"x"}`, "invalid_request", ".data"},
		{`{"type":"a.b","data":{},"id":"evt_1"}`, "invalid_request", ".id"},
		{`{"type":"a.b","type":"a.b","data":{}}`, "invalid_request", ".type"},
		{`{"type":"a.b","data":{},"idempotency_key":""}`, "invalid_request", ".idempotency_key"},
		{`{"type":"a.b","data":{},"idempotency_key":7}`, "invalid_request", ".idempotency_key"},
		{`{"type":"a.b","data":{},"idempotency_key":"` + strings.Repeat("k", 256) + `"}`, "invalid_request",
			".idempotency_key"},
		{`"x"`, "invalid_request", ""},
		{`7`, "invalid_request", ""},
		{`[]`, "invalid_request", ""},
		{deep(65), "invalid_request", ""},
		{padded(1001), "payload_too_large", ""},
	} {
		for _, a := range []*answer{
			c.do("POST", target, batchOf(good, x.item, deep(64), padded(1000))).want(202),
			c.do("POST", target, strings.Join([]string{good, x.item, deep(64), padded(1000)}, "\n"), "Content-Type", lines).
				want(202),
		} {
			for _, i := range []string{"0", "2", "3"} {
				if a.get("data."+i+".error") != nil || a.text("data."+i+".id") == "" {
					t.Errorf("%s: %s", x.item, a.raw)
				}
			}
			if a.get("data.1.id") != nil || a.get("data.1.error.type") != x.kind ||
				a.get("data.1.error.param") != "events[1]"+x.param {
				t.Errorf("%s: %s", x.item, a.raw)
			}
			if text := a.text("data.1.error.message"); strings.Contains(text, "the body") ||
				a.text("data.1.error.doc_url") == "" || a.text("data.1.error.request_id") == "" {
				t.Errorf("%s: %s", x.item, a.raw)
			}
		}
	}
	if broken := c.do("POST", target, good+"\n{\"type\":\n", "Content-Type", lines).want(202); broken.text(
		"data.1.error.param") != "events[1]" {
		t.Errorf("%s", broken.raw)
	}
	if none := c.do("POST", target, batchOf(`{}`, `{}`)).want(202); none.get("data.1.error") == nil {
		t.Errorf("%s", none.raw)
	}
}

func TestBatchEnvelope(t *testing.T) {
	c := newClient(t)
	target := c.batchTarget()
	good := `{"type":"a.b","data":{}}`
	many := func(n int) string { return strings.TrimSuffix(strings.Repeat(good+",", n), ",") }
	for body, param := range map[string]string{
		"": "events", "{}": "events", `{"events":null}`: "events", `{"events":{}}`: "events", `{"events":[]}`: "events",
		`{"events":[],"events":[]}`: "events", `[` + good + `]`: "", `{"events":[` + good: "", `{"events":[` + good +
			`]} x`: "",
		batchOf(many(1001)): "events", `{"events":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`: "",
	} {
		c.do("POST", target, body).wantError(400, "invalid_request", param)
	}
	c.do("POST", target, "\n \n", "Content-Type", lines).wantError(400, "invalid_request", "events")
	c.do("POST", target, strings.Repeat(good+"\n", 1001), "Content-Type", lines).wantError(
		400, "invalid_request", "events")
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "application/x-ndjson-2"} {
		c.do("POST", target, batchOf(good), "Content-Type", kind).wantError(400, "invalid_request", "content-type")
	}
	must.Equal(t, len(c.fake.events), 0, "events of refused batches were stored")
	if a := c.do("POST", target, batchOf(many(1000))).want(202); len(a.get("data").([]any)) != 1000 ||
		len(c.fake.events) != 1000 {
		t.Errorf("%d events", len(c.fake.events))
	}
	const most = 5 << 20
	filled := func(n int) string { return batchOf(good) + strings.Repeat(" ", n-len(batchOf(good))) }
	c.do("POST", target, filled(most)).want(202)
	c.do("POST", target, filled(most+1)).wantError(400, "payload_too_large", "")
	if a := c.do("POST", target, `{"event":[],"events":[`+good+`]}`).want(202); !strings.Contains(
		a.text("warnings.0.message"), "did you mean events") {
		t.Errorf("%s", a.raw)
	}
	disabled := c.endpoint(map[string]any{"enabled": false}).text("id")
	c.do("POST", "/v1/endpoints/"+disabled+"/events/batch", batchOf(good)).wantError(400, "invalid_state", "")
	c.do("POST", "/v1/endpoints/ep_nope/events/batch", "broken").wantError(404, "not_found", "")
	c.as(readKey).do("POST", target, "broken").wantError(403, "insufficient_scope", "")
	if a := c.do("GET", target, nil).wantError(404, "not_found", ""); a.Header.Get("Allow") != "POST" {
		t.Errorf("Allow %q", a.Header.Get("Allow"))
	}
}

func TestBatchWhileTheLogIsUnavailable(t *testing.T) {
	c := newClient(t)
	target := c.batchTarget()
	remaining := 0
	c.fake.AcceptFunc = func(context.Context, *event.Event) error {
		if remaining--; remaining < 0 {
			return stream.ErrBufferFull
		}
		return nil
	}
	good := `{"type":"a.b","data":{}}`
	a := c.do("POST", target, batchOf(good, `{}`, good)).wantError(503, "unavailable", "")
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	remaining = 1
	a = c.do("POST", target, batchOf(good, `{}`, good)).want(202)
	if a.get("data.0.error") != nil || a.get("data.1.error.type") != "invalid_request" ||
		a.get("data.2.error.type") != "unavailable" || a.get("data.2.error.param") != "events[2]" {
		t.Errorf("%s", a.raw)
	}
	is.Lacks(t, c.log.String(), "level=ERROR", "an outage fills the log:\n%s", c.log)
	c.fake.AcceptFunc = func(context.Context, *event.Event) error { return errors.New("no answer") }
	is.Has(t, c.do("POST", target, batchOf(good)).want(503).text("error.message"), "may or may not",
		"an unknown outcome is called")
}

func TestBatchItemIdempotencyKeys(t *testing.T) {
	redis, remembering := withRedis(t)
	c := newClient(t, remembering)
	target := c.batchTarget()
	item := func(key string, n int) string {
		return fmt.Sprintf(`{"type":"a.b","data":{"n":%d},"idempotency_key":%q}`, n, key)
	}
	a := c.do("POST", target, batchOf(item("k1", 1), item("k2", 2), item("k1", 1), item("k1", 3))).want(202)
	if a.get("data.0.id") != a.get("data.2.id") || a.get("data.3.error.type") != "idempotency_mismatch" ||
		a.get("data.3.error.param") != "events[3].idempotency_key" {
		t.Errorf("%s", a.raw)
	}
	must.Equal(t, len(c.fake.events), 2, "events")
	first, _ := id.Parse(id.Event, a.text("data.0.id"))
	c.fake.details[first] = func(x *event.Detail) { x.Status = event.Delivered }
	is.Equal(t, c.fake.events[first].IdempotencyKey, "k1", "stored with the key")
	b := c.do("POST", target, strings.Join([]string{item("k3", 3), item("k2", 2), item("k1", 1), item("k2", 9)}, "\n"),
		"Content-Type", lines).want(202)
	if b.get("data.2.id") != a.get("data.0.id") || b.get("data.2.status") != "delivered" ||
		b.get("data.1.id") != a.get("data.1.id") ||
		b.get("data.1.status") != "pending" || b.get("data.3.error.type") != "idempotency_mismatch" ||
		len(c.fake.events) != 3 {
		t.Errorf("%s, %d events", b.raw, len(c.fake.events))
	}
	redis.SetError("away")
	c.do("POST", target, batchOf(item("k1", 1))).wantError(503, "unavailable", "")
	x := c.do("POST", target, batchOf(item("k1", 1)), "Idempotency-Unavailable", "accept").want(202)
	if x.Header.Get("Idempotency-Status") != "unavailable" || len(c.fake.events) != 4 {
		t.Errorf("%s, %d events", x.raw, len(c.fake.events))
	}
}

func TestBatchRefusedByTheLogMayBeSentAgain(t *testing.T) {
	_, remembering := withRedis(t)
	c := newClient(t, remembering)
	target := c.batchTarget()
	full := true
	c.fake.AcceptFunc = func(_ context.Context, e *event.Event) error {
		if full && e.Type == "a.c" {
			return stream.ErrBufferFull
		}
		return nil
	}
	body := batchOf(`{"type":"a.b","data":{}}`, `{"type":"a.c","data":{}}`, `{"type":"a.d"}`)
	first := c.sendOnce(target, "whole", body).want(202).replayed(false)
	if first.get("data.1.error.type") != "unavailable" {
		t.Fatalf("%s", first.raw)
	}
	full = false
	again := c.sendOnce(target, "whole", body).want(202).replayed(true)
	if again.get("data.0.id") != first.get("data.0.id") || again.get("data.1.error") != nil ||
		again.get("data.2.error.param") != "events[2].data" || len(c.fake.events) != 2 {
		t.Errorf("%s, %d events", again.raw, len(c.fake.events))
	}
	third := c.sendOnce(target, "whole", body).want(202).replayed(true)
	if third.get("data.1.id") != again.get("data.1.id") || len(c.fake.events) != 2 {
		t.Errorf("%s, %d events", third.raw, len(c.fake.events))
	}
	c.sendOnce(target, "whole", body+" ").wantError(400, web.IdempotencyMismatch, "Idempotency-Key")
	c.sendOnce(target, "bad", `{"events":[]}`).wantError(400, "invalid_request", "events")
	c.sendOnce(target, "bad", `{"events":[]}`).wantError(400, "invalid_request", "events").replayed(true)
	full = true
	only := batchOf(`{"type":"a.c","data":{}}`)
	c.sendOnce(target, "none", only).wantError(503, "unavailable", "")
	full = false
	c.sendOnce(target, "none", only).want(202).replayed(false)
}

// The repeat of a batch says of a stored event that it is stored, even if it would be refused now: its client would
// send a refused event again, under another key.
func TestRepeatedBatchWhoseEventsWouldBeRefusedNow(t *testing.T) {
	var ahead atomic.Int64
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	const plain = `{"type":"batch.repeated","data":{}`
	for _, x := range []struct {
		name, event string
		change      func(c *client, ep string)
	}{
		{"disabled", plain, func(c *client, ep string) { c.do("PATCH", ep, `{"enabled":false}`).want(200) }},
		{"expired", plain + `,"expires_at":"` + soon + `"`, func(*client, string) { ahead.Store(int64(2 * time.Hour)) }},
		{"schema", plain, func(c *client, _ string) {
			c.do("PUT", "/v1/event_types/batch.repeated", `{"schema":{"required":["n"]}}`).want(200)
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, remembering := withRedis(t)
			ahead.Store(0)
			c := newClient(t, remembering, clockAt(&ahead))
			c.do("PUT", "/v1/event_types/batch.repeated", `{"schema":{}}`).want(200)
			defer c.do("DELETE", "/v1/event_types/batch.repeated", nil)
			ep := "/v1/endpoints/" + c.endpoint(map[string]any{"validate": "reject"}).text("id")
			target, own := ep+"/events/batch", x.event+`,"idempotency_key":"own"}`
			body := batchOf(x.event+"}", own, own)
			first := c.sendOnce(target, "k", body).want(202).replayed(false)
			x.change(c, ep)
			is.Equal(t, string(c.sendOnce(target, "k", body).want(202).replayed(true).raw), string(first.raw), "the repeat")
			is.Equal(t, c.do("POST", target, batchOf(own)).want(202).get("data.0.id"), first.get("data.1.id"), "its own key")
			is.Equal(t, len(c.fake.events), 2, "events")
		})
	}
}

func TestBatchOfStoredAndRefusedEvents(t *testing.T) {
	_, remembering := withRedis(t)
	var ahead atomic.Int64
	c := newClient(t, remembering, clockAt(&ahead))
	target := c.batchTarget()
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	item := func(key, rest string) string {
		return `{"type":"a.b","data":{},"idempotency_key":"` + key + `"` + rest + `}`
	}
	expiring := `,"expires_at":"` + soon + `"`
	first := c.sendOnce(target, "one", batchOf(item("a", expiring))).want(202)
	ahead.Add(int64(2 * time.Hour))
	body := batchOf(item("a", expiring), item("b", expiring), item("c", ""), item("b", expiring))
	var fresh any
	for i := range 2 {
		a := c.sendOnce(target, "two", body).want(202).replayed(i > 0)
		if i == 0 {
			fresh = a.get("data.2.id")
		}
		if a.get("data.0.id") != first.get("data.0.id") || a.get("data.1.error.param") != "events[1].expires_at" ||
			fresh == nil || a.get("data.2.id") != fresh || a.get("data.3.error.param") != "events[3].expires_at" ||
			len(c.fake.events) != 2 {
			t.Errorf("%s, %d events", a.raw, len(c.fake.events))
		}
	}
	// The key of the stored event is used, whatever refuses the other one. That of the refused event is free.
	a := c.do("POST", target, batchOf(item("a", " "+expiring), item("b", ""))).want(202)
	if a.get("data.0.error.type") != web.IdempotencyMismatch || a.get("data.1.error") != nil || len(c.fake.events) != 3 {
		t.Errorf("%s, %d events", a.raw, len(c.fake.events))
	}
}

func TestBatchOfADisabledEndpoint(t *testing.T) {
	_, remembering := withRedis(t)
	c := newClient(t, remembering)
	target := c.batchTarget()
	enable := func(enabled bool) {
		c.do("PATCH", strings.TrimSuffix(target, "/events/batch"), map[string]any{"enabled": enabled}).want(200)
	}
	full := true
	c.fake.AcceptFunc = func(_ context.Context, e *event.Event) error {
		if full && e.Type == "a.c" {
			return stream.ErrBufferFull
		}
		return nil
	}
	body := batchOf(`{"type":"a.b","data":{}}`, `{"type":"a.c","data":{}}`)
	first := c.sendOnce(target, "half", body).want(202)
	full = false
	enable(false)
	a := c.sendOnce(target, "half", body).want(202).replayed(true)
	if a.get("data.0.id") != first.get("data.0.id") || a.get("data.1.error.type") != "invalid_state" ||
		len(c.fake.events) != 1 {
		t.Errorf("%s, %d events", a.raw, len(c.fake.events))
	}
	c.sendOnce(target, "none", body).wantError(400, "invalid_state", "").replayed(false)
	c.sendOnce(target, "none", body).wantError(400, "invalid_state", "").replayed(true)
	enable(true)
	c.sendOnce(target, "none", body).wantError(400, "invalid_state", "").replayed(true)
	if a := c.sendOnce(target, "half", body).want(202); a.get("data.1.error") != nil || len(c.fake.events) != 2 {
		t.Errorf("%s, %d events", a.raw, len(c.fake.events))
	}
}

// The events of a batch are accepted in their order, with keys or without.
func TestBatchKeepsItsOrder(t *testing.T) {
	_, remembering := withRedis(t)
	var mu sync.Mutex
	var accepted []*event.Event
	c := newClient(t, remembering, func(_ *api.Config, deps *api.Deps) {
		deps.Accept.(*fake).AcceptFunc = func(_ context.Context, e *event.Event) error {
			mu.Lock()
			defer mu.Unlock()
			accepted = append(accepted, e)
			return nil
		}
	})
	target := c.batchTarget()
	for _, keys := range []func(n int) bool{
		func(int) bool { return false }, func(int) bool { return true }, func(n int) bool { return n%3 == 0 }} {
		accepted = nil
		items := make([]string, 300)
		for n := range items {
			if items[n] = fmt.Sprintf(`{"type":"n.%d","data":{}}`, n); keys(n) {
				items[n] = fmt.Sprintf(`{"type":"n.%d","data":{},"idempotency_key":"%p-%d"}`, n, keys, n)
			}
		}
		c.do("POST", target, batchOf(items...)).want(202)
		must.Equal(t, len(accepted), len(items), "events")
		for n, e := range accepted {
			if e.Type != fmt.Sprintf("n.%d", n) || n > 0 && e.ID.Compare(accepted[n-1].ID) <= 0 {
				t.Fatalf("event %d is %s with id %s", n, e.Type, e.ID)
			}
		}
	}
}

// Batches with the same keys, sent at the same time in any order, store each event once, and all of them get its id.
func TestParallelBatchesWithTheSameItems(t *testing.T) {
	_, remembering := withRedis(t)
	c := newClient(t, remembering)
	target := c.batchTarget()
	const n = 200
	answers := make([]*answer, 4)
	var wg sync.WaitGroup
	for i := range answers {
		items := make([]string, n)
		for k := range items {
			items[k] = fmt.Sprintf(`{"type":"a","data":{"k":%d},"idempotency_key":"k%d"}`, k, k)
		}
		if i%2 == 1 {
			slices.Reverse(items)
		}
		wg.Go(func() { answers[i] = c.do("POST", target, batchOf(items...)) })
	}
	wg.Wait()
	ids := map[string]int{}
	for i, a := range answers {
		for k := range n {
			of := k
			if i%2 == 1 {
				of = n - 1 - k
			}
			d := a.want(202).text(fmt.Sprintf("data.%d.id", of))
			ids[d]++
			is.Equal(t, d, answers[0].text(fmt.Sprintf("data.%d.id", k)), "item %d of batch %d", k, i)
		}
	}
	is.Equal(t, len(ids), n, "events")
}

// An event whose key another request has is not stored while the limiter store is away: that one may have stored it.
func TestLimiterFailsWhileABatchWaits(t *testing.T) {
	redis, remembering := withRedis(t)
	storing, goOn := make(chan bool), make(chan bool)
	var stored atomic.Int64
	c := newClient(t, remembering, func(_ *api.Config, deps *api.Deps) {
		deps.Accept.(*fake).AcceptFunc = func(_ context.Context, e *event.Event) error {
			switch e.Type {
			case "shared":
				if stored.Add(1) == 1 {
					storing <- true
					<-goOn
				}
			case "first":
				redis.SetError("away")
			}
			return nil
		}
	})
	target := c.batchTarget()
	const shared = `{"type":"shared","data":{},"idempotency_key":"shared"}`
	var other sync.WaitGroup
	other.Go(func() { c.do("POST", target, batchOf(shared)).want(202) })
	<-storing
	a := c.do("POST", target, batchOf(`{"type":"first","data":{},"idempotency_key":"first"}`, shared)).want(202)
	if a.get("data.0.id") == nil || a.text("data.1.error.type") != "rate_limited" {
		t.Errorf("%s", a.raw)
	}
	redis.SetError("")
	close(goOn)
	other.Wait()
	is.Equal(t, stored.Load(), 1, "times that the event was stored")
}

// A key is bound to the body alone: a batch that was refused for its headers may come again with smaller ones.
func TestBatchComesAgainWithSmallerHeaders(t *testing.T) {
	_, remembering := withRedis(t)
	c := newClient(t, remembering)
	target := c.batchTarget()
	full := batchOf(slices.Repeat([]string{`{"type":"a","data":{}}`}, 1000)...)
	with := func(size int) *answer {
		return c.do("POST", target, full, "X-Team", strings.Repeat("h", size), "Idempotency-Key", "k")
	}
	with(8000).wantError(400, "invalid_request", "")
	first := with(100).want(202).replayed(false)
	is.Equal(t, with(8000).want(202).replayed(true).text("data.999.id"), first.text("data.999.id"))
}

// Headers are stored with each event, so a small request with large ones would take gigabytes.
func TestBatchHeadersAreBounded(t *testing.T) {
	c := newClient(t)
	target := c.batchTarget()
	full := batchOf(slices.Repeat([]string{`{"type":"a","data":{}}`}, 1000)...)
	c.do("POST", target, full, "X-Team", strings.Repeat("h", 4000)).want(202)
	c.do("POST", target, full, "X-Team", strings.Repeat("h", 8000)).wantError(400, "invalid_request", "")
	c.do("POST", target, batchOf(`{"type":"a","data":{}}`), "X-Team", strings.Repeat("h", 8000)).want(202)
}

func TestBatchCountsAsOneSend(t *testing.T) {
	c := newClient(t, withRates(0, 0, 2))
	target := c.batchTarget()
	body := batchOf(`{"type":"a.b","data":{}}`, `{"type":"a.b","data":{}}`, `{"type":"a.b","data":{}}`)
	if a := c.do("POST", target, body).want(202); a.Header.Get("X-RateLimit-Limit") != "2" {
		t.Errorf("limit %q", a.Header.Get("X-RateLimit-Limit"))
	}
	c.do("POST", target, body).want(202)
	c.do("POST", target, body).wantError(429, "rate_limited", "")
}
