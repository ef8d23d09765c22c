package webhook

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/test/desttest"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// client makes attempts with a kind of its own.
type client struct {
	*Kind
	sender *destination.Sender
}

func (c *client) send(
	ctx context.Context, attemptID id.ID, to *target, work *event.Work, content destination.Content,
) *event.Attempt {
	bound := *to
	bound.kind, bound.transport = c.Kind, c.Transport
	attempt, _ := c.sender.Send(ctx, attemptID, &bound, work, content, nil, func() bool { return true })
	return attempt
}

func testClient(t testing.TB, policy egress.Policy) *client {
	t.Helper()
	transport := must.Get(egress.NewTransport(egress.Config{Policy: policy}))(t)
	t.Cleanup(transport.CloseIdleConnections)
	return newTestClient(transport)
}

func newTestClient(transport http.RoundTripper) *client {
	return &client{New(Deps{Transport: transport, Now: time.Now, Version: "test"}),
		destination.NewSender(time.Now, 1000, newWaited(), nil)}
}

func newWaited() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "waited"})
}

func loopback() egress.Policy {
	return egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowHTTP: true}
}

func testTarget(t testing.TB, address string, secrets ...sign.Secret) *target {
	t.Helper()
	u := must.Get(url.Parse(address))(t)
	to := &target{Opened: destination.Opened{Timeout: 2 * time.Minute}, url: u, urlText: address}
	for _, s := range secrets {
		to.Secrets = append(to.Secrets, destination.LiveSecret{Secret: s})
	}
	return to
}

func testWork(t testing.TB, body []byte, header ...event.Field) *event.Work {
	t.Helper()
	eventID := must.Get(id.NewGenerator(nil).New(0))(t)
	return &event.Work{
		Event: &event.Event{
			ID: eventID, Endpoint: "ep_test", Source: event.SourceProvider, Verdict: event.VerdictVerified,
			Method: http.MethodPost,
			Header: header, Body: body,
		},
		Dest: "dst_test", Trigger: event.TriggerInitial, Attempt: 1,
	}
}

// send makes one attempt against a handler.
func send(t *testing.T, h http.HandlerFunc, work *event.Work, change ...func(*target)) *event.Attempt {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	target := testTarget(t, srv.URL+"/hook?q=1", sign.NewSecret())
	for _, f := range change {
		f(target)
	}
	return testClient(t, loopback()).send(t.Context(), work.Event.ID, target, work, destination.Stored(work))
}

func TestBodyArrivesByteForByte(t *testing.T) {
	random := make([]byte, 1<<20)
	rand.Read(random)
	for name, body := range map[string][]byte{
		"empty": nil, "one byte": {0}, "1 MiB of random bytes": random, "invalid UTF-8": []byte("a\xff\xfe\x00z"),
		"line ends": []byte("a\r\nb\nc\r"), "duplicate keys": []byte(`{"a":1,"a":2}`), "white space": []byte("  { } \n"),
	} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			var gotBody []byte
			var got *http.Request
			const latin1 = "Zo\xeb"
			work := testWork(t, body, event.Field{Name: "Content-Type", Value: "application/x"},
				event.Field{Name: "X-High", Value: latin1})
			work.Event.Method = method
			attempt := send(t, func(_ http.ResponseWriter, r *http.Request) { gotBody, _ = io.ReadAll(r.Body); got = r }, work,
				func(target *target) { target.KeepMethod = true })
			if attempt.Code != 200 || sha256.Sum256(gotBody) != sha256.Sum256(body) {
				t.Errorf("%s %s: %+v, %d of %d bytes", method, name, attempt, len(gotBody), len(body))
				continue
			}
			if got.Method != method || got.RequestURI != "/hook?q=1" || got.ContentLength != int64(len(body)) ||
				got.TransferEncoding != nil || got.Header.Get("X-High") != latin1 {
				t.Errorf("%s %s: %s %s, length %d, %v, %q", method, name, got.Method, got.RequestURI, got.ContentLength,
					got.TransferEncoding, got.Header["X-High"])
			}
		}
	}
}

func TestRecordedResponse(t *testing.T) {
	t.Parallel()
	timeout := 2 * time.Minute
	f := func(name string, h http.HandlerFunc, want func(attempt *event.Attempt) string) {
		t.Helper()
		attempt := send(t, h, testWork(t, []byte("x")), func(target *target) { target.Timeout = timeout })
		if problem := want(attempt); problem != "" {
			t.Errorf("%s: %s: code %d, error %q %q, %d bytes, truncated %v, took %v", name, problem,
				attempt.Code, attempt.ErrorCode, attempt.ErrorMessage, len(attempt.ResponseBody), attempt.Truncated,
				attempt.Duration)
		}
	}
	expect := func(code, size int, truncated bool) func(*event.Attempt) string {
		return func(attempt *event.Attempt) string {
			if attempt.Code != code || attempt.OK != (code < 300) || len(attempt.ResponseBody) != size ||
				attempt.Truncated != truncated {
				return fmt.Sprintf("want code %d, %d bytes, truncated %v", code, size, truncated)
			}
			return ""
		}
	}
	write := func(n int) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) { rw.Write(bytes.Repeat([]byte("y"), n)) }
	}
	f("no body", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) }, expect(204, 0, false))
	f("short", write(100), expect(200, 100, false))
	f("one less than what is kept", write(maxRecordedBody-1), expect(200, maxRecordedBody-1, false))
	f("what is kept", write(maxRecordedBody), expect(200, maxRecordedBody, false))
	f("more than is kept", write(maxRecordedBody+1), expect(200, maxRecordedBody, true))
	f("more than is read", write(1<<20), expect(200, maxRecordedBody, true))
	f("endless", func(rw http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := rw.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}, expect(200, maxRecordedBody, true))
	f("cut", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "1000")
		rw.Write([]byte("half"))
		rw.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, expect(200, 4, true))
	f("redirect", func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/elsewhere", http.StatusFound) },
		expect(302, 0, false))

	failure := func(code event.ErrorCode) func(*event.Attempt) string {
		return func(attempt *event.Attempt) string {
			if attempt.Code != 0 || attempt.ErrorCode != code || attempt.ErrorMessage == "" {
				return "want " + string(code)
			}
			return ""
		}
	}
	f("hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		failure(event.CodeConnectionReset))
	f("header flood", func(rw http.ResponseWriter, _ *http.Request) {
		for i := range 100 {
			rw.Header().Set("X-"+strconv.Itoa(i), strings.Repeat("z", 1000))
		}
	}, failure(event.CodeResponseTooLarge))

	timeout = 100 * time.Millisecond
	f("silent", func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}, failure(event.CodeTimeout))
	timeout = 3 * time.Second // a slow machine needs time for the beginning
	f("late", func(rw http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		rw.Write([]byte("soon"))
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	}, expect(200, 4, true))
}

