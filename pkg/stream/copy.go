package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/eventrelay/relay/pkg/segment"
)

// CopyLog copies the service's topics from one log into another one, which is in this process and empty: records with
// their offsets, what groups have committed, and the ids of topics. Nobody may write to either meanwhile.
func CopyLog(ctx context.Context, from, to Config) error {
	r, err := NewReader(from, "copy")
	if err != nil {
		return err
	}
	defer r.Close()
	report, err := CheckTopics(ctx, from, 1)
	if err != nil {
		return err
	}
	for i, t := range Topics() {
		if report.Topics[i].Missing {
			continue
		}
		if err := copyTopic(ctx, r, to, t.Name, report.Topics[i].Partitions); err != nil {
			return fmt.Errorf("copy topic %s: %w", t.Name, err)
		}
	}
	for _, group := range Groups() {
		commits, err := r.Commits(ctx, group, ReadBy(group)...)
		if err != nil {
			return err
		}
		all := make(map[segment.Key]segment.Commit, len(commits))
		for p, c := range commits {
			all[to.key(p)] = segment.Commit{Offset: c.Offset, Epoch: c.LeaderEpoch, Metadata: c.Metadata}
		}
		if err := to.Embedded.segments.Commit(ctx, to.Prefix+group, all); err != nil {
			return err
		}
	}
	return nil
}

// key names a partition in the log in this process.
func (c Config) key(p Partition) segment.Key {
	return segment.Key{Topic: c.Prefix + p.Topic, Index: p.Index}
}

// copyTopic creates a topic and copies its records.
func copyTopic(ctx context.Context, r *Reader, to Config, topic string, partitions int) error {
	_, id, err := r.TopicID(ctx, topic)
	if err != nil {
		return err
	}
	segments := to.Embedded.segments
	if _, err := segments.CreateTopic(
		segment.Topic{Name: to.Prefix + topic, ID: id, Partitions: int32(partitions)}, false); err != nil {
		return err
	}
	starts, err := r.Starts(ctx, topic)
	if err != nil {
		return err
	}
	ends, err := r.Ends(ctx, topic)
	if err != nil {
		return err
	}
	for p, end := range ends {
		into := segments.Partition(to.Prefix+p.Topic, p.Index)
		if end == 0 {
			continue
		}
		if err := into.Begin(starts[p]); err != nil {
			return err
		}
		err := r.ReadRanges(ctx, []Range{{p, starts[p], end}}, func(_ Partition, records []*Record) error {
			return copyRecords(records, into)
		})
		if err == nil && into.End() != end {
			err = fmt.Errorf("partition %d ends at offset %d, want %d", p.Index, into.End(), end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyRecords appends records at their offsets, and waits until they are written.
func copyRecords(records []*Record, into *segment.Partition) (err error) {
	done := make(chan error, len(records))
	for _, r := range records {
		want := r.Offset
		into.Append(r.Timestamp.UnixMilli(), &localRecord{Record: r, bytes: sizeOf(r), done: func(r *Record, err error) {
			if err == nil && r.Offset != want {
				err = fmt.Errorf("the record at offset %d would be at %d: others before it are missing", want, r.Offset)
			}
			done <- err
		}}, 0)
	}
	for range records {
		err = errors.Join(err, <-done)
	}
	return err
}
