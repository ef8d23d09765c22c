package egress

import (
	"context"
	"crypto/tls"
	"net"
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
