package ingest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// decoy is the token of the tripwire in these tests, as long as that of the endpoint.
const decoy = "dec"

// wires has one tripwire.
type wires struct {
	mu      sync.Mutex
	hits    int   // records for the log
	touches int   // queued
	err     error // of Hit
}

func (x *wires) Endpoint(token string) *config.Endpoint {
	if token != decoy {
		return nil
	}
	return &config.Endpoint{ID: "trw_1", Account: "acc_1", Provider: "generic", Enabled: true, Rev: 1,
		Response: config.DefaultResponse("generic")}
}

func (x *wires) Hit(*config.Endpoint, *http.Request) (int32, *stream.Record, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil {
		return 0, nil, x.err
	}
	x.hits++
	return 0, &stream.Record{Key: []byte("fnd_1"), Value: []byte("hit")}, nil
}

func (x *wires) Touch(*config.Endpoint, *http.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.touches++
}

// take returns the hits and touches since the last call.
func (x *wires) take() (hits, touches int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	hits, touches = x.hits, x.touches
	x.hits, x.touches = 0, 0
	return hits, touches
}

// send sends a request to the URL with a token and returns everything that the client sees, without what differs from
// request to request: times and ids, of which the form stays.
func (w *world) send(token, method, path, body string, headers ...string) string {
	w.tb.Helper()
	req, err := http.NewRequest(method, w.url+PathPrefix+token+path, strings.NewReader(body))
	if err != nil {
		w.tb.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.tb.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.tb.Fatal(err)
	}
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
// request makes one hit; it is in the log before an answer that would promise an event.
func TestTripwireAnswersAsAnEndpoint(t *testing.T) {
	x := &wires{}
	w := newWorld(t, options{
		maxBody:  64 << 10,
		endpoint: func(_ *world, ep *config.Endpoint) { ep.Destinations = nil },
	})
	w.ingest.deps.Tripwires = x
	asJSON := []string{"Content-Type", "application/json"}
	asForm := []string{"Content-Type", "application/x-www-form-urlencoded"}
	const challenge = `{"type":"url_verification","token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV"}`
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
	} {
		// The tripwire comes last, so that a connection which its request closes is not the other's.
		want := w.send(token, c.method, c.path, c.body, c.headers...)
		if hits, touches := x.take(); hits+touches != 0 {
			t.Errorf("%s: a request to the endpoint has made %d hits", c.name, hits+touches)
		}
		got := w.send(decoy, c.method, c.path, c.body, c.headers...)
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, want)
		}
		if hits, touches := x.take(); hits+touches != 1 || (hits == 1) != c.isEvent {
			t.Errorf("%s: %d hits, %d queued", c.name, hits, touches)
		}
	}
	if w.send("unknown", "POST", "", "x"); slices.Max(append([]int{0}, x.hits, x.touches)) != 0 {
		t.Error("an unknown token makes a hit")
	}
	for _, e := range w.stored() {
		if e.Endpoint != "ep_1" {
			t.Errorf("an event of %s is stored", e.Endpoint)
		}
	}
}

// While the log takes nothing, a tripwire answers as an endpoint does, and its hit is queued.
func TestTripwireWithoutLog(t *testing.T) {
	x := &wires{}
	w := newWorld(t, options{produce: func(Producer) Producer { return refusingLog{} },
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
	x.take()
	w.capacityErr, x.err = nil, errors.New("no keys of findings")
	if got := w.send(decoy, "POST", "", "x"); !strings.HasPrefix(got, "503") {
		t.Errorf("without a hit: %s", got)
	}
	if hits, touches := x.take(); hits != 0 || touches != 1 {
		t.Errorf("%d hits, %d queued", hits, touches)
	}
}

// refusingLog is a producer whose buffer is full.
type refusingLog struct{}

func (refusingLog) Produce(_ string, _ int32, r *stream.Record, done func(*stream.Record, error)) {
	done(r, stream.ErrBufferFull)
}

func (p refusingLog) ProduceUnordered(topic string, n int32, r *stream.Record, done func(*stream.Record, error)) {
	p.Produce(topic, n, r, done)
}
