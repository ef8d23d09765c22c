package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/cluster"
)

// Stored returns the complete events of an account with these ids, in the order of the ids. Events that are erased or
// not stored any more are left out. It does not wait for the writer. All events are in memory at once, so the caller
// bounds their sizes.
func (r Jobs) Stored(ctx context.Context, account string, ids []id.ID) ([]event.Stored, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	newestFirst := slices.Clone(ids)
	slices.SortFunc(newestFirst, id.NewestFirst)
	var events map[id.ID]*event.Event
	deliveries := make(map[id.ID][]event.Delivery, len(ids))
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { events, err = r.FullEvents(gctx, account, newestFirst); return err })
	g.Go(func() error {
		q := ch.WhereIDs(cluster.SelectDeliveries().Add(" FINAL WHERE account = ", account), newestFirst)
		return r.Each(gctx, q.Add(" ORDER BY id, dest"), func(rows driver.Rows) error {
			d, of, err := cluster.ScanDelivery(rows)
			deliveries[of] = append(deliveries[of], d)
			return err
		})
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	stored := make([]event.Stored, 0, len(ids))
	for _, d := range ids {
		if e := events[d]; e != nil && !d.Time().Before(r.Oldest()) && !r.Erased(d) {
			stored = append(stored, event.Stored{Event: e, Deliveries: cluster.WithPending(e, deliveries[d])})
		}
	}
	return stored, nil
}

// DeliveredByRuns calls each for what replays and recovery jobs of all accounts have delivered: for at most limit of
// the newest deliveries, oldest first, with the time at which their attempts ended. It waits for the writer as other
// reads do, and then reads what is stored. A delivery may come more than once.
func (r Jobs) DeliveredByRuns(
	ctx context.Context, limit int, each func(run string, event id.ID, dest string, ended time.Time)) error {
	type delivery struct {
		run, dest string
		event     id.ID
		ended     time.Time
	}
	if _, err := r.Fence.WaitAll(ctx); err != nil {
		return err
	}
	var newest []delivery
	q := new(ch.Query).Add("SELECT run, id, dest, last_at FROM run_deliveries WHERE status = 'delivered'")
	q.Add(" AND skipped = '' ORDER BY last_at DESC LIMIT ", limit)
	err := r.Each(ctx, q, func(rows driver.Rows) error {
		var d delivery
		err := rows.Scan(&d.run, &d.event, &d.dest, &d.ended)
		newest = append(newest, d)
		return err
	})
	slices.SortFunc(newest, func(a, b delivery) int { return a.ended.Compare(b.ended) })
	for _, d := range newest[max(0, len(newest)-limit):] {
		each(d.run, d.event, d.dest, d.ended)
	}
	return err
}

// parallelCommandReads bounds the partitions whose commands are read at once.
const parallelCommandReads = 4

// CountCommands counts the deliveries that the commands of a run ask for, of events with an id above after. It reads
// the topic commands from the time since to its end, so it includes every acknowledged command. When the log has
// trimmed records of that time it counts the stored deliveries too. A delivery counts once.
func (r Jobs) CountCommands(ctx context.Context, run string, since time.Time, after id.ID) (int, error) {
	from, err := r.Topic.OffsetsForTime(ctx, stream.Commands, since)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", event.ErrUnavailable, err)
	}
	ends, err := r.Topic.Ends(ctx, stream.Commands)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", event.ErrUnavailable, err)
	}
	starts, err := r.Topic.Starts(ctx, stream.Commands)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", event.ErrUnavailable, err)
	}
	seen := make(map[int32]map[cluster.DeliveryKey]bool, len(ends))
	trimmed := false
	for p := range ends {
		seen[p.Index] = make(map[cluster.DeliveryKey]bool)
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
func (r Jobs) addStoredDeliveries(
	ctx context.Context, run string, after id.ID, seen map[int32]map[cluster.DeliveryKey]bool) error {
	q := new(ch.Query).Add("SELECT id, dest FROM run_deliveries WHERE run = ", run).Add(" AND id > ", after)
	return r.Each(ctx, q.Add(" GROUP BY id, dest"), func(rows driver.Rows) error {
		var d cluster.DeliveryKey
		err := rows.Scan(&d.Event, &d.Dest)
		if of := seen[d.Event.Partition()]; of != nil {
			of[d] = true
		}
		return err
	})
}

// addCommandedDeliveries adds the deliveries that the commands of a run in one partition ask for.
func (r Jobs) addCommandedDeliveries(
	ctx context.Context, p stream.Partition, from, end int64, run string, after id.ID, seen map[cluster.DeliveryKey]bool,
) error {
	return r.Topic.Read(ctx, p, from, func(rec *stream.Record) error {
		if rec.Offset >= end {
			return stream.ErrStop
		}
		x, ok := event.Salvage(rec)
		if ok && x.FromWork && x.Run == run && x.Event.Compare(after) > 0 {
			seen[cluster.DeliveryKey{Event: x.Event, Dest: x.Dests[0]}] = true
		}
		if rec.Offset == end-1 {
			return stream.ErrStop
		}
		return nil
	})
}
