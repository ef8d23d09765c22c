package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestCheckURLAccepts(t *testing.T) {
	loopback := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
	private := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	withHTTP := Policy{AllowHTTP: true}
	benchmark := Policy{Allow: loopback.Allow, AllowHTTP: true}
	f := func(p Policy, raw, want string) {
		t.Helper()
		u, err := p.CheckURL(raw)
		if err != nil {
			t.Errorf("%q: %v", raw, err)
			return
		}
		is.Equal(t, u.String(), want, "%q becomes %q", raw, u)
		again, err := p.CheckURL(u.String())
		if err != nil || again.String() != want {
			t.Errorf("%q checked again becomes %q, %v", want, again, err)
		}
	}
	same := func(p Policy, raw string) {
		t.Helper()
		f(p, raw, raw)
	}
	same(Policy{}, "https://example.com/h")
	same(Policy{}, "https://example.com")
	same(Policy{}, "https://example.com:443/h")
	same(Policy{}, "https://example.com:1024/")
	same(Policy{}, "https://example.com:65535/")
	same(Policy{}, "https://a.b.c.example.com/a/../b//c?x=1&x=2&y")
	same(Policy{}, "https://example.com/%2e%2e/%00?q=%23")
	same(Policy{}, "https://my_host.example.com/")
	same(Policy{}, "https://1.2.3.4.nip.io/")
	same(Policy{}, "https://metadata.google.internal/") // the address is checked when the connection is made
	same(Policy{}, "https://xn--bcher-kva.example/")
	same(Policy{}, "https://example.x0/")
	same(Policy{}, "https://localhost.example.com/")
	f(Policy{}, "HTTPS://EXAMPLE.com/H", "https://example.com/H")
	f(Policy{}, "https://example.com:/h", "https://example.com/h")
	f(Policy{}, "https://example.com:00443/h", "https://example.com:443/h")
	f(Policy{}, "https://Bücher.example/ü", "https://xn--bcher-kva.example/%C3%BC")
	f(Policy{}, "https://example.com/a%20b?c%20d=é&q=\"<%20%zz>'+",
		"https://example.com/a%20b?c%20d=%C3%A9&q=%22%3C%20%zz%3E'+")
	f(Policy{}, "https://例え。テスト/", "https://xn--r8jz45g.xn--zckzah/")
	f(Policy{}, "https://ｅｘａｍｐｌｅ.com/", "https://example.com/")
	f(Policy{}, "https://b%C3%BCcher.example/", "https://xn--bcher-kva.example/")
	same(Policy{}, "https://"+strings.Repeat("a.", 126)+"a/")
	same(Policy{}, "https://"+strings.Repeat("a", 63)+".example.com/")
	same(Policy{}, "https://example.com/"+strings.Repeat("a", maxURL-len("https://example.com/")))

	same(withHTTP, "http://example.com/")
	same(withHTTP, "http://example.com:80/")
	same(withHTTP, "http://example.com:8080/")
	same(withHTTP, "https://example.com/")

	same(loopback, "https://127.0.0.1/")
	same(loopback, "https://127.0.0.1:22/")
	same(loopback, "https://127.9.9.9:8443/")
	same(loopback, "https://[::1]:8443/")
	f(loopback, "https://[0:0:0:0:0:0:0:1]/", "https://[::1]/")
	same(loopback, "https://localhost:25/")
	same(loopback, "https://web.localhost:8443/")
	same(loopback, "https://web.localhost:25/")
	same(Policy{Allow: []netip.Prefix{netip.MustParsePrefix("::1/128")}}, "https://localhost/")
	same(loopback, "https://receiver:8443/")
	same(loopback, "https://receiver:25/")
	same(private, "https://10.1.2.3:80/")
	same(private, "https://receiver/")
	same(benchmark, "http://127.0.0.1:9999/hook")
	same(benchmark, "http://localhost/hook")
}

