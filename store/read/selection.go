package read

import (
	"context"
	"errors"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/read/fence"
)

const (
	// maxSelected bounds the events that Select passes to page at once.
	maxSelected = maxIDs
	// fenceTries is how often Select waits for the fence: 15 s in all. A read can show what is stored meanwhile, a replay
	// can only be refused.
	fenceTries = 10
)

// Select calls page for every event that a query matches, newest first, with at most q.Limit events at a time (0 =
// maxSelected). It includes everything acknowledged before the call, else it returns event.ErrUnavailable: a replay
// must not be selected from incomplete data. It stops at the first error of page. Each step has the time limit of one
// read, so the whole may take as long as ctx allows.
func (r *Reader) Select(ctx context.Context, q event.Query, page func([]event.Match) error) error {
	reportedBefore := r.reportedBoundFor(ctx, &q) // before the fence
	if err := r.upToDate(ctx); err != nil {
		return err
	}
	q.Before = id.ID{}
	n := q.Limit
	if n <= 0 {
		n = maxSelected
	}
	var selected []event.Match
	for w := r.newWalk(q, reportedBefore); !w.done(); {
		found, err := w.nextInTime(ctx, min(n, maxSelected))
		if err != nil {
			return err
		}
		selected = selected[:0]
		for i := range found {
			c := &found[i]
			if r.Erased(c.ID) {
				continue // there is nothing left to send
			}
			selected = append(selected, event.Match{
				ID: c.ID, Endpoint: c.Endpoint, Type: c.Type, Verdict: c.Verdict, Reason: c.Reason, Size: int(c.size),
			})
		}
		if len(selected) == 0 {
			continue
		}
		if err := page(selected); err != nil {
			return err
		}
	}
	return nil
}

// upToDate calls CaughtUp up to fenceTries times.
func (r *Reader) upToDate(ctx context.Context) (err error) {
	for range fenceTries {
		if err = r.CaughtUp(ctx); !errors.Is(err, fence.ErrNotCaughtUp) {
			return err
		}
	}
	return err
}

// nextInTime is next with the time limit of one read.
func (w *walk) nextInTime(ctx context.Context, n int) ([]candidate, error) {
	ctx, cancel := context.WithTimeout(ctx, w.r.Config.Timeout)
	defer cancel()
	return w.next(ctx, n)
}
