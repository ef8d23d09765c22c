package ingest

import (
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// signedRequest is a signed request of pkg/verify.
type signedRequest struct {
	Secret, Body, Certificate string
	Headers                   map[string]string
}

// vectorOf returns the vector of that name, and its headers as name and value in turn.
func vectorOf(t *testing.T, name string) (signedRequest, []string) {
	t.Helper()
	var file struct {
		Vectors []struct {
			Name string
			signedRequest
		}
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("../pkg/verify/testdata/providers/vectors.json"))(t), &file))
	for _, v := range file.Vectors {
		if v.Name != name {
			continue
		}
		var headers []string
		for name, value := range v.Headers {
			headers = append(headers, name, value)
		}
		return v.signedRequest, headers
	}
	t.Fatalf("no vector %s", name)
	return signedRequest{}, nil
}

func (w *world) provider(name string, secrets ...string) {
	w.change(func(ep *config.Endpoint) {
		ep.Provider, ep.Verification = name, nil
		ep.Response = config.DefaultResponse(name)
		if len(secrets) > 0 {
			ep.Verification = w.verification(name, secrets...)
		}
	})
}

// Handshakes whose signature is right are answered and not stored.
func TestHandshakes(t *testing.T) {
	now := time.Unix(1760000000, 0) // of the vectors
	w := newWorld(t, options{now: func() time.Time { return now }})
	signed := func(provider, secret, body string, headers ...string) []string {
		r := verify.Request{Method: "POST", URL: baseURL + PathPrefix + token, Header: http.Header{}, Body: []byte(body),
			Now: now}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		must.Do(t, verify.Sign(verify.Config{Type: provider, Secrets: []string{secret}}, r))
		var out []string
		for name, values := range r.Header {
			out = append(out, name, values[0])
		}
		return out
	}
	const secret = "0123456789abcdef"
	const zoom = `{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"},"event_ts":1}`
	w.provider("zoom", secret)
	headers := signed("zoom", secret, zoom)
	// node -e 'crypto.createHmac("sha256","0123456789abcdef").update("qgg8vlvZRS6UYooatFL8Aw").digest("hex")'
	const want = `{"plainToken":"qgg8vlvZRS6UYooatFL8Aw",` +
		`"encryptedToken":"ee9f6cfd809e368fab94b358593f7a535b35ecfb5a55b90cbcc04ef169223487"}`
	if a := w.want(w.post(zoom, headers...), 200); a.body != want || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("zoom: %s", a.body)
	}
	w.provider("zoom", "the old secret", secret, "another")
	is.Equal(t, w.want(w.post(zoom, headers...), 200).body, want, "with the secret that signed the request")
	w.provider("zoom", secret)
	w.want(w.post(zoom, "X-Zm-Request-Timestamp", "1760000000", "X-Zm-Signature", "v0="+strings.Repeat("0", 64)), 401)
	// A text that could be part of what Zoom signs is not.
	evil := strings.Replace(zoom, "qgg8vlvZRS6UYooatFL8Aw", "v0:1760000000:{}", 1)
	if a := w.want(w.post(evil, signed("zoom", secret, evil)...), 200); strings.Contains(
		a.body, "encryptedToken") {
		t.Errorf("signed %s", a.body)
	}

	const twitch = `{"challenge":"pogchamp-kappa-360noscope-vohiyo","subscription":{"id":"1"}}`
	w.provider("twitch", secret)
	headers = signed("twitch", secret, twitch, "Twitch-Eventsub-Message-Id", "1",
		"Twitch-Eventsub-Message-Type", "webhook_callback_verification")
	if a := w.want(w.post(twitch, headers...), 200); a.body != "pogchamp-kappa-360noscope-vohiyo" ||
		a.Header.Get("Content-Type") != "text/plain" {
		t.Errorf("twitch: %s", a.body)
	}

	public, private, err := ed25519.GenerateKey(nil)
	must.Do(t, err)
	w.provider("discord", hex.EncodeToString(public))
	for _, ping := range []string{`{"version":1,"application_id":"1","type":0}`, `{"type":1,"event":{"type":"A"}}`} {
		headers = []string{"X-Signature-Timestamp", "1760000000",
			"X-Signature-Ed25519", hex.EncodeToString(ed25519.Sign(private, []byte("1760000000"+ping)))}
		w.want(w.post(ping, headers...), 204)
		w.want(w.post(ping+" ", headers...), 401) // Discord sends wrong signatures too, and expects this
	}

	w.provider("xero", secret)
	const intent = `{"events":[],"firstEventSequence":0,"lastEventSequence":0,"entropy":"S0m3r4nd0mt3xt"}`
	if a := w.want(w.post(intent, signed("xero", secret, intent)...), 200); a.body != "" {
		t.Errorf("xero: %q", a.body)
	}
	w.want(w.post(intent, "X-Xero-Signature", strings.Repeat("A", 43)+"="), 401)
	events := 0
	for _, e := range w.stored() {
		if strings.Contains(string(e.Body), "event\":{") && e.Verdict == event.VerdictVerified {
			events++
		} else if e.Verdict == event.VerdictVerified && string(e.Body) != evil && string(e.Body) != intent {
			t.Errorf("stored %s", e.Body)
		}
	}
	is.Equal(t, events, 1, "events of Discord are stored")
}

