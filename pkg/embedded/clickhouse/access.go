package clickhouse

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// guard rejects requests that no client of the relay sends, before it reads their body: requests of web pages (they
// carry Origin or Sec-Fetch-Site), requests with a foreign Host (DNS rebinding), and requests without the key.
type guard struct {
	hosts       []string // names of this server in lower case; without a port: any port
	key         [sha256.Size]byte
	requiresKey bool
	next        http.Handler
}

// newGuard returns a guard in front of a handler that listens on address.
func newGuard(cfg Config, address net.Addr, next http.Handler) *guard {
	g := &guard{key: sha256.Sum256([]byte(cfg.Key)), requiresKey: cfg.Key != "", next: next}
	for _, host := range cfg.Hosts {
		g.hosts = append(g.hosts, strings.ToLower(strings.Trim(host, "[]")))
	}
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		g.hosts = append(g.hosts, "localhost") // clients of a unix socket send this
		return g
	}
	g.hosts = append(g.hosts, tcp.String())
	if tcp.IP.IsLoopback() {
		_, port, _ := net.SplitHostPort(tcp.String())
		g.hosts = append(g.hosts, net.JoinHostPort("localhost", port))
	}
	return g
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if e := g.rejection(r); e != nil {
		h := w.Header()
		h.Set("Content-Type", "text/plain; charset=UTF-8")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-ClickHouse-Exception-Code", e.codeText())
		h.Set("Connection", "close") // a client without the key must not hold a connection
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(e.text + "\n")) // the client may have disconnected
		return
	}
	g.next.ServeHTTP(w, r)
}

func (g *guard) rejection(r *http.Request) *exception {
	switch site := r.Header.Values("Sec-Fetch-Site"); {
	case len(r.Header.Values("Origin")) > 0, len(site) > 0 && !slices.Equal(site, []string{"none"}):
		return accessDenied("requests of web pages are refused; send them from a program, such as curl")
	case !g.isOwn(r.Host):
		return accessDenied("the Host of the request is none of this server's names (" + strings.Join(g.hosts, ", ") +
			"); add names with --host")
	case g.requiresKey && !g.hasKey(r):
		return &exception{code: codeAuthenticationFailed, text: "Code: 516. DB::Exception: The key is missing or wrong: " +
			"send it as X-ClickHouse-Key or as password. (AUTHENTICATION_FAILED)"}
	}
	return nil
}

func accessDenied(why string) *exception {
	return &exception{code: codeAccessDenied, text: "Code: 497. DB::Exception: " + why + ". (ACCESS_DENIED)"}
}

func (g *guard) isOwn(host string) bool {
	host = strings.ToLower(host)
	bare, _, err := net.SplitHostPort(host)
	if err != nil {
		bare = strings.Trim(host, "[]")
	}
	return slices.Contains(g.hosts, host) || slices.Contains(g.hosts, bare)
}

// hasKey compares digests in constant time, so that neither the content nor the length of the key can be measured.
func (g *guard) hasKey(r *http.Request) bool {
	given := r.Header.Get("X-ClickHouse-Key")
	if _, password, ok := r.BasicAuth(); ok && given == "" {
		given = password
	}
	digest := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(digest[:], g.key[:]) == 1
}

// isLoopback reports whether a listen address can be reached from this machine only.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
