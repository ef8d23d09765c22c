package ingest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	stripewebhook "github.com/stripe/stripe-go/v82/webhook"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// vector is a request that a provider's own library signed; see pkg/verify/testdata/vendors.
type vector struct {
	Name, Type, Secret, Method, URL, Body string
	Headers                               map[string]string
}

// otherSecret is well formed for every scheme.
const otherSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"

// vectors returns the vectors whose method can be an event, and the time at which they were signed.
func vectors(t *testing.T) (all []vector, now time.Time) {
	t.Helper()
	for _, name := range []string{"vectors.json", "python.json"} {
		text := must.Get(os.ReadFile("../pkg/verify/testdata/vendors/" + name))(t)
		var file struct {
			Now     int64
			Vectors []vector
		}
		must.Do(t, json.Unmarshal(text, &file))
		now = time.Unix(file.Now, 0)
		for _, v := range file.Vectors {
			if v.Method != http.MethodGet {
				all = append(all, v)
			}
		}
	}
	for name, body := range map[string]string{
		"json": `{"id":"evt_1","type":"a.b"}`, "empty": "", "bytes": "\x00\xff\xfe{\r\n"} {
		signed := stripewebhook.GenerateTestSignedPayload(
			&stripewebhook.UnsignedPayload{Payload: []byte(body), Secret: "whsec_test_secret", Timestamp: now})
		all = append(all, vector{
			Name: "stripe/" + name, Type: "stripe", Secret: "whsec_test_secret", Method: http.MethodPost, URL: baseURL +
				"/in/tok", Body: body,
			Headers: map[string]string{"Stripe-Signature": signed.Header},
		})
	}
	return all, now
}

// signatureHeader returns the name of the header that contains the signature.
func (v vector) signatureHeader() string {
	for name := range v.Headers {
		if lower := strings.ToLower(name); strings.HasSuffix(lower, "settings") {
			continue
		} else if strings.Contains(lower, "signature") || strings.Contains(lower, "hmac") {
			return name
		}
	}
	panic("no signature in " + v.Name)
}

// Requests that the providers' own libraries signed are accepted. Requests with a tampered body, another secret's
// signature, a missing, malformed or expired signature are rejected and stored with the reason.
func TestProviderLibrarySignatures(t *testing.T) {
	all, now := vectors(t)
	var clock atomic.Int64 // seconds
	clock.Store(now.Unix())
	w := newWorld(t, options{now: func() time.Time { return time.Unix(clock.Load(), 0) }})
	type expectation struct {
		name    string
		verdict event.Verdict
		reason  event.Reason
		body    string
	}
	var want []expectation
	send := func(v vector, what string, secrets []string, mode string, reason event.Reason) {
		t.Helper()
		// Each request is sent one second later, within the tolerance: only ten rejected requests a second are stored.
		if offset := clock.Load() - now.Unix(); offset >= 0 && offset < 250 {
			clock.Add(1)
		} else if offset == 250 {
			clock.Store(now.Unix())
		}
		base, rest, _ := strings.Cut(v.URL, PathPrefix+token)
		w.ingest.cfg.BaseURL = base
		w.change(func(ep *config.Endpoint) {
			ep.Verification = w.verification(v.Type, secrets...)
			ep.Verification.Mode = mode
		})
		var headers []string
		for name, value := range v.Headers {
			headers = append(headers, name, value)
		}
		status, verdict := 200, event.VerdictVerified
		switch {
		case reason == "":
		case mode == "observe":
			verdict = event.VerdictObserved
		default:
			status, verdict = 401, event.VerdictRejected
		}
		a := w.do(v.Method, rest, strings.NewReader(v.Body), headers...)
		if a.StatusCode != status || status == 401 && (!strings.Contains(a.body, `"code":"`+string(reason)+`"`) ||
			!strings.Contains(a.body, "/v1/events?status=rejected lists the event")) {
			t.Errorf("%s, %s: answered %d %s", v.Name, what, a.StatusCode, a.body)
		}
		want = append(want, expectation{v.Name + ", " + what, verdict, reason, v.Body})
	}
	for _, v := range all {
		mine := []string{v.Secret}
		send(v, "good", mine, "enforce", "")
		send(v, "two live secrets", []string{otherSecret, v.Secret}, "enforce", "")
		send(v, "wrong secret", []string{otherSecret}, "enforce", event.SignatureMismatch)
		send(v, "wrong secret, observed", []string{otherSecret}, "observe", event.SignatureMismatch)

		tampered := v
		tampered.Body += "&x=y"
		send(tampered, "tampered", mine, "enforce", event.SignatureMismatch)

		header := v.signatureHeader()
		unsigned := v
		unsigned.Headers = without(v.Headers, header)
		send(unsigned, "unsigned", mine, "enforce", event.SignatureMissing)
		unsigned.Headers[header] = "x"
		send(unsigned, "malformed", mine, "enforce", event.SignatureMalformed)

		for _, age := range []time.Duration{301 * time.Second, -301 * time.Second, 1e4 * time.Hour} {
			back := clock.Load()
			clock.Store(now.Add(age).Unix())
			switch v.Type {
			case "stripe", "slack", "standard_webhooks":
				send(v, fmt.Sprint("age ", age), mine, "enforce", event.TimestampTolerance)
			default:
				send(v, fmt.Sprint("age ", age), mine, "enforce", "")
			}
			clock.Store(back)
		}
	}
	events := w.stored()
	must.Equal(t, len(events), len(want), "events are stored")
	for i, e := range events {
		x := want[i]
		if e.Verdict != x.verdict || e.Reason != x.reason || string(e.Body) != x.body {
			t.Errorf("%s: stored as %s %q with %q", x.name, e.Verdict, e.Reason, e.Body)
		}
		is.Equal(t, len(e.Dests) > 0, x.verdict != event.VerdictRejected,
			"%s: %s with destinations %v", x.name, e.Verdict, e.Dests)
	}
	t.Logf("%d requests of %d vectors", len(want), len(all))
}

