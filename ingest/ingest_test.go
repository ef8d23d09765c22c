package ingest

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The record contains the whole request, and the response has the event's id.
func TestEventIsStoredAsItCame(t *testing.T) {
	w := newWorld(t, options{})
	body := "\x00\xff{\"a\":1,\"a\":2}\r\n"
	answers := w.raw(request("PATCH", []string{
		"content-length: 17", "x-b: 2", "X-A:  spaced out ", "x-B: 1", "X-Empty:", "X-High: gr\xfc\xdfe",
		"Content-Type: text/weird", "X-B: 2",
	}, body))
	if len(answers) != 1 || answers[0].StatusCode != 200 || answers[0].body != `{"received":true}` ||
		answers[0].Header.Get("Content-Type") != "application/json" {
		t.Fatalf("answered %+v", answers)
	}
	e := w.only()
	if got := answers[0].Header.Get("Relay-Event-Id"); got != e.ID.Text(id.Event) {
		t.Errorf("the answer names %q, stored is %s", got, e.ID.Text(id.Event))
	}
	want := &event.Event{
		ID: e.ID, Account: "acc_1", Endpoint: "ep_1", Source: event.SourceProvider, Verdict: event.VerdictUnverified,
		Method: "PATCH", RemoteIP: netip.MustParseAddr("127.0.0.1"), Dests: []string{"dst_1", "dst_3"}, Body: []byte(body),
		Header: []event.Field{
			{Name: "Content-Length", Value: "17"}, {Name: "Content-Type", Value: "text/weird"},
			{Name: "Host", Value: "relay.example.com"},
			{Name: "X-A", Value: "spaced out"}, {Name: "X-B", Value: "2"}, {Name: "X-B", Value: "1"}, {Name: "X-B", Value: "2"},
			{Name: "X-Empty", Value: ""}, {Name: "X-High", Value: "gr\xfc\xdfe"},
		},
	}
	is.Same(t, e, want, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }))
	if got := w.metric(w.ingest.metrics.accepted.WithLabelValues("provider", "unverified")); got != 1 {
		t.Errorf("%v accepted are counted", got)
	}
}

func TestBodiesAreStoredByteForByte(t *testing.T) {
	random := make([]byte, maxBody)
	rand.Read(random)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte(`{"type":"a.b"}`))
	z.Close()
	w := newWorld(t, options{})
	var bodies [][]byte
	f := func(body []byte, chunked bool, headers ...string) {
		t.Helper()
		var r interface {
			Read([]byte) (int, error)
		} = bytes.NewReader(body)
		if chunked {
			r = struct{ *bytes.Buffer }{bytes.NewBuffer(body)} // net/http does not know the length of this type
		}
		w.want(w.do("POST", "", r, headers...), 200)
		bodies = append(bodies, body)
	}
	for _, chunked := range []bool{false, true} {
		f(nil, chunked)
		f([]byte("x"), chunked)
		f(random[:initialBuffer-1], chunked)
		f(random[:initialBuffer], chunked)
		f(random[:initialBuffer+1], chunked)
		f(random, chunked)
		f(packed.Bytes(), chunked, "Content-Encoding", "gzip", "Content-Type", "application/json")
	}
	events := w.stored()
	must.Equal(t, len(events), len(bodies), "events are stored")
	for i, e := range events {
		if !bytes.Equal(e.Body, bodies[i]) {
			t.Errorf("body %d: %d bytes are stored, want %d, or others", i, len(e.Body), len(bodies[i]))
		}
		is.Equal(t, e.Type, "", "body %d has the type", i)
	}
}

func TestMethods(t *testing.T) {
	w := newWorld(t, options{})
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		w.want(w.do(method, "", strings.NewReader("x")), 200)
	}
	if a := w.want(w.do("HEAD", "", nil), 200); a.body != "" {
		t.Errorf("HEAD has a body: %s", a.body)
	}
	for _, method := range []string{"GET", "OPTIONS", "TRACE", "PROPFIND"} {
		a := w.want(w.do(method, "?challenge=%3Cb%3E", nil), 405)
		if a.Header.Get("Allow") != "POST, PUT, PATCH, DELETE, HEAD" ||
			!strings.Contains(a.body, `"type":"invalid_request"`) {
			t.Errorf("%s: %v %s", method, a.Header, a.body)
		}
	}
	var methods []string
	for _, e := range w.stored() {
		methods = append(methods, e.Method)
	}
	is.Equal(t, strings.Join(methods, " "), "POST PUT PATCH DELETE", "stored")
}

func TestUnknownAndDisabledEndpoints(t *testing.T) {
	w := newWorld(t, options{})
	for _, path := range []string{
		"/in/", "/in/nope", "/in/tok/", "/in/tok/x", "/in/TOK", "/in//tok", "/in/%00", "/in/../in/nope"} {
		for _, method := range []string{"POST", "HEAD", "GET"} {
			res := must.Get(http.DefaultTransport.RoundTrip(
				&http.Request{Method: method, URL: mustURL(t, w.url+path), Header: http.Header{}}))(t)
			res.Body.Close()
			is.Equal(t, res.StatusCode, 404, "%s %s: %s", method, path, res.Status)
		}
	}
	w.change(func(ep *config.Endpoint) { ep.Enabled = false })
	w.want(w.post("x"), 404)
	w.want(w.do("GET", "?challenge=abc", nil), 404)
	w.want(w.do("HEAD", "", nil), 404)
	is.Equal(t, len(w.stored()), 0, "events are stored")
}

