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
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/cluster"
)

// A read of one event merges the rows that the writer in this process has read and not stored into what the store has.
// They are taken before the store is read, so a row is in one of them or in both. What is in both counts once:
// deliveries and receipts by their versions, attempts by destination and id.

// unstoredRows are the rows of one event that the writer has not stored yet. The zero value has none.
type unstoredRows struct {
	event      *event.Event                // nil: it is stored
	size       int                         // of its body
	deliveries map[string]unstoredDelivery // the newest of each destination
	attempts   map[attemptKey]*event.Outcome
	receipts   []unstoredReceipt
	flushBegan func() bool // see store.Unstored; nil: unknown
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
	dest    string
	attempt id.ID
}

func newUnstoredRows() *unstoredRows {
	return &unstoredRows{
		deliveries: make(map[string]unstoredDelivery), attempts: make(map[attemptKey]*event.Outcome)}
}

// unstoredOf returns the rows of an event.
func unstoredOf(all *store.Unstored, account string, d id.ID) *unstoredRows {
	u := newUnstoredRows()
	if all == nil {
		return u
	}
	u.flushBegan = all.FlushBegan
	for e, size := range all.Events {
		if e.ID == d && e.Account == account {
			own := *e // the row is shared
			u.event, u.size = &own, size
		}
	}
	for o, version := range all.Outcomes {
		if o.Event == d && o.Account == account {
			u.addOutcome(o, version)
		}
	}
	for x, offset := range all.Receipts {
		if x.Event == d && x.Account == account {
			u.receipts = append(u.receipts, unstoredReceipt{x, offset})
		}
	}
	return u
}

func (u *unstoredRows) addOutcome(o *event.Outcome, version event.Version) {
	if had, ok := u.deliveries[o.Dest]; !ok || version.Compare(had.version) >= 0 {
		u.deliveries[o.Dest] = unstoredDelivery{o, version}
	}
	if o.Attempt != nil {
		u.attempts[attemptKey{o.Dest, o.Attempt.ID}] = o
	}
}

// readInOrder runs reads of deliveries and of their attempts, so that no delivery lacks the attempt that led to it. The
// writer inserts the attempts first, so the deliveries are read first. Both run at once if no flush begins meanwhile:
// the rows of earlier ones are in memory.
func (u *unstoredRows) readInOrder(ctx context.Context, deliveries, attempts func(context.Context) error) error {
	if u.flushBegan == nil {
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

// readDeliveries runs a statement of cluster.SelectVersions. It returns the deliveries that are stored, or the newer
// ones of the rows, and those that are missing.
func (u *unstoredRows) readDeliveries(ctx context.Context, r *Reader, q *ch.Query) (all []event.Delivery, err error) {
	versions := make(map[string]event.Version)
	err = r.Each(ctx, q, func(rows driver.Rows) error {
		var version big.Int
		d, _, err := cluster.ScanDelivery(rows, &version)
		if err == nil {
			all = append(all, d)
			versions[d.Destination] = event.VersionOf(&version)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for dest, o := range u.deliveries {
		newest := deliveryOf(o.Outcome)
		stored, ok := versions[dest]
		switch {
		case !ok:
			all = append(all, newest)
		case o.version.Compare(stored) >= 0: // of equal rows ClickHouse keeps the one that is inserted last
			i := slices.IndexFunc(all, func(d event.Delivery) bool { return d.Destination == dest })
			all[i] = newest
		}
	}
	return all, nil
}

func deliveryOf(o *event.Outcome) event.Delivery {
	return event.Delivery{Destination: o.Dest, Status: o.Status, Reason: o.Reason, Code: o.Code,
		Behind: o.Behind, NextAttemptAt: o.NextAt, LastAt: o.At, Run: o.Run}
}

// exceptAttempts appends a condition that leaves the attempts out, so that they can be counted here.
func (u *unstoredRows) exceptAttempts(q *ch.Query) {
	if len(u.attempts) == 0 {
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
				stored[attemptKey{a.Destination, a.ID}] = true
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
