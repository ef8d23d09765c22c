package jobs

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/column"
	"github.com/eventrelay/relay/store/read/cluster"
)

// Jobs reads the events and items of jobs.
type Jobs struct{ *cluster.Cluster }

const (
	// itemChunk is how many items one statement reads; their ids are a parameter of the next statement.
	itemChunk = 2_000
	// bodyChunk bounds the bodies that are in memory at once, in bytes; a single larger body is read alone.
	bodyChunk = 8 << 20
)

// RecoveryItems returns up to limit items of a job with numbers from job.From to below before, the highest first.
// before = 0 is the first page, which waits for the fence. Only items with one of states are returned; empty = all.
func (r Jobs) RecoveryItems(
	ctx context.Context, job event.RecoveryJob, before, limit int, states []event.Status,
) (page event.RecoveryItemPage, err error) {
	ctx, end, asOf, err := r.Begin(ctx, before == 0, r.Fence.WaitAll)
	defer end()
	if page.AsOf = asOf; err != nil {
		return page, err
	}
	before = cmp.Or(before, job.Total)
	chunk := limit + 1
	if len(states) > 0 {
		chunk = itemChunk
	}
	for before = min(before, job.Total); len(page.Rows) <= limit && before > job.From; before -= chunk {
		// Numbers have no gaps, so a range of numbers bounds the rows. With FINAL a LIMIT would not.
		items, err := r.items(ctx, job, max(before-chunk, job.From), before)
		if err != nil {
			return page, err
		}
		for _, x := range slices.Backward(items) {
			if len(states) == 0 || slices.Contains(states, x.State) {
				page.Rows = append(page.Rows, x)
			}
		}
	}
	if len(page.Rows) > limit {
		page.Rows, page.More = page.Rows[:limit], true
	}
	if err := r.countItemAttempts(ctx, job, page.Rows); err != nil {
		return page, err
	}
	return page, r.setItemTypes(ctx, job.Account, page.Rows)
}

// items reads the items of a job with numbers in [from, to), in order, with their states.
func (r Jobs) items(ctx context.Context, job event.RecoveryJob, from, to int) ([]event.RecoveryItem, error) {
	q := new(ch.Query).Add("SELECT seq, id, dest, skipped_reason FROM recovery_items FINAL WHERE account = ", job.Account)
	q.Add(" AND selection = ", job.Selection).Add(" AND seq >= ", from).Add(" AND seq < ", to)
	var items []event.RecoveryItem
	err := r.Each(ctx, q, func(rows driver.Rows) error {
		var item event.RecoveryItem
		var seq uint32
		err := rows.Scan(&seq, &item.Event, &item.Destination, (*string)(&item.SkipReason))
		item.Seq = int(seq)
		items = append(items, item)
		return err
	})
	if err != nil || len(items) == 0 {
		return nil, err
	}
	slices.SortFunc(items, func(a, b event.RecoveryItem) int { return cmp.Compare(a.Seq, b.Seq) })
	outcomes, err := r.lastOutcomes(ctx, job, items)
	if err != nil {
		return nil, err
	}
	for i := range items {
		x := &items[i]
		s, known := outcomes[cluster.DeliveryKey{Event: x.Event, Dest: x.Destination}]
		x.HasOutcome = known
		x.State, x.SkipReason, x.At = stateOf(job, x, s)
	}
	return items, nil
}

// lastOutcome is the newest outcome of a delivery within a run, or the run's command while there is no outcome.
type lastOutcome struct {
	status  event.Status
	skipped event.Reason
	at      time.Time
}

// stateOf returns the state of an item, its reason and its time. An item that the selection skips stays skipped. The
// state of another one follows from its newest outcome s; when s is zero, from how far the job has submitted.
func stateOf(job event.RecoveryJob, item *event.RecoveryItem, s lastOutcome) (event.Status, event.Reason, time.Time) {
	switch {
	case item.SkipReason != "":
		return event.Skipped, item.SkipReason, time.Time{}
	case s.status != "":
		return event.ItemState(s.status, s.skipped), s.skipped, s.at
	case item.Seq < job.Reserved:
		return event.ItemQueued, "", time.Time{}
	case job.UnsentReason != "":
		return event.Skipped, job.UnsentReason, time.Time{}
	}
	return event.Pending, "", time.Time{}
}

// lastOutcomes reads the newest outcomes of items within their job.
func (r Jobs) lastOutcomes(
	ctx context.Context, job event.RecoveryJob, items []event.RecoveryItem,
) (map[cluster.DeliveryKey]lastOutcome, error) {
	q := new(ch.Query).Add("SELECT id, dest, status, skipped, last_at FROM run_deliveries FINAL")
	q.Add(" WHERE account = ", job.Account).Add(" AND run = ", job.ID).ForEvents(eventsOf(items)...).
		Add(" AND id IN ", eventsOf(items))
	return cluster.ByKey(ctx, r.Cluster, q, func(rows driver.Rows, of *cluster.DeliveryKey, x *lastOutcome) error {
		err := rows.Scan(&of.Event, &of.Dest, (*string)(&x.status), (*string)(&x.skipped), &x.at)
		x.at = column.TimeFromColumn(x.at)
		return err
	})
}

// eventsOf returns the ids of the items' events, newest first, as ch.WhereIDs needs them.
func eventsOf(items []event.RecoveryItem) []id.ID {
	ids := make([]id.ID, len(items))
	for i := range items {
		ids[i] = items[i].Event
	}
	slices.SortFunc(ids, id.NewestFirst)
	return slices.Compact(ids)
}

