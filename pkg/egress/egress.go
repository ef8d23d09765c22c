// Package egress is the only way out: every request the service sends to a host that a customer
// named goes through its Transport.
//
// In flow a destination's URL, when it is saved ([Policy.CheckURL]), and a request to it, when it is
// delivered ([Transport.RoundTrip]); out flows the response, or an error that [Classify] turns into
// the word an attempt is recorded with. Every decision about an address is one pure function with a
// named verdict ([Policy.Judge]), so the error, the log, the metric and the test say the same.
//
// Guaranteed, each with its test:
//   - No connection is made to an address that is not public, whatever DNS says and however the
//     target is written: the address is judged after it was resolved, in the dialer's control
//     function, between socket and connect, for every candidate of a name. A name that changes its
//     address between two answers gains nothing (TestHostileTargets, TestRebinding,
//     TestEveryCandidateIsChecked, FuzzCheckURL).
//   - No proxy, from the environment or otherwise, and no redirect is followed: there is no
//     http.Client here (TestRedirectIsNotFollowed, TestProxyIsIgnored).
//   - What a receiver can make us hold is bounded: 64 KB of response headers, 64 KB of flow control
//     window per HTTP/2 stream (TestHeaderFlood, TestStreamWindow).
//   - Requests of two destinations are never on one connection at the same time, and no host has a limit of
//     connections: a destination that hangs does not slow down another at the same host
//     (TestHangingDestinationDoesNotSlowNeighbours).
//
// The deadline of an attempt is the request's context; without one a silent receiver holds its
// connection for ever. The package starts no goroutine of its own; net/http's end with their
// connections, the idle ones by [Transport.CloseIdleConnections].
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
	"os"
	"time"
)

// MaxIdle is how many idle connections a Transport keeps unless told otherwise: at some 50 KB each with TLS, 200 MB.
const MaxIdle = 4096

// The limits of the shared Transport.
const (
	// maxPoolIdle bounds the idle connections of a pool, of which a destination has one. With fewer, a busy
	// destination is connected to anew all the time.
	maxPoolIdle = 256
	idleTimeout = 90 * time.Second
	// connectTimeout covers resolving and connecting to all candidates of a name, handshakeTimeout TLS.
	// An attempt's own deadline (15 s unless set otherwise) is usually what ends a wait.
	connectTimeout   = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// maxResponseHeader bounds a header block, 1xx responses included.
	maxResponseHeader = 64 << 10
	// streamWindow and connWindow bound what an HTTP/2 peer may send before we read: by default 4 MB a
	// stream, 32 GB with 8,192 requests in flight. 64 KB is all of a response that is read.
	streamWindow = 64 << 10
	connWindow   = 1 << 20
	// A connection without a frame for pingAfter is asked for a sign of life; without an answer, or
	// when nothing can be written, it is closed and its requests fail rather than wait.
	pingAfter    = 20 * time.Second
	pingTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	// sessions is how many TLS sessions are kept to be resumed, about 2 KB each.
	maxTLSSessions = 2048
)

// Config is what a Transport is made from.
type Config struct {
	Policy Policy
	// CAFile names a PEM file with root certificates that are trusted besides the system's
	// (RELAY_EGRESS_CA_FILE). Empty for none.
	CAFile string
	// DNSServer is the resolver for outbound names (RELAY_DNS_SERVER), see [NewResolver]. Empty for the
	// system's.
	DNSServer string
	// MaxIdle bounds the idle connections; 0 = [MaxIdle]. The oldest are closed.
	MaxIdle int
}

// Transport is the shared round tripper, for any number of goroutines. It must not be wrapped into an
// http.Client, which follows redirects.
type Transport struct {
	policy Policy
	inner  *http.Transport
	pools  pools
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	tls    *tls.Config // without the name of a server
}

// NewTransport reads the certificates and prepares a Transport; it connects to nothing.
func NewTransport(cfg Config) (*Transport, error) {
	roots, err := rootCAs(cfg.CAFile)
	if err != nil {
		return nil, err
	}
	resolver, err := NewResolver(cfg.DNSServer)
	if err != nil {
		return nil, err
	}
	t := &Transport{
		policy: cfg.Policy, pools: pools{origins: make(map[origin]*originPools), lastSweep: time.Now()},
		dial: newGuard(cfg.Policy, resolver).dial,
		tls: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: roots, NextProtos: []string{"h2", "http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(maxTLSSessions),
		},
	}
	t.inner = t.newHTTPTransport(cmp.Or(cfg.MaxIdle, MaxIdle))
	return t, nil
}

// newHTTPTransport makes what sends requests, once a request has a pool.
func (t *Transport) newHTTPTransport(idle int) *http.Transport {
	return &http.Transport{
		Proxy: nil, // a proxy would resolve and connect in our place, past the guard
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return t.connect(ctx, network, addressOf(ctx))
		},
		DialTLSContext: t.dialTLS,
		// The receiver's bytes are shown as they came, and a small body cannot unpack into a large one.
		DisableCompression:     true,
		MaxIdleConns:           idle,
		MaxIdleConnsPerHost:    maxPoolIdle,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
		ForceAttemptHTTP2:      true, // a dialer of our own turns it off otherwise
		HTTP2: &http.HTTP2Config{
			SendPingTimeout:               pingAfter,
			PingTimeout:                   pingTimeout,
			WriteByteTimeout:              writeTimeout,
			MaxReceiveBufferPerStream:     streamWindow,
			MaxReceiveBufferPerConnection: connWindow,
		},
	}
}

// connect dials. Without an open file left it gives up the idle connections and tries once more.
func (t *Transport) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.dial(ctx, network, address)
	if isOutOfFiles(err) {
		t.inner.CloseIdleConnections()
		conn, err = t.dial(ctx, network, address)
	}
	return conn, err
}

// dialTLS connects to the address of the request's pool. net/http would take the pool's name for that of the server.
func (t *Transport) dialTLS(ctx context.Context, network, _ string) (net.Conn, error) {
	address := addressOf(ctx)
	conn, err := t.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	cfg := t.tls.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(address)
	secured := tls.Client(conn, cfg)
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("TLS handshake: %w", err)
		}
		return nil, err
	}
	return secured, nil
}

// RoundTrip sends one request and returns its response, redirects included. A target that the policy
// refuses gives an [AddressBlockedError] before anything is sent.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL != nil && req.URL.Scheme == "http" && !t.policy.AllowHTTP {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, &AddressBlockedError{Class: PlainHTTP}
	}
	if t.policy.OwnURLs.Matches(req.URL) { // saved when the relay had another base URL
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, &AddressBlockedError{Class: OwnURL}
	}
	if req.URL == nil || req.URL.Host == "" {
		return t.inner.RoundTrip(req) // which says what is wrong
	}
	return t.roundTrip(req)
}

// CloseIdleConnections closes what is not in use. Connections in use stay until their response is read
// and then return to the pool, so a shutdown calls it after the last delivery.
func (t *Transport) CloseIdleConnections() { t.inner.CloseIdleConnections() }

// rootCAs returns the system's roots and those of the file. Without a file it is nil, by which
// crypto/tls asks the system itself.
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
