package read

import (
	"context"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
)

const (
	// A list looks at one window of time after the other, each windowGrowth times as long as the last.
	// Statements that read rows in the order of their table stop at their limit, so that a window only
	// bounds the partitions they open; the others read all of it.
	orderedWindow, sortedWindow = 24 * time.Hour, time.Hour
	windowGrowth                = 4
	// keyedGrowth is that of statements which read nothing but what they look for, in its order.
	keyedGrowth = 32
	// ahead is how far an id may lie in the future: the generator of a node may run 30 s ahead of a
	// clock that itself may be 30 s off.
	ahead = 2 * time.Minute
	// firstChunk and largestChunk bound the events of which one statement judges the deliveries; it
	// grows while the page is not full.
	firstChunk, largestChunk = 2_000, 128_000
	// firstNominated and largestNominated do so for the ids that are passed back as a parameter; at first no more than
	// the page needs, since most of them match.
	firstNominated, largestNominated = 38, 4_000
	// onceTroubled and stillTroubled are how many deliveries are looked at for each of them: of those that ever were in
	// trouble, and of those that were in this one.
	onceTroubled, stillTroubled = 32, 4
)

// walk goes through the events that match a query, newest first, window by window.
type walk struct {
	r      *Reader
	q      event.Query
	before id.ID     // only ids below this one are left
	until  time.Time // upper edge of the current window, exclusive
	since  time.Time // lower edge of the whole walk, inclusive
	width  time.Duration
	growth int
	fresh  bool // nothing of the current window has been looked at
	// undone is the time before which something was said about every delivery.
	undone time.Time
	// chunk and nominees are of the next statement, see firstChunk.
	chunk, nominees int
	// bytes bounds the bodies and headers of a stretch of a search, scanned counts the rows that it has looked at.
	bytes, scanned int
}

// Events returns one page of a list. Its first page (Before is zero) shows whatever was acknowledged
// before the call, unless AsOf says otherwise.
func (r *Reader) Events(ctx context.Context, q event.Query) (event.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	var page event.Page
	var undone time.Time
	if asksForUndone(&q) && q.Search == nil {
		undone = r.undone(ctx) // before the fence
	}
	if q.Before.IsZero() {
		asOf, err := r.fence.all(ctx)
		if err != nil {
			return page, ch.ReadError(ctx, err)
		}
		if page.AsOf = asOf; !asOf.IsZero() {
			undone = time.Time{} // what was said may not be in the store yet
		}
	}
	leave, err := r.enter(ctx)
	if err != nil {
		return page, err
	}
	defer leave()
	if q.Search != nil {
		leave, err := r.searches.enter(ctx, q.Account)
		if err != nil {
			return page, err
		}
		defer leave()
	}
	w := r.newWalk(q, undone)
	var found []candidate
	began, took := time.Now(), time.Duration(0)
	for len(found) <= q.Limit && !w.done() {
		if w.spent(began, took, len(found)) {
			page.Partial, page.Edge = true, w.before
			break
		}
		stretch := time.Now()
		more, err := w.next(ctx, q.Limit+1-len(found))
		if err != nil {
			return event.Page{}, err
		}
		found, took = append(found, more...), time.Since(stretch)
	}
	page.Scanned = w.scanned
	if len(found) > q.Limit {
		found, page.More = found[:q.Limit], true
	}
	if err := r.complete(ctx, q.Account, found, !w.changing()); err != nil {
		return event.Page{}, err
	}
	page.Rows = make([]event.Summary, len(found))
	for i := range found {
		page.Rows[i] = found[i].summary
	}
	return page, nil
}

func (r *Reader) newWalk(q event.Query, undone time.Time) *walk {
	// Its edge is a whole millisecond, and not above it, so that the statements of the two sides meet.
	w := &walk{r: r, q: q, undone: undone.Truncate(time.Millisecond), since: r.Oldest(), until: r.now().Add(ahead), width: orderedWindow, growth: windowGrowth, chunk: firstChunk, nominees: firstNominated}
	switch {
	case w.troubled(event.Pending): // its statements have edges of their own
		w.width = w.until.Sub(w.since)
	case len(q.Endpoints) > 1, w.byType() && len(q.Types) > 1, w.byDestination() && len(q.Destinations) > 1:
		w.width = sortedWindow
	case w.byType(), w.byDestination(), len(q.Endpoints) == 1 && !w.changing() && q.Search == nil && len(q.Types)+len(q.Sources) == 0:
		w.growth = keyedGrowth
	}
	if q.Search != nil {
		w.chunk, w.bytes = r.cfg.SearchRows, r.cfg.SearchBytes
	}
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
		from = w.since
	}
	if asksForUndone(&w.q) && from.Before(w.undone) && w.until.After(w.undone) {
		from = w.undone // below it other statements are asked
	}
	return from
}

// changing reports whether the query asks for what changes after an event was stored.
func (w *walk) changing() bool {
	return len(w.q.Statuses)+len(w.q.Destinations)+len(w.q.Runs)+len(w.q.Processing) > 0
}

