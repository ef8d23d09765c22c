package read

import (
	"context"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// A delivery of which nothing was said yet has no row, so that looking for it means to look at every event. But what
// the dispatcher has committed has been said something about, durably and before the commit: only events beyond its
// commits can lack a row. They are the newest, by their offsets, and so by their times but for scanSpan.

// lookbackSteps are how far back the oldest undone event is looked for: one question to the log each.
func lookbackSteps() []time.Duration {
	return []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}
}

// undone is a time before which something was said about every delivery of every event. The zero time is always true,
// and is what is said when the log cannot tell. The answer holds for whoever passes the fence afterwards: what was said
// before the commits is then in the store.
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
	open := make(map[stream.Partition]int64)
	for p, end := range ends {
		at, known := committed[p]
		if !known && end > 0 {
			return time.Time{}
		}
		if at < end {
			open[p] = at
		}
	}
	if len(open) == 0 {
		return now.Add(-scanSpan)
	}
	for _, back := range lookbackSteps() {
		since, err := r.topic.OffsetsForTime(ctx, stream.Events, now.Add(-back))
		if err != nil {
			return time.Time{}
		}
		older := false
		for p, at := range open {
			older = older || at < since[p]
		}
		if !older {
			return now.Add(-back - scanSpan)
		}
	}
	return time.Time{}
}

// reportedBoundFor is undone for a query that may match an event of which nothing was said, the zero time for others.
func (r *Reader) reportedBoundFor(ctx context.Context, q *event.Query) time.Time {
	if !mayMatchUnreported(q) || q.Search != nil {
		return time.Time{}
	}
	return r.allReportedBefore(ctx)
}

// mayMatchUnreported reports whether the query may match an event of which nothing was said.
func mayMatchUnreported(q *event.Query) bool { return slices.Contains(q.Statuses, event.Pending) }
