package ingest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/must"
)

// decoy is the token of the tripwire in these tests, as long as that of the endpoint.
const decoy = "dec"

// wires has one tripwire.
type wires struct {
	mu      sync.Mutex
	source  event.Source // of the next record
	touches []event.Source
}

func (x *wires) Endpoint(token string, _ *http.Request) (*config.Endpoint, event.Source) {
	if token != decoy {
		return nil, ""
	}
	return &config.Endpoint{ID: "trw_1", Account: "acc_1", Provider: "generic",
		EndpointSettings: config.NewEndpointSettings("generic"), Rev: 1}, x.source
}

func (x *wires) Touch(ep *config.Endpoint, source event.Source, _ *http.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.touches = append(x.touches, source+event.Source(" of "+ep.ID))
}

// take returns the touches since the last call.
func (x *wires) take() []event.Source {
	x.mu.Lock()
	defer x.mu.Unlock()
	touches := x.touches
	x.touches = nil
	return touches
}

// send sends a request to the URL with a token and returns everything that the client sees, without what differs from
// request to request: times and ids, of which the form stays.
func (w *world) send(token, method, path, body string, headers ...string) string {
	w.tb.Helper()
	req := must.Get(http.NewRequest(method, w.url+PathPrefix+token+path, strings.NewReader(body)))(w.tb)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res := must.Get(http.DefaultTransport.RoundTrip(req))(w.tb)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(w.tb)
	res.Header.Del("Date")
	seen := string(text)
	for name, prefix := range map[string]string{"X-Request-Id": "req_", "Relay-Event-Id": id.Event} {
		value := res.Header.Get(name)
		if value == "" {
			continue
		}
		if _, err := id.Parse(prefix, value); err != nil {
			w.tb.Errorf("%s: %v", name, err)
		}
		res.Header.Set(name, prefix)
		seen = strings.ReplaceAll(seen, value, prefix)
	}
	return fmt.Sprintf("%s %v %v %d\n%s", res.Status, res.Header, res.Close, res.ContentLength, seen)
}

