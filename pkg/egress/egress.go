// Package egress sends all requests to hosts that a customer named, and protects the operator's network from them
// (server-side request forgery).
//
// [Policy.CheckURL] validates a destination's URL when it is saved. [Transport.RoundTrip] sends a request to it and
// returns the response, or an error that [Classify] maps to the error code of the attempt. [Policy.ClassifyAddr]
// decides whether an address may be reached; errors, logs, metrics and tests contain its [TargetClass]. Begin with
// guard.go, then read pool.go.
//
// Guarantees, each with its test:
//   - No connection is made to an address that is not public, whatever DNS answers and however the target is written.
//     The dialer's control function checks the resolved address between socket and connect, for every candidate address
//     of a name, so DNS rebinding has no effect (TestHostileTargets, TestRebinding, TestEveryCandidateIsChecked,
//     FuzzCheckURL).
//   - No proxy of the environment is used, and no redirect is followed (TestRedirectIsNotFollowed, TestProxyIsIgnored).
//     The operator's proxy connects to the address that the guard has checked (TestProxyConnectsToCheckedAddresses).
//   - The memory that a receiver can occupy is limited: 64 KiB of response headers, 64 KiB of flow control window per
//     HTTP/2 stream (TestClassifyPlain, TestClassifyTLS, TestStreamWindow).
//   - A receiver cannot keep the process busy with what is no response: a connection that receives more than 1 MiB, and
//     1 MiB for each request in flight, is closed (TestIdleFloodIsCut, TestFloodBeforeTheResponseIsCut).
//   - Requests of two destinations never share a connection at the same time, and connections per host are not
//     limited: a destination that hangs does not slow down another at the same host
//     (TestHangingDestinationDoesNotSlowNeighbours).
//
// The request's context is the deadline of an attempt; without a deadline a silent receiver holds its connection
// forever. Goroutines of net/http end with their connections; [Transport.CloseIdleConnections] closes the idle ones.
package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"runtime"
	"time"
)

// MaxIdle is the default of Config.MaxIdle: at about 50 KB per TLS connection, 200 MB.
const MaxIdle = 4096

// The limits of the shared Transport.
const (
	// maxPoolIdle limits the idle connections of a pool, which serves one destination at a time. With a smaller limit, a
	// busy destination would open new connections all the time.
	maxPoolIdle = 256
	idleTimeout = 90 * time.Second
	// connectTimeout covers the DNS lookup and connecting to all candidates of a name; handshakeTimeout covers TLS. The
	// attempt's own deadline (default 15 s) may be shorter.
	connectTimeout   = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// maxResponseHeader limits a header block, including 1xx responses.
	maxResponseHeader = 64 << 10
	// streamWindow and connWindow limit what an HTTP/2 peer may send before we read. net/http's default of 4 MB per
	// stream could use 32 GB with 8,192 requests in flight; no more than 64 KiB of a response is read.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
	// An HTTP/2 connection without a frame for pingAfter is pinged. If there is no answer within pingTimeout, or a write
	// blocks for writeTimeout, the connection is closed and its requests fail.
	pingAfter    = 20 * time.Second
	pingTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	// maxHandshakes, and the number of cores, limit the TLS handshakes that compute at the same time, for some 0.3 ms
	// each: requests on open connections would wait for all that begin together, as when many destinations hang. Waiting
	// for the receiver does not count, so silent ones delay no other.
	maxHandshakes = 16
	// maxTLSSessions limits the cached TLS sessions for resumption, about 2 KB each.
	maxTLSSessions = 2048
)

