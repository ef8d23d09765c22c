package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/crypto/acme/autocert"

	"github.com/eventrelay/relay/ingest"
)

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
		c, err := newCertificate(s.TLSCertFile, s.TLSKeyFile, n.log)
		if err != nil {
			return nil, err
		}
		n.certificates = c
	case len(s.ACMEHosts) > 0:
		c, err := newACME(s, n.log)
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
	srv := &server{listener: listener, handler: redirects(n.url, n.acme), log: n.log, drain: operatorDrain,
		readTime: adminReadTime, writeTime: adminReadTime, connections: redirectConnections}
	return srv.Run, nil
}

// redirectConnections bounds the connections of the server of redirects.
const redirectConnections = 256

// redirects sends GET and HEAD to the same path of base, whatever host was asked for. Other requests, and those with an
// API key, are refused: a client that follows a redirect has already sent its key or its event in the clear.
func redirects(base string, manager *autocert.Manager) http.Handler {
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
