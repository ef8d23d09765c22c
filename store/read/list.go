package read

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/read/fence"
)

const (
	// A list reads one window of time after another, each windowGrowth times as long as the last. A statement that reads
	// rows in the order of its table stops at its limit, so the window only bounds the partitions that it opens; a
	// statement that sorts reads the whole window.
	orderedWindow, sortedWindow = 24 * time.Hour, time.Hour
	windowGrowth                = 4
	// keyedGrowth is the growth for statements that read only matching rows, in order.
	keyedGrowth = 32
	// firstChunk and maxChunk bound the events of one statement that also reads deliveries. The chunk grows while the page
	// is not full.
	firstChunk, maxChunk = 2_000, 128_000
	// firstIDs and maxIDs bound the ids that are passed to ClickHouse as a parameter. The first number is about a page,
	// because most of them match.
	firstIDs, maxIDs = 38, 4_000
	// recentlyReported is how old the time may be before which all deliveries have an outcome, so that one statement reads
	// the events after it.
	recentlyReported = 2 * time.Minute
	// everFailedFactor and sameStatusFactor are how many deliveries are read for each id that is wanted: of the deliveries
	// that ever failed or waited, and of those with the status in question.
	everFailedFactor, sameStatusFactor = 32, 4
)

// walk iterates over the events that match a query, newest first, window by window.
type walk struct {
	r *Reader
	*predicate
	before       id.ID     // only ids below this one remain
	until        time.Time // upper edge of the current window, exclusive
	since        time.Time // lower edge of the whole walk, inclusive
	width        time.Duration
	growth       int
	windowUnread bool // the walk has just entered the current window
	// allReportedBefore is the time before which every delivery has an outcome; see fence.Unreported.
	allReportedBefore time.Time
	// chunk and ids bound the next statement; see firstChunk and firstIDs.
	chunk, ids int
	// bytes bounds the bodies and headers in one chunk of a search; scanned counts the rows that the search has read.
	bytes, scanned int
	rows           rowReader
}

// Events returns one page of a list. The first page (Before is zero) shows every event that was acknowledged before the
// call, unless AsOf is set. Errors are event.ErrUnavailable and event.ErrOverloaded.
func (r *Reader) Events(ctx context.Context, q event.Query) (event.Page, error) {
	var reportedBefore time.Time
	// All pages of pending events wait: the bound is asked again for each, and requires stored outcomes.
	wait := q.Before.IsZero() || mayMatchUnreported(&q)
	ctx, end, asOf, err := r.Begin(ctx, wait, func(ctx context.Context) (time.Time, error) {
		reportedBefore = r.reportedBoundFor(ctx, &q) // before the fence
		return r.Fence.WaitAll(ctx)
	})
	defer end()
	page := event.Page{AsOf: asOf}
	if err != nil {
		return page, err
	}
	if !asOf.IsZero() {
		reportedBefore = time.Time{} // the outcomes may not be in the store yet
	}
	if q.Search != nil {
		release, err := r.acquireSearch(ctx, q.Account)
		if err != nil {
			return page, err
		}
		defer release()
	}
	w := r.newWalk(q, reportedBefore)
	found, outOfBudget, err := collect(ctx, w, q.Limit+1)
	if err != nil {
		return event.Page{}, err
	}
	if outOfBudget {
		page.Partial, page.ResumeBefore = true, w.before
	}
	page.Scanned = w.scanned
	if len(found) > q.Limit {
		found, page.More = found[:q.Limit], true
	}
	if err := w.rows.addAttemptsAndReceipts(ctx, q.Account, found, !w.has(changingFilters)); err != nil {
		return event.Page{}, err
	}
	page.Rows = summariesOf(found)
	return page, nil
}

// reportedBoundFor returns Unreported.AllReportedBefore for a query that may match a delivery without an outcome, and
// for others the zero time.
func (r *Reader) reportedBoundFor(ctx context.Context, q *event.Query) time.Time {
	if !mayMatchUnreported(q) || q.Search != nil {
		return time.Time{}
	}
	return r.unreported.AllReportedBefore(ctx)
}

// mayMatchUnreported reports whether the query may match an event with a delivery that has no outcome.
func mayMatchUnreported(q *event.Query) bool { return slices.Contains(q.Statuses, event.Pending) }

// collect walks on until it has found n events or the walk is done. outOfBudget reports that a search took too long and
// ended before that.
func collect(ctx context.Context, w *walk, n int) (found []candidate, outOfBudget bool, err error) {
	began, lastChunk := time.Now(), time.Duration(0)
	for len(found) < n && !w.done() {
		if w.adaptChunk(began, lastChunk, len(found)) {
			return found, true, nil
		}
		chunkBegan := time.Now()
		more, err := w.next(ctx, n-len(found))
		if err != nil {
			return nil, false, err
		}
		found, lastChunk = append(found, more...), time.Since(chunkBegan)
	}
	return found, false, nil
}

