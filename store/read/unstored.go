package read

import (
	"cmp"
	"context"
	"iter"
	"math/big"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/read/cluster"
)

// Rows that the writer in this process has read and not stored are merged into what the store has. They are taken
// before the store is read, so a row is in one of them or in both. What is in both counts once: events by id,
// deliveries and receipts by their versions, attempts by destination and id.

// unstoredRows are the rows of some events that the writer has not stored yet. Nil has none.
type unstoredRows struct {
	events     map[id.ID]unstoredEvent
	deliveries map[cluster.DeliveryKey]unstoredDelivery // the newest of each
	attempts   map[attemptKey]*event.Outcome
	receipts   []unstoredReceipt
	flushBegan func() bool // see store.Unstored; nil: nobody knows
}

type unstoredEvent struct {
	*event.Event
	size int
}

type unstoredDelivery struct {
	*event.Outcome
	version event.Version
}

type unstoredReceipt struct {
	*event.Receipt
	offset int64
}

type attemptKey struct {
	cluster.DeliveryKey
	attempt id.ID
}

// unstoredOf returns the rows of the events.
func unstoredOf(all *store.Unstored, account string, ids ...id.ID) *unstoredRows {
	u := &unstoredRows{events: make(map[id.ID]unstoredEvent), deliveries: make(map[cluster.DeliveryKey]unstoredDelivery),
		attempts: make(map[attemptKey]*event.Outcome)}
	if all == nil {
		return u
	}
	u.flushBegan = all.FlushBegan
	wanted := make(map[id.ID]bool, len(ids))
	for _, d := range ids {
		wanted[d] = true
	}
	for e, size := range all.Events {
		if wanted[e.ID] && e.Account == account {
			u.events[e.ID] = unstoredEvent{e, size}
		}
	}
	for o, version := range all.Outcomes {
		if !wanted[o.Event] || o.Account != account {
			continue
		}
		key := cluster.DeliveryKey{Event: o.Event, Dest: o.Dest}
		keepNewest(u.deliveries, o, version)
		if o.Attempt != nil {
			u.attempts[attemptKey{key, o.Attempt.ID}] = o
		}
	}
	for x, offset := range all.Receipts {
		if wanted[x.Event] && x.Account == account {
			u.receipts = append(u.receipts, unstoredReceipt{x, offset})
		}
	}
	return u
}

func keepNewest(of map[cluster.DeliveryKey]unstoredDelivery, o *event.Outcome, version event.Version) {
	key := cluster.DeliveryKey{Event: o.Event, Dest: o.Dest}
	if had, ok := of[key]; !ok || version.Compare(had.version) >= 0 {
		of[key] = unstoredDelivery{o, version}
	}
}

// readInOrder runs reads of deliveries and of their attempts, so that no delivery lacks the attempt that led to it. The
// writer inserts the attempts first, so the deliveries are read first. Both run at once if no flush begins meanwhile:
// the rows of earlier ones are in memory.
func (u *unstoredRows) readInOrder(ctx context.Context, deliveries, attempts func(context.Context) error) error {
	if u == nil || u.flushBegan == nil {
		if err := deliveries(ctx); err != nil {
			return err
		}
		return attempts(ctx)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return deliveries(gctx) })
	g.Go(func() error { return attempts(gctx) })
	if err := g.Wait(); err != nil {
		return err
	}
	if u.flushBegan() {
		return attempts(ctx)
	}
	return nil
}

// event returns a copy of the event and the size of its body; nil if the rows do not have it.
func (u *unstoredRows) event(d id.ID) (*event.Event, int) {
	if u == nil || u.events[d].Event == nil {
		return nil, 0
	}
	e := *u.events[d].Event
	return &e, u.events[d].size
}