func without(m map[string]string, name string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		if k != name {
			out[k] = v
		}
	}
	return out
}

// Per endpoint and second ten rejected requests are stored; those with bodies larger than 64 KiB are not. Above 100 a
// second they are answered 429. All are counted.
func TestRejectionsAreBounded(t *testing.T) {
	var clock atomic.Int64
	clock.Store(1_800_000_000)
	w := newWorld(t, options{
		now:      func() time.Time { return time.Unix(clock.Load(), 0) },
		endpoint: func(w *world, ep *config.Endpoint) { ep.Verification = w.verification("github", "secret") },
	})
	body := strings.Repeat("x", 4<<10)
	named := map[string]bool{}
	for range 2 {
		if a := w.want(w.post(strings.Repeat("x", maxRejectedBody+1)), 401); a.Header.Get("Relay-Event-Id") != "" {
			t.Errorf("%v", a.Header)
		}
		for range 15 {
			a := w.want(w.post(body), 401)
			name := a.Header.Get("Relay-Event-Id")
			if !strings.Contains(a.body, `"code":"signature_missing"`) ||
				strings.Contains(a.body, "/v1/events/"+name+"/signature,") != (name != "") {
				t.Fatalf("%v %s", a.Header, a.body)
			}
			named[name] = true
		}
		clock.Add(1)
	}
	events := w.stored()
	if len(events) != 20 || len(named) != 21 { // and the empty name of what is not stored
		t.Fatalf("%d rejections are stored and %d named, want 20", len(events), len(named)-1)
	}
	for _, e := range events {
		if !named[e.ID.Text(id.Event)] ||
			string(e.Body) != body || e.Verdict != event.VerdictRejected || e.Reason != event.SignatureMissing ||
			e.Dests != nil || e.Type != "" {
			t.Fatalf("stored %d bytes as %s %s for %v", len(e.Body), e.Verdict, e.Reason, e.Dests)
		}
	}
	if all, unstored := w.metric(w.ingest.metrics.rejected.WithLabelValues("signature_missing")),
		w.metric(w.ingest.metrics.unstored); all != 32 || unstored != 12 {
		t.Errorf("counted %v, unstored %v", all, unstored)
	}
	for range maxRejected {
		w.want(w.post("x"), 401)
	}
	a := w.want(w.post("x"), 429)
	if a.Header.Get("Retry-After") != "1" || !strings.Contains(a.body, `"type":"rate_limited"`) {
		t.Errorf("request 101 within a second is answered %v %s", a.Header, a.body)
	}
	is.Equal(t, w.metric(w.ingest.metrics.limited.WithLabelValues("rejected")), 1, "answers 429 are counted")
	// The limit does not apply to accepted events.
	w.change(func(ep *config.Endpoint) { ep.Verification.Mode = "observe" })
	for range 15 {
		w.want(w.post("x"), 200)
	}
}

