package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// targets reads testdata/targets.txt: URLs that CheckURL rejects, and URLs that it accepts but whose names resolve to
// blocked addresses.
func targets(tb testing.TB) (refused, rebound []string) {
	tb.Helper()
	text := must.Get(os.ReadFile("testdata/targets.txt"))(tb)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		quoted, saved := strings.CutPrefix(line, "saved ")
		target, err := strconv.Unquote(quoted)
		must.Do(tb, err, line)
		if saved {
			rebound = append(rebound, target)
		} else {
			refused = append(refused, target)
		}
	}
	if len(refused) < 80 || len(rebound) == 0 {
		tb.Fatalf("%d targets, %d names", len(refused), len(rebound))
	}
	return refused, rebound
}

// canary listens on loopback and counts connections.
func canary(t *testing.T) (port string, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	v4 := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	_, port, _ = net.SplitHostPort(v4.Addr().String())
	listeners := []net.Listener{v4}
	if v6, err := net.Listen("tcp6", "[::1]:"+port); err == nil { // IPv6 may be disabled
		listeners = append(listeners, v6)
	}
	var wg sync.WaitGroup
	for _, l := range listeners {
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				connections.Add(1)
				c.Close()
			}
		})
	}
	t.Cleanup(func() {
		for _, l := range listeners {
			l.Close()
		}
		wg.Wait()
	})
	return port, connections
}

func newTransport(tb testing.TB, cfg Config) *Transport {
	tb.Helper()
	tr := must.Get(NewTransport(cfg))(tb)
	tb.Cleanup(tr.CloseIdleConnections)
	return tr
}

// get sends a GET with a deadline that expires only if the request hangs.
func get(t *testing.T, tr *Transport, url string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := tr.RoundTrip(req)
	if err == nil {
		t.Cleanup(func() { res.Body.Close() })
	}
	return res, err
}

func TestHostileTargets(t *testing.T) {
	refused, rebound := targets(t)
	port, connections := canary(t)
	// The worst case: every name resolves to this machine.
	tr := newTransport(t, Config{DNSServer: startDNS(t, always("127.0.0.1", "::1"))})
	// URLs that are rejected because of their form are blocked even if http is allowed.
	withHTTP := newTransport(
		t, Config{Policy: Policy{AllowHTTP: true}, DNSServer: startDNS(t, always("127.0.0.1", "::1"))})

	f := func(target string, saved bool) {
		t.Helper()
		target = strings.ReplaceAll(target, "PORT", port)
		u, err := Policy{}.CheckURL(target)
		is.Equal(t, saved, err == nil, "%q: CheckURL gives %v, %v", target, u, err)
		for _, tr := range []*Transport{tr, withHTTP} {
			before := connections.Load()
			_, err = get(t, tr, target)
			if err == nil || connections.Load() != before {
				t.Errorf("%q: was reached (error %v)", target, err)
				continue
			}
			// It was blocked by the guard, or net/url or net/http rejected the request, or the resolver rejected a number as a
			// name.
			if code := Classify(err); code != event.CodeAddressBlocked && code != event.CodeDNS && !notSent(err) {
				t.Errorf("%q: %s: %v", target, code, err)
			}
		}
	}
	for _, target := range refused {
		f(target, false)
	}
	for _, target := range rebound {
		f(target, true)
	}
}

// notSent reports whether a request failed before its host was resolved.
func notSent(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "parse ") || strings.HasPrefix(text, "unsupported protocol scheme") ||
		strings.HasPrefix(text, "http: no Host in request URL") ||
		strings.HasPrefix(text, "invalid URL port") || strings.HasPrefix(text, "net/http: invalid")
}

// TestRebinding uses a name server of an attacker: the name resolves to a public address when the destination is saved,
// and to this machine when the delivery is sent.
func TestRebinding(t *testing.T) {
	port, connections := canary(t)
	server := startDNS(t, func(name string, n int) []netip.Addr {
		if n == 1 {
			return []netip.Addr{netip.MustParseAddr("93.184.215.14")}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}
	})
	url := "https://rebind.example.com:" + port + "/"
	var p Policy
	if _, err := p.CheckURL(url); err != nil {
		t.Fatal(err)
	}
	resolver, err := NewResolver(server)
	must.Do(t, err)
	must.Equal(t, p.LookupWarning(t.Context(), resolver, "rebind.example.com"), "", "the public answer gives a warning")
	_, err = get(t, newTransport(t, Config{DNSServer: server}), url)
	var blocked *AddressBlockedError
	if !errors.As(err, &blocked) || blocked.Class != Loopback {
		t.Fatalf("the second answer: %v", err)
	}
	must.Equal(t, connections.Load(), 0, "this machine was reached")
}