func summariesOf(found []candidate) []event.Summary {
	rows := make([]event.Summary, len(found))
	for i := range found {
		rows[i] = found[i].summary
	}
	return rows
}

func (r *Reader) newWalk(q event.Query, reportedBefore time.Time) *walk {
	w := &walk{
		r: r, rows: rowReader{r}, predicate: newPredicate(&q), since: r.Oldest(), until: r.Now().Add(fence.MaxIDSkew),
		width: orderedWindow, growth: windowGrowth, chunk: firstChunk, ids: firstIDs,
		// Truncated to a millisecond, like ids, so that the windows on both sides of it meet.
		allReportedBefore: reportedBefore.Truncate(time.Millisecond),
	}
	p := w.plan()
	switch {
	case w.hasOnlyFailureStatuses(true): // findFailures bounds its statements by chunks
		w.width = w.until.Sub(w.since)
	case len(q.Endpoints) > 1, p.keys != nil && len(p.keys(&q)) > 1:
		w.width = sortedWindow
	case p.keys != nil, w.used == byEndpoint:
		w.growth = keyedGrowth
	}
	switch {
	case q.Search != nil:
		w.chunk, w.bytes = r.Config.SearchRows, r.Config.SearchBytes
	case w.hasOnlyFailureStatuses(true) && r.Now().Sub(w.allReportedBefore) < recentlyReported:
		w.chunk = maxChunk // few events are newer, and nearly all of them have an outcome
	}
	if q.Since.After(w.since) {
		w.since = q.Since
	}
	if !q.Until.IsZero() && q.Until.Before(w.until) {
		w.until = q.Until
	}
	// Times of ids are whole milliseconds, so the bounds are rounded up to one, before the highest id is made of them.
	w.since, w.until = cluster.CeilMilli(w.since), cluster.CeilMilli(w.until)
	w.before = id.Lowest(w.until)
	if !q.Before.IsZero() && q.Before.Compare(w.before) < 0 {
		w.before = q.Before
		w.until = q.Before.Time().Add(time.Millisecond)
	}
	return w
}

func (w *walk) done() bool { return !w.until.After(w.since) }

// from returns the lower edge of the current window.
func (w *walk) from() time.Time {
	from := w.until.Add(-w.width)
	if from.Before(w.since) {
		from = w.since
	}
	if mayMatchUnreported(w.Query) && from.Before(w.allReportedBefore) && w.until.After(w.allReportedBefore) {
		from = w.allReportedBefore // the plan changes there
	}
	return from
}

// window returns the current window.
func (w *walk) window() timeRange { return timeRange{from: w.from(), until: w.until, before: w.before} }

