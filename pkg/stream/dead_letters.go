package stream

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// deadWindow is how many records of a partition of dead are looked at together, from its end backwards.
const deadWindow = 1000

// maxExactCount is how many records of dead are looked at to count what was done again; beyond it all count.
const maxExactCount = 100_000

// Graves returns what is buried and was not done again, the newest first, at most limit; only what came from
// one topic (without the prefix) unless that is empty. Of each value at most so many bytes are kept; Size has
// its length.
func (r *Reader) ListDeadLetters(ctx context.Context, topic string, limit, value int) ([]DeadLetter, error) {
	var all []DeadLetter
	err := r.eachDeadPartition(ctx, func(span Range) error {
		found, err := r.newestDeadLetters(ctx, span, topic, limit, value)
		all = append(all, found...)
		return err
	})
	slices.SortStableFunc(all, func(a, b DeadLetter) int {
		return cmp.Or(b.WrittenAt.Compare(a.WrittenAt), cmp.Compare(b.Offset, a.Offset))
	})
	return all[:min(len(all), limit)], err
}

// newestDeadLetters looks through one partition from its end, for marks stand after what they mark.
func (r *Reader) newestDeadLetters(ctx context.Context, span Range, topic string, limit, value int) ([]DeadLetter, error) {
	marked := make(map[int64]bool)
	var found []DeadLetter
	for span.To > span.From && len(found) < limit {
		from := max(span.From, span.To-deadWindow)
		var window []DeadLetter
		err := r.readDeadRange(ctx, Range{span.Partition, from, span.To}, marked, func(g DeadLetter) error {
			if topic == "" || g.Source.Topic == topic {
				g.detach(value)
				window = append(window, g)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, g := range slices.Backward(window) {
			if !marked[g.Offset] && len(found) < limit {
				found = append(found, g)
			}
		}
		span.To = from
	}
	return found, nil
}

// ErrNoDeadLetter means that there is no dead letter at a place.
var ErrNoDeadLetter = errors.New("there is no dead letter")

// ErrAlreadyRetried means that a record was done again already.
var ErrAlreadyRetried = errors.New("it was done again already")

// Grave returns the one at an offset of a partition of dead, whole. ErrNoDeadLetter and ErrAlreadyRetried are the answers
// for a place where none is, or none any more.
func (r *Reader) ReadDeadLetter(ctx context.Context, partition int32, offset int64) (DeadLetter, error) {
	var found *DeadLetter
	marked := make(map[int64]bool)
	err := r.eachDeadPartition(ctx, func(span Range) error {
		if span.Index != partition || offset < span.From || offset >= span.To {
			return nil
		}
		span.From = offset
		return r.readDeadRange(ctx, span, marked, func(g DeadLetter) error {
			if g.Offset == offset {
				g.detach(g.Size)
				found = &g
			}
			return nil
		})
	})
	switch {
	case err != nil:
		return DeadLetter{}, err
	case found == nil:
		return DeadLetter{}, ErrNoDeadLetter
	case marked[offset]:
		return DeadLetter{}, ErrAlreadyRetried
	}
	return *found, nil
}

// EachDeadLetter calls do with everything that is buried now and was not done again, whole, in the order of burial
// within a partition; only what came from one topic unless that is empty.
func (r *Reader) EachDeadLetter(ctx context.Context, topic string, do func(DeadLetter) error) error {
	return r.eachDeadPartition(ctx, func(span Range) error {
		marked := make(map[int64]bool)
		if err := r.readDeadRange(ctx, span, marked, func(DeadLetter) error { return nil }); err != nil {
			return err
		}
		return r.readDeadRange(ctx, span, nil, func(g DeadLetter) error {
			if marked[g.Offset] || topic != "" && g.Source.Topic != topic {
				return nil
			}
			g.detach(g.Size)
			return do(g)
		})
	})
}

// CountDeadLetters is how many records are buried and were not done again. Of very many, those that were done again
// count as well.
func (r *Reader) CountDeadLetters(ctx context.Context) (n int64, err error) {
	var records, buried int64
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
		marked := make(map[int64]bool)
		var graves []int64
		err := r.readDeadRange(ctx, span, marked, func(g DeadLetter) error { graves = append(graves, g.Offset); return nil })
		if err != nil {
			return 0, err
		}
		for _, offset := range graves {
			if !marked[offset] {
				buried++
			}
		}
	}
	return buried, nil
}

// eachDeadPartition calls do with what every partition of dead holds now.
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

// readDeadRange reads a stretch of one partition: what is marked as done again goes into marked, unless it is nil,
// and do gets the graves. They are parts of the fetch response until they are detached.
func (r *Reader) readDeadRange(ctx context.Context, span Range, marked map[int64]bool, do func(DeadLetter) error) error {
	return r.ReadRanges(ctx, []Range{span}, func(_ Partition, records []*Record) error {
		for _, rec := range records {
			if offset, ok := retriedOffset(rec); ok {
				if marked != nil {
					marked[offset] = true
				}
				continue
			}
			g, err := parseDeadLetter(rec)
			if err != nil {
				continue // nobody of ours wrote it
			}
			if err := do(g); err != nil {
				return err
			}
		}
		return nil
	})
}
