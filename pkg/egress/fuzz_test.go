package egress

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// notPublic checks addresses independently of specialPrefixes, with the standard library's predicates and the
// registries' largest blocks.
func notPublic(addr netip.Addr) bool {
	addr = addr.WithZone("")
	if addr.IsLoopback() || addr.IsPrivate() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() ||
		addr.Is4In6() || !addr.IsGlobalUnicast() {
		return true
	}
	if addr.Is4() {
		b := addr.As4()
		return b[0] == 0 || b[0] >= 224 || b[0] == 100 && b[1]&0xc0 == 64 || b[0] == 192 && b[1] == 0 &&
			(b[2] == 0 || b[2] == 2) || b[0] == 198 && b[1]&0xfe == 18
	}
	b := addr.As16()
	return b[0]&0xe0 != 0x20 || b[0] == 0x20 && b[1] == 0x02 || b[0] == 0x20 && b[1] == 0x01 &&
		(b[2] < 2 || b[2] == 0x0d && b[3] == 0xb8)
}

// FuzzClassifyAddr checks that no address that notPublic reports is public, that a zone changes nothing, and that
// exactly the addresses in Allow are allowed.
func FuzzClassifyAddr(f *testing.F) {
	for _, s := range specialPrefixes {
		f.Add(s.prefix.Addr().AsSlice(), s.prefix.Addr().AsSlice(), uint8(s.prefix.Bits()))
	}
	f.Add([]byte{8, 8, 8, 8}, []byte{127, 0, 0, 0}, uint8(8))
	f.Fuzz(func(t *testing.T, raw, allow []byte, bits uint8) {
		addr, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		v := ClassifyAddr(addr)
		if v == Allowed || v == OwnAddress || v == Invalid {
			t.Fatalf("%s is %s without a policy", addr, v)
		}
		if notPublic(addr) && !v.Blocked() {
			t.Fatalf("%s is %s", addr, v)
		}
		if addr.Is6() && !addr.Is4In6() {
			must.Equal(t, ClassifyAddr(addr.WithZone("eth0")), v, "%s is %s, with a zone", addr, v)
		}
		inside, ok := netip.AddrFromSlice(allow)
		if !ok {
			return
		}
		prefix, err := inside.Prefix(int(bits))
		if err != nil {
			return
		}
		want := v
		if prefix.Contains(addr) {
			want = Allowed
		}
		must.Equal(t, (Policy{Allow: []netip.Prefix{prefix}}).ClassifyAddr(addr), want,
			"%s with %s allowed is", addr, prefix)
	})
}

var errRecorded = errors.New("recorded instead of connected")

// recorder is a Transport that does not connect. It records the addresses that the guard allowed.
type recorder struct {
	*Transport
	mu      sync.Mutex // guards reached
	reached []netip.AddrPort
}

func newRecorder(tb testing.TB, p Policy, dnsServer string) *recorder {
	tb.Helper()
	r := &recorder{Transport: newTransport(tb, Config{Policy: p, DNSServer: dnsServer})}
	resolver := must.Get(NewResolver(dnsServer))(tb)
	g := newGuard(p, resolver)
	for _, d := range []*net.Dialer{&g.dottedNames, &g.allowedOnly} {
		control := d.ControlContext
		d.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
			if err := control(ctx, network, address, c); err != nil {
				return err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reached = append(r.reached, netip.MustParseAddrPort(address))
			return errRecorded
		}
	}
	r.dial = g.dial
	return r
}

func (r *recorder) drain() []netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	reached := r.reached
	r.reached = nil
	return reached
}

// FuzzCheckURL checks for any text and any DNS answer that an accepted URL reaches only public addresses and that its
// stored form is accepted again. A rejected URL that is requested nevertheless reaches only public addresses too.
func FuzzCheckURL(f *testing.F) {
	refused, rebound := targets(f)
	for _, target := range append(refused, rebound...) {
		f.Add(strings.ReplaceAll(target, "PORT", "8443"), []byte{127, 0, 0, 1})
	}
	f.Add("https://example.com/h?x=1", []byte{8, 8, 8, 8})
	f.Add("https://Bücher.example:8443/ü", netip.MustParseAddr("2606:4700::1").AsSlice())
	f.Add("https://example.com/", netip.MustParseAddr("::ffff:10.0.0.1").AsSlice())
	f.Add("https://example.com/", netip.MustParseAddr("64:ff9b::10.0.0.1").AsSlice())

	var mu sync.Mutex // guards answer
	var answer []netip.Addr
	server := startDNS(f, func(string, int) []netip.Addr {
		mu.Lock()
		defer mu.Unlock()
		return answer
	})
	var p Policy
	rec := newRecorder(f, p, server)

	f.Fuzz(func(t *testing.T, raw string, addr []byte) {
		target, ok := netip.AddrFromSlice(addr)
		if !ok {
			return
		}
		mu.Lock()
		answer = []netip.Addr{target}
		mu.Unlock()

		u, err := p.CheckURL(raw)
		dialled := raw
		if err == nil {
			dialled = u.String()
			if len(dialled) > maxURL || u.Scheme != "https" || u.User != nil || strings.Contains(dialled, "#") ||
				!isASCII(dialled) {
				t.Fatalf("%q becomes %q", raw, dialled)
			}
			if again, err := p.CheckURL(dialled); err != nil || again.String() != dialled {
				t.Fatalf("%q becomes %q, which becomes %v, %v", raw, dialled, again, err)
			}
			if !isDottedName(net.JoinHostPort(u.Hostname(), "443")) {
				t.Fatalf("%q is accepted, but its host has no dot", raw)
			}
		}
		req, reqErr := http.NewRequestWithContext(t.Context(), http.MethodGet, dialled, nil)
		if reqErr != nil {
			if err == nil {
				t.Fatalf("%q is accepted and cannot be requested: %v", dialled, reqErr)
			}
			return
		}
		if _, err := rec.RoundTrip(req); err == nil {
			t.Fatalf("%q was answered", dialled)
		}
		for _, reached := range rec.drain() {
			port := reached.Port()
			if notPublic(reached.Addr()) || port != 443 && port < 1024 {
				t.Fatalf("%q reached %s", dialled, reached)
			}
		}
	})
}
