package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

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
	return r.readRanges(ctx, ranges, rangePartitionFetchBytes, each)
}

// readRanges is ReadRanges with at most partitionFetch bytes of a partition in one fetch.
func (r *Reader) readRanges(
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
