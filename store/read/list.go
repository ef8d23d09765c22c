package read

import (
	"context"
	"slices"
	"strings"
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
	maxIDSkew = 2 * time.Minute
	// firstChunk and maxChunk bound the events whose deliveries one statement looks at; it grows while the page is
	// not full.
	firstChunk, maxChunk = 2_000, 128_000
	// firstIDs and maxIDs do so for the ids that are passed back as a parameter; at first no more than the page
	// needs, since most of them match.
	firstIDs, maxIDs = 38, 4_000
	// everFailedFactor and sameStatusFactor are how many deliveries are looked at for each of them: of those that ever
	// failed or waited, and of those that did so by the status asked for.
	everFailedFactor, sameStatusFactor = 32, 4
)

// walk goes through the events that match a query, newest first, window by window.
type walk struct {
	r *Reader
	*predicate
	before       id.ID     // only ids below this one are left
	until        time.Time // upper edge of the current window, exclusive
	since        time.Time // lower edge of the whole walk, inclusive
	width        time.Duration
	growth       int
	windowUnread bool // nothing of the current window has been looked at
	// undone is the time before which something was said about every delivery.
	allReportedBefore time.Time
	// chunk and ids are of the next statement, see firstChunk.
	chunk, ids int
	// bytes bounds the bodies and headers of a stretch of a search, scanned counts the rows that it has looked at.
	bytes, scanned int
}

// Events returns one page of a list. Its first page (Before is zero) shows whatever was acknowledged
// before the call, unless AsOf says otherwise.
func (r *Reader) Events(ctx context.Context, q event.Query) (event.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	var page event.Page
	undone := r.reportedBoundFor(ctx, &q) // before the fence
	if q.Before.IsZero() {
		asOf, err := r.fence.waitAll(ctx)
		if err != nil {
			return page, err
		}
		if page.AsOf = asOf; !asOf.IsZero() {
			undone = time.Time{} // what was said may not be in the store yet
		}
	}
	leave, err := r.acquireSlot(ctx)
	if err != nil {
		return page, err
	}
	defer leave()
	if q.Search != nil {
		leave, err := r.searches.acquire(ctx, q.Account)
		if err != nil {
			return page, err
		}
		defer leave()
	}
	w := r.newWalk(q, undone)
	var found []candidate
	began, took := time.Now(), time.Duration(0)
	for len(found) <= q.Limit && !w.done() {
		if w.budgetSpent(began, took, len(found)) {
			page.Partial, page.ResumeBefore = true, w.before
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
	if err := (rowReader{r}).addAttemptsAndReceipts(ctx, q.Account, found, !w.has(changingFilters)); err != nil {
		return event.Page{}, err
	}
	page.Rows = make([]event.Summary, len(found))
	for i := range found {
		page.Rows[i] = found[i].summary
	}
	return page, nil
}

func (r *Reader) newWalk(q event.Query, undone time.Time) *walk {
	w := &walk{
		r: r, predicate: newPredicate(&q), since: r.Oldest(), until: r.now().Add(maxIDSkew),
		width: orderedWindow, growth: windowGrowth, chunk: firstChunk, ids: firstIDs,
		// A whole millisecond, and not above it, so that the statements of the two sides meet.
		allReportedBefore: undone.Truncate(time.Millisecond),
	}
	p := w.plan()
	switch {
	case w.hasOnlyFailureStatuses(true): // its statements have edges of their own
		w.width = w.until.Sub(w.since)
	case len(q.Endpoints) > 1, p.keys != nil && len(p.keys(&q)) > 1:
		w.width = sortedWindow
	case p.keys != nil, w.used == byEndpoint:
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
	if mayMatchUnreported(w.Query) && from.Before(w.allReportedBefore) && w.until.After(w.allReportedBefore) {
		from = w.allReportedBefore // below it other statements are asked
	}
	return from
}

// window is the current one.
func (w *walk) window() timeRange { return timeRange{from: w.from(), until: w.until, before: w.before} }

// next returns up to n events that match, or fewer and moves on. Their status is set when the query asks for what
// changes.
func (w *walk) next(ctx context.Context, n int) ([]candidate, error) {
	w.windowUnread = false
	found, err := w.plan().find(w, ctx, n)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 && w.has(changingFilters) {
		if err := (rowReader{w.r}).addStatuses(ctx, w.Account, found); err != nil {
			return nil, err
		}
		if w.has(byProcessing) {
			if err := (rowReader{w.r}).addReceiptStates(ctx, w.Account, found); err != nil {
				return nil, err
			}
		}
	}
	found = slices.DeleteFunc(found, func(c candidate) bool { return !w.matches(&c) || !w.findable(&c) })
	if len(found) < n && w.Search == nil {
		w.chunk, w.ids = min(w.chunk*windowGrowth, maxChunk), min(w.ids*windowGrowth, maxIDs)
	}
	if len(found) == 0 && w.windowUnread {
		return nil, w.skipEmptyTime(ctx)
	}
	return found, nil
}

// findable reports whether a search may show an event: what was erased is found by its id alone.
func (w *walk) findable(c *candidate) bool {
	s := w.Search
	if s == nil || !w.r.erased(c.ID) {
		return true
	}
	return len(s.Body)+len(s.Header) == 0 && strings.Contains(c.ID.Text(id.Event), strings.ToLower(s.Text))
}

// jump passes over time in which nothing happened, after a statement has found nothing.
func (w *walk) skipEmptyTime(ctx context.Context) error {
	if w.done() {
		return nil
	}
	t := w.plan().nextEventTable
	switch {
	case w.onlyFailing() && slices.Contains(w.Statuses, event.Skipped): // some have no delivery
		t = tableEvents
	case w.onlyFailing() && !w.has(byEndpoint):
		t = tableFailures
	case w.onlyFailing():
		t = tableEndpointFailures
	case t.name != "":
	case len(w.Endpoints) > 1:
		return nil // their ids are not in one order, so that the newest is not found at once
	default:
		t = w.eventsTable()
	}
	q := new(ch.Query).Add("SELECT id FROM ").Add(t.name).Add(" WHERE account = ", w.Account)
	w.addColumns(q, t.columns&byEndpoint)
	q.Add(" AND ts >= ", w.since).Add(" AND id >= ", id.Lowest(w.since)).Add(" AND id < ", w.before)
	next, err := newest(ctx, w.r, q, 1, identity, scanID)
	if w.until = w.since; len(next) > 0 { // else the walk ends: there is nothing more
		w.until = next[0].Time().Add(time.Millisecond)
	}
	return err
}

// leaveWindow goes on to the next, longer window.
func (w *walk) leaveWindow() {
	w.until = w.from()
	w.before = id.Lowest(w.until)
	w.width *= time.Duration(w.growth)
	w.windowUnread = true
}
