package certfile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Endpoint is a server that uses TLS.
type Endpoint struct {
	Addr string // host:port
	TLS  *tls.Config
}

// Presented connects and returns the certificates that the server presents, its own first, also if they are not
// accepted. It returns an error if the server presents none: it cannot be reached, or uses no TLS.
func (e Endpoint) Presented(ctx context.Context) ([]*x509.Certificate, error) {
	conf := e.TLS.Clone()
	var presented []*x509.Certificate
	verified := conf.VerifyConnection
	conf.VerifyConnection = func(state tls.ConnectionState) error {
		presented = state.PeerCertificates // a server that refuses the client may end the handshake later
		if verified == nil {
			return nil
		}
		return verified(state)
	}
	conn, err := (&tls.Dialer{Config: conf}).DialContext(ctx, "tcp", e.Addr)
	var refused *tls.CertificateVerificationError
	switch {
	case err == nil:
		_ = conn.Close() // nothing was written
		return presented, nil
	case errors.As(err, &refused):
		return refused.UnverifiedCertificates, nil
	case len(presented) > 0:
		return presented, nil
	}
	return nil, err
}
