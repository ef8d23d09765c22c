package web_test

import (
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/eventrelay/relay/pkg/web"
)

// The client's address is one that a trusted proxy reported, or the peer's: never what only the client wrote.
func FuzzClientAddr(f *testing.F) {
	f.Add("10.0.0.1:1", "203.0.113.7, 10.0.0.2", "a.example:80")
	f.Add("[::ffff:10.0.0.1]:1", "[2001:db8::1%x]:7,,10.0.0.2:8", "[::1]:443")
	f.Add("192.0.2.1:1", "127.0.0.1", "A.")
	f.Add("192.0.2.1:1", "127.0.0.1", "a.example\xc280")
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, peer, forwarded, host string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = peer, []string{forwarded}
		got := web.ClientAddr(r, proxies)
		at, err := netip.ParseAddrPort(peer)
		from := at.Addr().Unmap().WithZone("")
		if err == nil && !proxies[0].Contains(from) && got != from || err != nil && got.IsValid() {
			t.Fatalf("the client of %q is %v", peer, got)
		}
		if name := web.HostName(web.HostName(host)); len(name) > len(host) {
			t.Fatalf("%q is %q", host, name)
		}
	})
}
