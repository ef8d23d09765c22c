// Package stream is the client of the log: of Kafka, or of one in this process (Log). No other package of the service
// uses either. It has
//
//   - the table of topics with everything that depends on a topic and the check of their settings
//     (topics.go; begin reading there), and their creation (migrate.go),
//   - Producer, whose buffers are bounded, and Group, a member of a consumer group,
//   - Reader, which reads offsets, ranges and dead letters outside any group,
//   - Trimmer, which deletes what all groups have committed, and RetentionGuard, which refuses new events before
//     unprocessed ones reach the end of retention.
//
// Producer, Group, Reader and the management of topics have two implementations each, in the files kafka_*.go and
// local*.go (Engine). The same tests run on both (onEachLog).
//
// The caller chooses the partition of every record: the endpoint's own, which is kept in the configuration. Nothing
// here hashes a key. A record counts as durable with acks=all, or after an fdatasync of the log in this process.
// Commits carry their gaps as metadata (gaps.go), so a new owner of a partition repeats no completed record.
package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/eventrelay/relay/pkg/certfile"
	"github.com/eventrelay/relay/pkg/wait"
)

// Record is franz-go's type under a name of this package, so that no other package has to import franz-go for it.
type Record = kgo.Record

// Header is one header of a Record.
type Header = kgo.RecordHeader

// Config says how to reach the brokers and how topics and groups are named. The zero value is not usable.
type Config struct {
	Brokers []string // host:port, at least one unless Embedded is set
	// Embedded is the log in this process, instead of brokers.
	Embedded *Log
	// Model is a model of brokers, instead of brokers, for tests.
	Model  Engine
	Prefix string // of every topic and group name, e.g. "relay."
	SASL   string // mechanism:user:password; mechanism is plain, scram-sha-256 or scram-sha-512; empty = none
	TLS    string // TLSSystem, the path of a CA file, or empty = no TLS
	// CertFile and KeyFile are PEM files with the client certificate (mTLS) and its private key; both or neither. They
	// are read for each connection.
	CertFile, KeyFile string
	// SessionTimeout is how long a group member may miss heartbeats before its partitions are reassigned; 0 = 30 s.
	SessionTimeout time.Duration
	// ProducerBufferBytes bounds the unacknowledged records of each of a producer's three clients; 0 = 256 MiB.
	ProducerBufferBytes int
	// DialFunc replaces the dialer, for tests; nil dials TCP.
	DialFunc func(ctx context.Context, network, host string) (net.Conn, error)
	Log      *slog.Logger
}

// Validate checks the brokers, the certificate files and the SASL credentials. It does not connect.
func (c Config) Validate() error {
	var errs []error
	if len(c.Brokers) == 0 && c.engine() == nil {
		errs = append(errs, errors.New("kafka brokers: at least one host:port is needed"))
	}
	if _, err := c.securityOpts(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Engine is a log that is not Kafka: the one in this process, or a model of brokers.
type Engine interface {
	NewAppender(Config) Appender
	NewMember(Config, GroupConfig) Member
	NewLogReader(Config) LogReader
}

// engine returns the engine that is used instead of Kafka; nil: there is none.
func (c Config) engine() Engine {
	switch {
	case c.Model != nil:
		return c.Model
	case c.Embedded != nil:
		return c.Embedded
	}
	return nil
}

// MaxBody is the largest event body that any setting may allow, in bytes.
const MaxBody = 10 << 20

// MaxMessageBytes bounds a record batch, in bytes: the largest body plus 2 MiB for its headers and for those that a
// retry or a dead letter adds. It does not depend on the configured body limit: an event that was accepted under a
// higher limit must still fit into a retry topic.
const MaxMessageBytes = MaxBody + 2<<20

// options returns the options that all clients share.
func (c Config) options(clientID string) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("relay-" + clientID),
		kgo.RetryBackoffFn(backoff.After),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.BrokerMaxWriteBytes(100 << 20),
		kgo.BrokerMaxReadBytes(200 << 20),
		// Brokers that ask for clients' metrics (KIP-714) get none: nothing of the kind leaves a node, and its buffers are
		// megabytes for each client.
		kgo.DisableClientMetrics(),
	}
	if c.DialFunc != nil {
		opts = append(opts, kgo.Dialer(c.DialFunc))
	}
	sec, err := c.securityOpts()
	if err != nil {
		return nil, err
	}
	return append(opts, sec...), nil
}

// backoff is the pause between attempts to connect or to repeat a request, 50 ms to 2 s: a broker restarts within
// seconds, and callers have deadlines of their own. franz-go counts attempts from 1, so the first pause is 50 to 100
// ms.
var backoff = wait.Backoff{First: 50 * time.Millisecond, Longest: 2 * time.Second}

func (c Config) newClient(clientID string, more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := c.options(clientID)
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("make kafka client: %w", err)
	}
	return cl, nil
}

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