// TestEveryCandidateIsChecked resolves a name to one address of each class that DNS can return. A guard that checked
// only the first one would connect to another.
func TestEveryCandidateIsChecked(t *testing.T) {
	port, connections := canary(t)
	var hostile []string
	for _, s := range specialPrefixes {
		if s.class != Public {
			hostile = append(hostile, s.prefix.Addr().String())
		}
	}
	hostile = append(hostile, "127.0.0.1", "::1")
	for _, addr := range hostile {
		tr := newTransport(t, Config{DNSServer: startDNS(t, always(addr, "::1", "127.0.0.1", addr))})
		_, err := get(t, tr, "https://many.example.com:"+port+"/")
		is.Equal(t, Classify(err), event.CodeAddressBlocked, "%s: %v", addr, err)
	}
	is.Equal(t, connections.Load(), 0, "this machine was reached … times")
}

// Public addresses are reached only by name and only at allowed ports.
func TestPublicNameIsReached(t *testing.T) {
	rec := newRecorder(t, Policy{}, startDNS(t, always("93.184.215.14")))
	f := func(url string, want error, reached ...netip.AddrPort) {
		t.Helper()
		_, err := get(t, rec.Transport, url)
		if err == nil || !strings.Contains(err.Error(), want.Error()) {
			t.Errorf("%s: %v, want %v", url, err, want)
		}
		is.List(t, rec.drain(), reached, "%s: reached", url)
	}
	f("https://example.com/", errRecorded, netip.MustParseAddrPort("93.184.215.14:443"))
	f("https://example.com:8443/", errRecorded, netip.MustParseAddrPort("93.184.215.14:8443"))
	f("https://example.com:22/", &AddressBlockedError{Class: Port})
	f("https://intranet/", &AddressBlockedError{Class: NotAName})
	f("https://93.184.215.14/", &AddressBlockedError{Class: NotAName})
	f("https://[2606:4700:4700::1111]/", &AddressBlockedError{Class: NotAName})
	f("https://[2606:4700:4700::1111%25a.b]/", &AddressBlockedError{Class: NotAName})
}

