package egress

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// ownOf returns an OwnAddrs with fixed addresses.
func ownOf(texts ...string) *OwnAddrs {
	addrs := make(map[netip.Addr]bool)
	for _, text := range texts {
		addrs[netip.MustParseAddr(text)] = true
	}
	o := &OwnAddrs{}
	o.addrs.Store(&addrs)
	return o
}

func TestInterfaceAddrsAreOwn(t *testing.T) {
	own := must.Get(NewOwnAddrs(t.Context(), slog.New(slog.DiscardHandler), func(context.Context) []string {
		return []string{"8.8.4.4"}
	}))(t)
	if !own.contains(netip.MustParseAddr("127.0.0.1")) || !own.contains(netip.MustParseAddr("8.8.4.4")) ||
		own.contains(netip.MustParseAddr("8.8.8.8")) {
		t.Errorf("own addresses: %v", *own.addrs.Load())
	}
}

// The addresses of the engines are blocked, new ones after at most a minute. If the resolver does not answer, the last
// known addresses stay blocked.
func TestEngineAddrsAreOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer atomic.Pointer[string]
		own := &OwnAddrs{
			log: slog.New(slog.DiscardHandler), lastResolved: map[string][]netip.Addr{},
			engineHosts: func(context.Context) []string { return []string{"kafka.example", "8.8.4.4"} },
			lookup: func(_ context.Context, _, host string) ([]netip.Addr, error) {
				text := answer.Load()
				switch {
				case host == "8.8.4.4":
					return []netip.Addr{netip.MustParseAddr(host)}, nil
				case text == nil:
					return nil, errors.New("no answer")
				}
				return []netip.Addr{netip.MustParseAddr(*text)}, nil
			},
		}
		policy := Policy{OwnAddrs: own}
		at := func(text string) { answer.Store(&text) }
		blocked := func(addr string, want bool) {
			t.Helper()
			if v := policy.ClassifyAddr(netip.MustParseAddr(addr)); (v == OwnAddress) != want {
				t.Errorf("%s is %s", addr, v)
			}
		}
		blocked("93.184.215.14", false)
		at("::ffff:93.184.215.14")
		must.Do(t, own.refresh(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- own.Run(ctx) }()
		blocked("93.184.215.14", true)
		blocked("8.8.4.4", true)
		at("93.184.215.15")
		time.Sleep(ownAddrsInterval + time.Second)
		blocked("93.184.215.15", true)
		blocked("93.184.215.14", false)
		answer.Store(nil)
		time.Sleep(ownAddrsInterval)
		blocked("93.184.215.15", true)
		cancel()
		is.ErrorIs(t, <-ended, context.Canceled)
	})
}

// In dev mode the relay's own URL begins with http://. The error says that the URL points to the relay, not that https
// is missing.
func TestOwnURLBeforeScheme(t *testing.T) {
	policy := Policy{OwnURLs: NewOwnURLs("http://localhost:8080", nil)}
	if _, err := policy.CheckURL("http://localhost:8080/in/tok"); err == nil ||
		!strings.Contains(err.Error(), "points to this relay") {
		t.Error(err)
	}
}

// URLs of the relay are rejected when a destination is saved and blocked when a request is sent, with every name and
// spelling. Its other paths, ports and schemes are accepted.
func TestOwnURLsAreRefused(t *testing.T) {
	f := func(base string, names []string, target string, own bool) {
		t.Helper()
		policy := Policy{
			OwnURLs: NewOwnURLs(base, names), AllowHTTP: true,
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		}
		_, err := policy.CheckURL(target)
		var rejected *URLError
		is.Equal(t, errors.As(err, &rejected) && strings.Contains(rejected.Reason, "points to this relay"), own,
			"%s of %s, saved: %v", target, base, err)
		if !own {
			return
		}
		transport := must.Get(NewTransport(Config{Policy: policy}))(t)
		body := &closeRecorder{Reader: strings.NewReader("x")}
		req := must.Get(http.NewRequest("POST", target, body))(t)
		_, err = transport.RoundTrip(req)
		var blocked *AddressBlockedError
		if !errors.As(err, &blocked) || blocked.Class != OwnURL || !body.closed {
			t.Errorf("%s of %s, sent: %v, body closed: %t", target, base, err, body.closed)
		}
	}
	base, names := "https://relay.example.com", []string{"hooks.example.com"}
	for _, target := range []string{
		"https://relay.example.com/in/tok", "https://RELAY.example.com/in/tok?n=1", "https://relay.example.com:443/in",
		"https://relay.example.com/drain/d/t",
		"https://relay.example.com/api/dsn/reports", "https://hooks.example.com/in/tok", "https://relay.example.com/%69n/tok",
		"https://relay.example.com//in/tok", "https://relay.example.com/x/../in/tok", "https://relay.example.com/./in/tok",
		"https://relay.example.com/v1/endpoints/ep_1/test?n=0", "https://relay.example.com/mcp",
	} {
		f(base, names, target, true)
	}
	for _, target := range []string{
		"https://relay.example.com/", "https://relay.example.com/inbox", "https://relay.example.com/v10",
		"https://relay.example.com/mcp-server",
		"https://relay.example.com:8443/in/tok",
		"https://other.example.com/in/tok", "https://relay.example.com.evil.example/in/tok",
		"https://relay.example.com/hooks/in/tok",
		"http://relay.example.com:443/in/tok",
	} {
		f(base, names, target, false)
	}
	f("https://relay.example.com:8443/", nil, "https://relay.example.com:8443/in/tok", true)
	f("https://relay.example.com:8443/", nil, "https://relay.example.com/in/tok", false)
	f("https://example.com/relay", nil, "https://example.com/relay/in/tok", true)
	f("https://example.com/relay", nil, "https://example.com/in/tok", false)
	f("https://münchen.example", nil, "https://xn--mnchen-3ya.example/in/tok", true)
	for _, target := range []string{"http://127.0.0.1:8080/in/t", "http://localhost:8080/in/t", "http://[::1]:8080/in/t"} {
		f("http://localhost:8080", nil, target, true)
		f("http://127.0.0.1:8080", nil, target, true)
	}
	f("http://localhost:8080", nil, "http://127.0.0.1:8081/in/t", false)
	f("http://192.0.2.1:8080", nil, "http://127.0.0.1:8080/in/t", false)
	f("http://relay.example.com", nil, "http://relay.example.com:80/in/t", true)
	for _, base := range []string{"https://relay example.com", "https://relay.example.com:0"} {
		if NewOwnURLs(base, nil) != nil {
			t.Errorf("%q has URLs", base)
		}
	}
}