func TestAttemptSaysWhereAndHowLong(t *testing.T) {
	attempt := send(t, func(rw http.ResponseWriter, _ *http.Request) {
		time.Sleep(20 * time.Millisecond)
		rw.Header().Set("X-Answer", "42")
		rw.Write([]byte("ok"))
	}, testWork(t, []byte("x")))
	if attempt.RemoteIP != netip.MustParseAddr("127.0.0.1") || attempt.TTFB < 20*time.Millisecond ||
		attempt.Duration < attempt.TTFB ||
		attempt.Method != "POST" {
		t.Errorf("%+v", attempt)
	}
	found := false
	for _, f := range attempt.ResponseHeader.Fields() {
		found = found || f == event.Field{Name: "X-Answer", Value: "42"}
	}
	if !found {
		t.Errorf("response headers %v", attempt.ResponseHeader)
	}
}

// Some attempt sets each field, whether the destination answers or not. A field that nothing sets would be stored and
// shown as empty without anyone noticing. OK comes from the class of the answer, which the caller sets.
func TestAttemptsCanHaveEveryField(t *testing.T) {
	answered := send(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "7")
		rw.Write(make([]byte, maxRecordedBody+1))
	}, testWork(t, []byte("x")))
	failed := send(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, testWork(t, []byte("x")))
	answered.Trace = "x"               // TestAttemptOfATracedEvent
	answered.TransformationVersion = 1 // TestTransformedBodiesAreDelivered
	for f := range reflect.TypeFor[event.Attempt]().Fields() {
		set := func(attempt *event.Attempt) bool { return !reflect.ValueOf(*attempt).FieldByIndex(f.Index).IsZero() }
		if f.Name != "OK" && !set(answered) && !set(failed) {
			t.Errorf("no attempt has its %s", f.Name)
		}
	}
}

func TestUnreachableDestinations(t *testing.T) {
	f := func(name string, policy egress.Policy, address string, want event.ErrorCode) {
		t.Helper()
		work := testWork(t, []byte("x"))
		target := testTarget(t, address, sign.NewSecret())
		attempt := testClient(t, policy).send(t.Context(), work.Event.ID, target, work, destination.Stored(work))
		if attempt.ErrorCode != want || attempt.Code != 0 {
			t.Errorf("%s: %+v, want %s", name, attempt, want)
		}
		if classified := Classify(attempt.Code, attempt.ErrorCode, nil); classified.Class != destination.Retryable {
			t.Errorf("%s is not retried", name)
		}
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed := l.Addr().String()
	l.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	f("connection refused", loopback(), "http://"+closed, event.CodeConnectionRefused)
	f("unknown certificate", loopback(), secure.URL, event.CodeTLS)
	f("no TLS", loopback(), strings.Replace(plain.URL, "http:", "https:", 1), event.CodeTLS)
	f("RELAY_EGRESS_ALLOW", egress.Policy{AllowHTTP: true}, plain.URL, event.CodeAddressBlocked)
	f("http not allowed", egress.Policy{}, plain.URL, event.CodeAddressBlocked)
}

// net/http itself repeats a request without a body when the receiver closes a kept connection and the request carries
// an Idempotency-Key. An attempt is one destination.
func TestOneAttemptIsOneRequest(t *testing.T) {
	for _, body := range []string{"", "with a body"} {
		var requests atomic.Int64
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		hangUp := make(chan bool, 1)
		srv := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			requests.Add(1)
			is.Equal(t, r.Header.Get("Idempotency-Key"), "k1", "the key did not arrive: %v", r.Header)
			if <-hangUp {
				panic(http.ErrAbortHandler)
			}
		})}
		var serving sync.WaitGroup
		serving.Go(func() { srv.Serve(l) })
		t.Cleanup(func() { srv.Close(); serving.Wait() })
		c := testClient(t, loopback())
		target := testTarget(t, "http://"+l.Addr().String(), sign.NewSecret())
		work := testWork(t, []byte(body), event.Field{Name: "Idempotency-Key", Value: "k1"},
			event.Field{Name: "X-Idempotency-Key", Value: "k2"})
		hangUp <- false
		if attempt := c.send(t.Context(), work.Event.ID, target, work, destination.Stored(work)); attempt.Code != 200 {
			t.Fatalf("first attempt: %+v", attempt)
		}
		hangUp <- true
		if attempt := c.send(t.Context(), work.Event.ID, target, work, destination.Stored(work)); attempt.Code != 0 {
			t.Fatalf("second attempt: %+v", attempt)
		}
		is.Equal(t, requests.Load(), 2, "body %q … requests for two attempts", body)
	}
}

