package stream

import (
	"context"
	"errors"
	"time"

	"github.com/eventrelay/relay/pkg/certfile"
)

// Reader reads records and offsets outside any group.
type Reader struct{ logReader }

// logReader is what the log in this process and Kafka do differently.
type logReader interface {
	// Close ends the reader's connections.
	Close()
	// Ends returns the end offset of every partition of the topics: the offset of the next record.
	Ends(ctx context.Context, topics ...string) (map[Partition]int64, error)
	// Starts returns the start offset of every partition of the topics: the first one that can be read.
	Starts(ctx context.Context, topics ...string) (map[Partition]int64, error)
	// OffsetsForTime returns, for every partition of the topic, the offset of the first record that is not older than t.
	// Without such a record it is the end of the partition.
	OffsetsForTime(ctx context.Context, topic string, t time.Time) (map[Partition]int64, error)
	// Read calls each for the records of one partition from an offset on, in order, and waits for new ones until ctx ends
	// or each returns an error (nil for ErrStop). It retries while brokers are unavailable or elect leaders. Errors that
	// last, such as a missing ACL or a recreated topic, end it with ErrRead. It has a client of its own, so that reads do
	// not disturb each other.
	Read(ctx context.Context, p Partition, from int64, each func(*Record) error) error
	// ReadWithControlRecords is Read for callers that account for every offset: each also gets the control records of
	// transactions. The service writes none, but anyone with write access to the topic may.
	ReadWithControlRecords(ctx context.Context, p Partition, from int64, each func(*Record) error) error
	// Commits returns what a group (named without the prefix) has committed for the topics; it omits partitions without
	// a commit.
	Commits(ctx context.Context, group string, topics ...string) (map[Partition]Commit, error)
	// TopicID returns the ids of the cluster and of the topic. They identify the log that offsets stored elsewhere belong
	// to: a topic that was deleted and recreated has another id. id is empty with brokers before Kafka 3.1 (KIP-516).
	TopicID(ctx context.Context, topic string) (cluster, id string, err error)
	// MemberCount returns how many members a group has now; 0 if the group does not exist.
	MemberCount(ctx context.Context, group string) (int, error)
	// BrokerCount returns how many brokers are registered with the cluster now.
	BrokerCount(ctx context.Context) (int, error)
	// Endpoints returns where the brokers use TLS: those of Config.Brokers, and those that they name if one answers.
	// It is empty without TLS.
	Endpoints(ctx context.Context) []certfile.Endpoint
	// UnderReplicatedPartitions returns the partitions of the relay's topics that lack a leader or replicas, in order.
	UnderReplicatedPartitions(ctx context.Context) ([]UnderReplicatedPartition, error)
	// AllowedWriters returns the principals other than this client that may write to the service's topics, sorted by
	// name. It reads the brokers' ACLs, which do not list super users, and ignores Deny rules. own is this client's
	// principal; without SASL it is empty, and the client's own principal is then among the writers.
	AllowedWriters(ctx context.Context) (all []AllowedWriter, own string, err error)

	// readRanges is ReadRanges with at most partitionFetch bytes of a partition in one fetch.
	readRanges(ctx context.Context, ranges []Range, partitionFetch int32, each func(Partition, []*Record) error) error
	// trim is Trim for several partitions at once. It is no error if another node has deleted the records already.
	trim(ctx context.Context, before map[Partition]int64) error
	// sizes returns the bytes that the log stores of each partition, all replicas together.
	sizes(ctx context.Context) (map[Partition]int64, error)
	// lostAfter returns after how long records of the topics are lost: retention, or that of the topic if it is shorter.
	lostAfter(ctx context.Context, retention time.Duration, topics ...string) (map[string]time.Duration, error)
}

// NewReader creates a reader. It connects with the first request.
func NewReader(c Config, clientID string) (*Reader, error) {
	if c.Embedded != nil {
		return &Reader{localReader{c}}, nil
	}
	r, err := newKafkaReader(c, clientID)
	if err != nil {
		return nil, err
	}
	return &Reader{r}, nil
}

// ErrStop ends Read or ReadRanges without an error when the callback returns it.
var ErrStop = errors.New("stop reading")

// ErrRead is part of the error of a Read that fails because of the brokers.
var ErrRead = errors.New("read from the log")

// Committed returns the offsets that a group (named without the prefix) has committed for the topics;
// it omits partitions without a commit.
func (r *Reader) Committed(ctx context.Context, group string, topics ...string) (map[Partition]int64, error) {
	commits, err := r.Commits(ctx, group, topics...)
	if err != nil {
		return nil, err
	}
	out := make(map[Partition]int64, len(commits))
	for p, m := range commits {
		out[p] = m.Offset
	}
	return out, nil
}
