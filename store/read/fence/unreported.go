package fence

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// A delivery without an outcome has no row, so finding it means reading every event. But the dispatcher writes an
// outcome of every delivery before it commits the event's offset. So only events at or above its committed offsets can
// lack a row, and none is older than the oldest of these. While the dispatcher keeps up they are few: the log is read
// for their ids. Otherwise a time is derived from that of the log's records, LateAppend earlier.

// errNeverCommitted means that the dispatcher has not committed anything of a partition with records.
var errNeverCommitted = errors.New("a partition of events was never committed")

// LateAppend is more than the age of an event that is appended now: a producer holds it for up to
// stream.DeliveryTimeout, and the clocks of its node and this one may be id.MaxAhead off the broker's.
const LateAppend = stream.DeliveryTimeout + 2*id.MaxAhead + 30*time.Second

// MaxIDSkew is how far the time of an id may lie in the future. The generator of a node may be 30 s ahead of its clock,
// which may be 30 s off; the rest is margin.
const MaxIDSkew = 2 * time.Minute

// lookbackSteps are the ages, at least the difference that clocks may have, at which lookBack looks for the oldest
// uncommitted event. Each costs one request to the log.
func lookbackSteps() []time.Duration {
	const day, skewed = 24 * time.Hour, id.MaxAhead + 5*time.Second
	return []time.Duration{skewed, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, day, 7 * day}
}

// Unreported finds out which events may have deliveries without an outcome.
type Unreported struct {
	topic *stream.Reader
	Now   func() time.Time
	wait  time.Duration // bounds what a list waits for it
	// What is read of the events that the dispatcher has not committed.
	MaxRecords int64
	MaxBytes   int
	// shared is one load for concurrent lists: it may read megabytes of the log.
	shared *coalescer[time.Time]

	mu   sync.Mutex // guards last
	last time.Time  // a bound from an earlier load that still holds; zero = none
}

// NewUnreported returns an Unreported. wait bounds what a list waits for it.
func NewUnreported(topic *stream.Reader, wait time.Duration) *Unreported {
	u := &Unreported{topic: topic, Now: time.Now, wait: wait, MaxRecords: 10_000, MaxBytes: 16 << 20}
	u.shared = newCoalescer(u.load)
	return u
}

// AllReportedBefore returns a time before which every delivery of every event has an outcome. If the log does not
// answer in time it returns the last bound that still holds, the zero time if there is none. Both hold for a read that
// passes the fence afterwards: the outcomes are then in the store.
func (u *Unreported) AllReportedBefore(ctx context.Context) time.Time {
	ctx, cancel := context.WithTimeout(ctx, u.wait)
	defer cancel()
	before, err := u.shared.get(ctx)
	if err != nil { // the log is slow, or many lists wait: without a bound each would read the whole store
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.last
	}
	return before
}

func (u *Unreported) load(ctx context.Context) (time.Time, error) {
	began := u.Now()
	uncommitted, err := u.uncommitted(ctx)
	if err != nil {
		return time.Time{}, err
	}
	bound, ok := u.oldestOf(ctx, uncommitted)
	if !ok {
		if bound, err = u.lookBack(ctx, uncommitted); err != nil {
			return time.Time{}, err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	// What has an outcome keeps one.
	if u.last = began.Add(-LateAppend); bound.Before(u.last) {
		u.last = bound
	}
	return bound, nil
}

// uncommitted returns the offsets of the events that the dispatcher has not committed.
func (u *Unreported) uncommitted(ctx context.Context) ([]stream.Range, error) {
	committed, err := u.topic.Committed(ctx, stream.DispatchGroup, stream.Events)
	if err != nil {
		return nil, err
	}
	ends, err := u.topic.Ends(ctx, stream.Events)
	if err != nil {
		return nil, err
	}
	var ranges []stream.Range
	for p, end := range ends {
		at, known := committed[p]
		if !known && end > 0 {
			return nil, errNeverCommitted
		}
		if at < end {
			ranges = append(ranges, stream.Range{Partition: p, From: at, To: end})
		}
	}
	return ranges, nil
}

// oldestOf returns the time of the oldest event in the ranges, a time to come if they are empty, or false if they are
// too many to read or cannot be read.
func (u *Unreported) oldestOf(ctx context.Context, ranges []stream.Range) (oldest time.Time, ok bool) {
	left, bytes := u.MaxRecords, u.MaxBytes
	for _, g := range ranges {
		left -= g.To - g.From
	}
	if left < 0 {
		return time.Time{}, false
	}
	// Offsets without a record at the end of a range keep ReadRanges waiting; lookBack needs time afterwards.
	ctx, cancel := context.WithTimeout(ctx, u.wait/2)
	defer cancel()
	oldest = u.Now().Add(2 * MaxIDSkew)
	err := u.topic.ReadRanges(ctx, ranges, func(_ stream.Partition, records []*stream.Record) error {
		for _, record := range records {
			for _, h := range record.Headers {
				bytes -= len(h.Key) + len(h.Value)
			}
			if bytes -= len(record.Value); bytes < 0 {
				return stream.ErrStop
			}
			d, err := id.Parse(id.Event, event.RecordID(record))
			if err == nil && d.Time().Before(oldest) { // a record without an id is no event
				oldest = d.Time()
			}
		}
		return nil
	})
	return oldest, err == nil && bytes >= 0
}

// lookBack returns a time before which there is no event of the ranges.
func (u *Unreported) lookBack(ctx context.Context, ranges []stream.Range) (time.Time, error) {
	now := u.Now()
	for _, back := range lookbackSteps() {
		since, err := u.topic.OffsetsForTime(ctx, stream.Events, now.Add(-back))
		if err != nil {
			return time.Time{}, err
		}
		isOlder := func(g stream.Range) bool { return g.From < since[g.Partition] }
		if !slices.ContainsFunc(ranges, isOlder) {
			return now.Add(-back - LateAppend), nil
		}
	}
	return time.Time{}, nil
}