// readDeliveries runs a statement of selectVersions. It adds the deliveries that are stored, or the newer ones of the
// rows, and those that are missing. of returns the deliveries of an event.
func (u *unstoredRows) readDeliveries(ctx context.Context, r *Reader, q *ch.Query,
	of func(id.ID) *[]event.Delivery) error {
	versions := make(map[cluster.DeliveryKey]event.Version)
	err := r.Each(ctx, q, func(rows driver.Rows) error {
		var version big.Int
		d, e, err := cluster.ScanDelivery(rows, &version)
		if err == nil {
			all := of(e)
			*all = append(*all, d)
			versions[cluster.DeliveryKey{Event: e, Dest: d.Destination}] = event.VersionOf(&version)
		}
		return err
	})
	if err != nil || u == nil {
		return err
	}
	for key, o := range u.deliveries {
		all := of(key.Event)
		newest := deliveryOf(o.Outcome)
		stored, ok := versions[key]
		switch {
		case !ok:
			*all = append(*all, newest)
		case o.version.Compare(stored) >= 0: // of equal rows ClickHouse keeps the one that is inserted last
			i := slices.IndexFunc(*all, func(d event.Delivery) bool { return d.Destination == o.Dest })
			(*all)[i] = newest
		}
	}
	return nil
}

func deliveryOf(o *event.Outcome) event.Delivery {
	return event.Delivery{Destination: o.Dest, Status: o.Status, Reason: o.Reason, Code: o.Code,
		Behind: o.Behind, NextAttemptAt: o.NextAt, LastAt: o.At, Run: o.Run}
}

// exceptAttempts appends a condition that leaves the attempts out, so that they can be counted here.
func (u *unstoredRows) exceptAttempts(q *ch.Query) {
	if u == nil || len(u.attempts) == 0 {
		return
	}
	ids := make([]id.ID, 0, len(u.attempts))
	for key := range u.attempts {
		ids = append(ids, key.attempt)
	}
	q.Add(" AND attempt NOT IN ", ids)
}

// attemptsBelow returns the attempts older than an id; the zero id returns all.
func (u *unstoredRows) attemptsBelow(below id.ID) iter.Seq2[attemptKey, *event.Outcome] {
	return func(yield func(attemptKey, *event.Outcome) bool) {
		if u == nil {
			return
		}
		for key, o := range u.attempts {
			if (below.IsZero() || key.attempt.Compare(below) < 0) && !yield(key, o) {
				return
			}
		}
	}
}

// addAttempts adds the attempts of a page to the stored ones, newest first.
func (u *unstoredRows) addAttempts(list []event.AttemptRow, page attemptRange) []event.AttemptRow {
	stored := make(map[attemptKey]bool, len(list))
	for key, o := range u.attemptsBelow(page.before) {
		if len(stored) == 0 {
			for _, a := range list {
				stored[attemptKey{cluster.DeliveryKey{Event: key.Event, Dest: a.Destination}, a.ID}] = true
			}
		}
		if !stored[key] {
			list = append(list, attemptRow(o, page.maxBody))
		}
	}
	slices.SortFunc(list, func(a, b event.AttemptRow) int {
		return cmp.Or(b.ID.Compare(a.ID), cmp.Compare(a.Destination, b.Destination))
	})
	return list
}

// attemptRow returns the row of an attempt as the store would: times in milliseconds, and at most maxBody bytes of the
// response.
func attemptRow(o *event.Outcome, maxBody int) event.AttemptRow {
	a := event.AttemptRow{
		Attempt: *o.Attempt, Endpoint: o.Endpoint, Destination: o.Dest, Run: o.Run, NextAt: o.NextAt}
	a.Duration, a.TTFB = a.Duration.Truncate(time.Millisecond), a.TTFB.Truncate(time.Millisecond)
	if len(a.ResponseBody) > maxBody {
		a.ResponseBody, a.Truncated = a.ResponseBody[:maxBody], true
	}
	return a
}

func (u *unstoredRows) eachReceipt(f func(x *event.Receipt, offset int64)) {
	if u == nil {
		return
	}
	for _, x := range u.receipts {
		f(x.Receipt, x.offset)
	}
}

// mergeNewestFirst merges candidates of the store and of memory, each newest first.
func mergeNewestFirst(stored, inMemory []candidate) []candidate {
	if len(inMemory) == 0 {
		return stored
	}
	all := slices.Concat(stored, inMemory)
	slices.SortStableFunc(all, func(a, b candidate) int { return b.ID.Compare(a.ID) })
	return slices.CompactFunc(all, func(a, b candidate) bool { return a.ID == b.ID })
}
