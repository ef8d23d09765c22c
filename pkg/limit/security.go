package limit

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/eventrelay/relay/pkg/certfile"
)

// setTLS makes conf, that of a rediss:// URL, trust CAFile and present the client certificate. conf is nil for other
// URLs, which have no use for either.
func (c Config) setTLS(conf *tls.Config) (err error) {
	if conf == nil {
		if c.CAFile != "" || c.CertFile != "" || c.KeyFile != "" {
			return errors.New("certificates for Redis need TLS: write rediss:// in RELAY_REDIS_URL")
		}
		return nil
	}
	if c.CAFile != "" {
		if conf.RootCAs, err = certfile.Roots(c.CAFile); err != nil {
			return fmt.Errorf("redis CA file: %w", err)
		}
	}
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		return errors.New("redis client certificate: the certificate and its key are needed, or neither")
	case c.CertFile != "":
		if err := certfile.SetClient(conf, c.CertFile, c.KeyFile); err != nil {
			return fmt.Errorf("redis client certificate: %w", err)
		}
	}
	return nil
}

// Endpoint returns where Redis uses TLS; ok is false if it does not.
func (c Config) Endpoint() (e certfile.Endpoint, ok bool) {
	o, err := c.options()
	if o == nil || err != nil || o.TLSConfig == nil {
		return e, false
	}
	return certfile.Endpoint{Addr: o.Addr, TLS: o.TLSConfig}, true
}

// explainTLS adds to an error of a connection the setting to correct.
func explainTLS(err error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return fmt.Errorf("the certificate of Redis is not accepted; renew it, or name the file with its root certificate "+
			"in RELAY_REDIS_CA_FILE: %w", err)
	case isAlert(err):
		return fmt.Errorf("redis refuses the client certificate of RELAY_REDIS_CERT_FILE, or wants one: %w", err)
	}
	return err
}

// secureConn is a connection with TLS 1.3 or 1.2. With 1.3 a server refuses the client certificate after the handshake:
// it sends an alert and closes the connection. If a write then fails, Write returns the alert, which says why.
type secureConn struct{ net.Conn }

func (c secureConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		// The connection is closed: Read does not wait.
		if _, alert := c.Read(make([]byte, 1)); isAlert(alert) {
			return n, alert
		}
	}
	return n, err
}

// isAlert reports whether an error is an alert of the server.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error" // of crypto/tls
}
