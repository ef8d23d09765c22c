package stream

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/pkg/certfile"
	"github.com/eventrelay/relay/pkg/segment"
	"github.com/eventrelay/relay/pkg/wait"
)

// Reader reads records and offsets outside any group.
type Reader struct{ LogReader }

// AcknowledgedEnds returns Ends without the records that a power cut may still take. Readers see these in the log in
// this process.
func (r *Reader) AcknowledgedEnds(ctx context.Context, topics ...string) (map[Partition]int64, error) {
	if local, ok := r.LogReader.(localReader); ok {
		return local.offsets(topics, func(p *segment.Partition) (int64, error) { return p.AcknowledgedEnd(), nil })
	}
	return r.Ends(ctx, topics...)
}

// LogReader is a reader of one engine.
type LogReader interface {
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

	// FetchRanges is ReadRanges with at most partitionFetch bytes of a partition in one fetch.
	FetchRanges(ctx context.Context, ranges []Range, partitionFetch int32, each func(Partition, []*Record) error) error
	// TrimAll is Trim for several partitions at once. It is no error if another node has deleted the records already.
	TrimAll(ctx context.Context, before map[Partition]int64) error
	// Sizes returns the bytes that the log stores of each partition, all replicas together.
	Sizes(ctx context.Context) (map[Partition]int64, error)
	// LostAfter returns after how long records of the topics are lost: retention, or that of the topic if it is shorter.
	LostAfter(ctx context.Context, retention time.Duration, topics ...string) (map[string]time.Duration, error)
}

// NewReader creates a reader. It connects with the first request.
func NewReader(c Config, clientID string) (*Reader, error) {
	if e := c.engine(); e != nil {
		return &Reader{e.NewLogReader(c)}, nil
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

// Range is a range of offsets [From, To) of a partition.
type Range struct {
	Partition
	From, To int64
}

// ErrTrimmed means that records were deleted from the log before they were read.
var ErrTrimmed = errors.New("records were deleted before they were read")

// What ReadRanges fetches ahead of its callback, per broker and per partition, and how many records it
// hands over at once. A larger record comes alone.
const (
	rangeFetchBytes          = 4 << 20
	rangePartitionFetchBytes = 1 << 20
	rangePollRecords         = 1000
)

// ReadRanges calls each with the records of the ranges, in order within a partition. It returns after the last record
// of every range, with the error of each (nil for ErrStop), or with ErrTrimmed. Each partition may be in one range
// only. While each runs, the client fetches at most a few megabytes. It has a client of its own.
func (r *Reader) ReadRanges(ctx context.Context, ranges []Range, each func(Partition, []*Record) error) error {
	return r.FetchRanges(ctx, ranges, rangePartitionFetchBytes, each)
}

// TopicSizes returns the bytes that each topic takes on the disks of the brokers, all partitions and replicas together,
// by the topic's name without the prefix.
func TopicSizes(ctx context.Context, c Config) (map[string]int64, error) {
	r, err := NewReader(c, "sizes")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	partitions, err := r.Sizes(ctx)
	if err != nil {
		return nil, err
	}
	sizes := make(map[string]int64)
	for p, bytes := range partitions {
		sizes[p.Topic] += bytes
	}
	return sizes, nil
}

// Backlog is the records of one partition that a group has not completed.
type Backlog struct {
	Partition
	Records int64   // not counting gaps, which are completed
	Head    *Record // the first incomplete record; nil if there is none
}

// headFetchBytes bounds the fetch of a partition when only its first record is wanted. Kafka returns the first record
// even if it is larger.
const headFetchBytes = 64 << 10

// startWait bounds how long a start waits for coordinators. A new cluster has them some seconds after its topics.
const startWait = 30 * time.Second

// Backlogs returns, for each partition of the topics, the records that a group (named without the prefix) has not
// completed.
func (r *Reader) Backlogs(ctx context.Context, group string, topics ...string) ([]Backlog, error) {
	commits, err := r.Commits(ctx, group, topics...) // before the ends, so that no commit lies beyond its end
	if err != nil {
		return nil, err
	}
	starts, err := r.Starts(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := r.Ends(ctx, topics...)
	if err != nil {
		return nil, err
	}
	var all []Backlog
	var heads []Range
	at := make(map[Partition]int, len(ends))
	for p, end := range ends {
		commit := commits[p]
		commit.Offset = max(commit.Offset, starts[p])
		b := Backlog{Partition: p, Records: max(0, end-commit.Offset)}
		gaps, err := commit.Gaps()
		if err != nil {
			gaps = nil // metadata of another program: nothing above the committed offset counts as completed
		}
		for _, h := range gaps {
			b.Records -= max(0, min(h.To, end)-max(h.From, commit.Offset))
		}
		if b.Records > 0 {
			heads = append(heads, Range{p, commit.Offset, commit.Offset + 1})
		}
		at[p] = len(all)
		all = append(all, b)
	}
	err = r.FetchRanges(ctx, heads, headFetchBytes, func(p Partition, records []*Record) error {
		all[at[p]].Head = records[0]
		return nil
	})
	return all, err
}

// BacklogsAtStart is Backlogs for a process that starts, perhaps together with its brokers: while they answer that a
// coordinator or leader is not available yet, it tries again, for up to startWait.
func (r *Reader) BacklogsAtStart(ctx context.Context, group string, topics ...string) ([]Backlog, error) {
	pause := wait.Backoff{First: 100 * time.Millisecond, Longest: 2 * time.Second}
	for attempt, began := 0, time.Now(); ; attempt++ {
		all, err := r.Backlogs(ctx, group, topics...)
		if !kerr.IsRetriable(err) || time.Since(began) > startWait {
			return all, err
		}
		if err := wait.For(ctx, pause.After(attempt)); err != nil {
			return nil, err
		}
	}
}
