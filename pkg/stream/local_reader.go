package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/pkg/certfile"
	"github.com/eventrelay/relay/pkg/segment"
)

// localReader reads the log in this process.
type localReader struct{ cfg Config }

func (localReader) Close() {}

// offsets returns an offset of every partition of the topics.
func (r localReader) offsets(topics []string, of func(*segment.Partition) (int64, error)) (map[Partition]int64, error) {
	out := make(map[Partition]int64)
	for _, topic := range topics {
		all := r.cfg.Embedded.partitions(r.cfg.Prefix + topic)
		if len(all) == 0 {
			return nil, fmt.Errorf("list offsets of %s: %w", topic, kerr.UnknownTopicOrPartition)
		}
		for i, p := range all {
			at, err := of(p)
			if err != nil {
				return nil, fmt.Errorf("list offsets: %w", err)
			}
			out[Partition{topic, int32(i)}] = at
		}
	}
	return out, nil
}

func (r localReader) Ends(_ context.Context, topics ...string) (map[Partition]int64, error) {
	return r.offsets(topics, func(p *segment.Partition) (int64, error) { return p.End(), nil })
}

func (r localReader) Starts(_ context.Context, topics ...string) (map[Partition]int64, error) {
	return r.offsets(topics, func(p *segment.Partition) (int64, error) { return p.Start(), nil })
}

func (r localReader) OffsetsForTime(_ context.Context, topic string, t time.Time) (map[Partition]int64, error) {
	return r.offsets([]string{topic}, func(p *segment.Partition) (int64, error) { return p.OffsetForTime(t.UnixMilli()) })
}

// partition returns a partition of the log.
func (r localReader) partition(p Partition) (*segment.Partition, error) {
	if found := r.cfg.Embedded.segments.Partition(r.cfg.Prefix+p.Topic, p.Index); found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("%w: %s[%d]: %w", ErrRead, p.Topic, p.Index, kerr.UnknownTopicOrPartition)
}

func (r localReader) Read(ctx context.Context, p Partition, from int64, each func(*Record) error) error {
	from = max(from, 0)
	most := segment.Most{Bytes: rangePartitionFetchBytes, Frames: rangePollRecords, One: true}
	err := r.follow(ctx, p, &from, most, true,
		func(records []*Record) error {
			for _, record := range records {
				if err := each(record); err != nil {
					return err
				}
			}
			return nil
		})
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// ReadWithControlRecords is Read: nobody can write control records.
func (r localReader) ReadWithControlRecords(
	ctx context.Context, p Partition, from int64, each func(*Record) error) error {
	return r.Read(ctx, p, from, each)
}

// follow calls each with the records of a partition from an offset on, and advances it, until ctx ends or each fails.
// With restart it goes on at the start of the partition if that does not have the offset, as Kafka does.
func (r localReader) follow(ctx context.Context, at Partition, from *int64, most segment.Most, restart bool,
	each func([]*Record) error) error {
	p, err := r.partition(at)
	if err != nil {
		return err
	}
	wake := make(chan struct{}, 1)
	p.Subscribe(wake)
	defer p.Unsubscribe(wake)
	var frames []segment.Frame
	var d decoder
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		frames, err = p.Read(*from, most, frames[:0])
		if restart && errors.Is(err, segment.ErrOutOfRange) {
			*from = p.Start()
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: %s[%d]: %w", ErrRead, at.Topic, at.Index, err)
		}
		if len(frames) == 0 {
			select {
			case <-ctx.Done():
			case <-wake:
			}
			continue
		}
		records, err := d.records(p.Key(), frames)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRead, err)
		}
		*from = records[len(records)-1].Offset + 1
		if err := each(records); err != nil {
			return err
		}
	}
}

// errRangeEnd ends follow at the end of a range.
var errRangeEnd = errors.New("end of the range")