// Whoever sends rejected requests, from however many addresses, fills the log with at most 1 MiB a minute of an
// endpoint.
// One client leaves half of that to others; the first requests of each minute are stored.
func TestRejectedBytesAreBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	w := newIngest(t, options{now: func() time.Time { return now }}, nil)
	ep, perMinute := w.EndpointByToken(token), 0
	send := func(from string, body int) (isStored bool) {
		e := &event.Event{RemoteIP: netip.MustParseAddr(from), Body: make([]byte, body), Query: strings.Repeat("q", 1000),
			Header: []event.Field{{Name: "X-Padding", Value: strings.Repeat("v", 40_000)}}}
		if isStored = w.ingest.mayStoreRejected(ep, e); isStored {
			perMinute += 41_000 + body
		}
		return isStored
	}
	for range 60 {
		perMinute = 0
		if !send("2001:db8::1", maxRejectedBody) || send("192.0.2.1", maxRejectedBody+1) {
			t.Fatal("the first request of a minute is not stored, or one that is too large is")
		}
		for i := range 30 { // of one client, with all addresses of its network
			now = now.Add(time.Second)
			send(fmt.Sprintf("2001:db8::%x", i), maxRejectedBody)
		}
		if perMinute > maxRejectedBytes/2 || perMinute < maxRejectedBytes/2-2*maxRejectedBody {
			t.Fatalf("one client stores %d bytes in a minute", perMinute)
		}
		if !send("192.0.2.2", 4<<10) {
			t.Fatal("a second client has no room")
		}
		for i := range 30 {
			send(fmt.Sprintf("198.51.100.%d", i), maxRejectedBody)
			now = now.Add(time.Second)
		}
		if perMinute > maxRejectedBytes || perMinute < maxRejectedBytes-2*maxRejectedBody {
			t.Fatalf("%d bytes are stored in a minute", perMinute)
		}
	}
}

// Reverify uses the endpoint's current secrets and ignores the age of the signature.
func TestReverify(t *testing.T) {
	all, now := vectors(t)
	w := newWorld(t, options{now: func() time.Time { return now }})
	for _, v := range all {
		base, rest, _ := strings.Cut(v.URL, PathPrefix+token)
		w.ingest.cfg.BaseURL = base
		ep := *w.EndpointByToken(token)
		e := &event.Event{Method: v.Method, Query: strings.TrimPrefix(rest, "?"), Body: []byte(v.Body)}
		for name, value := range v.Headers {
			e.Header = append(e.Header, event.Field{Name: http.CanonicalHeaderKey(name), Value: value})
		}
		for _, secret := range []string{otherSecret, v.Secret} {
			ep.Verification = w.verification(v.Type, secret)
			ep.Rev++
			signed, reason, err := w.ingest.Reverify(&ep, e)
			if err != nil || (reason == "") != (secret == v.Secret) {
				t.Errorf("%s: %q %v", v.Name, reason, err)
			}
			if reason == "" {
				copied := *e // a proxy or an attacker adds a header
				copied.Header = append(slices.Clone(e.Header), event.Field{Name: "X-Attempt", Value: "2"})
				again, _, _ := w.ingest.Reverify(&ep, &copied)
				copied.Body = append(slices.Clone(e.Body), ' ')
				if other, _, _ := w.ingest.Reverify(&ep, &copied); again != signed || other == signed {
					t.Errorf("%s: a copy has %x, the event %x, another %x", v.Name, again, signed, other)
				}
			}
			rotated := ep // requests from before a rotation were signed for the former URL
			rotated.RotateToken(w.keyring.SealString(ep.ID, seal.FieldToken, "another"), "", time.Now())
			if _, again, err := w.ingest.Reverify(&rotated, e); err != nil || (again == "") != (reason == "") {
				t.Errorf("%s, after a rotation: %q %v", v.Name, again, err)
			}
		}
	}
}

// What cannot be decrypted is an error, and not a signature that is wrong. An endpoint that verifies nothing any more
// finds nothing wrong with a stored event.
func TestReverifyWithoutSecrets(t *testing.T) {
	w := newWorld(t, options{})
	broken := seal.Secret("other:AAAA")
	for name, change := range map[string]func(*config.Endpoint){
		"secret": func(ep *config.Endpoint) { ep.Verification.Secrets = []seal.Secret{broken} },
		"token":  func(ep *config.Endpoint) { ep.Token = broken },
		"former token": func(ep *config.Endpoint) {
			ep.RotateToken(ep.Token, "", time.Now())
			ep.FormerToken.Token = broken
		},
	} {
		ep := *w.EndpointByToken(token)
		ep.Verification, ep.Provider = w.verification(verify.Twilio, "secret"), verify.Twilio // which signs the URL
		change(&ep)
		ep.Rev = int64(len(name))
		if explained, err := w.ingest.Explain(&ep, &event.Event{}); err == nil || explained != nil {
			t.Errorf("%s: the explanation is %+v", name, explained)
		}
		if _, reason, err := w.ingest.Reverify(&ep, &event.Event{}); err == nil {
			t.Errorf("%s: %s", name, reason)
		}
		if name == "former token" {
			continue
		}
		if e, err := w.ingest.Sample(&ep, verify.Twilio, "", id.Lowest(time.Now())); err == nil || e != nil {
			t.Errorf("%s: the sample is %+v", name, e)
		}
	}
	ep := *w.EndpointByToken(token)
	ep.Verification, ep.Rev = nil, 1000
	_, reason, err := w.ingest.Reverify(&ep, &event.Event{})
	explained, why := w.ingest.Explain(&ep, &event.Event{})
	if reason != "" || err != nil || explained != nil || why != nil {
		t.Errorf("without a verification: %s, %v, %+v, %v", reason, err, explained, why)
	}
}

