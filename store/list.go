package store

import (
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

const (
	// firstWindow is the span of time that a list looks at first; each further window is growth times
	// as long. Unbounded statements would read the whole range that they order.
	firstWindow  = 15 * time.Minute
	windowGrowth = 4
	// ahead is how far an id may lie in the future: the generator of a node may run 30 s ahead of a
	// clock that itself may be 30 s off.
	ahead = 2 * time.Minute
	// firstChunk and largestChunk bound the events of which one statement judges the deliveries.
	firstChunk, largestChunk = 500, 100_000
)

// walk goes through the events that match a query, newest first, window by window.
type walk struct {
	r      *Reader
	q      event.Query
	before id.ID     // only ids below this one are left
	until  time.Time // upper edge of the current window, exclusive
	since  time.Time // lower edge of the whole walk, inclusive
	width  time.Duration
	chunk  int
}

// Events returns one page of a list. Its first page (Before is zero) shows whatever was acknowledged
// before the call, unless AsOf says otherwise.
func (r *Reader) Events(ctx context.Context, q event.Query) (event.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	var page event.Page
	if q.Before.IsZero() {
		asOf, err := r.fence.all(ctx)
		if err != nil {
			return page, readError(ctx, err)
		}
		page.AsOf = asOf
	}
	w := r.newWalk(q)
	for len(page.Rows) <= q.Limit && !w.done() {
		rows, err := w.next(ctx, q.Limit+1-len(page.Rows))
		if err != nil {
			return event.Page{}, err
		}
		page.Rows = append(page.Rows, rows...)
	}
	if len(page.Rows) > q.Limit {
		page.Rows, page.More = page.Rows[:q.Limit], true
	}
	return page, r.complete(ctx, q.Account, page.Rows)
}

func (r *Reader) newWalk(q event.Query) *walk {
	w := &walk{r: r, q: q, since: r.oldest(), until: r.now().Add(ahead), width: firstWindow, chunk: firstChunk}
	if q.Since.After(w.since) {
		w.since = q.Since
	}
	if !q.Until.IsZero() && q.Until.Before(w.until) {
		w.until = q.Until
	}
	w.before = id.Lowest(w.until)
	if !q.Before.IsZero() && slices.Compare(q.Before[:], w.before[:]) < 0 {
		w.before = q.Before
		w.until = q.Before.Time().Add(time.Millisecond)
	}
	// Times of ids are whole milliseconds, so an edge within one moves up to the next.
	w.since, w.until = ceilMilli(w.since), ceilMilli(w.until)
	return w
}

func ceilMilli(t time.Time) time.Time { return time.UnixMilli(t.Add(time.Millisecond - 1).UnixMilli()) }

func (w *walk) done() bool { return !w.until.After(w.since) }

// from is the lower edge of the current window.
func (w *walk) from() time.Time {
	from := w.until.Add(-w.width)
	if from.Before(w.since) {
		return w.since
	}
	return from
}

// next returns up to n events that match, or fewer and moves on.
func (w *walk) next(ctx context.Context, n int) ([]event.Summary, error) {
	cands, err := w.plain(ctx, n)
	if err != nil {
		return nil, err
	}
	if err := w.r.judge(ctx, w.q.Account, cands); err != nil {
		return nil, err
	}
	rows := make([]event.Summary, len(cands))
	for i := range cands {
		rows[i] = cands[i].summary
	}
	return rows, nil
}

// plain takes the events of the window as they are.
func (w *walk) plain(ctx context.Context, n int) ([]candidate, error) {
	limit := n + n/10 + 2 // room for rows that were written twice and not merged yet
	q := w.r.selectEvents().add(" WHERE account = ", w.q.Account)
	w.bound(q)
	q.add(" ORDER BY id DESC LIMIT ", limit)
	cands, seen, err := w.r.candidates(ctx, w.q.Account, q)
	if err != nil {
		return nil, err
	}
	cut := len(cands) > n
	if cut {
		cands = cands[:n]
	}
	if cut || seen == limit {
		w.before = cands[len(cands)-1].ID
	} else {
		w.leaveWindow()
	}
	return cands, nil
}

// bound limits a statement to the current window, by the partition and by the primary key.
func (w *walk) bound(q *query) {
	q.add(" AND ts >= ", w.from()).add(" AND ts < ", w.until).
		add(" AND id >= ", id.Lowest(w.from())).add(" AND id < ", w.before)
}

// leaveWindow goes on to the next, longer window.
func (w *walk) leaveWindow() {
	w.until = w.from()
	w.before = id.Lowest(w.until)
	w.width *= windowGrowth
}

// candidate is an event with what decides its status.
type candidate struct {
	event.Event // without headers and body
	size        uint32
	deliveries  []event.Delivery
	summary     event.Summary // set by judge
}

func (r *Reader) selectEvents() *query {
	return new(query).add("SELECT id, endpoint, type, source, verdict, reason, dests, size FROM events")
}

// candidates runs a statement of selectEvents, newest first, and skips rows that were written twice.
// It also returns how many rows there were before that.
func (r *Reader) candidates(ctx context.Context, account string, q *query) (cands []candidate, seen int, err error) {
	err = r.each(ctx, q, func(rows driver.Rows) error {
		var c candidate
		var source, verdict, reason string
		err := rows.Scan((*[16]byte)(&c.ID), &c.Endpoint, &c.Type, &source, &verdict, &reason, &c.Dests, &c.size)
		seen++
		if err != nil || len(cands) > 0 && cands[len(cands)-1].ID == c.ID {
			return err
		}
		c.Account, c.Source, c.Verdict, c.Reason = account, event.Source(source), event.Verdict(verdict), event.Reason(reason)
		cands = append(cands, c)
		return nil
	})
	return cands, seen, err
}

// judge reads the deliveries of the candidates, which are ordered newest first, and derives statuses.
func (r *Reader) judge(ctx context.Context, account string, cands []candidate) error {
	if len(cands) == 0 {
		return nil
	}
	at := make(map[id.ID]*candidate, len(cands))
	ids := make([]id.ID, len(cands))
	for i := range cands {
		ids[i] = cands[i].ID
		at[cands[i].ID] = &cands[i]
	}
	q := selectDeliveries().add(" FINAL WHERE account = ", account)
	boundIDs(q, ids)
	err := r.each(ctx, q, func(rows driver.Rows) error {
		d, of, err := scanDelivery(rows)
		if c := at[of]; err == nil && c != nil {
			c.deliveries = append(c.deliveries, d)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range cands {
		c := &cands[i]
		c.summary = summarize(&c.Event, c.deliveries)
		c.summary.Size = int(c.size)
	}
	return nil
}

// boundIDs limits a statement to ids, given newest first, and to their time.
func boundIDs(q *query, ids []id.ID) {
	q.add(" AND ts >= ", ids[len(ids)-1].Time()).add(" AND ts <= ", ids[0].Time()).add(" AND id IN ", ids)
}

func selectDeliveries() *query {
	return new(query).add("SELECT id, dest, status, reason, code, next_at, last_at, run FROM deliveries")
}

func scanDelivery(rows driver.Rows) (d event.Delivery, of id.ID, err error) {
	var status, reason string
	var code uint16
	var next, last time.Time
	err = rows.Scan((*[16]byte)(&of), &d.Destination, &status, &reason, &code, &next, &last, &d.Run)
	d.Status, d.Reason, d.Code = event.Status(status), event.Reason(reason), int(code)
	d.NextAttemptAt, d.LastAt = instant(next), instant(last)
	return d, of, err
}

// complete adds to the rows of a page what only the attempts and the receipts know.
func (r *Reader) complete(ctx context.Context, account string, page []event.Summary) error {
	if len(page) == 0 {
		return nil
	}
	at := make(map[id.ID]*event.Summary, len(page))
	ids := make([]id.ID, len(page))
	for i := range page {
		ids[i] = page[i].ID
		at[ids[i]] = &page[i]
	}
	q := new(query).add("SELECT id, uniqExact(dest, att), max(at) FROM attempts WHERE account = ", account)
	boundIDs(q, ids)
	err := r.each(ctx, q.add(" GROUP BY id"), func(rows driver.Rows) error {
		var d id.ID
		var n uint64
		var last time.Time
		if err := rows.Scan((*[16]byte)(&d), &n, &last); err != nil {
			return err
		}
		at[d].Attempts, at[d].LastAttemptAt = int(n), instant(last)
		return nil
	})
	if err != nil {
		return err
	}
	q = new(query).add("SELECT id, state FROM receipts FINAL WHERE account = ", account)
	boundIDs(q, ids)
	return r.each(ctx, q, func(rows driver.Rows) error {
		var d id.ID
		var state string
		if err := rows.Scan((*[16]byte)(&d), &state); err != nil {
			return err
		}
		at[d].Processing = event.Processing(state)
		return nil
	})
}
