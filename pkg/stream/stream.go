// Package stream is the only way to Kafka: the names and settings of the topics, a producer that
// never queues without a bound, consumer groups whose offsets carry metadata, and plain reads by
// offset and time.
//
// Every producer sets the partition explicitly (the endpoint's own, kept in the configuration), so
// nothing here hashes a key. Nothing is acknowledged before acks=all; on the embedded engine that
// includes its group fsync.
package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/eventrelay/relay/pkg/wait"
)

// Record is franz-go's; the packages that encode and decode records need not import it.
type Record = kgo.Record

// Header is one header of a Record.
type Header = kgo.RecordHeader

// Config says where the brokers are and how the topics are called. The zero value is not usable.
type Config struct {
	Brokers []string // host:port, at least one
	Prefix  string   // before every topic and group name, e.g. "relay."
	SASL    string   // mechanism:user:password; mechanism is plain, scram-sha-256 or scram-sha-512; empty = none
	TLS     string   // "system", the path of a CA file, or empty = no TLS
	// Session is how long a member of a group may be silent before its partitions go to others; 0 = 30 s.
	SessionTimeout time.Duration
	// ProducerBufferBytes bounds what each of a producer's three clients holds until it is acknowledged; 0 = 256 MiB.
	ProducerBufferBytes int
	// DialFunc replaces the dialer, for an engine in the same process and for tests; nil dials TCP.
	DialFunc func(ctx context.Context, network, host string) (net.Conn, error)
	Log      *slog.Logger
}

// Validate reports every fault at once.
func (c Config) Validate() error {
	var errs []error
	if len(c.Brokers) == 0 {
		errs = append(errs, errors.New("kafka brokers: at least one host:port is needed"))
	}
	if _, err := c.securityOpts(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// MaxBody is the largest event body that any setting may allow, in bytes.
const MaxBody = 10 << 20

// MaxMessageBytes bounds a record batch: the largest body and 2 MiB, for its headers and for what a retry
// or a dead record adds. It does not follow the body limit that is set: an event that was accepted
// under a higher one must still fit into a retry topic.
const MaxMessageBytes = MaxBody + 2<<20

// options are common to every client.
func (c Config) options(clientID string) ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID("relay-" + clientID),
		kgo.RetryBackoffFn(backoff.After),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.BrokerMaxWriteBytes(100 << 20),
		kgo.BrokerMaxReadBytes(200 << 20),
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

func (c Config) securityOpts() ([]kgo.Opt, error) {
	var opts []kgo.Opt
	if c.TLS != "" {
		conf := &tls.Config{MinVersion: tls.VersionTLS12}
		if c.TLS != "system" {
			pem, err := os.ReadFile(c.TLS)
			if err != nil {
				return nil, fmt.Errorf("read kafka CA file: %w", err)
			}
			conf.RootCAs = x509.NewCertPool()
			if !conf.RootCAs.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("kafka CA file %s holds no certificate", c.TLS)
			}
		}
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	if c.SASL == "" {
		return opts, nil
	}
	mechanism, rest, ok1 := strings.Cut(c.SASL, ":")
	user, password, ok2 := strings.Cut(rest, ":")
	if !ok1 || !ok2 || user == "" {
		return nil, errors.New("kafka SASL: want mechanism:user:password")
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

// ErrLogin means that the brokers do not know the user, or that the password is another.
//
//nolint:staticcheck // a name begins it
var ErrLogin = errors.New("Kafka refused the user or password of RELAY_KAFKA_SASL")

// explainLogin names the setting that a refused login comes from.
func explainLogin(err error) error {
	if errors.Is(err, kerr.SaslAuthenticationFailed) {
		return fmt.Errorf("%w: %w", ErrLogin, err)
	}
	return err
}

// backoff is short: a broker that restarts is back within seconds, and callers have their own limits.
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
