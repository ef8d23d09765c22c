package api_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/test/is"
)

// domain creates a domain, which is deleted at the end of the test: there may be five.
func (c *client) domain(hostname string) *answer {
	c.t.Helper()
	c.forgetDomains()
	return c.do("POST", "/v1/domains", map[string]any{"hostname": hostname}).want(201)
}

// forgetDomains deletes all domains, and ends the scan that is open, at the end of the test.
func (c *client) forgetDomains() {
	c.t.Cleanup(func() {
		c.endScan(leak.ScanWeekly, func(*leak.Scan) {}) // it counts for nothing then
		all, _ := configuration.Domains(configuration.Account().ID, 0, 100)
		for _, d := range all {
			is.OK(c.t, entity.Delete[leak.Domain](context.Background(), configuration, d.ID))
		}
	})
}

// A domain is created, read, listed, verified and deleted. The answer names the exact record and file.
func TestDomains(t *testing.T) {
	c := newClient(t)
	created := c.domain("Shop.Example.com.")
	id, token := created.text("id"), created.text("token")
	if created.text("hostname") != "shop.example.com" || created.text("status") != "pending" ||
		created.text("dns_record") != "_relay-challenge.shop.example.com TXT relay-verify="+token ||
		created.text("http_url") != "https://shop.example.com/.well-known/relay-verify.txt" ||
		created.get("method") != nil || created.get("last_error") != nil || created.get("advice") != nil ||
		created.get("verified_at") != nil || created.get("checked_at") != nil || created.get("expires_at") == nil {
		t.Fatalf("%s", created.raw)
	}
	if a := c.do("GET", "/v1/domains/"+id, nil).want(200); a.text("token") != token {
		t.Errorf("%s", a.raw)
	}
	second := c.domain("second.example.com").text("id")
	page := c.do("GET", "/v1/domains?limit=1", nil).want(200)
	next := c.do("GET", "/v1/domains?limit=1&cursor="+page.text("next_cursor"), nil).want(200)
	if page.text("data.0.id") != second || next.text("data.0.id") != id || next.get("next_cursor") != nil {
		t.Errorf("%s\n%s", page.raw, next.raw)
	}
	if a := c.do("POST", "/v1/domains/"+id+"/verify", nil).want(200); a.text("status") != "verified" ||
		a.text("method") != "dns" || a.get("verified_at") == nil || a.get("expires_at") != nil {
		t.Errorf("%s", a.raw)
	}
	c.as(readKey).do("POST", "/v1/domains/"+id+"/verify", nil).wantError(403, "insufficient_scope", "")
	c.do("DELETE", "/v1/domains/"+id, nil).want(200)
	c.do("GET", "/v1/domains/"+id, nil).wantError(404, "not_found", "")
	c.do("POST", "/v1/domains/"+id+"/verify", nil).wantError(404, "not_found", "")
	c.do("DELETE", "/v1/domains/"+id, nil).wantError(404, "not_found", "")
}

// Each check says what was found instead and what to do; the eleventh in an hour is refused.
func TestVerifyDomain(t *testing.T) {
	c := newClient(t)
	target := "/v1/domains/" + c.domain("verify.example.com").text("id")
	for _, x := range []struct{ method, wrong, seen, advice string }{
		{"dns", "not_found", "", "no TXT record at _relay-challenge.verify.example.com. Add it with the value relay-verify="},
		{"dns", "mismatch", "v=spf1", "have other values"},
		{"dns", "unreachable", "", "gave no answer about _relay-challenge.verify.example.com"},
		{"http", "not_found", "HTTP status 404", "verify.example.com/.well-known/relay-verify.txt did not answer with"},
		{"http", "mismatch", "<html>", "the token alone"},
		{"http", "redirected", "a redirect to www.example.com", "add the name that it redirects to"},
		{"http", "blocked", "", "not public"},
		{"http", "tls", "", "certificate"},
		{"http", "unreachable", "", "within 10 seconds"},
	} {
		c.fake.VerifyFunc = func(check *leak.DomainCheck) time.Duration {
			check.Error, check.Seen = x.wrong, x.seen
			return 0
		}
		a := c.do("POST", target+"/verify", map[string]any{"method": x.method}).want(200)
		seen := ""
		if a.get("seen") != nil {
			seen = a.text("seen")
		}
		if a.text("status") != "pending" || a.text("last_error") != x.wrong || a.text("last_method") != x.method ||
			seen != x.seen || !strings.Contains(a.text("advice"), x.advice) || a.get("checked_at") == nil {
			t.Errorf("%s %s: %s", x.method, x.wrong, a.raw)
		}
	}
	c.do("POST", target+"/verify", `{"method":"mail"}`).wantError(400, "invalid_request", "method")
	c.fake.VerifyFunc = func(*leak.DomainCheck) time.Duration { return time.Minute }
	if a := c.do("POST", target+"/verify", `{}`).wantError(429, "rate_limited", ""); a.Header.Get("Retry-After") != "60" {
		t.Errorf("%v", a.Header)
	}
}