// next returns up to n matching events and moves the walk. It may return fewer, or none, before the walk is done. It
// sets their summaries when the query has a filter on changing state.
func (w *walk) next(ctx context.Context, n int) ([]candidate, error) {
	w.windowUnread = false
	found, err := w.plan().find(w, ctx, n)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 && w.has(changingFilters) {
		if err := w.rows.addStates(ctx, w, found); err != nil {
			return nil, err
		}
		if w.has(byRun) {
			if err := w.rows.addRuns(ctx, w.Query, found); err != nil {
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

// addStates reads the deliveries of candidates, and the states of their receipts if the query asks for them.
func (r rowReader) addStates(ctx context.Context, w *walk, found []candidate) error {
	if err := r.addStatuses(ctx, w.Account, found); err != nil || !w.has(byProcessing) {
		return err
	}
	return r.addReceiptStates(ctx, w.Account, found)
}

// findable reports whether a search may show an event. An erased event is found by its id only.
func (w *walk) findable(c *candidate) bool {
	s := w.Search
	if s == nil || !w.r.Erased(c.ID) {
		return true
	}
	return len(s.Body)+len(s.Header) == 0 && strings.Contains(c.ID.Text(id.Event), strings.ToLower(s.Text))
}

// skipEmptyTime moves the walk to the next event of the table that the plan reads, after an empty window.
func (w *walk) skipEmptyTime(ctx context.Context) error {
	if w.done() {
		return nil
	}
	t := w.plan().nextEventTable
	switch {
	// events without a destination are not in the table of failures
	case w.onlyFailing() && slices.Contains(w.Statuses, event.Skipped):
		t = tableEvents
	case w.onlyFailing() && !w.has(byEndpoint):
		t = tableFailures
	case w.onlyFailing():
		t = tableEndpointFailures
	case t.name != "":
	case len(w.Endpoints) > 1:
		return nil // finding the newest id of several endpoints would need a sort
	default:
		t = w.eventsTable()
	}
	q := new(ch.Query).Add("SELECT id FROM ").Add(t.name).Add(" WHERE account = ", w.Account)
	w.addColumns(q, t.columns&byEndpoint)
	q.Add(" AND ts >= ", w.since).Add(" AND id >= ", id.Lowest(w.since)).Add(" AND id < ", w.before)
	next, err := cluster.Newest(ctx, w.r.Cluster, q, 1, cluster.Identity, cluster.ScanID)
	if w.until = w.since; len(next) > 0 { // otherwise there are no more events and the walk is done
		w.until = next[0].Time().Add(time.Millisecond)
	}
	return err
}

// leaveWindow moves the walk to the next, longer window.
func (w *walk) leaveWindow() {
	w.until = w.from()
	w.before = id.Lowest(w.until)
	w.width *= time.Duration(w.growth)
	w.windowUnread = true
}

// plan is one way to find the next events of a list: which table to read first, and for which queries.
type plan struct {
	name string
	// needsOneOf are filters of which the query must have at least one (0: no condition); allows are further filters that
	// it may have. A query with any other filter takes a later plan, so a plan cannot ignore a filter it does not know.
	needsOneOf, allows filters
	applies            func(*walk) bool // nil: always
	find               func(*walk, context.Context, int) ([]candidate, error)
	// keys returns the values to look up in event_keys. For a single key ClickHouse reads the rows in the order of ids.
	keys func(*event.Query) []string
	// nextEventTable is the table in which skipEmptyTime finds the next event; empty: skipEmptyTime chooses it.
	nextEventTable table
}

// plans returns all plans, the fastest first.
func plans() []plan {
	return []plan{
		{name: "search", needsOneOf: bySearch, allows: allFilters, find: (*walk).scanFiltered},
		{name: "failures", needsOneOf: byStatus, allows: listFilters, applies: (*walk).onlyFailing,
			find: (*walk).findFailures},
		{name: "runs", needsOneOf: byRun, allows: listFilters, find: (*walk).findRuns},
		{name: "receipts", needsOneOf: byProcessing, applies: (*walk).onlyReceipts, find: (*walk).findReceipts,
			nextEventTable: tableReceipts},
		{
			// With a status that few events have, the plan "filtered" below is better.
			name: "destinations", needsOneOf: byDestination, allows: fixedFilters, find: (*walk).findDestinations,
			keys: func(q *event.Query) []string { return q.Destinations },
		},
		{
			name: "rejected", needsOneOf: byStatus, allows: fixedFilters &^ byEndpoint, applies: (*walk).onlyRejected,
			find: (*walk).scanRejected,
		},
		{name: "filtered", needsOneOf: changingFilters &^ byRun, allows: fixedFilters, find: (*walk).scanFiltered},
		{name: "endpoints", needsOneOf: byEndpoint, allows: fixedFilters, find: (*walk).scanEndpoints},
		{
			name: "types", needsOneOf: byType, applies: (*walk).onlyWholeTypes, find: (*walk).findTypes,
			keys: func(q *event.Query) []string { return q.Types },
		},
		{name: "events", allows: fixedFilters &^ byEndpoint, find: (*walk).scanEvents},
	}
}

// plan returns the first plan that suits the query and the current window.
func (w *walk) plan() *plan {
	all := plans()
	for i := range all {
		p := &all[i]
		needed := p.needsOneOf == 0 || w.has(p.needsOneOf)
		if others := w.used &^ (p.needsOneOf | p.allows); needed && others == 0 && (p.applies == nil || p.applies(w)) {
			return p
		}
	}
	panic("BUG: no plan for a list")
}

// onlyFailing reports whether findFailures finds every matching event of the current window.
func (w *walk) onlyFailing() bool {
	return w.hasOnlyFailureStatuses(!w.until.After(w.allReportedBefore))
}

// hasOnlyFailureStatuses reports whether findFailures finds every event with one of the query's statuses. allReported
// is whether every delivery has an outcome.
func (w *walk) hasOnlyFailureStatuses(allReported bool) bool {
	return w.has(byStatus) && !slices.ContainsFunc(w.Statuses, func(s event.Status) bool {
		filter := s.CandidateFilter()
		// Events without a destination cannot be found by endpoint.
		return s == event.Delivered || filter.Rejected || filter.NoOutcome && !allReported || filter.NoDestination &&
			w.has(byEndpoint)
	})
}

// onlyReceipts reports whether every matching event has a receipt.
func (w *walk) onlyReceipts() bool {
	_, none := w.receiptStates()
	return !none
}

// onlyRejected reports whether the query selects rejected events only. The verdict is a constant column of the event.
func (w *walk) onlyRejected() bool { return len(w.Statuses) == 1 && w.Statuses[0] == event.Rejected }

func (w *walk) onlyWholeTypes() bool { return !slices.ContainsFunc(w.Types, isPrefix) }
