package egress

import (
	"context"
	"crypto/tls"
	"net"
)

// Operator is the way to hosts that the operator named in a setting, such as a mail server: their addresses are not
// judged, for they may well be inside. Nothing that a customer wrote may be dialled with it.
type OperatorDialer struct {
	dialer net.Dialer
	tls    *tls.Config
}

// NewOperatorDialer reads the certificates of the same file and asks the same resolver as NewTransport.
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

// TLS is what such a connection is secured with; the caller clones it and names the server.
func (o *OperatorDialer) TLS() *tls.Config { return o.tls }
