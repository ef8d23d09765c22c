package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	stripewebhook "github.com/stripe/stripe-go/v82/webhook"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
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
	is.Equal(t, w.metric(w.ingest.metrics.accepted.WithLabelValues("provider", "unverified")), 1,
		"accepted are counted")
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
	w.cutOff.Store(true) // the endpoint may have been enabled since
	w.want(w.post("x"), 503)
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
	f("generic", `{"type":"x"}`, "x")
	f("generic", `{"kind":"x"}`, "")
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

// A record that is taken again makes no second event, on whatever node; one that was not stored is stored then.
func TestTakenRecords(t *testing.T) {
	redis := miniredis.RunT(t)
	typed := func(_ *world, ep *config.Endpoint) { source := "body:$.type"; ep.TypeSource = &source }
	w := newWorld(t, options{redis: redis.Addr(), endpoint: typed})
	other := w.second(options{redis: redis.Addr(), endpoint: typed})
	record := func(key string) Record {
		return Record{Key: key, Body: []byte(`{"type":"order.paid"}`), Header: []event.Field{{Name: "X-Shop", Value: "7"}}}
	}
	f := func(w *world, want int, wantErr error, keys ...string) {
		t.Helper()
		var records []Record
		for _, key := range keys {
			records = append(records, record(key))
		}
		n, err := w.ingest.Take(t.Context(), w.EndpointByToken(token), records)
		if n != want || !errors.Is(err, wantErr) {
			t.Errorf("%d stored, %v", n, err)
		}
	}
	f(w, 2, nil, "a", "b")
	f(other, 1, nil, "a", "b", "c")
	w.capacityErr = stream.ErrBufferFull
	f(w, 0, stream.ErrBufferFull, "d")
	w.capacityErr = nil
	f(other, 1, nil, "d")
	w.ingest.claimWait = 50 * time.Millisecond // another node has begun to store e
	w.ingest.deps.Claims.Claim(t.Context(), "source\x00ep_1\x00e", must.Get(w.ingest.deps.IDs.New(0))(t), "", time.Hour)
	f(w, 0, ErrPending, "e", "f")
	f(w, 1, nil, "f")
	w.change(func(ep *config.Endpoint) { ep.Destinations = nil })
	f(w, 1, nil, "g")
	events := w.stored()
	if len(events) != 6 || events[0].Type != "order.paid" || len(events[0].Dests) != 2 ||
		events[0].Verdict != event.VerdictUnverified || events[5].Reason != event.NoDestination {
		t.Errorf("%d events: %+v", len(events), events[0])
	}
}

// lateStore cannot mark a key as stored once.
type lateStore struct {
	claim.Store
	failed atomic.Bool
}

func (s *lateStore) MarkStored(ctx context.Context, key string, e id.ID, note string, window time.Duration) error {
	if !s.failed.Swap(true) {
		return context.DeadlineExceeded
	}
	return s.Store.MarkStored(ctx, key, e, note, window)
}

