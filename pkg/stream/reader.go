package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Reader reads records and offsets outside any group.
type Reader struct {
	cfg Config
	cl  *kgo.Client
	adm *kadm.Client
}

// NewReader creates a reader. It connects with the first request.
func NewReader(c Config, clientID string) (*Reader, error) {
	cl, err := c.newClient(clientID)
	if err != nil {
		return nil, err
	}
	return &Reader{cfg: c, cl: cl, adm: kadm.NewClient(cl)}, nil
}

// Close ends the reader's connections.
func (r *Reader) Close() { r.cl.Close() }

// Ends returns the end offset of every partition of the topics: the offset of the next record.
func (r *Reader) Ends(ctx context.Context, topics ...string) (map[Partition]int64, error) {
	return r.offsets(topics, func(names []string) (kadm.ListedOffsets, error) {
		return r.adm.ListEndOffsets(ctx, names...)
	})
}

// Starts returns the start offset of every partition of the topics: the first one that can be read.
func (r *Reader) Starts(ctx context.Context, topics ...string) (map[Partition]int64, error) {
	return r.offsets(topics, func(names []string) (kadm.ListedOffsets, error) {
		return r.adm.ListStartOffsets(ctx, names...)
	})
}

// OffsetsForTime returns, for every partition of the topic, the offset of the first record that is not older than t.
// Without such a record it is the end of the partition.
func (r *Reader) OffsetsForTime(ctx context.Context, topic string, t time.Time) (map[Partition]int64, error) {
	return r.offsets([]string{topic}, func(names []string) (kadm.ListedOffsets, error) {
		return r.adm.ListOffsetsAfterMilli(ctx, t.UnixMilli(), names...)
	})
}

func (r *Reader) offsets(topics []string, list func([]string) (kadm.ListedOffsets, error)) (
	map[Partition]int64, error) {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = r.cfg.Prefix + t
	}
	listed, err := list(names)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	out := make(map[Partition]int64)
	listed.Each(func(o kadm.ListedOffset) {
		out[Partition{o.Topic[len(r.cfg.Prefix):], o.Partition}] = o.Offset
	})
	return out, nil
}

// ErrStop ends Read or ReadRanges without an error when the callback returns it.
var ErrStop = errors.New("stop reading")

// ErrRead is part of the error of a Read that fails because of the brokers.
var ErrRead = errors.New("read from the log")

// Read calls each for the records of one partition from an offset on, in order, and waits for new ones until ctx ends
// or each returns an error (nil for ErrStop). It retries while brokers are unavailable or elect leaders. Errors that
// last, such as a missing ACL or a recreated topic, end it with ErrRead. It has a client of its own, so that reads do
// not disturb each other.
func (r *Reader) Read(ctx context.Context, p Partition, from int64, each func(*Record) error) error {
	return r.read(ctx, p, from, each)
}

// ReadWithControlRecords is Read for callers that account for every offset: each also gets the control records of
// transactions. The service writes none, but anyone with write access to the topic may.
func (r *Reader) ReadWithControlRecords(ctx context.Context, p Partition, from int64, each func(*Record) error) error {
	return r.read(ctx, p, from, each, kgo.KeepControlRecords())
}

func (r *Reader) read(ctx context.Context, p Partition, from int64, each func(*Record) error, more ...kgo.Opt) error {
	cl, err := r.cfg.newClient("reader", append(more,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			r.cfg.Prefix + p.Topic: {p.Index: kgo.NewOffset().At(from)},
		}),
		kgo.FetchMaxWait(max(time.Second, r.cfg.QuietFetchWait)),
		kgo.DisableFetchSessions(), // useless for one partition, and Close would wait for the session's end
		kgo.FetchMaxBytes(16<<20),
		kgo.FetchMaxPartitionBytes(MaxMessageBytes))...,
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for it := fs.RecordIter(); !it.Done(); {
			err := each(it.Next())
			if errors.Is(err, ErrStop) {
				return nil
			}
			if err != nil {
				return err
			}
		}
		if err := fs.Err(); err != nil {
			return fmt.Errorf("%w: %s[%d]: %w", ErrRead, p.Topic, p.Index, err)
		}
	}
}

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

// Commits is Committed with the metadata of the commits.
func (r *Reader) Commits(ctx context.Context, group string, topics ...string) (map[Partition]Commit, error) {
	fetched, err := r.adm.FetchOffsets(ctx, r.cfg.Prefix+group)
	if err == nil {
		err = fetched.Error()
	}
	if errors.Is(err, kerr.GroupIDNotFound) { // the group does not exist
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("fetch offsets of %s: %w", group, err)
	}
	wanted := make(map[string]string, len(topics))
	for _, t := range topics {
		wanted[r.cfg.Prefix+t] = t
	}
	out := make(map[Partition]Commit)
	fetched.Each(func(o kadm.OffsetResponse) {
		if t, ok := wanted[o.Topic]; ok && o.At >= 0 {
			out[Partition{t, o.Partition}] = Commit{Offset: o.At, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata}
		}
	})
	return out, nil
}