func (r localReader) FetchRanges(
	ctx context.Context, ranges []Range, partitionFetch int32, each func(Partition, []*Record) error) error {
	most := segment.Most{Bytes: int(partitionFetch), Frames: rangePollRecords, One: true}
	for _, g := range ranges {
		p, err := r.partition(g.Partition)
		if err != nil {
			return err
		}
		if g.To <= p.Next() {
			g.To = min(g.To, p.End()) // the last records may be missing
		}
		if g.From >= g.To {
			continue
		}
		from := g.From
		err = r.follow(ctx, g.Partition, &from, most, false, func(records []*Record) error {
			beyond, _ := slices.BinarySearchFunc(records, g.To,
				func(r *Record, to int64) int { return cmp.Compare(r.Offset, to) })
			if beyond > 0 { // else those of the range are missing
				if err := each(g.Partition, records[:beyond]); err != nil {
					return err
				}
			}
			if from >= g.To {
				return errRangeEnd
			}
			return nil
		})
		switch {
		case errors.Is(err, errRangeEnd):
		case errors.Is(err, ErrStop):
			return nil
		case errors.Is(err, segment.ErrOutOfRange):
			return fmt.Errorf("read %s[%d]: %w", g.Topic, g.Index, ErrTrimmed)
		default:
			return err
		}
	}
	return nil
}

func (r localReader) Commits(_ context.Context, group string, topics ...string) (map[Partition]Commit, error) {
	committed := r.cfg.Embedded.segments.Commits(r.cfg.Prefix + group)
	out := make(map[Partition]Commit)
	for _, topic := range topics {
		for i, p := range r.cfg.Embedded.partitions(r.cfg.Prefix + topic) {
			if c, ok := committed[p.Key()]; ok {
				out[Partition{topic, int32(i)}] = Commit{c.Offset, c.Epoch, c.Metadata}
			}
		}
	}
	return out, nil
}

// localCluster stands for the cluster id. It is part of what a configuration log belongs to, so it stays as it is.
const localCluster = "relay-embedded"

func (r localReader) TopicID(_ context.Context, topic string) (cluster, id string, err error) {
	t, ok := r.cfg.Embedded.segments.Topic(r.cfg.Prefix + topic)
	if !ok {
		return "", "", fmt.Errorf("read the id of topic %s: %w", topic, kerr.UnknownTopicOrPartition)
	}
	return localCluster, t.ID, nil
}

func (r localReader) MemberCount(_ context.Context, group string) (int, error) {
	l := r.cfg.Embedded
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.groups[r.cfg.Prefix+group]), nil
}

func (localReader) BrokerCount(context.Context) (int, error)      { return 1, nil }
func (localReader) Endpoints(context.Context) []certfile.Endpoint { return nil }

func (localReader) UnderReplicatedPartitions(context.Context) ([]UnderReplicatedPartition, error) {
	return nil, nil
}

func (localReader) AllowedWriters(context.Context) ([]AllowedWriter, string, error) {
	return nil, "", nil
}

func (r localReader) TrimAll(_ context.Context, before map[Partition]int64) error {
	keys := make(map[segment.Key]int64, len(before))
	for p, at := range before {
		keys[r.cfg.key(p)] = at
	}
	return r.cfg.Embedded.segments.Trim(keys)
}

func (r localReader) Sizes(context.Context) (map[Partition]int64, error) {
	out := make(map[Partition]int64)
	for _, t := range Topics() {
		for i, p := range r.cfg.Embedded.partitions(r.cfg.Prefix + t.Name) {
			out[Partition{t.Name, int32(i)}] = p.Bytes()
		}
	}
	return out, nil
}

func (localReader) LostAfter(_ context.Context, retention time.Duration, topics ...string) (
	map[string]time.Duration, error) {
	out := make(map[string]time.Duration, len(topics))
	for _, topic := range topics {
		out[topic] = retention
	}
	return out, nil
}

// localAdmin manages topics of the log in this process. They have no settings: the table of topics says all.
type localAdmin struct{ log *Log }

func (localAdmin) close() {}

func (a localAdmin) create(_ context.Context, topic string, _ []rule, partitions int32, _ int16) (bool, error) {
	return a.log.segments.CreateTopic(segment.Topic{Name: topic, Partitions: partitions}, false)
}

func (a localAdmin) addPartitions(_ context.Context, partitions int32, topics ...string) error {
	for _, topic := range topics {
		if _, err := a.log.segments.CreateTopic(segment.Topic{Name: topic, Partitions: partitions}, true); err != nil {
			return err
		}
	}
	return nil
}

func (a localAdmin) describe(_ context.Context, topics []string) (map[string]foundTopic, error) {
	found := make(map[string]foundTopic)
	for _, name := range topics {
		if t, ok := a.log.segments.Topic(name); ok {
			found[name] = foundTopic{partitions: int(t.Partitions), minReplicas: 1}
		}
	}
	return found, nil
}

func (localAdmin) set(context.Context, string, map[string]string) error { return nil }