// A verified domain whose proof is missing says when it expires. One that was not proven in a week can only be deleted.
func TestDomainsExpire(t *testing.T) {
	c := newClient(t)
	verified := "/v1/domains/" + c.domain("verified.example.com").text("id")
	pending := "/v1/domains/" + c.domain("pending.example.com").text("id")
	c.do("POST", verified+"/verify", `{"method":"http"}`).want(200)
	c.fake.VerifyFunc = func(check *leak.DomainCheck) time.Duration { check.Error = "mismatch"; return 0 }
	if a := c.do("POST", verified+"/verify", `{}`).want(200); a.text("last_method") != "http" ||
		a.text("status") != "verified" || a.get("expires_at") == nil {
		t.Errorf("%s", a.raw)
	}
	c.fake.VerifyFunc = func(check *leak.DomainCheck) time.Duration {
		check.Error, check.At = "not_found", check.At.Add(25*time.Hour)
		return 0
	}
	if a := c.do("POST", verified+"/verify", `{}`).want(200); a.text("status") != "expired" || a.get("expires_at") != nil {
		t.Errorf("%s", a.raw)
	}
	later := newClient(t, func(_ *api.Config, deps *api.Deps) {
		deps.Now = func() time.Time { return time.Now().Add(8 * 24 * time.Hour) }
	})
	if a := later.do("GET", pending, nil).want(200); a.text("status") != "expired" ||
		!strings.Contains(a.text("advice"), "Delete it") {
		t.Errorf("%s", a.raw)
	}
	later.do("POST", pending+"/verify", nil).wantError(400, "invalid_state", "")
	later.do("POST", verified+"/verify", nil).want(200)
}

// Host names that many owners share or that are the relay's own are refused, so is one that is there, and a sixth.
func TestDomainInput(t *testing.T) {
	c := newClient(t, func(_ *api.Config, deps *api.Deps) {
		deps.Egress = egress.Policy{OwnURLs: egress.NewOwnURLs(baseURL, []string{"dash.example.com"})}
	})
	c.forgetDomains()
	for body, message := range map[string]string{
		`{}`: "required", `{"hostname":""}`: "", `{"hostname":1}`: "", `{"hostname":"*.example.com"}`: "wildcard",
		`{"hostname":"co.uk"}`: "public suffix", `{"hostname":"https://example.com/"}`: "without https://",
		`{"hostname":"relay.example.com"}`: "of this relay", `{"hostname":"dash.example.com"}`: "of this relay",
		`{"hostname":"10.0.0.1"}`: "IP address", `{"hostname":"example.com:8443"}`: "port",
	} {
		if a := c.do("POST", "/v1/domains", body).wantError(400, "invalid_request", "hostname"); !strings.Contains(
			a.text("error.message"), message) {
			t.Errorf("%s: %s", body, a.raw)
		}
	}
	c.domain("bücher.example.com")
	c.do("POST", "/v1/domains", `{"hostname":"xn--bcher-kva.example.com"}`).wantError(400, "invalid_state", "hostname")
	for _, name := range []string{"a", "b", "c", "d"} {
		c.domain(name + ".example.com")
	}
	c.do("POST", "/v1/domains", `{"hostname":"sixth.example.com"}`).wantError(400, "invalid_state", "hostname")

	local := newClient(t, func(_ *api.Config, deps *api.Deps) {
		deps.Egress = egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	})
	all, _ := configuration.Domains(configuration.Account().ID, 0, 1)
	local.do("DELETE", "/v1/domains/"+all[0].ID, nil).want(200)
	if a := local.domain("shop.test:8443"); a.text("http_url") != "https://shop.test:8443/.well-known/relay-verify.txt" ||
		!strings.HasPrefix(a.text("dns_record"), "_relay-challenge.shop.test TXT ") {
		t.Errorf("%s", a.raw)
	}
}