// closing is a transport whose connection the server closes between two requests.
type closing struct {
	http.RoundTripper
	failures []error
}

func (c *closing) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(c.failures) == 0 {
		return c.RoundTripper.RoundTrip(r)
	}
	err := c.failures[0]
	c.failures = c.failures[1:]
	return nil, err
}

// A request that the receiver cannot have read costs no attempt. One that it may have read does.
func TestClosedIdleConnectionCostsNoAttempt(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	c := &closing{}
	x := desttest.New(t, desttest.Loopback(), kinds.Settings{}, func(r *desttest.Rig) destination.Kind {
		c.RoundTripper = r.Transport
		return New(Deps{Transport: c, Keyring: r.Keyring, Now: time.Now, Version: "test"})
	})
	x.Dest.URL = server.URL
	x.Open()
	idle := errors.New(closedIdle)
	for _, want := range []struct {
		failures []error
		code     int
	}{{[]error{idle}, 200}, {[]error{idle, idle}, 0}, {[]error{io.EOF}, 0}} {
		c.failures = slices.Clone(want.failures)
		a, _ := x.Send("x")
		is.Equal(t, a.Code, want.code, "after %v", want.failures)
		is.Equal(t, len(c.failures), 0, "requests are missing")
	}
}

func headerOf(t *testing.T, work *event.Work, target *target) http.Header {
	t.Helper()
	return destination.Header(
		work, destination.Stored(work), &target.Opened, "EventRelay/test", time.Unix(1_800_000_000, 0))
}

func TestForwardedHeaders(t *testing.T) {
	field := func(name, value string) event.Field { return event.Field{Name: name, Value: value} }
	work := testWork(t, []byte("x"),
		field("Content-Type", "application/json"), field("X-Github-Event", "push"), field("X-Many", "1"), field("X-Many",
			"2"),
		field("Authorization", "Bearer theirs"), field("User-Agent", "Provider/1"), field("Content-Encoding", "gzip"),
		field("Connection", "close, X-Hop"), field("X-Hop", "1"), field("Keep-Alive", "timeout=5"), field("Te", "trailers"),
		field("Trailer", "X"), field("Transfer-Encoding", "chunked"), field("Upgrade", "h2c"), field("Proxy-Authorization",
			"x"),
		field("Proxy-Connection", "x"), field("Host", "relay.example"), field("Content-Length", "7"), field("Expect",
			"100-continue"),
		field("Accept-Encoding", "br"), field("X-Forwarded-For", "1.2.3.4"), field("X-Forwarded-Proto", "https"),
		field("Forwarded", "for=1.2.3.4"), field("X-Real-Ip", "1.2.3.4"), field("Relay-Attempt", "99"),
		field("Relay-Verification", "sent"), field("X-Client-Ip", "1.2.3.4"), field("Relay-Unknown", "x"),
		field("Access-Control-Request-Headers", "Content-Type, X-Many"),
	)
	work.Attempt, work.Trigger = 3, event.TriggerRetry
	secret := sign.NewSecret()
	target := testTarget(t, "https://example.com/", secret)
	target.Header = []event.Field{field("X-Extra", "yes"), field("Authorization", "Bearer ours")}
	got := headerOf(t, work, target)
	eventID := work.Event.ID.Text(id.Event)
	signature := sign.Sign([]sign.Secret{secret}, eventID, time.Unix(1_800_000_000, 0), []byte("x"))
	want := http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"push"}, "X-Many": {"1", "2"}, "Content-Encoding": {"gzip"},
		"Authorization": {"Bearer ours"}, "X-Extra": {"yes"}, "User-Agent": {"EventRelay/test"},
		"Access-Control-Request-Headers": {"Content-Type, X-Many"},
		"Webhook-Id":                     {eventID}, "Webhook-Timestamp": {"1800000000"}, "Webhook-Signature": {signature},
		"Relay-Webhook-Id": {eventID}, "Relay-Webhook-Timestamp": {"1800000000"}, "Relay-Webhook-Signature": {signature},
		"Relay-Endpoint-Id": {"ep_test"}, "Relay-Destination-Id": {"dst_test"},
		"Relay-Delivery-Id": {id.DeliveryOf(work.Event.ID, "dst_test")},
		"Relay-Attempt":     {"3"}, "Relay-Trigger": {"retry"},
		"Relay-Hops": {"1"}, "Relay-Path": {"ep_test"}, "Relay-Verification": {"verified"},
	}
	is.Same(t, got, want)
	target.Header = append(target.Header, field("User-Agent", "Shop/2"), field("Relay-Attempt", "7"))
	want.Set("User-Agent", "Shop/2") // the only one of the relay's headers that a destination chooses
	is.Same(t, headerOf(t, work, target), want)
}

