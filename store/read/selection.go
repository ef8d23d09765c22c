package read

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/internal/ch"
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
			if r.erased(c.ID) {
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
		if err = r.CaughtUp(ctx); !errors.Is(err, errNotCaughtUp) {
			return err
		}
	}
	return err
}

// nextInTime is next with the time limit of one read.
func (w *walk) nextInTime(ctx context.Context, n int) ([]candidate, error) {
	ctx, cancel := context.WithTimeout(ctx, w.r.cfg.Timeout)
	defer cancel()
	return w.next(ctx, n)
}

// Stored returns the complete events of an account with these ids, in the order of the ids. Events that are erased or
// not stored any more are left out. It does not wait for the writer. All events are in memory at once, so the caller
// bounds their sizes.
func (r *Reader) Stored(ctx context.Context, account string, ids []id.ID) ([]event.Stored, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	newestFirst := slices.Clone(ids)
	slices.SortFunc(newestFirst, id.NewestFirst)
	var events map[id.ID]*event.Event
	deliveries := make(map[id.ID][]event.Delivery, len(ids))
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { events, err = itemReader{r}.fullEvents(gctx, account, newestFirst); return err })
	g.Go(func() error {
		q := ch.WhereIDs(selectDeliveries().Add(" FINAL WHERE account = ", account), newestFirst)
		return r.each(gctx, q.Add(" ORDER BY id, dest"), func(rows driver.Rows) error {
			d, of, err := scanDelivery(rows)
			deliveries[of] = append(deliveries[of], d)
			return err
		})
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	stored := make([]event.Stored, 0, len(ids))
	for _, d := range ids {
		if e := events[d]; e != nil && !d.Time().Before(r.Oldest()) && !r.erased(d) {
			stored = append(stored, event.Stored{Event: e, Deliveries: withPending(e, deliveries[d])})
		}
	}
	return stored, nil
}

// parallelCommandReads bounds the partitions whose commands are read at once.
const parallelCommandReads = 4

// CountCommands counts the deliveries that the commands of a run ask for, of events with an id above after. It reads
// the topic commands from the time since to its end, so it includes every acknowledged command. When the log has
// trimmed records of that time it counts the stored deliveries too. A delivery counts once.
func (r *Reader) CountCommands(ctx context.Context, run string, since time.Time, after id.ID) (int, error) {
	from, err := r.topic.OffsetsForTime(ctx, stream.Commands, since)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", event.ErrUnavailable, err)
	}
	ends, err := r.topic.Ends(ctx, stream.Commands)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", event.ErrUnavailable, err)
	}
	starts, err := r.topic.Starts(ctx, stream.Commands)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", event.ErrUnavailable, err)
	}
	seen := make(map[int32]map[deliveryKey]bool, len(ends))
	trimmed := false
	for p := range ends {
		seen[p.Index] = make(map[deliveryKey]bool)
		trimmed = trimmed || starts[p] > 0 && from[p] <= starts[p]
	}
	if trimmed {
		if err := r.addStoredDeliveries(ctx, run, after, seen); err != nil {
			return 0, err
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelCommandReads)
	for p, end := range ends {
		if start := from[p]; start >= 0 && start < end {
			g.Go(func() error { return r.addCommandedDeliveries(gctx, p, start, end, run, after, seen[p.Index]) })
		}
	}
	if err := g.Wait(); err != nil {
		return 0, fmt.Errorf("%w: count the commands of a run: %w", event.ErrUnavailable, err)
	}
	sum := 0
	for _, deliveries := range seen {
		sum += len(deliveries)
	}
	return sum, nil
}

// addStoredDeliveries adds the stored deliveries of a run to seen, by partition.
func (r *Reader) addStoredDeliveries(
	ctx context.Context, run string, after id.ID, seen map[int32]map[deliveryKey]bool) error {
	q := new(ch.Query).Add("SELECT id, dest FROM run_deliveries WHERE run = ", run).Add(" AND id > ", after)
	return r.each(ctx, q.Add(" GROUP BY id, dest"), func(rows driver.Rows) error {
		var d deliveryKey
		err := rows.Scan(&d.event, &d.dest)
		if of := seen[d.event.Partition()]; of != nil {
			of[d] = true
		}
		return err
	})
}

// addCommandedDeliveries adds the deliveries that the commands of a run in one partition ask for.
func (r *Reader) addCommandedDeliveries(
	ctx context.Context, p stream.Partition, from, end int64, run string, after id.ID, seen map[deliveryKey]bool,
) error {
	return r.topic.Read(ctx, p, from, func(rec *stream.Record) error {
		if rec.Offset >= end {
			return stream.ErrStop
		}
		x, ok := event.Salvage(rec)
		if ok && x.FromWork && x.Run == run && x.Event.Compare(after) > 0 {
			seen[deliveryKey{x.Event, x.Dests[0]}] = true
		}
		if rec.Offset == end-1 {
			return stream.ErrStop
		}
		return nil
	})
}