func TestConfiguredAnswer(t *testing.T) {
	w := newWorld(t, options{})
	f := func(r config.Response) {
		t.Helper()
		w.change(func(ep *config.Endpoint) { ep.Response = r })
		a := w.want(w.post("x"), r.Status)
		body := r.Body
		if r.Status == 204 {
			body = "" // RFC 9110, 15.3.5
		}
		if a.body != body || a.Header.Get("Content-Type") != r.ContentType {
			t.Errorf("%+v: %q as %q", r, a.body, a.Header.Get("Content-Type"))
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff"} {
			is.Equal(t, a.Header.Get(name), want, "%s is", name)
		}
	}
	f(config.Response{Status: 202, ContentType: "text/plain", Body: "thanks"})
	f(config.Response{Status: 200, ContentType: "text/xml", Body: "<Response/>"})
	f(config.Response{Status: 299, ContentType: "application/xml", Body: ""})
	f(config.Response{Status: 204, ContentType: "application/json", Body: "{}"})
	f(config.Response{Status: 200, ContentType: "application/json", Body: strings.Repeat("x", 16<<10)})
}

// An event that has passed five deliveries is stored and answered as usual, but not delivered. It makes no later event
// a duplicate and is none itself: its reason stays that of the loop.
func TestDeliveryLoopIsStoredAndSkipped(t *testing.T) {
	w := newWorld(t, options{redis: miniredis.RunT(t).Addr(), endpoint: deduplicated("body:$.id")})
	for _, c := range []struct {
		hops string
		loop bool
	}{{"5", true}, {"1000000", true}, {"4", false}, {"nonsense", false}} {
		before := len(w.stored())
		w.want(w.post(`{"id":"`+c.hops+`"}`, "relay-hops", c.hops), 200)
		e := w.stored()[before]
		if loop := e.Reason == event.DeliveryLoop && e.Dests == nil; loop != c.loop || !c.loop && len(e.Dests) != 2 {
			t.Errorf("%s hops: %q to %v", c.hops, e.Reason, e.Dests)
		}
	}
	w.want(w.post(`{"id":"5"}`), 200)
	if e := w.stored()[4]; e.DuplicateOf != "" || len(e.Dests) != 2 {
		t.Errorf("after a loop: %+v", e)
	}
	w.want(w.post(`{"id":"5"}`, "relay-hops", "5"), 200)
	if e := w.stored()[5]; e.Reason != event.DeliveryLoop || e.DuplicateOf != "" || len(e.Dests) != 0 {
		t.Errorf("a loop after an equal event: %+v", e)
	}
}

func TestNoDestination(t *testing.T) {
	w := newWorld(t, options{endpoint: func(_ *world, ep *config.Endpoint) { ep.Destinations = ep.Destinations[1:2] }})
	w.want(w.post("x"), 200)
	if e := w.only(); e.Reason != event.NoDestination || len(e.Dests) != 0 {
		t.Errorf("%q %v", e.Reason, e.Dests)
	}
}

func TestTypeOfEachProvider(t *testing.T) {
	f := func(provider, body, want string, headers ...string) {
		t.Helper()
		w := newWorld(t, options{endpoint: func(_ *world, ep *config.Endpoint) {
			if s := verify.ByName(provider).TypeSource; s != "" {
				ep.TypeSource = &s
			}
		}})
		w.want(w.post(body, headers...), 200)
		is.Equal(t, w.only().Type, want, "%s: type", provider)
	}
	f("stripe", `{"id":"evt_1","type":"charge.succeeded","data":{"type":"x"}}`, "charge.succeeded")
	f("standard_webhooks", `{"type":"user.created"}`, "user.created")
	f("standard_webhooks", `{"type":7}`, "")
	f("standard_webhooks", `{"type":"a"`, "")
	f("standard_webhooks", ``, "")
	f("github", `{"type":"x"}`, "pull_request", "X-GitHub-Event", "pull_request")
	f("github", `{"type":"x"}`, "")
	f("shopify", `{}`, "orders/create", "X-Shopify-Topic", "orders/create")
	f("slack", `{"type":"event_callback","event":{"type":"app_mention"}}`, "app_mention")
	f("slack", `{"type":"block_actions"}`, "block_actions")
	f("slack", `payload=%7B%7D`, "")
	f("generic", `{"type":"x"}`, "")
	f("twilio", `MessageSid=SM1`, "")
}

// A received event that does not match the schema of its type is accepted and marked, if the endpoint says so.
func TestReceivedEventsAreMarked(t *testing.T) {
	f := func(mode, kind string, marked bool) {
		t.Helper()
		w := newWorld(t, options{endpoint: func(_ *world, ep *config.Endpoint) {
			source := "const:" + kind
			ep.TypeSource, ep.Validation = &source, mode
		}})
		w.want(w.post(`{"a":1}`), 200)
		if m := w.only().MismatchOf(); (m != nil && m.Version == 2 && m.Pointer == "/a") != marked {
			t.Errorf("%q, %s: %+v", mode, kind, m)
		}
	}
	f(config.ValidateReject, "mismatched", true)
	f(config.ValidateWarn, "mismatched", true)
	f(config.ValidateOff, "mismatched", false)
	f(config.ValidateWarn, "other", false)
}

// With more endpoints than maxPrepared all are served, and the cache does not exceed the limit.
func TestPreparedEndpointsAreBounded(t *testing.T) {
	p := &preparer{}
	for i := range maxPrepared + 10 {
		if _, err := p.get(&config.Endpoint{ID: string(rune(i)) + "x", Rev: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(p.byEndpoint); n > maxPrepared {
		t.Errorf("%d are cached", n)
	}
}
