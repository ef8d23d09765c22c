package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// A claimed host name is stored as it is resolved. Names that many owners share, that are no website, or that are the
// relay's own are refused.
func TestCheckHostname(t *testing.T) {
	strict := Policy{OwnURLs: NewOwnURLs("https://relay.example.com", []string{"Dashboard.example.com", "1.2.3.4"})}
	local := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		OwnURLs: NewOwnURLs("http://localhost:8080", nil)}
	f := func(p Policy, raw, want string) {
		t.Helper()
		if got, err := p.CheckHostname(raw); err != nil || got != want {
			t.Errorf("%q: %q, want %q, %v", raw, got, want, err)
		}
	}
	refused := func(p Policy, raw, reason string) {
		t.Helper()
		got, err := p.CheckHostname(raw)
		if _, typed := errors.AsType[*HostnameError](err); !typed || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %q, %v; want an error with %q", raw, got, err, reason)
		}
	}
	f(strict, "www.example.com", "www.example.com")
	f(strict, "WWW.Example.COM.", "www.example.com")
	f(strict, "bücher.example.com", "xn--bcher-kva.example.com")
	f(strict, "ｗｗｗ。example。com", "www.example.com")
	f(strict, "shop.github.io", "shop.github.io")
	f(strict, "_x.example.com", "_x.example.com")
	longest := strings.Repeat("aaaaaaaaa.", 18) + "aaaaaa.com"
	f(strict, longest, longest)
	f(Policy{}, "relay.example.com", "relay.example.com")
	for raw, reason := range map[string]string{
		"": "not a valid", "a..b": "not a valid", "exa mple.com": "not a valid", "-a.example.com": "not a valid",
		"xn--zz--.example.com": "not a valid", strings.Repeat("a", 64) + ".example.com": "not a valid",
		"https://www.example.com": "without https://", "www.example.com/x": "without https://", "a@example.com": "without",
		"*.example.com": "wildcard", "www.example.com:8443": "port", "www.example.com:0": "port",
		"com": "public suffix", "co.uk": "public suffix", "CO.UK": "public suffix", "github.io": "public suffix",
		"公司.cn": "public suffix", "intranet": "public suffix", "localhost": "this machine", "a.localhost": "this machine",
		"127.0.0.1": "IP address", "::1": "IP address", "[::1]": "not a valid", "１２７。0。0。1": "IP address",
		"0x7f.1": "number", "1.2.3.4": "IP address",
		"relay.example.com": "of this relay", "RELAY.example.com.": "of this relay", "dashboard.example.com": "of this relay",
		strings.Repeat("aaaaaaaaa.", 19) + "a": "longer", strings.Repeat("é", 500) + ".example.com": "longer",
	} {
		refused(strict, raw, reason)
	}
	f(local, "shop.test:8443", "shop.test:8443")
	f(local, "127.0.0.1:08443", "127.0.0.1:8443")
	f(local, "localhost:8443", "localhost:8443")
	f(local, "intranet", "intranet")
	refused(local, "10.0.0.1:8443", "IP address")
	refused(local, "127.0.0.1:8080", "of this relay")
	refused(local, "com", "public suffix")
	refused(local, "shop.test:70000", "port")
	refused(local, "shop.test:0", "port")
	f(local, "localhost", "localhost")
	v6 := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("::1/128")}, OwnURLs: NewOwnURLs("https://localhost", nil)}
	f(v6, "[::1]:8443", "[::1]:8443")
	refused(v6, "::1", "of this relay")
	refused(v6, "localhost", "of this relay")
	v6.OwnURLs = strict.OwnURLs
	f(v6, "::1", "[::1]")
	refused(v6, "relay.example.com:8443", "of this relay")
}
