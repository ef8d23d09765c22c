package stream

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// deadWindow is how many records of a partition of the topic dead are read at a time, from its end backwards.
const deadWindow = 1000

// maxExactCount bounds the records that CountDeadLetters reads. If the topic has more, it
// counts all records: retried dead letters and their markers too.
const maxExactCount = 100_000

// ListDeadLetters returns the dead letters that were not retried, the newest first, at most limit. If topic (without
// the prefix) is not empty, it returns only those from that topic. Of each value it returns at most valueBytes; Size
// has the full length.
func (r *Reader) ListDeadLetters(ctx context.Context, topic string, limit, valueBytes int) ([]DeadLetter, error) {
	var all []DeadLetter
	err := r.eachDeadPartition(ctx, func(span Range) error {
		found, err := r.newestDeadLetters(ctx, span, topic, limit, valueBytes)
		all = append(all, found...)
		return err
	})
	slices.SortStableFunc(all, func(a, b DeadLetter) int {
		return cmp.Or(b.WrittenAt.Compare(a.WrittenAt), cmp.Compare(b.Offset, a.Offset))
	})
	return all[:min(len(all), limit)], err
}

// newestDeadLetters reads one partition backwards from its end, because the marker of a retried dead letter follows it.
func (r *Reader) newestDeadLetters(ctx context.Context, span Range, topic string, limit, valueBytes int) (
	[]DeadLetter, error) {
	retried := make(map[int64]bool)
	var found []DeadLetter
	for span.To > span.From && len(found) < limit {
		from := max(span.From, span.To-deadWindow)
		var window []DeadLetter
		err := r.readDeadRange(ctx, Range{span.Partition, from, span.To}, retried, func(d DeadLetter) error {
			if topic == "" || d.Source.Topic == topic {
				d.detach(valueBytes)
				window = append(window, d)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, d := range slices.Backward(window) {
			if !retried[d.Offset] && len(found) < limit {
				found = append(found, d)
			}
		}
		span.To = from
	}
	return found, nil
}

// ErrNoDeadLetter means that there is no dead letter at the partition and offset.
var ErrNoDeadLetter = errors.New("there is no dead letter")

// ErrAlreadyRetried means that the dead letter was retried before.
var ErrAlreadyRetried = errors.New("it was retried already")

// ReadDeadLetter returns the dead letter at an offset of a partition of the topic dead, with its whole value. It
// returns ErrNoDeadLetter if there is none and ErrAlreadyRetried if it was retried.
func (r *Reader) ReadDeadLetter(ctx context.Context, partition int32, offset int64) (DeadLetter, error) {
	var found *DeadLetter
	retried := make(map[int64]bool)
	err := r.eachDeadPartition(ctx, func(span Range) error {
		if span.Index != partition || offset < span.From || offset >= span.To {
			return nil
		}
		span.From = offset
		return r.readDeadRange(ctx, span, retried, func(d DeadLetter) error {
			if d.Offset == offset {
				d.detach(d.Size)
				found = &d
			}
			return nil
		})
	})
	switch {
	case err != nil:
		return DeadLetter{}, err
	case found == nil:
		return DeadLetter{}, ErrNoDeadLetter
	case retried[offset]:
		return DeadLetter{}, ErrAlreadyRetried
	}
	return *found, nil
}

// EachDeadLetter calls do for every dead letter that was not retried, with its whole value, in the order of offsets
// within a partition. If topic is not empty, it skips dead letters from other topics.
func (r *Reader) EachDeadLetter(ctx context.Context, topic string, do func(DeadLetter) error) error {
	return r.eachDeadPartition(ctx, func(span Range) error {
		retried := make(map[int64]bool)
		if err := r.readDeadRange(ctx, span, retried, func(DeadLetter) error { return nil }); err != nil {
			return err
		}
		return r.readDeadRange(ctx, span, nil, func(d DeadLetter) error {
			if retried[d.Offset] || topic != "" && d.Source.Topic != topic {
				return nil
			}
			d.detach(d.Size)
			return do(d)
		})
	})
}

// CountDeadLetters returns how many dead letters were not retried. If the topic has more than 100,000 records, it
// counts the retried ones and the markers too.
func (r *Reader) CountDeadLetters(ctx context.Context) (n int64, err error) {
	var records, count int64
	var spans []Range
	err = r.eachDeadPartition(ctx, func(span Range) error {
		records += span.To - span.From
		spans = append(spans, span)
		return nil
	})
	if err != nil || records > maxExactCount {
		return records, err
	}
	for _, span := range spans {
		retried := make(map[int64]bool)
		var offsets []int64
		err := r.readDeadRange(ctx, span, retried, func(d DeadLetter) error {
			offsets = append(offsets, d.Offset)
			return nil
		})
		if err != nil {
			return 0, err
		}
		for _, offset := range offsets {
			if !retried[offset] {
				count++
			}
		}
	}
	return count, nil
}

// eachDeadPartition calls do with the range of offsets that each partition of the topic dead has now.
func (r *Reader) eachDeadPartition(ctx context.Context, do func(Range) error) error {
	starts, err := r.Starts(ctx, Dead)
	if err != nil {
		return err
	}
	ends, err := r.Ends(ctx, Dead)
	if err != nil {
		return err
	}
	spans := make([]Range, 0, len(ends))
	for p, end := range ends {
		spans = append(spans, Range{p, starts[p], end})
	}
	slices.SortFunc(spans, func(a, b Range) int { return cmp.Compare(a.Index, b.Index) })
	for _, span := range spans {
		if err := do(span); err != nil {
			return err
		}
	}
	return nil
}

// readDeadRange reads a range of one partition. It adds the offsets that markers name to retried, unless that is nil,
// and calls do for the dead letters. They are parts of the fetch response until they are detached.
func (r *Reader) readDeadRange(
	ctx context.Context, span Range, retried map[int64]bool, do func(DeadLetter) error) error {
	return r.ReadRanges(ctx, []Range{span}, func(_ Partition, records []*Record) error {
		for _, rec := range records {
			if offset, ok := retriedOffset(rec); ok {
				if retried != nil {
					retried[offset] = true
				}
				continue
			}
			d, err := parseDeadLetter(rec)
			if err != nil {
				continue // not written by this service
			}
			if err := do(d); err != nil {
				return err
			}
		}
		return nil
	})
}
