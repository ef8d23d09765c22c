package stream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/eventrelay/relay/pkg/certfile"
)

// TLSSystem as Config.TLS trusts the root certificates of the system.
const TLSSystem = "system"

func (c Config) securityOpts() ([]kgo.Opt, error) {
	var opts []kgo.Opt
	if c.TLS != "" {
		conf, err := c.tlsConfig()
		if err != nil {
			return nil, err
		}
		opts = append(opts, kgo.DialTLSConfig(conf))
	} else if c.CertFile != "" || c.KeyFile != "" {
		return nil, errors.New("kafka client certificate: it needs TLS, set RELAY_KAFKA_TLS")
	}
	if c.SASL == "" {
		return opts, nil
	}
	mechanism, rest, ok1 := strings.Cut(c.SASL, ":")
	user, password, ok2 := strings.Cut(rest, ":")
	if !ok1 || !ok2 || user == "" {
		return nil, errors.New("kafka SASL: set RELAY_KAFKA_SASL to mechanism:user:password")
	}
	switch strings.ToLower(mechanism) {
	case "plain":
		opts = append(opts, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "scram-sha-256":
		opts = append(opts, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "scram-sha-512":
		opts = append(opts, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	default:
		return nil, fmt.Errorf("kafka SASL: unknown mechanism %q (plain, scram-sha-256, scram-sha-512)", mechanism)
	}
	return opts, nil
}

// tlsConfig returns the TLS configuration of connections to the brokers.
func (c Config) tlsConfig() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if c.TLS != TLSSystem {
		if conf.RootCAs, err = certfile.Roots(c.TLS); err != nil {
			return nil, fmt.Errorf("kafka CA file: %w", err)
		}
	}
	switch {
	case (c.CertFile == "") != (c.KeyFile == ""):
		return nil, errors.New("kafka client certificate: the certificate and its key are needed, or neither")
	case c.CertFile != "":
		if err := certfile.SetClient(conf, c.CertFile, c.KeyFile); err != nil {
			return nil, fmt.Errorf("kafka client certificate: %w", err)
		}
	}
	return conf, nil
}

// ErrLogin means that the brokers rejected the user or the password (SASL_AUTHENTICATION_FAILED).
//
//nolint:staticcheck // the message begins with a proper name
var ErrLogin = errors.New("Kafka refused the user or password of RELAY_KAFKA_SASL")

// ErrSecurity means that this client and the brokers do not agree on TLS or on how the client authenticates.
var ErrSecurity = errors.New("cannot connect to Kafka securely")

// explainSecurity adds to an error of a connection the setting to correct.
func explainSecurity(err error) error {
	var untrusted *tls.CertificateVerificationError
	var refused *net.OpError
	var noTLS tls.RecordHeaderError
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return fmt.Errorf("%w: %w", ErrLogin, err)
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return fmt.Errorf("%w: the brokers do not offer the mechanism of RELAY_KAFKA_SASL: %w", ErrSecurity, err)
	case errors.As(err, &untrusted):
		return fmt.Errorf("%w: the certificate of a broker is not accepted; renew it, or name the file with its root "+
			"certificate in RELAY_KAFKA_TLS: %w", ErrSecurity, err)
	case errors.As(err, &refused) && refused.Op == remoteAlert:
		return fmt.Errorf("%w: the brokers refuse the client certificate of RELAY_KAFKA_CERT_FILE, or want one: %w",
			ErrSecurity, err)
	case errors.As(err, &noTLS):
		return fmt.Errorf("%w: the brokers use no TLS on this port; unset RELAY_KAFKA_TLS or use their port for TLS: %w",
			ErrSecurity, err)
	}
	return err
}

// remoteAlert is the Op of the net.OpError that crypto/tls returns for an alert of the other side.
const remoteAlert = "remote error"

// SendsPasswordInClear reports whether the Kafka password is sent unencrypted: SASL PLAIN without TLS.
func (c Config) SendsPasswordInClear() bool {
	mechanism, _, _ := strings.Cut(c.SASL, ":")
	return strings.EqualFold(mechanism, "plain") && c.TLS == ""
}