// Explain uses the endpoint's current secrets and the time of receipt; a signature may cover the former token.
func TestExplain(t *testing.T) {
	all, now := vectors(t)
	w := newWorld(t, options{now: func() time.Time { return now }})
	for i, v := range all {
		base, rest, _ := strings.Cut(v.URL, PathPrefix+token)
		w.ingest.cfg.BaseURL = base
		ep := *w.EndpointByToken(token)
		received := must.Get(id.NewGenerator(func() time.Time { return now.Add(time.Hour) }).New(0))(t)
		e := &event.Event{ID: received, Method: v.Method, Query: strings.TrimPrefix(rest, "?"), Body: []byte(v.Body)}
		for name, value := range v.Headers {
			e.Header = append(e.Header, event.Field{Name: http.CanonicalHeaderKey(name), Value: value})
		}
		ep.Verification = w.verification(v.Type, otherSecret)
		ep.Verification.Secrets = append(ep.Verification.Secrets, w.verification(v.Type, v.Secret).Secrets...)
		ep.Verification.ToleranceSeconds = 60
		ep.Rev += int64(i) + 1
		ep.RotateToken(w.keyring.SealString(ep.ID, seal.FieldToken, "another"), "", now)
		out, err := w.ingest.Explain(&ep, e)
		if err != nil || len(out.Secrets) != 2 || out.Secrets[0].Matches || !out.Secrets[1].Matches {
			t.Fatalf("%s: %v %+v", v.Name, err, out)
		}
		if out.TimeSigned != (out.Reason == verify.TimestampOutsideTolerance) || out.URL != "" && out.URL != v.URL {
			t.Errorf("%s: %+v", v.Name, out)
		}
	}
	ep := *w.EndpointByToken(token)
	ep.Verification, ep.Rev = nil, ep.Rev+1000
	if out, err := w.ingest.Explain(&ep, &event.Event{}); out != nil || err != nil {
		t.Errorf("without a verification: %v %v", out, err)
	}
}

func TestCheckVerification(t *testing.T) {
	f := func(v config.Verification, param string, secrets ...string) {
		t.Helper()
		if got, message := CheckVerification(v, secrets); got != param || (message != "") != (param != "") {
			t.Errorf("%+v: %q %q, want %q", v, got, message, param)
		}
	}
	f(config.Verification{Type: "stripe", ToleranceSeconds: 300}, "", "whsec_x")
	f(config.Verification{Type: "stripe", ToleranceSeconds: 300}, "secret")
	f(config.Verification{Type: "stripe", ToleranceSeconds: 0}, "tolerance_seconds", "x")
	f(config.Verification{Type: "nope", ToleranceSeconds: 300}, "type", "x")
	f(config.Verification{Type: "standard_webhooks", ToleranceSeconds: 300}, "secrets[1]", otherSecret, "!")
	f(config.Verification{Type: "hmac", ToleranceSeconds: 300, SignedContent: "{nope}"}, "signed_content", "x")
}

// If a secret cannot be decrypted, the response is 500. Nothing is stored, and neither the response nor the log
// contains the secret.
func TestUndecryptableSecretAnswers500(t *testing.T) {
	w := newWorld(t, options{endpoint: func(_ *world, ep *config.Endpoint) {
		ep.Verification = &config.Verification{Type: "github", Secrets: []seal.Secret{"old:c2VjcmV0"}}
	}})
	if a := w.want(w.post("x"), 500); strings.Contains(a.body, "secret") || strings.Contains(a.body, "old") {
		t.Errorf("answered %s", a.body)
	}
	if log := w.logs.String(); !strings.Contains(log, "decrypt verification secret of ep_1") ||
		strings.Contains(log, "c2VjcmV0") {
		t.Errorf("logged %s", log)
	}
	is.Equal(t, len(w.stored()), 0, "events are stored")
}
