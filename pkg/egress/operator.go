package egress

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// OperatorDialer connects to hosts that the operator named in a setting, such as a mail server, without checking their
// addresses: they may be in a private network. Never use it for a host that a customer named.
type OperatorDialer struct {
	dialer net.Dialer
	tls    *tls.Config
}

// NewOperatorDialer returns a dialer; the parameters are those of Config.CAFile and Config.DNSServer.
func NewOperatorDialer(caFile, dnsServer string) (*OperatorDialer, error) {
	roots, err := rootCAs(caFile)
	if err != nil {
		return nil, err
	}
	resolver, err := NewResolver(dnsServer)
	if err != nil {
		return nil, err
	}
	return &OperatorDialer{
		dialer: net.Dialer{Timeout: connectTimeout, Resolver: resolver},
		tls:    &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
	}, nil
}

// Dial connects to host:port.
func (o *OperatorDialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return o.dialer.DialContext(ctx, network, address)
}

// TLS returns the configuration for these connections; the caller clones it and sets ServerName.
func (o *OperatorDialer) TLS() *tls.Config { return o.tls }

// Client returns an HTTP client for one server of the operator. It follows no redirects and uses no proxy. An answer of
// more than maxBody bytes is an error.
func (o *OperatorDialer) Client(timeout time.Duration, maxBody int64) *http.Client {
	return &http.Client{
		Transport: bounded{&http.Transport{
			DialContext: o.Dial, TLSClientConfig: o.TLS().Clone(), ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: handshakeTimeout, MaxResponseHeaderBytes: maxResponseHeader,
			MaxIdleConns: 1, IdleConnTimeout: time.Minute,
		}, maxBody},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       timeout,
	}
}

// bounded bounds the bodies of answers.
type bounded struct {
	inner *http.Transport
	most  int64
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.inner.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, b.most)
	}
	return answer, err
}

// CloseIdleConnections implements the interface that http.Client.CloseIdleConnections looks for.
func (b bounded) CloseIdleConnections() { b.inner.CloseIdleConnections() }
