package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaReader reads records and offsets outside any group.
type kafkaReader struct {
	cfg Config
	cl  *kgo.Client
	adm *kadm.Client
}

func newKafkaReader(c Config, clientID string) (*kafkaReader, error) {
	cl, err := c.newClient(clientID)
	if err != nil {
		return nil, err
	}
	return &kafkaReader{cfg: c, cl: cl, adm: kadm.NewClient(cl)}, nil
}

func (r *kafkaReader) Close() { r.cl.Close() }

func (r *kafkaReader) Ends(ctx context.Context, topics ...string) (map[Partition]int64, error) {
	return r.offsets(topics, func(names []string) (kadm.ListedOffsets, error) {
		return r.adm.ListEndOffsets(ctx, names...)
	})
}

func (r *kafkaReader) Starts(ctx context.Context, topics ...string) (map[Partition]int64, error) {
	return r.offsets(topics, func(names []string) (kadm.ListedOffsets, error) {
		return r.adm.ListStartOffsets(ctx, names...)
	})
}

func (r *kafkaReader) OffsetsForTime(ctx context.Context, topic string, t time.Time) (map[Partition]int64, error) {
	return r.offsets([]string{topic}, func(names []string) (kadm.ListedOffsets, error) {
		return r.adm.ListOffsetsAfterMilli(ctx, t.UnixMilli(), names...)
	})
}

func (r *kafkaReader) offsets(topics []string, list func([]string) (kadm.ListedOffsets, error)) (
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

func (r *kafkaReader) Read(ctx context.Context, p Partition, from int64, each func(*Record) error) error {
	return r.read(ctx, p, from, each)
}

func (r *kafkaReader) ReadWithControlRecords(
	ctx context.Context, p Partition, from int64, each func(*Record) error) error {
	return r.read(ctx, p, from, each, kgo.KeepControlRecords())
}

func (r *kafkaReader) read(
	ctx context.Context, p Partition, from int64, each func(*Record) error, more ...kgo.Opt) error {
	cl, err := r.cfg.newClient("reader", append(more,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
			r.cfg.Prefix + p.Topic: {p.Index: kgo.NewOffset().At(from)},
		}),
		kgo.FetchMaxWait(time.Second),
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

func (r *kafkaReader) Commits(ctx context.Context, group string, topics ...string) (map[Partition]Commit, error) {
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

// TrimAll is Trim for several partitions at once. It is no error if another node has deleted the records already.
func (r *kafkaReader) TrimAll(ctx context.Context, before map[Partition]int64) error {
	offsets := make(kadm.Offsets)
	for p, at := range before {
		offsets.AddOffset(r.cfg.Prefix+p.Topic, p.Index, at, -1)
	}
	resp, err := r.adm.DeleteRecords(ctx, offsets)
	if err != nil {
		return fmt.Errorf("delete records: %w", err)
	}
	var errs []error
	resp.Each(func(d kadm.DeleteRecordsResponse) {
		if d.Err != nil && !errors.Is(d.Err, kerr.OffsetOutOfRange) {
			errs = append(errs, fmt.Errorf(
				"delete records of %s[%d] (needs the ACL operation Delete on the topic): %w", d.Topic, d.Partition, d.Err))
		}
	})
	return errors.Join(errs...)
}

// LostAfter returns after how long records of the topics are lost: retention, or retention.ms of the topic if shorter.
func (r *kafkaReader) LostAfter(ctx context.Context, retention time.Duration, topics ...string) (
	map[string]time.Duration, error) {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = r.cfg.Prefix + t
	}
	settings, err := describeConfigs(ctx, r.adm, names)
	if err != nil {
		return nil, err
	}
	out := make(map[string]time.Duration, len(topics))
	for _, name := range names {
		topic := strings.TrimPrefix(name, r.cfg.Prefix)
		out[topic] = retention
		if ms, err := strconv.ParseInt(settings[name][retentionMS], 10, 64); err == nil && ms >= 0 &&
			time.Duration(ms) < retention/time.Millisecond {
			out[topic] = time.Duration(ms) * time.Millisecond
		}
	}
	return out, nil
}

// sizes returns the bytes that the brokers store of each partition, all replicas together. It omits the copies that a
// broker makes while it moves a partition to another disk.
func (r *kafkaReader) Sizes(ctx context.Context) (map[Partition]int64, error) {
	dirs, err := r.adm.DescribeAllLogDirs(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("read the sizes of topics: %w", explainSecurity(err))
	}
	sizes := make(map[Partition]int64)
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if topic, own := strings.CutPrefix(p.Topic, r.cfg.Prefix); own && !p.IsFuture {
				sizes[Partition{topic, p.Partition}] += p.Size
			}
		})
	})
	return sizes, nil
}

// FetchRanges is ReadRanges with at most partitionFetch bytes of a partition in one fetch.
func (r *kafkaReader) FetchRanges(
	ctx context.Context, ranges []Range, partitionFetch int32, each func(Partition, []*Record) error) error {
	from := make(map[string]map[int32]kgo.Offset)
	ends := make(map[Partition]int64)
	for _, g := range ranges {
		if g.From >= g.To {
			continue
		}
		t := r.cfg.Prefix + g.Topic
		if from[t] == nil {
			from[t] = make(map[int32]kgo.Offset)
		}
		from[t][g.Index] = kgo.NewOffset().At(g.From)
		ends[g.Partition] = g.To
	}
	if len(ends) == 0 {
		return nil
	}
	cl, err := r.cfg.newClient("ranges",
		kgo.ConsumePartitions(from),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.DisableFetchSessions(),
		kgo.FetchMaxBytes(rangeFetchBytes),
		kgo.FetchMaxPartitionBytes(partitionFetch),
	)
	if err != nil {
		return err
	}
	defer cl.Close()
	for len(ends) > 0 {
		fs := cl.PollRecords(ctx, rangePollRecords)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, e := range fs.Errors() {
			if errors.Is(e.Err, kerr.OffsetOutOfRange) {
				e.Err = ErrTrimmed
			}
			return fmt.Errorf("read %s[%d]: %w", e.Topic, e.Partition, e.Err)
		}
		var failed error
		fs.EachPartition(func(p kgo.FetchTopicPartition) {
			part := Partition{p.Topic[len(r.cfg.Prefix):], p.Partition}
			end, wanted := ends[part]
			if failed != nil || !wanted || len(p.Records) == 0 {
				return
			}
			records := p.Records
			if last := records[len(records)-1]; last.Offset >= end-1 {
				for len(records) > 0 && records[len(records)-1].Offset >= end {
					records = records[:len(records)-1]
				}
				delete(ends, part)
				cl.PauseFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
			}
			if len(records) > 0 {
				failed = each(part, records)
			}
		})
		if errors.Is(failed, ErrStop) {
			return nil
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}