// A destination learns the result of the inbound signature check. No received header is forwarded by which a stranger
// could pose as someone else, as no signature covers headers. Neither the provider nor the destination's own headers
// can change that.
func TestReceivedHeadersCannotImpersonate(t *testing.T) {
	names := []string{
		"X-Http-Method-Override", "X-Original-Url", "X-Rewrite-Url", "X-Remote-User", "X-Auth-Request-User",
		"X-Auth-Request-Email",
		"True-Client-Ip", "Cf-Connecting-Ip", "X-Client-Ip", "Remote-User", "X-Webauth-User", "X-Method-Override",
		"X-Http-Method",
		"X-Original-Uri", "X-Host", "X-Forwarded", "X-Cluster-Client-Ip", "X-Originating-Ip", "Fastly-Client-Ip",
		"X-Client-Cert",
		"X-Ssl-Client-Verify", "X_ssl_client_s_dn", "Remote_user", "X_remote_user", "X_forwarded_for",
		"X_auth_request_groups", "Remote-Email", "Client-Ip", "X-Ms-Client-Principal", "X-Ms-Client-Principal-Name",
		"X-Amzn-Oidc-Identity", "X-Goog-Authenticated-User-Email", "Cf-Access-Authenticated-User-Email",
		"Tailscale-User-Login", "Wl-Proxy-Client-Ip",
		"Proxy", "X-Middleware-Subrequest", "X-Authentik-Username", "X-Vouch-User", "X-Pomerium-Claim-Email",
		"X-Consumer-Username", "X-Envoy-External-Address", "X-Appengine-Cron", "X-Endpoint-Api-Userinfo", "X-Ssl-Cert",
		"X-Aws-Sqsd-Msgid", "X-Authenticated-User", "X-Userinfo", "X-Jwt-Assertion", "X-Client-Verify", "X-Cloudscheduler",
	}
	header := []event.Field{
		{Name: "Authorization", Value: "a"}, {Name: "Cookie", Value: "c"}, {Name: "Relay-Verification", Value: "verified"},
	}
	for _, name := range names {
		header = append(header, event.Field{Name: name, Value: "x"})
	}
	for _, c := range []struct {
		source  event.Source
		verdict event.Verdict
		proof   string
		kept    bool
	}{
		{event.SourceProvider, event.VerdictVerified, "verified", false},
		{event.SourceProvider, event.VerdictObserved, "observed", false},
		{event.SourceProvider, event.VerdictUnverified, "unverified", false},
		{event.SourceProvider, event.VerdictRejected, "unverified", false}, // after a replay that did not verify it
		{event.SourceAPI, event.VerdictUnverified, "sent", true},
		{event.SourceTest, event.VerdictVerified, "sent", true},
	} {
		work := testWork(t, nil, header...)
		work.Event.Source, work.Event.Verdict = c.source, c.verdict
		target := testTarget(t, "https://example.com/", sign.NewSecret())
		target.Header = []event.Field{{Name: "Relay-Verification", Value: "verified"}}
		got := headerOf(t, work, target)
		if v := got["Relay-Verification"]; len(v) != 1 || v[0] != c.proof {
			t.Errorf("%s %s: relay-verification %q, want %q", c.source, c.verdict, v, c.proof)
		}
		if got.Get("Authorization") == "a" != c.kept || got.Get("Cookie") == "c" != c.kept {
			t.Errorf("%s %s: credentials forwarded", c.source, c.verdict)
		}
		target.AllowHeaders = append(slices.Clone(names), "X-", "Cookie")
		allowed := headerOf(t, work, target)
		target.Provider = verify.ByName(verify.GitHub)
		known := headerOf(t, work, target)
		is.Equal(t, known.Get("Cookie"), "c", "a credential that is allowed")
		for _, name := range names {
			for _, h := range []http.Header{got, allowed, known} {
				is.Equal(t, h[name] != nil, c.kept, "%s %s: %s forwarded", c.source, c.verdict, name)
			}
		}
	}
}

// Of a provider whose signature is verified, the headers that it sends are forwarded. Of others all are but
// credentials, or only those that the endpoint allows.
func TestHeadersThatAreForwarded(t *testing.T) {
	var header []event.Field
	for _, name := range []string{
		"Content-Type", "Content-Language", "Traceparent", "X-Hub-Signature-256", "X-Github-Event", "X-Github-New",
		"X-Shop-Id", "X-Shop-Plan", "Authorization", "X-Api-Key", "X_api_key", "X_github_event", "Webhook-Id",
	} {
		header = append(header, event.Field{Name: name, Value: "received"})
	}
	f := func(provider string, allow []string, want string) {
		t.Helper()
		target := testTarget(t, "https://example.com/", sign.NewSecret())
		target.AllowHeaders = allow
		if scheme := verify.ByName(provider); scheme.KnowsHeaders() {
			target.Provider = scheme
		}
		var got []string
		for name, values := range headerOf(t, testWork(t, nil, header...), target) {
			if values[0] == "received" {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		is.Equal(t, strings.Join(got, " "), want, "%s, %q", provider, allow)
	}
	const content, github = "Content-Language Content-Type Traceparent", " X-Github-Event X-Github-New X-Hub-Signature-256"
	f("github", nil, content+github)
	f("github", []string{"X-Shop-", "Authorization"}, "Authorization "+content+github+" X-Shop-Id X-Shop-Plan")
	f("stripe", nil, content)
	f("hmac", nil, content+" Webhook-Id"+github+" X-Shop-Id X-Shop-Plan X_github_event")
	f("generic", []string{"X-Shop-Id", "X-Api-Key"}, content+" X-Api-Key X-Shop-Id")
}

// A received event is delivered as POST unless its endpoint keeps methods: no signature covers the method. The attempt
// records the method that was sent.
func TestMethodOfReceivedEvents(t *testing.T) {
	f := func(source event.Source, method string, keep bool, want string) {
		t.Helper()
		work := testWork(t, []byte("x"))
		work.Event.Source, work.Event.Method = source, method
		var got []string
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = append(got, r.Method)
		}))
		defer server.Close()
		target := testTarget(t, server.URL, sign.NewSecret())
		target.KeepMethod = keep
		attempt := testClient(t, loopback()).send(t.Context(), work.Event.ID, target, work, destination.Stored(work))
		if len(got) != 1 || got[0] != want || attempt.Method != want {
			t.Errorf("%s %s, kept %t: the destination got %+v, the attempt says %s", source, method, keep, got, attempt.Method)
		}
	}
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		f(event.SourceProvider, method, false, "POST")
		f(event.SourceProvider, method, true, method)
	}
	f(event.SourceAPI, "POST", false, "POST")
}

