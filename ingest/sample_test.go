package ingest

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/verify"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

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