// A tripwire's URL answers as that of a new endpoint does, in each byte and header, whatever somebody tries. Each
// request leaves the same record in the log, up to its source and what names the endpoint, or is touched.
func TestTripwireAnswersAsAnEndpoint(t *testing.T) {
	x := &wires{source: event.SourceTripwire}
	w := newWorld(t, options{
		maxBody:  64 << 10,
		endpoint: func(_ *world, ep *config.Endpoint) { ep.Destinations = nil },
	})
	w.ingest.deps.Tripwires = x
	asJSON := []string{"Content-Type", "application/json"}
	asForm := []string{"Content-Type", "application/x-www-form-urlencoded"}
	const challenge = `{"type":"url_verification","token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV"}`
	wanted := 0
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		isEvent                  bool
	}{
		{name: "empty", method: "POST", isEvent: true},
		{name: "json", method: "POST", body: `{"type":"a"}`, headers: asJSON, isEvent: true},
		{name: "no json", method: "POST", body: `{`, headers: asJSON, isEvent: true},
		{name: "form", method: "POST", body: "a=b", headers: asForm, isEvent: true},
		{name: "strange type", method: "POST", body: "x", isEvent: true,
			headers: []string{"Content-Type", "\"", "Accept", "text/html"}},
		{name: "at the limit", method: "POST", body: strings.Repeat("x", 64<<10), isEvent: true},
		{name: "over the limit", method: "POST", body: strings.Repeat("x", 64<<10+1)},
		{name: "query", method: "POST", path: "?a=b", body: "x", isEvent: true},
		{name: "put", method: "PUT", body: "x", isEvent: true},
		{name: "patch", method: "PATCH", body: "x", isEvent: true},
		{name: "delete", method: "DELETE", isEvent: true},
		{name: "with credentials", method: "POST", body: "x", headers: []string{"Authorization", "Bearer x"}, isEvent: true},
		{name: "signed", method: "POST", body: "x", isEvent: true,
			headers: []string{"Stripe-Signature", "t=1,v1=a", "webhook-id", "m"}},
		{name: "a delivery loop", method: "POST", body: "x", headers: []string{"Relay-Endpoint-Id", "ep_1"}, isEvent: true},
		{name: "get", method: "GET"},
		{name: "head", method: "HEAD"},
		{name: "options", method: "OPTIONS",
			headers: []string{"Origin", "https://a.example", "Access-Control-Request-Method", "POST"}},
		{name: "trace", method: "TRACE"},
		{name: "own method", method: "PROPFIND"},
		{name: "challenge of Slack", method: "POST", body: challenge, headers: asJSON},
		{name: "challenge in the query", method: "GET", path: "?hub.mode=subscribe&hub.challenge=123&hub.verify_token=x"},
		{name: "challenge of another kind", method: "GET", path: "?challenge=abc"},
		{name: "large headers", method: "POST", body: "x", headers: []string{"X-A", strings.Repeat("x", 70<<10)}},
		{name: "below the URL", method: "GET", path: "/info/refs?service=git-upload-pack"},
		{name: "slash", method: "POST", path: "/", body: "x"},
		{name: "not a use of ours", method: "POST", body: "x", headers: []string{"relay-source", "api"}, isEvent: true},
	} {
		// The tripwire comes last, so that a connection which its request closes is not the other's.
		want := w.send(token, c.method, c.path, c.body, c.headers...)
		if touches := x.take(); touches != nil {
			t.Errorf("%s: a request to the endpoint touches %v", c.name, touches)
		}
		got := w.send(decoy, c.method, c.path, c.body, c.headers...)
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, want)
		}
		if c.isEvent {
			wanted += 2
		} else if touches := x.take(); len(touches) != 1 || touches[0] != "tripwire of trw_1" {
			t.Errorf("%s: %v are queued", c.name, touches)
		}
	}
	if w.send("unknown", "POST", "", "x"); x.touches != nil {
		t.Errorf("%v are queued of events and an unknown token", x.touches)
	}
	stored := w.stored()
	must.Equal(t, len(stored), wanted, "records are stored")
	for pair := range slices.Chunk(stored, 2) {
		got := *pair[1]
		got.ID, got.Endpoint, got.Source = pair[0].ID, "ep_1", event.SourceProvider
		if pair[1].Endpoint != "trw_1" || pair[1].Source != event.SourceTripwire {
			t.Errorf("the second record is of %s from %s", pair[1].Endpoint, pair[1].Source)
		}
		if d := cmp.Diff(pair[0], &got, cmpopts.EquateComparable(netip.Addr{})); d != "" && !isLoop(pair[0]) {
			t.Error(d)
		}
	}
	if n := w.metric(w.ingest.metrics.accepted.WithLabelValues("provider", "unverified")); int(n) != wanted/2 ||
		testutil.CollectAndCount(w.ingest.metrics.accepted) != 1 {
		t.Errorf("%v events are counted, want %d, and no uses", n, wanted/2)
	}
}

// isLoop reports whether an event came back to its own endpoint, which a tripwire is not.
func isLoop(e *event.Event) bool { return e.Reason == event.DeliveryLoop }

// While the log takes nothing, a tripwire answers as an endpoint does, and its use is queued, unless its record may be
// in the log. A test stays one.
func TestTripwireWithoutLog(t *testing.T) {
	x := &wires{source: event.SourceTripwireTest}
	log := &refusingLog{err: stream.ErrBufferFull}
	w := newWorld(t, options{produce: func(Producer) Producer { return log },
		endpoint: func(_ *world, ep *config.Endpoint) { ep.Destinations = nil }})
	w.ingest.deps.Tripwires = x
	want := w.send(token, "POST", "", "x")
	if got := w.send(decoy, "POST", "", "x"); got != want || !strings.HasPrefix(got, "503") {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	w.capacityErr = stream.ErrBufferFull
	if got := w.send(decoy, "POST", "", "x"); got != want {
		t.Errorf("consumers lag: %s\nwant\n%s", got, want)
	}
	if touches := x.take(); len(touches) != 2 || touches[0] != "tripwire_test of trw_1" {
		t.Errorf("%v are queued", touches)
	}
	w.capacityErr, log.err = nil, errors.New("no answer")
	want = w.send(token, "POST", "", "x")
	if got := w.send(decoy, "POST", "", "x"); got != want || !strings.HasPrefix(got, "503") {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if touches := x.take(); touches != nil {
		t.Errorf("%v are queued beside a record that may be in the log", touches)
	}
}

// refusingLog is a producer that fails.
type refusingLog struct{ err error }

func (p *refusingLog) Produce(_ string, _ int32, r *stream.Record, done func(*stream.Record, error)) {
	done(r, p.err)
}

func (p *refusingLog) ProduceUnordered(topic string, n int32, r *stream.Record, done func(*stream.Record, error)) {
	p.Produce(topic, n, r, done)
}