// The signature of a provider that uses the same scheme stays verifiable: its headers are kept beside those of the
// relay.
func TestSignedProviderStaysVerifiable(t *testing.T) {
	for _, name := range []string{"Webhook-Id", "Webhook-Signature"} {
		work := testWork(t, []byte("x"), event.Field{Name: name, Value: "theirs"},
			event.Field{Name: "Webhook-Timestamp", Value: "1"})
		got := headerOf(t, work, testTarget(t, "https://example.com/", sign.NewSecret()))
		if got.Get(name) != "theirs" || got.Get("Webhook-Timestamp") != "1" ||
			got.Get("Relay-Webhook-Id") != work.Event.ID.Text(id.Event) {
			t.Errorf("%s: %v", name, got)
		}
		for _, other := range []string{"Webhook-Id", "Webhook-Signature"} {
			if other != name && got.Get(other) != "" {
				t.Errorf("%s was added beside the provider's %s", other, name)
			}
		}
	}
	work := testWork(t, []byte("x"), event.Field{Name: "Webhook-Timestamp", Value: "1"})
	if got := headerOf(t, work, testTarget(t, "https://example.com/",
		sign.NewSecret())); len(got["Webhook-Timestamp"]) != 1 || got.Get("Webhook-Timestamp") == "1" {
		t.Errorf("a timestamp alone was kept: %v", got["Webhook-Timestamp"])
	}
}

// During a rotation both secrets verify with the Standard Webhooks library. An expired secret no longer signs.
func TestTwoSecretsTwoSignatures(t *testing.T) {
	body := []byte(`{"type":"order.created"}`)
	fresh, old, gone := sign.NewSecret(), sign.NewSecret(), sign.NewSecret()
	now := time.Now()
	target := testTarget(t, "https://example.com/")
	target.Secrets = []destination.LiveSecret{{Secret: fresh}, {Secret: old, Until: now.Add(time.Hour)},
		{Secret: gone, Until: now.Add(-time.Second)}}
	h := destination.Header(testWork(t, body), destination.Content{Body: body}, &target.Opened, "EventRelay/test", now)
	if n := len(strings.Fields(h.Get("Webhook-Signature"))); n != 2 {
		t.Fatalf("%d signatures: %s", n, h.Get("Webhook-Signature"))
	}
	verify := func(s sign.Secret) error {
		wh := must.Get(standardwebhooks.NewWebhook(s.Reveal()))(t)
		return wh.Verify(body, h)
	}
	is.OK(t, verify(fresh), "the new secret")
	is.OK(t, verify(old), "the old secret")
	if verify(gone) == nil {
		t.Error("an expired secret still signs")
	}
}

func TestCredentialsAreMaskedInTheRow(t *testing.T) {
	work := testWork(t, []byte("x"), event.Field{Name: "Cookie", Value: "sid=theirs"},
		event.Field{Name: "X-Order", Value: "7"})
	attempt := send(t, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Set-Cookie", "sid=receiver")
	}, work, func(target *target) {
		target.Header = []event.Field{{Name: "Authorization", Value: "Bearer ours"}, {Name: "X-Api-Key", Value: "k-ours"},
			{Name: "X-Plain", Value: "plain"}}
	})
	text := fmt.Sprint(attempt.RequestHeader, attempt.ResponseHeader)
	for _, secret := range []string{"theirs", "ours", "receiver"} {
		is.Lacks(t, text, secret, "%q is recorded", secret)
	}
	for _, shown := range []string{"X-Order: 7\n", "X-Plain: plain\n", "Authorization: ****\n"} {
		is.Has(t, text, shown, "%q is missing", shown)
	}
}

// A request that a stop cancels has no status code, by which the caller knows that it must not record the attempt.
func TestCancelledRequestHasNoStatus(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer srv.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	work := testWork(t, []byte("x"))
	target := testTarget(t, srv.URL)
	c := testClient(t, loopback())
	if attempt := c.send(ctx, work.Event.ID, target, work, destination.Stored(work)); attempt.Code != 0 ||
		ctx.Err() == nil {
		t.Errorf("%+v", attempt)
	}
}

// A recorded attempt masks values that the configuration hides. It shows the headers of the provider and the signature
// of the relay.
func TestRecordedHeadersHideCredentials(t *testing.T) {
	h := http.Header{
		"X-Signature": {"s3cret"}, "Ocp-Apim-Subscription-Key": {"s3cret"}, "Authorization": {"s3cret"}, "X-Plain": {"shown"},
		"Webhook-Signature": {"v1,shown"}, "X-Hub-Signature-256": {"sha256=shown"},
	}
	added := []event.Field{{Name: "X-Signature"}, {Name: "Ocp-Apim-Subscription-Key"}, {Name: "X-Plain"}}
	for _, f := range new(destination.Names).Recorded(h, added).Fields() {
		is.Equal(t, f.Value == destination.Mask, h.Get(f.Name) == "s3cret", "%s is recorded as %s", f.Name, f.Value)
	}
}

