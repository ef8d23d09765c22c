package node

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/eventrelay/relay/ingest"
)

// newCertificates reads the certificate that the settings name, or prepares to obtain one. Without either the server
// speaks plain HTTP.
func newCertificates(n *Node) (runFunc, error) {
	var err error
	switch s := n.Settings; {
	case s.TLSCertFile != "":
		n.certificates, err = newCertificate(s.TLSCertFile, s.TLSKeyFile, n.Log)
	case len(s.ACMEHosts) > 0:
		n.certificates, err = newACME(s, n.Log)
	}
	return nil, err
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
	if n.Settings.HTTPListen == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", n.Settings.HTTPListen)
	if err != nil {
		return nil, fmt.Errorf("listen on RELAY_HTTP_LISTEN: %w", err)
	}
	handler := redirects(n.PublicURL)
	if ca, ok := n.certificates.(*acmeCertificates); ok {
		handler = ca.manager.HTTPHandler(handler)
	}
	srv := &server{listener: listener, handler: handler, log: n.Log, drain: operatorDrain,
		readTime: adminReadTime, writeTime: adminReadTime, connections: redirectConnections}
	return srv.Run, nil
}

// redirectConnections bounds the connections of the server of redirects.
const redirectConnections = 256

// redirects sends GET and HEAD to the same path of base, whatever host was asked for. Other requests, and those with an
// API key, are refused: a client that follows a redirect has already sent its key or its event in the clear.
func redirects(base string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
}
