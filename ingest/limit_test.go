package ingest

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Over its limit an endpoint answers 429, for provider events and for sent ones, and for each event of a batch
// separately. An event over the limit is not stored, claims no deduplication key, and is accepted later.
func TestIngestLimit(t *testing.T) {
	var clock atomic.Int64
	clock.Store(1_800_000_000)
	w := newWorld(t, options{
		redis: miniredis.RunT(t).Addr(), now: func() time.Time { return time.Unix(clock.Load(), 0) },
		endpoint: func(w *world, ep *config.Endpoint) {
			deduplicated("body:$.id")(w, ep)
			events, bytes := 3, 1024
			ep.IngestLimit = &config.IngestLimit{EventsPerSecond: &events, BytesPerSecond: &bytes}
		},
	})
	refused := func(a answer, limit, after string) {
		t.Helper()
		w.want(a, 429)
		text := "accepts at most " + limit + " per second (ingest_limit)"
		if a.Header.Get("Retry-After") != after || !strings.Contains(a.body, `"type":"rate_limited"`) ||
			!strings.Contains(a.body, text) {
			t.Errorf("answered %v %s", a.Header, a.body)
		}
	}
	for _, body := range []string{`{"id":1}`, `{"id":2}`, `{"id":1}`} {
		w.want(w.post(body), 200)
	}
	refused(w.post(`{"id":3}`), "3 events", "1")
	w.want(w.do("HEAD", "", nil), 200) // HEAD is not an event
	clock.Add(1)
	w.want(w.post(`{"id":3}`), 200)
	if e := w.stored()[3]; e.DuplicateOf != "" {
		t.Error("the event over the limit has claimed its deduplication key")
	}
	clock.Add(1)
	long := `{"long":"` + strings.Repeat("x", 3<<10) + `"}`
	w.want(w.post(long), 200) // one event larger than the bucket is accepted and leaves the bucket in debt
	clock.Add(1)
	refused(w.post(`{}`), "1024 bytes", "2")
	clock.Add(3)

	ep := w.EndpointByToken(token)
	var sent []*event.Event
	for range 5 {
		sent = append(sent, &event.Event{
			Source: event.SourceAPI, Verdict: event.VerdictUnverified, Method: "POST", Body: []byte("{}"),
		})
	}
	for i, err := range w.ingest.Acceptor().AcceptAll(t.Context(), sent, ep) {
		var limited *web.Error
		switch {
		case i < 3 && err != nil:
			t.Errorf("event %d of several: %v", i, err)
		case i >= 3 && (!errors.As(err, &limited) || limited.Status != http.StatusTooManyRequests ||
			!errors.Is(err, stream.ErrBufferFull)):
			t.Errorf("event %d of several: %v", i, err)
		}
	}
	is.Equal(t, len(w.stored()), 8, "events are stored")
	for limit, want := range map[string]float64{"events": 3, "bytes": 1} {
		if n := w.metric(w.ingest.metrics.limited.WithLabelValues(limit)); n != want {
			t.Errorf("%v over the limit of %s are counted, want %v", n, limit, want)
		}
	}
}

// Requests with an invalid signature use up nothing of the endpoint's ingest_limit.
func TestRejectedRequestsDoNotUseTheLimit(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	w := newWorld(t, options{now: func() time.Time { return now }, endpoint: func(w *world, ep *config.Endpoint) {
		events := 2
		ep.IngestLimit = &config.IngestLimit{EventsPerSecond: &events}
		ep.Verification = w.verification("github", "secret")
	}})
	for range 5 {
		w.want(w.post("x"), 401)
	}
	for range 2 {
		w.want(w.post("x", "X-Hub-Signature-256", githubSignature("secret", "x")), 200)
	}
	w.want(w.post("x", "X-Hub-Signature-256", githubSignature("secret", "x")), 429)
}

// All endpoints of a tenant share its limit; those of others are not concerned.
func TestTenantLimit(t *testing.T) {
	w := newWorld(t, options{redis: miniredis.RunT(t).Addr(),
		now: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	w.tenantRate = 2
	ep := *w.EndpointByToken(token)
	ep.Tenant = "customer"
	other := ep
	other.ID = "ep_other"
	accept := func(ep *config.Endpoint) error {
		return w.ingest.Acceptor().Accept(t.Context(), &event.Event{Body: []byte("{}")}, ep)
	}
	for i, of := range []*config.Endpoint{&ep, &other, &ep, &other} {
		err := accept(of)
		refused, is := errors.AsType[*web.Error](err)
		if i < 2 && err != nil || i >= 2 && (!is || refused.Status != http.StatusTooManyRequests ||
			!strings.Contains(refused.Message, "limits.events_per_second")) {
			t.Errorf("event %d: %v", i, err)
		}
	}
	other.Tenant = "unlimited"
	must.Do(t, accept(&other))
}