// What was received about the stored bytes is left out beside other bytes, and only there.
func TestHeadersOfTheStoredBody(t *testing.T) {
	about := []string{"Content-Encoding", "Content-Md5", "Content-Digest", "Repr-Digest", "Digest", "Stripe-Signature",
		"X-Hub-Signature", "X-Shopify-Hmac-Sha256", "X-Slack-Signature", "X-Twilio-Signature", "Signature-Input",
		"X_hub_signature", "X-Acme-Sig"}
	var fields []event.Field
	for _, name := range append(about, "X-Slack-Request-Timestamp", "Content-Type") {
		fields = append(fields, event.Field{Name: name, Value: "v"})
	}
	work := testWork(t, []byte(`{"a":1}`), fields...)
	for _, made := range []destination.Content{
		destination.Stored(work), {Body: []byte(`{}`), Version: 1, Changed: true, Signature: "X-Acme-Sig"},
	} {
		h := destination.Header(work, made, &testTarget(t, "http://localhost").Opened, "test", time.Now())
		for _, name := range about {
			if _, there := h[name]; there != (made.Version == 0) {
				t.Errorf("version %d: %s forwarded: %v", made.Version, name, there)
			}
		}
		if h.Get("X-Slack-Request-Timestamp") != "v" || h.Get("Content-Type") != "v" {
			t.Errorf("version %d: %v", made.Version, h)
		}
	}
}

func TestClassify(t *testing.T) {
	both := []string{"3xx", "4xx"}
	f := func(status int, failure event.ErrorCode, retryOn []string, want destination.Classification) {
		t.Helper()
		is.Equal(t, Classify(status, failure, retryOn), want, "%d %s with retry_on %v", status, failure, retryOn)
	}
	again := func(code event.ErrorCode) destination.Classification {
		return destination.Classification{Class: destination.Retryable, Code: code}
	}
	final := func(code event.ErrorCode, r event.Reason) destination.Classification {
		return destination.Classification{Class: destination.Final, Code: code, Reason: r}
	}
	for _, status := range []int{200, 201, 202, 204, 206, 299} {
		f(status, "", nil, destination.Classification{})
	}
	for _, status := range []int{408, 409, 425, 429, 500, 502, 503, 504, 599, 101, 600, 999} {
		f(status, "", nil, again(event.CodeHTTPStatus))
	}
	f(410, "", both, final(event.CodeHTTPStatus, event.Gone410))
	f(410, "", []string{"410"}, final(event.CodeHTTPStatus, event.Gone410))
	f(400, "", both, again(event.CodeHTTPStatus))
	f(404, "", nil, final(event.CodeHTTPStatus, event.NotRetryable))
	f(404, "", []string{"404"}, again(event.CodeHTTPStatus))
	f(401, "", []string{"404", "3xx"}, final(event.CodeHTTPStatus, event.NotRetryable))
	for _, status := range []int{301, 302, 303, 307, 308} {
		f(status, "", both, again(event.CodeRedirectBlocked))
		f(status, "", []string{"4xx"}, final(event.CodeRedirectBlocked, event.NotRetryable))
	}
	f(304, "", both, again(event.CodeHTTPStatus))
	f(302, "", []string{"302"}, again(event.CodeRedirectBlocked))
	for _, code := range []event.ErrorCode{
		event.CodeTimeout, event.CodeDNS, event.CodeConnectionRefused, event.CodeConnectionReset,
		event.CodeNetworkUnreachable,
		event.CodeNetwork, event.CodeTLS, event.CodeAddressBlocked, event.CodeResponseTooLarge, event.CodeInternal,
	} {
		f(0, code, nil, again(code))
	}
}

func testKeyring(t *testing.T) *seal.Keyring {
	t.Helper()
	keyring := must.Get(seal.NewKeyring(seal.GenerateKey("test")))(t)
	return keyring
}

// The URL of a target, which attempts record, has no credentials. What cannot be opened or parsed is an error: a
// request without its header or signature must not be sent.
func TestOpenTarget(t *testing.T) {
	keyring, secret := testKeyring(t), sign.NewSecret()
	dest := func() *config.Destination {
		return &config.Destination{
			ID: "d", URL: "https://user:password@example.com/hook?a=1#part",
			DestinationSettings: config.DestinationSettings{TimeoutSeconds: 7},
			Headers:             map[string]seal.Secret{"x-key": keyring.SealString("d", seal.FieldHeader("x-key"), "value")},
			Secrets:             []config.SigningSecret{{Secret: keyring.SealString("d", seal.FieldSecret, secret.Reveal())}},
		}
	}
	opened := must.Get(New(Deps{Keyring: keyring}).Open(&config.Endpoint{
		EndpointSettings: config.EndpointSettings{KeepMethod: true}}, dest()))(t)
	to := opened.(*target)
	if want := "https://example.com/hook?a=1"; to.urlText != want || to.url.String() != want {
		t.Errorf("the URL is %s, as text %s", to.url, to.urlText)
	}
	is.Same(t, to.Header, []event.Field{{Name: "X-Key", Value: "value"}})
	if !to.KeepMethod || to.Timeout != 7*time.Second ||
		len(to.SigningSecrets(time.Now())) != 1 {
		t.Errorf("%+v", to)
	}
	for want, spoil := range map[string]func(*config.Destination){
		"parse url of d":      func(d *config.Destination) { d.URL = "https://[" },
		"open header":         func(d *config.Destination) { d.Headers["x-other"] = "test:AAAA" },
		"open signing secret": func(d *config.Destination) { d.Secrets[0].Secret = d.Headers["x-key"] },
		"read signing secret of d": func(d *config.Destination) {
			d.Secrets[0].Secret = keyring.SealString("d", seal.FieldSecret, "?")
		},
	} {
		d := dest()
		spoil(d)
		target, err := New(Deps{Keyring: keyring}).Open(&config.Endpoint{}, d)
		if err == nil || target != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", target, err, want)
		}
	}
}

