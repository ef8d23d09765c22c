package stream

import (
	"context"
	"errors"
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
