package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/must"
)

// connectProxy is an HTTP proxy that tunnels CONNECT, or answers with a status.
func connectProxy(t *testing.T, status string) (address string, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	address = rawServer(t, func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		mu.Lock()
		all = append(all, req.Method+" "+req.Host+" "+req.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		if status != "200 OK" {
			if status != "" {
				io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n")
			}
			return
		}
		to, err := net.Dial("tcp", req.Host)
		if err != nil {
			return
		}
		defer to.Close()
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		var both sync.WaitGroup
		both.Go(func() { io.Copy(to, c); to.Close() })
		io.Copy(c, to)
		c.Close()
		both.Wait()
	})
	return address, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// The proxy gets the address that the guard has checked, never the name, and is not asked for an address that the
// policy blocks.
func TestProxyConnectsToCheckedAddresses(t *testing.T) {
	target := rawServer(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	_, port, _ := net.SplitHostPort(target)
	proxy, asked := connectProxy(t, "200 OK")
	tr := newTransport(t, Config{Policy: Policy{Allow: loopbackAllowed.Allow, AllowHTTP: true},
		Proxy: "http://relay:hunter2@" + proxy, DNSServer: startDNS(t, func(name string, _ int) []netip.Addr {
			if name == "inner.example.com" {
				return []netip.Addr{netip.MustParseAddr("10.0.0.1")}
			}
			return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("127.0.0.1")}
		})})
	classifies(t, "through the proxy", tr, "http://hook.example.com:"+port, "")
	want := "CONNECT 127.0.0.1:" + port + " Basic cmVsYXk6aHVudGVyMg=="
	if got := asked(); len(got) != 1 || got[0] != want {
		t.Errorf("the proxy was asked for %q, want %q", got, want)
	}
	classifies(t, "an inner address", tr, "http://inner.example.com:"+port, event.CodeAddressBlocked)
	classifies(t, "an inner literal", tr, "http://10.0.0.1:"+port, event.CodeAddressBlocked)
	if got := asked(); len(got) != 1 {
		t.Errorf("the proxy was asked for %q", got)
	}
}

// What the proxy says of a target is an error of the target. All other faults are the proxy's, and name no password.
func TestProxyFaults(t *testing.T) {
	send := func(address string) error {
		tr := newTransport(t, Config{Policy: Policy{Allow: loopbackAllowed.Allow, AllowHTTP: true},
			Proxy: "http://relay:hunter2@" + address})
		_, err := get(t, tr, "http://127.0.0.1:8080/")
		return err
	}
	for status, own := range map[string]bool{"407 Proxy Authentication Required": true, "500 Internal Server Error": true,
		"": true, "502 Bad Gateway": false, "503 Service Unavailable": false, "403 Forbidden": false} {
		address, _ := connectProxy(t, status)
		err := send(address)
		var fault *ProxyError
		if err == nil || errors.As(err, &fault) != own || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", status, err)
		}
	}
	if err := send(refusedAddress(t)); !errors.As(err, new(*ProxyError)) {
		t.Errorf("a proxy that is down: %v", err)
	}
	silent := rawServer(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	tr := newTransport(t, Config{Policy: Policy{Allow: loopbackAllowed.Allow, AllowHTTP: true}, Proxy: "http://" + silent})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	req := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8080/", nil))(t)
	if _, err := tr.RoundTrip(req); Classify(err) != event.CodeTimeout {
		t.Errorf("a proxy that waits for the target: %v", err)
	}
}

func TestParseProxy(t *testing.T) {
	for text, ok := range map[string]bool{"http://proxy:3128": true, "http://u:p@10.0.0.1:3128/": true,
		"https://proxy:3128": false, "proxy:3128": false, "http://proxy": false, "http://proxy:1/path": false} {
		if u, err := ParseProxy(text); (err == nil) != ok || ok && u.Host != must.Get(url.Parse(text))(t).Host {
			t.Errorf("%s: %v %v", text, u, err)
		}
	}
}