// batches delivers to a handler, which gets the body too.
func batches(
	t *testing.T, settings kinds.HTTPBatch, answer func(http.ResponseWriter, *http.Request, []byte),
) *desttest.Rig {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(w, r, must.Get(io.ReadAll(r.Body))(t))
	}))
	t.Cleanup(server.Close)
	x := desttest.New(t, desttest.Loopback(), kinds.Settings{HTTPBatch: &settings, Auth: &kinds.Auth{Type: kinds.Basic,
		Username: "relay", Password: "hunter2"}}, func(r *desttest.Rig) destination.Kind {
		return New(Deps{Transport: r.Transport, Keyring: r.Keyring, Now: time.Now, Version: "test"})
	})
	x.Dest.URL = server.URL
	x.Open()
	return x
}

// Events that come together are one signed request, whose answer decides for all of them.
func TestBatchesOfEvents(t *testing.T) {
	status := http.StatusOK
	var bodies [][]byte
	var x *desttest.Rig
	x = batches(t, kinds.HTTPBatch{Events: 30, Seconds: 30}, func(w http.ResponseWriter, r *http.Request, body []byte) {
		bodies = append(bodies, body)
		name := r.Header.Get("Webhook-Id")
		at := time.Unix(must.Get(strconv.ParseInt(r.Header.Get("Webhook-Timestamp"), 10, 64))(t), 0)
		if user, password, _ := r.BasicAuth(); user != "relay" || password != "hunter2" || r.Method != "POST" ||
			r.Header.Get("X-Team") != "billing" || r.Header.Get("Content-Type") != "application/json" ||
			r.Header.Get("Relay-Hops") != "1" || r.Header.Get("Relay-Path") != "ep_test" ||
			r.Header.Get("Webhook-Signature") != sign.Sign([]sign.Secret{x.Secret}, name, at, body) ||
			!strings.HasPrefix(name, "att_") || r.Header.Get("Relay-Delivery-Id") != "" {
			t.Errorf("%v", r.Header)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.Repeat("x", 3000))
	})
	for _, want := range []struct {
		status int
		class  destination.Class
	}{{200, destination.Delivered}, {503, destination.Retryable}, {404, destination.Final}} {
		status, bodies = want.status, nil
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				a, r := x.Send([]string{`{"a": [1, 2]}`, "no\nJSON"}[i%2])
				if r.Class != want.class || a.Code != want.status || a.Trigger != event.TriggerInitial || a.URL != x.Dest.URL ||
					len(a.ResponseBody) != maxBatchAnswer || a.RequestHeader.Value("Authorization") != destination.Mask {
					t.Errorf("%d %s %s", a.Code, a.ErrorCode, a.ErrorMessage)
				}
			})
		}
		all.Wait()
		var events []struct {
			ID      string
			Headers map[string]string
			Body    json.RawMessage
			Encoded []byte `json:"body_base64"`
		}
		must.Equal(t, len(bodies), 1, "requests")
		must.Do(t, json.Unmarshal(bodies[0], &events))
		count := map[string]int{}
		for _, e := range events {
			count[string(e.Body)+string(e.Encoded)]++
			if count[e.ID]++; e.Headers["relay-attempt"] != "1" || e.Headers["x-team"] != "" || count[e.ID] > 1 {
				t.Errorf("%+v", e)
			}
		}
		if len(events) != 30 || count[`{"a":[1,2]}`] != 15 || count["no\nJSON"] != 15 {
			t.Errorf("%v", count)
		}
	}
}