// Config configures a Transport.
type Config struct {
	Policy Policy
	// CAFile is a PEM file with root certificates that are trusted in addition to the system's (RELAY_EGRESS_CA_FILE).
	// Empty for none.
	CAFile string
	// DNSServer is the resolver for outbound names (RELAY_DNS_SERVER), see [NewResolver]. Empty for the
	// system's.
	DNSServer string
	// Proxy is the HTTP proxy that makes the connections (RELAY_EGRESS_PROXY), see [ParseProxy]. Empty for none.
	Proxy string
	// Inside answers requests to these hosts in this process, without a connection. DNS must have no such name.
	Inside map[string]http.RoundTripper
	// MaxIdle limits the idle connections; 0 = [MaxIdle]. Above it the oldest are closed.
	MaxIdle int
}

// Transport is an http.RoundTripper for concurrent use. Do not wrap it into an http.Client, which follows redirects.
type Transport struct {
	policy Policy
	inside map[string]http.RoundTripper
	inner  *http.Transport
	pools  pools
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	tls    *tls.Config // without ServerName
	// handshakes holds an element for each handshake that computes.
	handshakes chan struct{}
}

// NewTransport reads the certificates and creates a Transport. It opens no connection.
func NewTransport(cfg Config) (*Transport, error) {
	roots, err := rootCAs(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	resolver, err := NewResolver(cfg.DNSServer)
	if err != nil {
		return nil, err
	}
	guard := newGuard(cfg.Policy, resolver)
	if guard.proxy, err = newProxy(cfg.Proxy); err != nil {
		return nil, err
	}
	t := &Transport{
		policy: cfg.Policy, inside: cfg.Inside, pools: pools{origins: make(map[origin]*originPools), lastSweep: time.Now()},
		dial: guard.dial,
		tls: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, NextProtos: []string{"h2", "http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(maxTLSSessions),
		},
		handshakes: make(chan struct{}, min(maxHandshakes, runtime.GOMAXPROCS(0))),
	}
	t.inner = t.newHTTPTransport(cmp.Or(cfg.MaxIdle, MaxIdle))
	return t, nil
}

// Dial connects to host:port for another protocol than HTTP, with TLS unless plain is set, which needs AllowHTTP. Of a
// name all addresses are checked, as for requests. roots are trusted beside those of the transport; nil for none.
func (t *Transport) Dial(ctx context.Context, address string, plain bool, roots []byte) (net.Conn, error) {
	if plain && !t.policy.AllowHTTP {
		return nil, &AddressBlockedError{Class: PlainHTTP}
	}
	conn, err := t.dial(ctx, "tcp", address)
	if err != nil || plain {
		return conn, err
	}
	cfg := t.tls.Clone()
	cfg.NextProtos, cfg.ClientSessionCache = nil, nil
	cfg.ServerName, _, _ = net.SplitHostPort(address)
	if roots != nil {
		if cfg.RootCAs == nil {
			if cfg.RootCAs, err = x509.SystemCertPool(); err != nil {
				conn.Close()
				return nil, fmt.Errorf("read the system's root certificates: %w", err)
			}
		}
		cfg.RootCAs = cfg.RootCAs.Clone()
		cfg.RootCAs.AppendCertsFromPEM(roots)
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	secured := tls.Client(conn, cfg)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

// WithCertificate returns a transport that shows a client certificate, with connections of its own.
func (t *Transport) WithCertificate(certificate tls.Certificate) *Transport {
	cfg := t.tls.Clone()
	cfg.Certificates, cfg.ClientSessionCache = []tls.Certificate{certificate}, tls.NewLRUClientSessionCache(0)
	next := &Transport{policy: t.policy, dial: t.dial, tls: cfg, handshakes: t.handshakes,
		pools: pools{origins: make(map[origin]*originPools), lastSweep: time.Now()}}
	next.inner = next.newHTTPTransport(maxPoolIdle)
	return next
}

// newHTTPTransport creates the http.Transport that sends requests once they have a pool.
func (t *Transport) newHTTPTransport(idle int) *http.Transport {
	return &http.Transport{
		Proxy: nil, // it would resolve and connect in our place, past the guard; see dialThrough
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return t.connect(ctx, network, poolOf(ctx))
		},
		DialTLSContext: t.dialTLS,
		// The response is stored byte for byte, and a small body cannot decompress into a large one.
		DisableCompression:     true,
		MaxIdleConns:           idle,
		MaxIdleConnsPerHost:    maxPoolIdle,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		ForceAttemptHTTP2:      true, // net/http disables HTTP/2 for custom dialers otherwise
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingTimeout,
			WriteByteTimeout:              writeTimeout,
			MaxReceiveBufferPerStream:     streamWindow,
			MaxReceiveBufferPerConnection: connWindow,
		},
	}
}

// connect dials the address of a pool. If no file descriptor is left, it closes the idle connections and tries once
// more.
func (t *Transport) connect(ctx context.Context, network string, p *pool) (net.Conn, error) {
	conn, err := t.dial(ctx, network, p.address)
	if isOutOfFiles(err) {
		t.inner.CloseIdleConnections()
		conn, err = t.dial(ctx, network, p.address)
	}
	if err != nil {
		return nil, err
	}
	return &floodLimiter{Conn: conn, pool: p}, nil
}

// dialTLS connects to the address of the request's pool and performs the TLS handshake. It does the handshake itself,
// because net/http would use the name of the pool as the server name.
func (t *Transport) dialTLS(ctx context.Context, network, _ string) (net.Conn, error) {
	p := poolOf(ctx)
	conn, err := t.connect(ctx, network, p)
	if err != nil {
		return nil, err
	}
	cfg := t.tls.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(p.address)
	shaking := &handshaking{conn, t.handshakes}
	secured := tls.Client(shaking, cfg)
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	hooks := httptrace.ContextClientTrace(ctx) // net/http calls them too, after the handshake
	if hooks != nil && hooks.TLSHandshakeStart != nil {
		hooks.TLSHandshakeStart()
	}
	t.handshakes <- struct{}{}
	err = secured.HandshakeContext(ctx)
	<-t.handshakes
	shaking.slots = nil
	if hooks != nil && hooks.TLSHandshakeDone != nil {
		hooks.TLSHandshakeDone(secured.ConnectionState(), err)
	}
	if err != nil {
		conn.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("TLS handshake: %w", err)
		}
		return nil, err
	}
	return secured, nil
}

