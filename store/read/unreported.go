package read

import (
	"context"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// A delivery without an outcome has no row, so finding it means reading every event. But the dispatcher writes an
// outcome of every delivery before it commits the event's offset. So only events at or above its committed offsets can
// lack a row. By offset they are the newest events, and by time too, up to scanSpan.

// lookbackSteps are the ages, at least the difference that clocks may have, at which allReportedBefore looks for the
// oldest uncommitted event. Each costs one request to the log.
func lookbackSteps() []time.Duration {
	const day, skewed = 24 * time.Hour, id.MaxAhead + 5*time.Second
	return []time.Duration{skewed, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, day, 7 * day}
}

// allReportedBefore returns a time before which every delivery of every event has an outcome; the zero time when the
// log cannot tell. It holds for a read that passes the fence afterwards: the outcomes are then in the store.
func (r *Reader) allReportedBefore(ctx context.Context) time.Time {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.FenceWait)
	defer cancel()
	committed, err := r.topic.Committed(ctx, stream.DispatchGroup, stream.Events)
	if err != nil {
		return time.Time{}
	}
	now := r.now()
	ends, err := r.topic.Ends(ctx, stream.Events)
	if err != nil {
		return time.Time{}
	}
	uncommitted := make(map[stream.Partition]int64) // first offset that is not committed
	for p, end := range ends {
		at, known := committed[p]
		if !known && end > 0 {
			return time.Time{}
		}
		if at < end {
			uncommitted[p] = at
		}
	}
	if len(uncommitted) == 0 {
		return now.Add(-scanSpan)
	}
	for _, back := range lookbackSteps() {
		since, err := r.topic.OffsetsForTime(ctx, stream.Events, now.Add(-back))
		if err != nil {
			return time.Time{}
		}
		older := false
		for p, at := range uncommitted {
			older = older || at < since[p]
		}
		if !older {
			return now.Add(-back - scanSpan)
		}
	}
	return time.Time{}
}

// reportedBoundFor calls allReportedBefore for a query that may match a delivery without an outcome. For other queries
// it returns the zero time.
func (r *Reader) reportedBoundFor(ctx context.Context, q *event.Query) time.Time {
	if !mayMatchUnreported(q) || q.Search != nil {
		return time.Time{}
	}
	return r.allReportedBefore(ctx)
}

// mayMatchUnreported reports whether the query may match an event with a delivery that has no outcome.
func mayMatchUnreported(q *event.Query) bool { return slices.Contains(q.Statuses, event.Pending) }
