package dashboard

import (
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/test/is"
)

var pathVariable = regexp.MustCompile(`\{\w+\}`)

// A page that forgets a header would be open to what the header prevents.
func TestEveryPageSetsTheHeaders(t *testing.T) {
	rig := newRig(t)
	b, folder := rig.signedIn(), path.Dir(assetPaths(t)[0])+"/"
	check := func(name string, a *answer) {
		t.Helper()
		for header, want := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			is.Equal(t, a.header.Get(header), want, "%s: %s is", name, header)
		}
		if got := a.header.Get("Referrer-Policy"); got != "same-origin" && got != "strict-origin" {
			t.Errorf("%s: Referrer-Policy is %q", name, got)
		}
		policy := a.header.Get("Content-Security-Policy")
		for _, part := range []string{
			"default-src 'none';", "script-src " + origin + folder + ";", "style-src 'self';",
			"img-src 'self' data:;", "connect-src 'self';", "form-action 'self';", "frame-ancestors 'none';",
			"base-uri 'none';", "require-trusted-types-for 'script';", "trusted-types default",
		} {
			is.Has(t, policy, part, "%s: the policy lacks %q", name, part)
		}
		is.Lacks(t, policy, "unsafe", "%s: the policy is", name)
		if a.header.Get("Permissions-Policy") == "" || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: no Permissions-Policy or request id", name)
		}
	}
	for _, x := range routes(t) {
		page := pathVariable.ReplaceAllString(x.Path, "x")
		if x.Method == http.MethodGet {
			check(x.Path, b.get(page))
			check(x.Path+" signed out", rig.browser().get(page))
			check(x.Path+" fragment", b.get(page, "Relay-Part", "rows"))
		} else {
			check("POST "+x.Path+" of another site", b.post(page, url.Values{}, "Sec-Fetch-Site", "cross-site"))
			check("POST "+x.Path+" signed out", rig.browser().post(page, url.Values{}))
		}
	}
	check("404", b.get("/app/nothing"))
}

// Browsers report Cross-Origin-Opener-Policy as an error where they ignore it.
func TestOpenerPolicyWhereBrowsersObeyIt(t *testing.T) {
	for address, want := range map[string]string{
		"http://relay.example.com": "", "https://relay.example.com": "same-origin", "http://localhost:8080": "same-origin",
		"http://127.0.0.1:8080": "same-origin", "http://[::1]:8080": "same-origin", "http://a.localhost": "same-origin",
	} {
		b := newRig(t, func(c *ui.Config) { c.BaseURL = address }).browser()
		b.origin = address
		is.Equal(t, b.get("/app/sign-in").want(200).header.Get("Cross-Origin-Opener-Policy"), want, "%s gets", address)
	}
	proxied := newRig(t).browser().get("/app/sign-in", "Sec-Fetch-Site", "none") // https ends at a proxy
	is.Equal(t, proxied.header.Get("Cross-Origin-Opener-Policy"), "same-origin", "a trustworthy page gets")
}

func TestHostIsCheckedFirst(t *testing.T) {
	lan := netip.MustParseAddr("192.0.2.7")
	for name, c := range map[string]struct {
		change          func(*ui.Config)
		accept, decline []string
	}{
		"base URL": {func(*ui.Config) {}, []string{"relay.example.com", "relay.example.com:80", "RELAY.example.com."},
			[]string{"localhost", "127.0.0.1", "192.0.2.7", "evil.example", "relay.example.com.evil.example",
				"relay.example.com:80;script-src", "relay.example.com:80/x", ""}},
		"dev": {func(c *ui.Config) { c.BaseURL, c.Dev = "http://127.0.0.1:8080", true },
			[]string{"localhost:8080", "127.0.0.1:8080", "[::1]:8080"}, []string{"192.0.2.7", "evil.example", "127.0.0.2"}},
		"allowed": {func(c *ui.Config) { c.AllowedHosts = []string{"inside"} },
			[]string{"inside", "relay.example.com"}, []string{"outside"}},
		"listens on an address": {func(c *ui.Config) { c.Listen = lan },
			[]string{"192.0.2.7:8080", "relay.example.com"}, []string{"192.0.2.8"}},
		"listens on all addresses, without a base URL": {func(c *ui.Config) {
			c.BaseURL, c.BaseURLIsDefault, c.Listen = "http://localhost:8080", true, netip.IPv4Unspecified()
		}, []string{"192.0.2.7:8080", "[2001:db8::1]:8080", "localhost:8080"}, []string{"evil.example"}},
		"listens on all addresses, with a base URL": {func(c *ui.Config) { c.Listen = netip.IPv4Unspecified() },
			[]string{"relay.example.com"}, []string{"192.0.2.7"}},
		"dashboard host": {func(c *ui.Config) {
			c.Host, c.Dev, c.AllowedHosts = "app.example.com", true,
				[]string{"inside"}
		},
			[]string{"app.example.com"}, []string{"relay.example.com", "localhost", "inside"}},
	} {
		rig, style := newRig(t, c.change), assetPaths(t)[0]
		for _, host := range c.accept {
			rig.browser().get("/app/sign-in", "Host", host).want(200, "Sign in")
			rig.browser().get(style, "Host", host).want(200)
		}
		for _, host := range c.decline {
			for _, path := range []string{"/app", "/app/sign-in", "/app/nothing", style} {
				a := rig.browser().get(path, "Host", host)
				if a.code != 400 || !strings.Contains(a.body, "Unknown host name") ||
					!strings.Contains(a.header.Get("Content-Security-Policy"), "script-src 'none'") {
					t.Errorf("%s: %s as %q: %d %s", name, path, host, a.code, a.body)
				}
			}
			form := url.Values{"email": {"ops@example.com"}, "password": {goodPassword}}
			a := rig.browser().post("/app/sign-in", form, "Host", host)
			if a.code != 400 || len(a.header.Values("Set-Cookie")) > 0 {
				t.Errorf("%s: sign in as %q: %d", name, host, a.code)
			}
		}
	}
}