// countItemAttempts sets the number of attempts of items within their job, with the HTTP status and the error of the
// last one. A queued item also gets its time.
func (r Jobs) countItemAttempts(ctx context.Context, job event.RecoveryJob, items []event.RecoveryItem) error {
	if len(items) == 0 {
		return nil
	}
	at := make(map[cluster.DeliveryKey]*event.RecoveryItem, len(items))
	for i := range items {
		at[cluster.DeliveryKey{Event: items[i].Event, Dest: items[i].Destination}] = &items[i]
	}
	q := new(ch.Query).Add("SELECT id, dest, uniqExact(attempt), argMax(code, attempt), argMax(error_code, attempt), " +
		"max(at)")
	q = ch.WhereIDs(q.Add(" FROM attempts WHERE account = ", job.Account), eventsOf(items))
	return r.Each(ctx, q.Add(" AND run = ", job.ID).Add(" GROUP BY id, dest"), func(rows driver.Rows) error {
		var of cluster.DeliveryKey
		var n uint64
		var code uint16
		var failure string
		var last time.Time
		err := rows.Scan(&of.Event, &of.Dest, &n, &code, &failure, &last)
		if x := at[of]; x != nil {
			x.Attempts, x.Code, x.Error = int(n), int(code), event.ErrorCode(failure)
			if last = column.TimeFromColumn(last); x.State == event.ItemQueued && last.After(x.At) {
				x.At = last
			}
		}
		return err
	})
}

// setItemTypes sets the types of the items' events.
func (r Jobs) setItemTypes(ctx context.Context, account string, items []event.RecoveryItem) error {
	if len(items) == 0 {
		return nil
	}
	q := ch.WhereIDs(new(ch.Query).Add("SELECT id, type FROM events WHERE account = ", account), eventsOf(items))
	types, err := cluster.ByKey(ctx, r.Cluster, q, func(rows driver.Rows, d *id.ID, kind *string) error {
		return rows.Scan(d, kind)
	})
	for i := range items {
		items[i].Type = types[items[i].Event]
	}
	return err
}

// OpenRecoveryItems calls each for the items of a job with numbers in [from, to) that the job may still have to submit,
// in order, with their events: the store has neither their command nor an outcome, and they are not skipped. It stops
// at the first error of each and returns it.
func (r Jobs) OpenRecoveryItems(
	ctx context.Context, job event.RecoveryJob, from, to int, each func(*event.OpenRecoveryItem) error,
) error {
	for ; from < to; from += itemChunk {
		items, err := r.items(ctx, job, from, min(from+itemChunk, to))
		if err != nil {
			return err
		}
		items = slices.DeleteFunc(items, func(x event.RecoveryItem) bool { return x.HasOutcome || x.State == event.Skipped })
		if err := r.readOpenItems(ctx, job, items, each); err != nil {
			return err
		}
	}
	return nil
}

// readOpenItems reads the events and the earlier deliveries of items, in parts of at most bodyChunk, and calls each.
func (r Jobs) readOpenItems(
	ctx context.Context, job event.RecoveryJob, items []event.RecoveryItem, each func(*event.OpenRecoveryItem) error,
) error {
	if len(items) == 0 {
		return nil
	}
	prior, err := r.priorOf(ctx, job, items)
	if err != nil {
		return err
	}
	sizes, err := r.sizesOf(ctx, job, items)
	if err != nil {
		return err
	}
	for len(items) > 0 {
		n, bytes := 0, 0
		for n < len(items) && (n == 0 || bytes+int(sizes[items[n].Event]) <= bodyChunk) {
			bytes += int(sizes[items[n].Event])
			n++
		}
		events, err := r.storedEvents(ctx, job.Account, items[:n])
		if err != nil {
			return err
		}
		for _, x := range items[:n] {
			of := cluster.DeliveryKey{Event: x.Event, Dest: x.Destination}
			open := event.OpenRecoveryItem{RecoveryItem: x, StoredEvent: events[x.Event], Prior: prior[of]}
			if err := each(&open); err != nil {
				return err
			}
		}
		items = items[n:]
	}
	return nil
}

func (r Jobs) priorOf(
	ctx context.Context, job event.RecoveryJob, items []event.RecoveryItem,
) (map[cluster.DeliveryKey]event.Delivery, error) {
	q := ch.WhereIDs(cluster.SelectDeliveries().Add(" FINAL WHERE account = ", job.Account), eventsOf(items))
	return cluster.ByKey(ctx, r.Cluster, q,
		func(rows driver.Rows, of *cluster.DeliveryKey, d *event.Delivery) (err error) {
			*d, of.Event, err = cluster.ScanDelivery(rows)
			of.Dest = d.Destination
			return err
		})
}

func (r Jobs) sizesOf(
	ctx context.Context, job event.RecoveryJob, items []event.RecoveryItem,
) (map[id.ID]uint32, error) {
	q := new(ch.Query).Add("SELECT id, size FROM events WHERE account = ", job.Account)
	q = ch.WhereIDs(q, eventsOf(items))
	return cluster.ByKey(ctx, r.Cluster, q, func(rows driver.Rows, d *id.ID, size *uint32) error {
		return rows.Scan(d, size)
	})
}

// storedEvents reads the events of items that are neither erased nor older than the retention.
func (r Jobs) storedEvents(
	ctx context.Context, account string, items []event.RecoveryItem,
) (map[id.ID]*event.Event, error) {
	ids := slices.DeleteFunc(eventsOf(items), func(d id.ID) bool { return d.Time().Before(r.Oldest()) || r.Erased(d) })
	if len(ids) == 0 {
		return nil, nil
	}
	return r.FullEvents(ctx, account, ids)
}
