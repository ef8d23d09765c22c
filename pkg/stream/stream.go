// Package stream is the client of the log: of Kafka, or of one in this process (Log). No other package of the service
// uses either. It has
//
//   - the table of topics with everything that depends on a topic (topics.go; begin reading there), their creation
//     (migrate.go) and the check of their settings (topics_check.go),
//   - Producer, whose buffers are bounded, and Group, a member of a consumer group,
//   - Reader, which reads offsets, ranges and dead letters outside any group,
//   - Trimmer, which deletes what all groups have committed, and RetentionGuard, which refuses new events before
//     unprocessed ones reach the end of retention.
//
// Producer, Group, Reader and the management of topics have two implementations each, in the files kafka_*.go and
// local*.go. The same tests run on both (onEachLog).
//
// The caller chooses the partition of every record: the endpoint's own, which is kept in the configuration. Nothing
// here hashes a key. A record counts as durable with acks=all, or after an fdatasync of the log in this process.
// Commits carry their gaps as metadata (gaps.go), so a new owner of a partition repeats no completed record.
package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
	Prefix   string // of every topic and group name, e.g. "relay."
	SASL     string // mechanism:user:password; mechanism is plain, scram-sha-256 or scram-sha-512; empty = none
	TLS      string // TLSSystem, the path of a CA file, or empty = no TLS
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
	if len(c.Brokers) == 0 && c.Embedded == nil {
		errs = append(errs, errors.New("kafka brokers: at least one host:port is needed"))
	}
	if _, err := c.securityOpts(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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