// Certificates are fetched once, from the provider's hosts only. A subscription is confirmed only if its message is
// signed for the topic of the endpoint.
func TestCertificatesAndSubscriptions(t *testing.T) {
	v, _ := vectorOf(t, "sns/confirmation")
	certificate := reissued(t, v.Certificate, "sns.amazonaws.com", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	var requested []string
	var failing error
	status := 200
	w := newWorld(t, options{transport: func(r *http.Request) (*http.Response, error) {
		requested = append(requested, r.Method+" "+r.URL.String())
		if _, bounded := r.Context().Deadline(); !bounded {
			t.Error("a request without a deadline")
		}
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(certificate))}, failing
	}})
	w.provider("sns", v.Secret)
	f := func(name, body string, want, requests int) {
		t.Helper()
		requested = nil
		if a := w.post(body); a.StatusCode != want || len(requested) != requests {
			t.Errorf("%s: %d %s, requested %q", name, a.StatusCode, a.body, requested)
		}
	}
	failing = errors.New("unreachable")
	f("another topic, before there is a certificate", strings.ReplaceAll(v.Body, v.Secret, v.Secret+"x"), 401, 0)
	f("away", v.Body, 503, 1)
	failing, status = nil, 500
	f("failing", v.Body, 503, 1)
	status = 404
	f("no certificate", v.Body, 401, 1)
	status = 200
	f("confirmed", v.Body, 200, 2)
	if !strings.HasPrefix(requested[1], "GET https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&") {
		t.Errorf("requested %q", requested)
	}
	f("cached", v.Body, 200, 1)
	status = 403
	f("not confirmed", v.Body, 503, 1)
	status = 200
	notification, _ := vectorOf(t, "sns/json")
	f("event", notification.Body, 200, 0)
	f("tampered", strings.Replace(v.Body, "chosen", "chosem", 1), 401, 0)
	const host = "https://sns.eu-central-1.amazonaws.com/Simple"
	for _, other := range []string{"https://sns.eu-central-1.amazonaws.com.evil.example/Simple",
		"http://sns.eu-central-1.amazonaws.com/Simple", "https://sns.s3-us-west-2.amazonaws.com/Simple",
		"https://u@sns.eu-central-1.amazonaws.com/Simple",
		"https://sns.eu-central-1.amazonaws.com:8443/Simple", "https://169.254.169.254/Simple"} {
		f(other, strings.Replace(v.Body, host, other, 1), 401, 0)
	}
	w.provider("sns", "arn:aws:sns:eu-central-1:123456789012:another")
	f("another topic", v.Body, 401, 0)
	w.provider("sns")
	f("not verified", v.Body, 200, 0) // stored, not confirmed
	if n := len(w.stored()); n < 2 {
		t.Errorf("%d events are stored", n)
	}
}

// reissued returns a certificate for the key of another one, in PEM.
func reissued(t *testing.T, text, name string, from, until time.Time) string {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	of := must.Get(x509.ParseCertificate(block.Bytes))(t)
	public, private, err := ed25519.GenerateKey(nil)
	must.Do(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: from,
		NotAfter: until}
	issuer := &x509.Certificate{Subject: pkix.Name{CommonName: "issuer"}, PublicKey: public}
	der := must.Get(x509.CreateCertificate(nil, template, issuer, of.PublicKey, private))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// A signature counts while its certificate is valid, which has to name the provider. The cache keeps none for longer.
func TestCertificatesExpire(t *testing.T) {
	v, _ := vectorOf(t, "sns/json")
	at := time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)
	served, requests := "", 0
	newFetcher := func() *fetcher {
		return &fetcher{turns: make(chan struct{}, maxFetches), room: wait.NewRoom(1 << 20),
			transport: roundTripper(func(*http.Request) (*http.Response, error) {
				requests++
				return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(served))}, nil
			})}
	}
	f := newFetcher()
	conf := verify.Config{Type: "sns", Secrets: []string{v.Secret}}
	check := func(what string, now time.Time, want verify.Reason, wantRequests int) {
		t.Helper()
		requests = 0
		req := verify.Request{Method: "POST", Body: []byte(v.Body), Now: now}
		must.Do(t, f.certify(t.Context(), conf, &req))
		is.Equal(t, verify.Check(conf, req), want, what)
		is.Equal(t, requests, wantRequests, "%s: requests", what)
	}
	served = reissued(t, v.Certificate, "sns.amazonaws.com", at, at.Add(time.Hour))
	check("not valid yet", at.Add(-time.Minute), verify.CertificateExpired, 1)
	check("valid, in the cache", at.Add(time.Minute), "", 0)
	check("expired in the cache", at.Add(2*time.Hour), verify.CertificateExpired, 1)
	served = reissued(t, v.Certificate, "sns.eu-central-1.amazonaws.com", at, at.Add(3*time.Hour))
	check("a new one", at.Add(2*time.Hour), "", 1)
	for name, want := range map[string]verify.Reason{
		"sns.cn-north-1.amazonaws.com.cn": "", "amazonaws.com.evil.example": verify.SignatureMismatch,
		"evilamazonaws.com": verify.SignatureMismatch, "": verify.SignatureMismatch,
	} {
		f, served = newFetcher(), reissued(t, v.Certificate, name, at, at.Add(time.Hour))
		check("of "+name, at, want, 1)
	}
}

