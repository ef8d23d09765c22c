package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/acme/autocert"

	"github.com/eventrelay/relay/ingest"
)

// server serves a handler on a listener until its context ends, then lets requests finish.
type server struct {
	listener     net.Listener
	handler      http.Handler
	certificates certificates // nil: plain HTTP
	// beforeShutdown returns when clients have had the time to leave; nil = at once. Until then requests are taken, and
	// each answer closes its connection. A server that fails does not call it.
	beforeShutdown func()
	onShutdown     func()        // ends requests that would not end by themselves; nil = none
	drain          time.Duration // how long a stop waits for requests in flight
	log            *slog.Logger
	// readTime and writeTime bound the reading of a request and the writing of its answer; 0 = the handlers bound them.
	readTime, writeTime time.Duration
	connections         int            // at once; 0 = maxConnections
	proxies             []netip.Prefix // whose connections are those of many clients
}

// maxConnections returns how many client connections may be open at once: 16,384, or half of the files that the process
// may open if that is less; the other half is for deliveries and engines. A connection takes about 20 KB. Above it a
// new connection replaces an idle one, or waits.
func maxConnections() int {
	const most = 16_384
	return min(most, max(openFiles()/2, 1))
}

// Run serves until ctx ends and beforeShutdown has returned. Then it waits up to drain for requests in flight,
// and closes the connections of those that remain: one client must not use up the time that deliveries need to end.
func (s *server) Run(ctx context.Context) error {
	var stopping atomic.Bool
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if stopping.Load() {
				w.Header().Set("Connection", "close") // over HTTP/2 too: the client opens a new connection elsewhere
			}
			s.handler.ServeHTTP(w, r)
		}),
		// Bounds clients that send their header byte by byte. Handlers bound the reading of bodies.
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       s.readTime,
		WriteTimeout:      s.writeTime,
		IdleTimeout:       2 * time.Minute,
		// Above the 64 KB that handlers allow, so that most oversized headers are answered in the API's own shape.
		MaxHeaderBytes: 256 << 10,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	watchRequests(srv)
	if s.onShutdown != nil {
		srv.RegisterOnShutdown(s.onShutdown)
	}
	listener := newLimitListener(s.listener, cmp.Or(s.connections, maxConnections()), s.proxies)
	ending, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var stopped error
	wg.Go(func() {
		<-ending.Done()
		if ctx.Err() != nil && s.beforeShutdown != nil {
			stopping.Store(true)
			s.beforeShutdown()
		}
		limit, done := context.WithTimeout(context.WithoutCancel(ctx), s.drain)
		defer done()
		if stopped = srv.Shutdown(limit); errors.Is(stopped, context.DeadlineExceeded) {
			s.log.LogAttrs(ctx, slog.LevelWarn, "stopping: requests that were still in flight are cut off",
				slog.String("addr", s.listener.Addr().String()), slog.Duration("after", s.drain))
			stopped = srv.Close()
		}
	})
	var err error
	if s.certificates != nil {
		wg.Go(func() { _ = s.certificates.Run(ending) }) // it returns no error but that of its context
		srv.TLSConfig = s.certificates.config()
		err = srv.ServeTLS(listener, "", "")
	} else {
		err = srv.Serve(listener)
	}
	cancel()
	wg.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, stopped)
}

// certificates are what HTTPS serves: files, or what a CA issues.
type certificates interface {
	config() *tls.Config
	Run(ctx context.Context) error
}

// newCertificates reads the certificate that the settings name, or prepares to obtain one. Without either the server
// speaks plain HTTP.
func newCertificates(n *Node) (runFunc, error) {
	switch s := &n.settings; {
	case s.TLSCertFile != "":
		c, err := newCertificate(s.TLSCertFile, s.TLSKeyFile, n.Log)
		if err != nil {
			return nil, err
		}
		n.certificates = c
	case len(s.ACMEHosts) > 0:
		c, err := newACME(s, n.Log)
		if err != nil {
			return nil, err
		}
		n.certificates, n.acme = c, c.manager
	}
	return nil, nil
}

// strictTransport makes browsers use HTTPS alone for a year (RFC 6797).
const strictTransport = "max-age=31536000"

// withStrictTransport adds the header to all answers of a server that speaks HTTPS.
func withStrictTransport(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", strictTransport)
		next.ServeHTTP(w, r)
	})
}

// newRedirects creates the server on RELAY_HTTP_LISTEN, which sends browsers to HTTPS and answers the CA.
func newRedirects(n *Node) (runFunc, error) {
	if n.settings.HTTPListen == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", n.settings.HTTPListen)
	if err != nil {
		return nil, fmt.Errorf("listen on RELAY_HTTP_LISTEN: %w", err)
	}
	srv := &server{listener: listener, handler: redirects(n.PublicURL, n.acme), log: n.Log, drain: operatorDrain,
		readTime: adminReadTime, writeTime: adminReadTime, connections: redirectConnections}
	return srv.Run, nil
}

// redirectConnections bounds the connections of the server of redirects.
const redirectConnections = 256

// redirects sends GET and HEAD to the same path of base, whatever host was asked for. Other requests, and those with an
// API key, are refused: a client that follows a redirect has already sent its key or its event in the clear.
func redirects(base string, manager *autocert.Manager) http.Handler {
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/") { // such as *
			http.Error(w, "the path must begin with /", http.StatusBadRequest)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead || strings.HasPrefix(r.URL.Path, ingest.PathPrefix) ||
			r.Header["Authorization"] != nil {
			http.Error(w, "use https://, and change what you have sent if it contains a secret", http.StatusForbidden)
			return
		}
		to := url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, base+to.RequestURI(), http.StatusMovedPermanently)
	})
	if manager != nil {
		handler = manager.HTTPHandler(handler)
	}
	return handler
}
