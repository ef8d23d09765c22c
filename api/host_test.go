package api_test

import (
	"net/http/httptest"
	"testing"

	"github.com/eventrelay/relay/api"
)

func TestForeignHostNamesAreRefused(t *testing.T) {
	c := newClient(t, func(cfg *api.Config, _ *api.Deps) {
		cfg.BaseURL, cfg.AllowedHosts = "https://relay.example.com:8443", []string{"inside.example", "Other.Example"}
	})
	call := func(host string) *answer {
		r := httptest.NewRequest("GET", "/v1/me", nil)
		r.Host = host
		r.Header.Set("Authorization", "Bearer "+c.key)
		return c.serve(r)
	}
	for _, host := range []string{
		"relay.example.com", "relay.example.com:8443", "RELAY.example.com.", "inside.example", "inside.example:80",
		"other.example", "localhost", "localhost:8080",
		"127.0.0.1", "127.0.0.1:8080", "192.0.2.1", "[::1]:8080", "[2001:db8::1]",
	} {
		call(host).want(200)
	}
	for _, host := range []string{
		"", "evil.example", "evil.example:8443", "relay.example.com.evil.example", "xrelay.example.com",
		"localhost.evil.example", "127.0.0.1.evil.example"} {
		call(host).wantError(400, "invalid_request", "host")
	}
	// A missing key still gets 401, and health checks work under every host name.
	r := httptest.NewRequest("GET", "/v1/me", nil)
	r.Host = "evil.example"
	c.serve(r).want(401)
	r = httptest.NewRequest("GET", "/healthz", nil)
	r.Host = "evil.example"
	c.serve(r).want(200)
}