// An event that arrived is not fetched; one that was fetched is a duplicate when it arrives, also after the window of
// the endpoint's deduplication. A rejected request does not count as arrived. Without Redis, which knows what has
// arrived, nothing is fetched.
func TestFetchedEvents(t *testing.T) {
	redis := miniredis.RunT(t)
	w := newWorld(t, options{redis: redis.Addr(), endpoint: func(w *world, ep *config.Endpoint) {
		ep.Provider, ep.Dedup = "stripe", &config.Dedup{Key: "body:$.id", WindowSeconds: 60}
		ep.Reconcile, ep.Verification = &kinds.Reconcile{}, w.verification("stripe", "whsec_x")
	}})
	arrive := func(id string, good bool) {
		t.Helper()
		signed := stripewebhook.GenerateTestSignedPayload(&stripewebhook.UnsignedPayload{
			Payload: []byte(`{"id":"` + id + `"}`), Secret: map[bool]string{true: "whsec_x", false: "whsec_y"}[good],
			Timestamp: time.Now()})
		w.post(string(signed.Payload), "Stripe-Signature", signed.Header)
	}
	fetch := func(want int, ids ...string) {
		t.Helper()
		var records []Record
		for _, id := range ids {
			records = append(records, Record{Key: id, Body: []byte(`{"id":"` + id + `","type":"invoice.paid"}`)})
		}
		if n, err := w.ingest.TakeFetched(t.Context(), w.EndpointByToken(token), records); n != want || err != nil {
			t.Errorf("%d of %v stored: %v", n, ids, err)
		}
	}
	arrive("evt_1", true)
	arrive("evt_2", false)
	w.ingest.claims.Store = &lateStore{Store: w.ingest.claims.Store}
	fetch(2, "evt_1", "evt_2", "evt_3", "evt_3")
	redis.FastForward(29 * 24 * time.Hour)
	fetch(0, "evt_1", "evt_2", "evt_3")
	arrive("evt_3", true)
	events := w.stored()
	last := events[len(events)-1]
	if e := events[2]; e.Source != event.SourceReconcile || e.Verdict != event.VerdictVerified || e.Proof() != "verified" {
		t.Errorf("fetched: %+v", e)
	}
	if last.Reason != event.Duplicate || last.DuplicateOf == "" {
		t.Errorf("arrived later: %+v", last)
	}
	redis.Close()
	n, err := w.ingest.TakeFetched(t.Context(), w.EndpointByToken(token), []Record{{Key: "evt_4", Body: []byte(`{}`)}})
	if n != 0 || !errors.Is(err, errUnknown) {
		t.Errorf("without Redis %d are stored: %v", n, err)
	}
}

// A sample passes the verification of its endpoint, like the provider's own requests. A sample of another provider is
// unsigned.
func TestSamplesVerify(t *testing.T) {
	settings := []config.Verification{
		{Type: verify.HMAC, Header: "X-Sig", Algorithm: "sha512", Encoding: "base64", Prefix: "v=",
			SignedContent: "{timestamp}.{body}"},
		{Type: verify.HMAC, Algorithm: "sha1", Prefix: "sha1=", SignedContent: "{timestamp:X-Sent-At}:{body}!"},
	}
	for _, scheme := range verify.Types() {
		if s := verify.ByName(scheme); !s.CanSign() || s.SecretHeader() != "" {
			continue
		}
		settings = append(settings, config.Verification{Type: scheme})
	}
	for _, custom := range settings {
		provider := custom.Type
		secret := "whsec_" + strings.Repeat("MDEyMzQ1Njc4OWFi", 2)
		w := newWorld(t, options{endpoint: func(w *world, ep *config.Endpoint) {
			v := w.verification(provider, secret)
			v.Header, v.Algorithm, v.Encoding, v.Prefix, v.SignedContent = custom.Header, custom.Algorithm, custom.Encoding,
				custom.Prefix, custom.SignedContent
			ep.Verification, ep.Provider = v, provider
			if source := verify.ByName(provider).TypeSource; source != "" {
				ep.TypeSource = &source
			}
		}})
		ep := w.EndpointByToken(token)
		for _, kind := range []string{"", "things/made"} {
			e := w.sample(ep, provider, kind)
			if e.Verdict != event.VerdictVerified || e.Source != event.SourceTest || e.Method != http.MethodPost {
				t.Errorf("%s: %+v", provider, e)
			}
			if e.Type != kind && kind != "" || kind == "" && (e.Type == "") != (provider == verify.Twilio) {
				t.Errorf("%s of %q has the type %q", provider, kind, e.Type)
			}
			if _, reason, err := w.ingest.Reverify(ep, e); reason != "" || err != nil {
				t.Errorf("%s of %q: %s, %v", provider, kind, reason, err)
			}
			// Sent as a request it is accepted; its signature is recent.
			headers := make([]string, 0, 2*len(e.Header))
			for _, f := range e.Header {
				headers = append(headers, f.Name, f.Value)
			}
			w.want(w.post(string(e.Body), headers...), 200)
		}
		e := w.sample(ep, "generic", "")
		is.Equal(t, e.Verdict, event.VerdictUnverified, "a verify.Generic sample")
	}
}

