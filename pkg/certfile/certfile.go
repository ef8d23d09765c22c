// Package certfile reads PEM files with certificates for connections to the engines, and the certificates that engines
// present.
package certfile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// Roots reads the root certificates of a file. It returns an error if the file has none.
func Roots(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return roots, nil
}

// SetClient makes conf present the certificate of two files to servers that ask for one. The files are read for each
// connection, so a renewed certificate needs no restart. It returns an error if they cannot be used now.
func SetClient(conf *tls.Config, certFile, keyFile string) error {
	read := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		return &pair, err
	}
	if _, err := read(); err != nil {
		return err
	}
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return read() }
	return nil
}

// Chain reads the certificates of a file in their order and skips everything else in it. It returns an error if the
// file has none, or one that cannot be parsed.
func Chain(file string) (chain []*x509.Certificate, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for block, left := pem.Decode(text); block != nil; block, left = pem.Decode(left) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		chain = append(chain, c)
	}
	if len(chain) == 0 {
		return nil, fmt.Errorf("%s has no certificate", file)
	}
	return chain, nil
}

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