// A secret that is sent instead of a signature is not stored with a verified event, which can be explained all the
// same.
func TestSentSecretsAreNotStored(t *testing.T) {
	for provider, header := range map[string]string{"gitlab": "X-Gitlab-Token", "chargebee": "Authorization"} {
		w := newWorld(t, options{})
		v, headers := vectorOf(t, provider+"/json")
		w.provider(provider, v.Secret)
		w.want(w.post(v.Body, headers...), 200)
		e := w.only()
		is.Equal(t, e.HeaderValue(header), masked, "stored %s", header)
		ep := w.EndpointByToken(token)
		out := must.Get(w.ingest.Explain(ep, e))(t)
		if out.Reason != "" || !out.SecretSent || out.ReceivedPrefix+out.Secrets[0].ExpectedPrefix != "" {
			t.Errorf("%s: explained as %+v", provider, out)
		}
		is.Equal(t, w.sample(ep, provider, "").HeaderValue(header), masked, "the sample has %s", header)
		w.want(w.post(v.Body, header, "Basic eDp5"), 401)
	}
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u := must.Get(url.Parse(text))(t)
	return u
}

// Slack's handshake as Slack's pages show it.
const handshake = `{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl",` +
	`"challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}`

func TestChallengesAreAnsweredAndNotStored(t *testing.T) {
	w := newWorld(t, options{})
	f := func(provider, method, query, body, want string) {
		t.Helper()
		w.change(func(ep *config.Endpoint) {
			ep.Provider, ep.Verification = provider, nil
			if provider != "generic" {
				ep.Verification = w.verification(provider, "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX")
			}
		})
		a := w.want(w.do(method, query, strings.NewReader(body)), 200)
		if a.body != want || a.Header.Get("Content-Type") != "text/plain; charset=utf-8" ||
			a.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s %s: %q as %v", provider, method, query, a.body, a.Header)
		}
	}
	const text = "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"
	f("slack", "POST", "", handshake, text)
	f("slack", "POST", "", `{"type":"url_verification","challenge":"a","new":1}`, "a")
	f("generic", "POST", "", handshake, text)
	f("generic", "POST", "", `{"type":"url_verification","challenge":"a"}`, "a")
	for _, provider := range []string{"generic", "slack", "github", "stripe", "hmac"} {
		f(provider, "GET", "?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=meatyhamhock", "", "1158201444")
		f(provider, "GET", "?challenge=xG6iDZ-dropbox_1", "", "xG6iDZ-dropbox_1")
	}
	is.Equal(t, len(w.stored()), 0, "events are stored")
}

// A request that resembles a challenge but may be another provider's event is stored as an event.
func TestEventsAreNotAnsweredAsChallenges(t *testing.T) {
	w := newWorld(t, options{})
	bodies := []string{}
	f := func(provider, method, query, body string) {
		t.Helper()
		w.change(func(ep *config.Endpoint) { ep.Provider = provider })
		if a := w.want(w.do(method, query, strings.NewReader(body)), 200); a.body != `{"received":true}` {
			t.Errorf("%s %s: %q", provider, body, a.body)
		}
		bodies = append(bodies, body)
	}
	for _, provider := range []string{"stripe", "github", "shopify", "twilio", "standard_webhooks", "hmac"} {
		f(provider, "POST", "", handshake)
	}
	f("slack", "PUT", "", handshake)
	f("slack", "POST", "?challenge=abc", `{"type":"event_callback"}`)
	f(
		"slack", "POST", "", `{"type":"event_callback","event":{"type":"message","text":"url_verification"},"challenge":"x"}`)
	f("slack", "POST", "", `{"type":"url_verification","challenge":"<script>"}`)
	f("generic", "POST", "", `{"type":"url_verification","challenge":"a","order":{"id":1}}`)
	f("generic", "POST", "", `{"type":"url_verification"}`)
	events := w.stored()
	must.Equal(t, len(events), len(bodies), "events are stored")
	for i, e := range events {
		is.Equal(t, string(e.Body), bodies[i], "stored %q", e.Body)
	}
}

// requestTarget returns the target unchanged for origin-form and absolute-form.
func TestRequestTarget(t *testing.T) {
	f := func(line, want string) {
		t.Helper()
		r := &http.Request{RequestURI: line, URL: mustURL(t, "http://x/in/tok?a=%20")}
		is.Equal(t, requestTarget(r), want, line)
	}
	f("/in/tok?a=b%2fc&d='e'&f=|", "/in/tok?a=b%2fc&d='e'&f=|")
	f("/in/%74ok?", "/in/%74ok?")
	f("http://other:80/in/tok?u=http://x/y", "/in/tok?u=http://x/y")
	f("https://other/in/tok", "/in/tok")
	f("", "/in/tok?a=%20")
}