// TestCheckURLRefuses checks the advice in the error for each kind of invalid URL. Hostile targets are in
// hostile_test.go.
func TestCheckURLRefuses(t *testing.T) {
	loopback := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	private := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	f := func(p Policy, raw, advice string) {
		t.Helper()
		u, err := p.CheckURL(raw)
		var rejected *URLError
		if !errors.As(err, &rejected) {
			t.Errorf("%q: accepted as %v or a wrong error: %v", raw, u, err)
			return
		}
		if !strings.Contains(err.Error(), advice) || !strings.HasPrefix(err.Error(), "URL ") {
			t.Errorf("%q: %q does not say %q", raw, err, advice)
		}
		if len(err.Error()) > 200 {
			t.Errorf("%q: the message has %d bytes", raw, len(err.Error()))
		}
	}
	f(Policy{}, "", "begin with https://")
	f(Policy{}, "example.com/h", "begin with https://")
	f(Policy{}, "//example.com/h", "begin with https://")
	f(Policy{}, "/h", "begin with https://")
	f(Policy{}, "ftp://example.com/", "begin with https://")
	f(Policy{AllowHTTP: true}, "ftp://example.com/", "begin with https://")
	f(Policy{}, "http://example.com/h", "change http:// to https://")
	f(loopback, "http://127.0.0.1:80/h", "change http:// to https://")
	f(Policy{}, "https:example.com", "no host")
	f(Policy{}, "https:///h", "no host")
	f(Policy{}, "https://:443/h", "no host")
	f(Policy{}, "https://?x", "no host")
	f(Policy{}, "https://u:p@example.com/", "user name or password")
	f(Policy{}, "https://@example.com/", "user name or password")
	f(Policy{}, "https://example.com/#x", "fragment")
	f(Policy{}, "https://example.com/#", "fragment")
	f(Policy{}, "https://example.com/"+strings.Repeat("a", maxURL), "longer than 2048")
	f(Policy{}, "https://example.com/"+strings.Repeat("ü", 500), "longer than 2048") // longer once it is encoded
	f(Policy{}, "https://example.com:"+strings.Repeat("0", maxURL)+"443/", "longer than 2048")
	f(Policy{}, " https://example.com/", "contains white space")
	f(Policy{}, "https://example.com/\n", "contains white space")
	f(Policy{}, "https://exa mple.com/", "contains white space")
	f(Policy{}, "https://a.example.com/x https://b.example.com/y", "contains white space; write one URL")
	f(Policy{}, "https://example.com/?a=b c", "contains white space")
	f(Policy{}, "https://example.com:x/", "cannot be read")
	f(Policy{}, "https://example.com:443:443/", "cannot be read")
	f(Policy{}, "https://example.com:-1/", "cannot be read")
	f(Policy{}, "https://example.com:0/", "port that does not exist")
	f(Policy{}, "https://example.com:65536/", "port that does not exist")
	f(Policy{}, "https://example.com:99999999999999999999/", "port that does not exist")
	f(Policy{}, "https://example.com:22/", "has port 22")
	f(Policy{}, "https://example.com:80/", "has port 80")
	f(Policy{}, "https://example.com:444/", "has port 444")
	f(Policy{}, "https://example.com:1023/", "has port 1023")
	f(loopback, "https://example.com:22/", "has port 22")
	f(Policy{AllowHTTP: true}, "http://example.com:81/", "has port 81")
	f(Policy{}, "https://example.com./", "dot at the end")
	f(Policy{}, "https://a..example.com/", "not a valid name")
	f(Policy{}, "https://.example.com/", "not a valid name")
	f(Policy{}, "https://-a.example.com/", "not a valid name")
	f(Policy{}, "https://a-.example.com/", "not a valid name")
	f(Policy{}, "https://a*.example.com/", "not a valid name")
	f(Policy{}, "https://a=.example.com/", "not a valid name")
	f(Policy{}, "https://~a.example.com/", "not a valid name")
	f(Policy{}, "https://"+strings.Repeat("a", 64)+".com/", "not a valid name")
	f(Policy{}, "https://"+strings.Repeat("a.", 127)+"a/", "longer than 253")
	f(Policy{}, "https://xn--a.example/", "international name")
	f(Policy{}, "https://a\u0338.\u0000", "cannot be read")
	f(Policy{}, "https://intranet/", "without a dot")
	f(Policy{}, "https://8.8.8.8/", "an IP address is not accepted")
	f(Policy{}, "https://[2606:4700:4700::1111]/", "an IP address is not accepted")
	f(loopback, "https://8.8.8.8/", "an IP address is not accepted")
	f(loopback, "https://10.0.0.1/", "not public (private)")
	for _, local := range []string{"https://10.0.0.1/", "https://100.64.0.1/", "https://[fd00::1]/", "http://10.0.0.1/"} {
		f(Policy{}, local, networkAdvice)
	}
	for _, local := range []string{"https://localhost:3000/", "http://localhost:3000/", "http://app.localhost/",
		"http://127.0.0.1:3000/", "http://LocalHost:3000/"} {
		f(Policy{}, local, localAdvice)
	}
	for _, p := range []Policy{{}, loopback} {
		if _, err := p.CheckURL("http://example.com/"); err.Error() != "URL must use https; change http:// to https://" {
			t.Errorf("a public host has the advice %q", err)
		}
	}
	f(loopback, "http://localhost:3000/", httpAdvice) // one of the two settings is there
	f(loopback, "http://127.0.0.1:3000/", httpAdvice)
	f(loopback, "https://[::1]/", "not public (loopback)")
	f(loopback, "https://[::ffff:127.0.0.1]/", "not public (ipv4_mapped)")
	f(loopback, "https://2130706433/", "reads as a number")
	f(loopback, "https://127.1/", "reads as a number")
	f(Policy{Allow: []netip.Prefix{netip.MustParsePrefix("::1/128")}}, "https://[::1%25lo]/", "address with a zone")
	f(private, "https://localhost/", "names this machine")
	f(private, "https://a.localhost/", "names this machine")
	f(Policy{OwnAddrs: ownOf("8.8.4.4")}, "https://8.8.4.4/", "not public (own_address)")
}

// Bytes that would end or break a request line are escaped, whether CheckURL accepts them or not.
func TestEscapeQuery(t *testing.T) {
	is.Equal(t, escapeQuery("a \r\n\"<>\x7f\x80z"), "a%20%0D%0A%22%3C%3E%7F%80z")
}

// The message is part of an API response. It must not repeat the URL, which may contain a secret.
func TestURLErrorDoesNotRepeatTheURL(t *testing.T) {
	for _, raw := range []string{
		"https://user:hunter2@example.com/", "https://exa mple.com/hunter2", "https://127.0.0.1/hunter2",
		"https://example.com/?k=hunter2#", "https://hunter2/",
		"https://hunter2.:443", "https://hunter2..a/", "hunter2://", "https://[hunter2]/", "https://a:hunter2/",
	} {
		if _, err := (Policy{}).CheckURL(raw); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// A claimed host name is stored as it is resolved. Names that many owners share, that are no website, or that are the
// relay's own are refused.
func TestCheckHostname(t *testing.T) {
	strict := Policy{OwnURLs: NewOwnURLs("https://relay.example.com", []string{"Dashboard.example.com", "1.2.3.4"})}
	local := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		OwnURLs: NewOwnURLs("http://localhost:8080", nil)}
	f := func(p Policy, raw, want string) {
		t.Helper()
		is.Equal(t, must.Get(p.CheckHostname(raw))(t), want, raw)
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