// handshaking is a connection whose handshake has one of the slots, except while it waits for the receiver.
type handshaking struct {
	net.Conn
	slots chan struct{} // nil after the handshake
}

func (c *handshaking) Read(b []byte) (int, error) {
	if c.slots != nil {
		<-c.slots
		defer func() { c.slots <- struct{}{} }()
	}
	return c.Conn.Read(b)
}

// RoundTrip sends one request and returns its response, even if it is a redirect. For a target that the policy blocks
// it returns an [AddressBlockedError] before anything is sent.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL != nil && req.URL.Scheme == "http" && !t.policy.AllowHTTP {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, &AddressBlockedError{Class: PlainHTTP}
	}
	if t.policy.OwnURLs.Matches(req.URL) { // the base URL of the relay may have changed since the destination was saved
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, &AddressBlockedError{Class: OwnURL}
	}
	if req.URL == nil || req.URL.Host == "" {
		return t.inner.RoundTrip(req) // returns the error
	}
	if inside := t.inside[req.URL.Host]; inside != nil {
		return inside.RoundTrip(req)
	}
	return t.roundTrip(req)
}

// CloseIdleConnections closes the idle connections. Connections in use return to their pool when the response is read,
// so call it after the last delivery at shutdown.
func (t *Transport) CloseIdleConnections() { t.inner.CloseIdleConnections() }

// rootCAs returns the system's root certificates and those of the file. Without a file it returns nil: crypto/tls then
// uses the system's.
func rootCAs(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read root certificates: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's root certificates: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("read root certificates: no certificate in PEM form in " + file)
	}
	return pool, nil
}
