package node

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"golang.org/x/crypto/acme"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A stranger orders no certificate, also if it pretends to be the CA.
func TestHandshakeOrdersNoCertificate(t *testing.T) {
	c := must.Get(newACME(&Config{DataDir: t.TempDir(), ACMEHosts: []string{"relay.example"},
		ACMEURL: "http://127.0.0.1:1"}, slog.New(slog.DiscardHandler)))(t)
	for _, protocols := range [][]string{nil, {"h2"}, {acme.ALPNProto, "h2"}, {"h2", acme.ALPNProto}} {
		_, err := c.config().GetCertificate(&tls.ClientHelloInfo{ServerName: "relay.example", SupportedProtos: protocols})
		is.ErrorIs(t, err, errNoCertificate, protocols)
	}
}

// No redirect leads elsewhere, and none hides that a secret was sent in the clear.
func TestRedirects(t *testing.T) {
	f := func(target string, authorization string, code int, location string) {
		t.Helper()
		r := httptest.NewRequest("GET", "http://evil.example/", nil)
		r.URL.Path, r.URL.RawQuery = target, "a=1"
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		w := httptest.NewRecorder()
		redirects("https://relay.example", nil).ServeHTTP(w, r)
		if w.Code != code || w.Header().Get("Location") != location {
			t.Errorf("%s: %d %s", target, w.Code, w.Header().Get("Location"))
		}
	}
	f("/events", "", http.StatusMovedPermanently, "https://relay.example/events?a=1")
	f("//evil.example", "", http.StatusMovedPermanently, "https://relay.example//evil.example?a=1")
	f("/in/token", "", http.StatusForbidden, "")
	f("/v1/events", "Bearer rk_secret", http.StatusForbidden, "")
}