// Each provider's sample has the type and the delivery id where the defaults of its endpoints look for them, and a
// default response that the API accepts.
func TestSamplesHaveTheDefaults(t *testing.T) {
	w := newWorld(t, options{})
	for _, s := range verify.Listed() {
		ep := *w.EndpointByToken(token)
		e := w.sample(&ep, s.Name, "")
		header := http.Header{}
		for _, f := range e.Header {
			header.Add(f.Name, f.Value)
		}
		source := must.Get(event.ParseTypeSource(s.TypeSource))(t)
		if got := source.Of(header, e.Body); s.TypeSource != "" && got != s.Sample.Type {
			t.Errorf("%s: the sample has the type %q, want %q", s.Name, got, s.Sample.Type)
		}
		if s.Dedup != "" && s.Dedup != "header:Webhook-Id" && s.Dedup != "header:Svix-Id" { // signing adds those
			if value, ok := must.Get(event.ParseDedupKey(s.Dedup))(t).Of(header, e.Body); !ok || len(value) < 10 {
				t.Errorf("%s: the sample has the delivery id %q", s.Name, value)
			}
		}
		response := config.DefaultResponse(s.Name)
		must.Do(t, require.Bounds("response", &response))
		is.Equal(t, e.Verdict, event.VerdictUnverified, "%s: the sample is", s.Name)
	}
}

// sample builds a sample with the current time.
func (w *world) sample(ep *config.Endpoint, provider, kind string) *event.Event {
	w.tb.Helper()
	d := must.Get(id.NewGenerator(nil).New(ep.Partition))(w.tb)
	e := must.Get(w.ingest.Sample(ep, provider, kind, d))(w.tb)
	return e
}

func TestSamplesOfAnEndpointWithoutASecret(t *testing.T) {
	w := newWorld(t, options{})
	ep := w.EndpointByToken(token)
	for _, provider := range verify.Providers() {
		e := w.sample(ep, provider, "")
		if e.Account != ep.Account || e.Endpoint != ep.ID || len(e.Dests) == 0 || e.Reason != "" {
			t.Errorf("%s: %+v", provider, e)
		}
		if got := e.HeaderValue("X-Github-Event"); (got != "") != (provider == "github") {
			t.Errorf("%s: X-Github-Event is %q", provider, got)
		}
		if e.Verdict != event.VerdictUnverified || e.ReceivedAt().Before(time.Now().Add(-time.Minute)) {
			t.Errorf("%s: %+v", provider, e)
		}
		for _, f := range e.Header {
			if strings.Contains(f.Name, "Signature") || strings.Contains(f.Name, "Hmac") ||
				strings.HasPrefix(f.Name, "Webhook-") || f.Name != http.CanonicalHeaderKey(f.Name) {
				t.Errorf("%s has the header %s", provider, f.Name)
			}
		}
		if provider == "twilio" {
			if form, err := url.ParseQuery(string(e.Body)); err != nil || form.Get("Body") == "" {
				t.Errorf("%s: %s", provider, e.Body)
			}
		} else if !json.Valid(e.Body) {
			t.Errorf("%s: %s", provider, e.Body)
		}
		if again := w.sample(ep, provider, ""); string(again.Body) == string(e.Body) && provider != "github" {
			t.Errorf("two samples of %s are equal", provider)
		}
	}
	alone := *ep
	alone.Destinations, alone.Rev = nil, 1000
	if e := w.sample(&alone, "github", ""); e.Reason != event.NoDestination {
		t.Errorf("without a destination the reason is %q", e.Reason)
	}
	d, _ := id.NewGenerator(nil).New(0)
	if _, err := w.ingest.Sample(ep, "nobody", "", d); !errors.Is(err, ErrUnknownProvider) {
		t.Errorf("an unknown provider is %v", err)
	}
}