// next returns up to n events that match, or fewer and moves on. They have been judged when the query
// is changing.
func (w *walk) next(ctx context.Context, n int) ([]candidate, error) {
	find := w.plain
	switch {
	case w.q.Search != nil:
		find = w.filtered
	case w.onlyTrouble():
		find = w.trouble
	case len(w.q.Runs) > 0:
		find = w.ofRuns
	case w.byReceipt():
		find = w.ofReceipts
	case w.byDestination():
		find = w.toDestinations
	case w.onlyRejected():
		find = w.plain
	case w.changing():
		find = w.filtered
	case len(w.q.Endpoints) > 0:
		find = w.byEndpoint
	case w.byType():
		find = w.ofTypes
	}
	w.fresh = false
	found, err := find(ctx, n)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 && w.changing() {
		if err := w.judge(ctx, found); err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(c candidate) bool { return !w.matches(&c) })
	}
	found = slices.DeleteFunc(found, func(c candidate) bool { return !w.findable(&c) })
	if len(found) < n && w.q.Search == nil {
		w.chunk, w.nominees = min(w.chunk*windowGrowth, largestChunk), min(w.nominees*windowGrowth, largestNominated)
	}
	if len(found) == 0 && w.fresh {
		return nil, w.jump(ctx)
	}
	return found, nil
}

// jump passes over time in which nothing happened, after a statement has found nothing.
func (w *walk) jump(ctx context.Context) error {
	table := allEvents
	switch {
	case w.done():
		return nil
	case w.onlyTrouble() && slices.Contains(w.q.Statuses, event.Skipped): // some have no delivery
	case w.onlyTrouble() && len(w.q.Endpoints) == 0:
		table = "failure_candidates"
	case w.onlyTrouble():
		table = "failure_candidates_by_endpoint"
	case w.byReceipt():
		table = "receipts"
	case len(w.q.Endpoints) > 1:
		return nil // their ids are not in one order, so that the newest is not found at once
	case len(w.q.Endpoints) == 1:
		table = endpointEvents
	}
	q := w.endpoints(new(ch.Query).Add("SELECT id FROM ").Add(table).Add(" WHERE account = ", w.q.Account))
	q.Add(" AND ts >= ", w.since).Add(" AND id >= ", id.Lowest(w.since)).Add(" AND id < ", w.before)
	next, err := newest(ctx, w.r, q, 1, itself, scanID)
	if w.until = w.since; len(next) > 0 { // else the walk ends: there is nothing more
		w.until = next[0].Time().Add(time.Millisecond)
	}
	return err
}

// onlyTrouble reports whether every event that matches in the current window is one that trouble finds.
func (w *walk) onlyTrouble() bool {
	if w.until.After(w.undone) {
		return w.troubled()
	}
	return w.troubled(event.Pending)
}

// troubled reports whether every status asked for is one that trouble finds, or one of more.
func (w *walk) troubled(more ...event.Status) bool {
	trouble := append(more, event.Failed, event.Retrying, event.Held)
	if len(w.q.Endpoints) == 0 { // what was to be sent nowhere is not found by its endpoint
		trouble = append(trouble, event.Skipped)
	}
	return len(w.q.Statuses) > 0 && !slices.ContainsFunc(w.q.Statuses, func(s event.Status) bool { return !slices.Contains(trouble, s) })
}

// byDestination reports whether the events that were sent to some destinations are looked for by them alone: a
// status that few of them have is better looked for together with them.
func (w *walk) byDestination() bool {
	return len(w.q.Destinations) > 0 && len(w.q.Statuses)+len(w.q.Processing)+len(w.q.Runs) == 0 && w.q.Search == nil
}

// onlyRejected reports whether rejected events are all that is asked for: what they are was written with them.
func (w *walk) onlyRejected() bool {
	return len(w.q.Statuses) == 1 && w.q.Statuses[0] == event.Rejected && len(w.q.Endpoints)+len(w.q.Destinations)+len(w.q.Processing) == 0
}

// judge reads what matches asks for.
func (w *walk) judge(ctx context.Context, found []candidate) error {
	if err := w.r.judge(ctx, w.q.Account, found); err != nil || len(w.q.Processing) == 0 {
		return err
	}
	return w.r.judgeReceipts(ctx, w.q.Account, found)
}

// matches judges what can change after an event was stored. Statements only nominate.
func (w *walk) matches(c *candidate) bool {
	q := w.q
	if len(q.Statuses) > 0 && !slices.ContainsFunc(q.Statuses, func(s event.Status) bool {
		return s == c.summary.Status || s == event.Held && c.any(func(d event.Delivery) bool { return d.Status == event.Held })
	}) {
		return false
	}
	if len(q.Destinations) > 0 && !slices.ContainsFunc(c.Dests, func(d string) bool { return slices.Contains(q.Destinations, d) }) &&
		!c.any(func(d event.Delivery) bool { return slices.Contains(q.Destinations, d.Destination) }) {
		return false
	}
	if len(q.Runs) > 0 && !c.any(func(d event.Delivery) bool { return slices.Contains(q.Runs, d.Run) }) {
		return false
	}
	return len(q.Processing) == 0 || slices.ContainsFunc(q.Processing, func(p event.Processing) bool {
		return p == c.summary.Processing ||
			p == event.ProcessingMissing && c.summary.Processing == event.ProcessingNone && c.summary.Status == event.Delivered
	})
}

// leaveWindow goes on to the next, longer window.
func (w *walk) leaveWindow() {
	w.until = w.from()
	w.before = id.Lowest(w.until)
	w.width *= time.Duration(w.growth)
	w.fresh = true
}
