package ingest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

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