// The page of an unknown host names the address that works.
func TestDashboardHostIsWhatLinksName(t *testing.T) {
	rig := newRig(t, func(c *ui.Config) { c.BaseURL, c.Host = "https://relay.example.com:8443", "app.example.com" })
	rig.browser().get("/app", "Host", "relay.example.com:8443").want(400, `href="https://app.example.com:8443/app"`)
	is.Equal(t, ui.URL("https://relay.example.com", ""), "https://relay.example.com",
		"without a name of its own the dashboard is at")
}

func TestForeignRequestsDoNothing(t *testing.T) {
	const proxied = "https://relay.example.com"
	for _, c := range []struct {
		name    string
		headers []string
		accept  bool
	}{
		{"same origin", []string{"Sec-Fetch-Site", "same-origin"}, true},
		{"same origin behind a proxy that rewrites the host", []string{"Sec-Fetch-Site", "same-origin", "Origin", proxied},
			true},
		{"cross-site", []string{"Sec-Fetch-Site", "cross-site"}, false},
		{"same-site", []string{"Sec-Fetch-Site", "same-site"}, false},
		{"typed by the person", []string{"Sec-Fetch-Site", "none"}, false},
		{"own origin without Sec-Fetch-Site", []string{"Sec-Fetch-Site", "", "Origin", origin}, true},
		{"own origin in other case", []string{"Sec-Fetch-Site", "", "Origin", "http://RELAY.example.com"}, true},
		{"foreign origin", []string{"Sec-Fetch-Site", "", "Origin", "http://evil.example"}, false},
		{"other port", []string{"Sec-Fetch-Site", "", "Origin", origin + ":8081"}, false},
		{"other scheme", []string{"Sec-Fetch-Site", "", "Origin", proxied}, false},
		{"null", []string{"Sec-Fetch-Site", "", "Origin", "null"}, false},
		{"null of the same origin", []string{"Sec-Fetch-Site", "same-origin", "Origin", "null"}, false},
		{"neither", []string{"Sec-Fetch-Site", "", "Origin", ""}, false},
	} {
		rig := newRig(t)
		b := rig.signedIn()
		a := b.post("/app/sign-out-everywhere", url.Values{}, c.headers...)
		if accepted := a.code == 303; accepted != c.accept || (rig.people.ended > 0) != c.accept {
			t.Errorf("%s: status %d, ended %d times", c.name, a.code, rig.people.ended)
		}
		if !c.accept {
			a.want(403, "Nothing was done")
			b.get("/app").want(200)
		}
	}
}

// Behind a proxy that rewrites Host, the origin of the base URL is ours; scripts come from there.
func TestProxyThatRewritesTheHost(t *testing.T) {
	rig := newRig(t, func(c *ui.Config) {
		c.BaseURL, c.Listen = "https://relay.example.com", netip.MustParseAddr("127.0.0.1")
	})
	b := rig.browser()
	inside := []string{"Host", "127.0.0.1:8080", "Sec-Fetch-Site", "", "Origin", "https://relay.example.com"}
	a := b.get("/app/sign-in", inside...).want(200)
	if policy := a.header.Get("Content-Security-Policy"); !strings.Contains(policy,
		"script-src https://relay.example.com"+path.Dir(assetPaths(t)[0])+"/ ") {
		t.Errorf("the policy is %s", policy)
	}
	form := url.Values{"email": {"ops@example.com"}, "password": {goodPassword}}
	b.post("/app/sign-in", form, inside...).wantRedirect("/app")
}

// A GET that changes something could be made by a link or an image.
func TestOnlyPostsChangeAnything(t *testing.T) {
	for _, x := range routes(t) {
		if !slices.Contains([]string{"GET", "POST"}, x.Method) {
			t.Errorf("%s has the method %s", x.Path, x.Method)
		}
	}
	rig := newRig(t)
	b := rig.signedIn()
	b.get("/app/sign-out-everywhere").want(404)
	b.send("PUT", "/app/sign-out-everywhere", url.Values{}, "Sec-Fetch-Site", "same-origin").want(404)
	if rig.people.ended > 0 {
		t.Error("a GET or PUT ended the sessions")
	}
}

// A key is no session, wherever it is sent.
func TestKeyOpensNoPage(t *testing.T) {
	b := newRig(t).browser()
	b.get("/app", "Authorization", "Bearer rly_live_x").wantRedirect("/app/sign-in?next=%2Fapp")
}