// A receiver that refuses one event gets the others without it; each request has a webhook-id of its own. What no
// parser may refuse is in JSON, whatever else is in base64.
func TestOneEventSpoilsNoBatch(t *testing.T) {
	names := map[string]bool{}
	got := map[string]int{}
	x := batches(t, kinds.HTTPBatch{Events: 30, Seconds: 30}, func(w http.ResponseWriter, r *http.Request, body []byte) {
		var events []struct {
			Body    json.RawMessage
			Encoded *[]byte `json:"body_base64"`
		}
		if err := json.Unmarshal(body, &events); err != nil || !utf8.Valid(body) || names[r.Header.Get("Webhook-Id")] {
			t.Errorf("%v: %q", err, body)
		}
		if names[r.Header.Get("Webhook-Id")] = true; bytes.Contains(body, []byte("refused")) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		for _, e := range events {
			if e.Encoded != nil {
				got["base64 "+string(*e.Encoded)]++
			}
			got[string(e.Body)]++
		}
	})
	bodies := []string{"", "J\xf6rg", `"J` + "\xf6" + `rg"`, `"\ud83d"`, "1e400",
		strings.Repeat("[", 61) + strings.Repeat("]", 61)}
	delivered := make([]bool, 30)
	var all sync.WaitGroup
	for i := range delivered {
		all.Go(func() {
			body := `"refused"`
			if i != 17 {
				body = append(slices.Clone(bodies), strconv.Itoa(i))[min(i, len(bodies))]
			}
			a, r := x.Send(body)
			if delivered[i] = r.Class == destination.Delivered; delivered[i] != (a.Code == 200 && a.ErrorMessage == "") {
				t.Errorf("%v: answered %d, %s", r.Class, a.Code, a.ErrorMessage)
			}
		})
	}
	all.Wait()
	for i, ok := range delivered {
		is.Equal(t, ok, i != 17, "event %d", i)
	}
	for i, body := range bodies {
		is.Equal(t, got["base64 "+body], 1, "body %d in base64", i)
	}
	is.Equal(t, got["29"], 1, "the last event")
	if len(names) > 13 {
		t.Errorf("%d requests", len(names))
	}

	// A receiver that refuses everything gets no request for each event.
	requests := 0
	x = batches(t, kinds.HTTPBatch{Events: 200, Seconds: 30}, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		requests++
		w.WriteHeader(http.StatusBadRequest)
	})
	for range 200 {
		all.Go(func() {
			if a, r := x.Send("{}"); a.Code != 400 || r.Class != destination.Final {
				t.Errorf("%d %v", a.Code, r.Class)
			}
		})
	}
	all.Wait()
	if requests < 2 || requests > 32 {
		t.Errorf("%d requests", requests)
	}
}

// After a refusal the halves are not sent to a receiver that then asks to wait, or hangs up.
func TestHalvesStopAtAnotherFailure(t *testing.T) {
	for _, status := range []int{http.StatusServiceUnavailable, 0} {
		var requests atomic.Int64
		x := batches(t, kinds.HTTPBatch{Events: 30, Seconds: 30}, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			if requests.Add(1) == 1 {
				w.WriteHeader(http.StatusBadRequest)
				return
			} else if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(status)
		})
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				if a, r := x.Send("{}"); a.Code != status || r.Class != destination.Retryable {
					t.Errorf("%d %v", a.Code, r.Class)
				}
			})
		}
		all.Wait()
		is.Equal(t, requests.Load(), 2, "requests")
	}
}

// Events of a half that was delivered wait for no other, but for the one whose delivery sends. Those whose halves are
// not sent in time are retried.
func TestHalvesThatAreNotSentInTime(t *testing.T) {
	x := batches(t, kinds.HTTPBatch{Events: 8, Seconds: 30}, func(w http.ResponseWriter, r *http.Request, _ []byte) {
		switch name := r.Header.Get("Webhook-Id"); {
		case strings.HasSuffix(name, "-1-4"):
			return
		case strings.HasSuffix(name, "-5-8"):
			time.Sleep(900 * time.Millisecond)
		case strings.HasSuffix(name, "-5-6"):
			time.Sleep(300 * time.Millisecond)
		case strings.Count(name, "-") > 0:
			t.Errorf("%s was sent", name)
		}
		w.WriteHeader(http.StatusBadRequest)
	})
	x.Dest.TimeoutSeconds = 1
	x.Open()
	var delivered, early, retried atomic.Int64
	began := time.Now()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			switch a, r := x.Send("{}"); {
			case a.Code == 200 && r.Class == destination.Delivered:
				if delivered.Add(1); time.Since(began) < 900*time.Millisecond {
					early.Add(1)
				}
			case a.Code == 400 && r.Class == destination.Retryable:
				retried.Add(1)
			}
		})
	}
	all.Wait()
	if delivered.Load() != 4 || early.Load() < 3 || retried.Load() != 4 {
		t.Errorf("%d delivered, %d of them at once, %d retried", delivered.Load(), early.Load(), retried.Load())
	}
}

// A destination that is paused while a batch is refused gets no halves of it: the events are retried.
func TestHalvesAreNotSentToAPausedDestination(t *testing.T) {
	var requests atomic.Int64
	x := batches(t, kinds.HTTPBatch{Events: 4, Seconds: 30}, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		requests.Add(1)
		w.WriteHeader(http.StatusBadRequest)
	})
	x.Current = func() bool { return requests.Load() == 0 }
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if a, r := x.Send("{}"); a.Code != 400 || r.Class != destination.Retryable {
				t.Errorf("%d %v", a.Code, r.Class)
			}
		})
	}
	all.Wait()
	is.Equal(t, requests.Load(), 1, "requests")
}

// No request is larger than its bound. An event that alone is larger fails, and is not retried.
func TestBatchesAreBounded(t *testing.T) {
	var mu sync.Mutex
	requests := 0
	x := batches(t, kinds.HTTPBatch{Seconds: 1, Bytes: 4096}, func(_ http.ResponseWriter, _ *http.Request, body []byte) {
		mu.Lock()
		defer mu.Unlock()
		if requests++; len(body) > 4096 || !json.Valid(body) {
			t.Errorf("%d bytes", len(body))
		}
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if a, _ := x.Send(`"` + strings.Repeat("x", 1000) + `"`); !a.OK {
				t.Errorf("%s %s", a.ErrorCode, a.ErrorMessage)
			}
		})
	}
	all.Wait()
	if requests < 7 || requests > 20 {
		t.Errorf("%d requests", requests)
	}
	x.Fails(strings.Repeat("x", 4096), event.CodeTooLarge, "more than max_bytes (4096)", destination.Final)
}

func TestMain(m *testing.M) { kit.Main(m) }