// A blocked address does not prevent a connection to the allowed addresses of the same name.
func TestBlockedCandidateIsSkipped(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.2:0")
	if err != nil {
		kit.SkipMissing(t, "127.0.0.2 is not there: %v", err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	p := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}
	resolver := must.Get(NewResolver(startDNS(t, always("10.0.0.1", "127.0.0.1", "127.0.0.2", "::1"))))(t)
	conn := must.Get(newGuard(p, resolver).dial(t.Context(), "tcp", "mixed.example.com:"+port))(t)
	defer conn.Close()
	if got := conn.RemoteAddr().String(); got != l.Addr().String() {
		t.Errorf("connected to %s, want %s", got, l.Addr())
	}
}

// The text that a customer sees contains the class and nothing about the internal network.
func TestAddressBlockedErrorText(t *testing.T) {
	tr := newTransport(t, Config{DNSServer: startDNS(t, always("10.20.30.40"))})
	_, err := get(t, tr, "https://inside.example.com/")
	var blocked *AddressBlockedError
	if !errors.As(err, &blocked) {
		t.Fatal(err)
	}
	if blocked.Addr != netip.MustParseAddr("10.20.30.40") || blocked.Class != Private {
		t.Errorf("the error has %s, %s", blocked.Addr, blocked.Class)
	}
	if text := Message(err); !strings.Contains(text, "private") || strings.Contains(text, "10.20") {
		t.Errorf("the message is %q", text)
	}
	f := func(v TargetClass, want string) {
		t.Helper()
		is.Has(t, (&AddressBlockedError{Class: v}).Error(), want, "%s: does not say %q", v, want)
	}
	f(PlainHTTP, "only https")
	f(Port, "443 or 1024 to 65535")
	f(NotAName, "full name")
	f(OwnURL, "points to this relay")
}

func TestLookupWarning(t *testing.T) {
	server := startDNS(t, func(name string, _ int) []netip.Addr {
		return map[string][]netip.Addr{
			"public.example.com": {netip.MustParseAddr("93.184.215.14"), netip.MustParseAddr("2606:4700::1")},
			"inside.example.com": {netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")},
			"both.example.com":   {netip.MustParseAddr("93.184.215.14"), netip.MustParseAddr("127.0.0.1")},
			"mapped.example.com": {netip.MustParseAddr("::ffff:127.0.0.1")},
		}[name]
	})
	resolver := must.Get(NewResolver(server))(t)
	f := func(p Policy, host, want string) {
		t.Helper()
		got := p.LookupWarning(t.Context(), resolver, host)
		is.Equal(t, got, want, host)
	}
	f(Policy{}, "public.example.com", "")
	// The sentence is the same for all: it reveals neither the class nor the number of the internal addresses.
	blocked := func(host string) string {
		return host + " resolves to an address that is not public; deliveries to such an address are blocked" +
			networkAdvice
	}
	f(Policy{}, "inside.example.com", blocked("inside.example.com"))
	f(Policy{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, "inside.example.com", "")
	f(Policy{}, "both.example.com", blocked("both.example.com"))
	f(Policy{}, "mapped.example.com", blocked("mapped.example.com"))
	f(Policy{}, "nobody.example.com", "")
	f(Policy{}, "127.0.0.1", blocked("127.0.0.1"))

	// If the name server does not answer, LookupWarning returns no warning after half a second. The lookup continues after
	// that (net shares it between callers), so the test ends it.
	release := make(chan struct{})
	defer close(release)
	resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		<-release
		return nil, errors.New("closed")
	}}
	start := time.Now()
	is.Equal(t, (Policy{}).LookupWarning(t.Context(), resolver, "inside.example.com"), "", "no answer gives a warning")
	if d := time.Since(start); d > time.Minute {
		t.Errorf("it took %s", d)
	}
}

func TestNewResolver(t *testing.T) {
	f := func(server string, ok bool) {
		t.Helper()
		if _, err := NewResolver(server); (err == nil) != ok {
			t.Errorf("%q: %v", server, err)
		}
	}
	f("", true)
	f("10.0.0.2", true)
	f("10.0.0.2:5353", true)
	f("fd00::53", true)
	f("[fd00::53]:53", true)
	f("dns.example.com", false)
	f("10.0.0.2:", false)
	f("10.0.0.2:99999", false)
	resolver, err := NewResolver("127.0.0.1")
	if err != nil || !resolver.PreferGo {
		t.Fatalf("%+v, %v", resolver, err)
	}
	conn, err := resolver.Dial(t.Context(), "udp", "192.0.2.1:53") // sends nothing
	must.Do(t, err)
	defer conn.Close()
	is.Equal(t, conn.RemoteAddr().String(), "127.0.0.1:53", "asks")
	if _, err := NewTransport(Config{DNSServer: "dns.example.com"}); err == nil {
		t.Error("a transport takes a DNS server that is not an address")
	}
}

// After 101 net/http hands out the connection as the body, and a read from it outlasts the request's deadline: such an
// answer gets an empty body, and its connection is closed.
func TestSwitchingProtocols(t *testing.T) {
	closed := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err == nil {
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"))
			_, err = rw.ReadByte()
		}
		closed <- err
	}))
	defer s.Close()
	policy := loopbackAllowed
	policy.AllowHTTP = true
	res := must.Get(get(t, newTransport(t, Config{Policy: policy}), s.URL))(t)
	if res.StatusCode != http.StatusSwitchingProtocols || res.Body != http.NoBody {
		t.Errorf("%s with a body", res.Status)
	}
	is.ErrorIs(t, <-closed, io.EOF, "the connection stays open")
}

// A status below 100 is no status: the attempt fails with a cause, and another one may be made.
func TestMalformedStatus(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		conn.Write([]byte("HTTP/1.1 000 Nothing\r\nContent-Length: 2\r\n\r\nok"))
	}))
	defer s.Close()
	policy := loopbackAllowed
	policy.AllowHTTP = true
	tr := newTransport(t, Config{Policy: policy})
	_, err := get(t, tr, s.URL)
	if code := Classify(err); code != event.CodeNetwork || !strings.Contains(Message(err), "000") || inFlight(tr) != 0 {
		t.Errorf("%q, %v, %d requests in flight", code, err, inFlight(tr))
	}
}
