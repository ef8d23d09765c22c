package read

import (
	"context"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/read/search"
)

// The functions below read the next candidates of a walk, newest first, each from the table that finds them fastest.
// walk.next then checks the filters on changing state.

// scanEvents reads the events of the window.
func (w *walk) scanEvents(ctx context.Context, n int) ([]candidate, error) {
	return w.readWindow(ctx, n, w.where(selectEvents(tableEvents), tableEvents, w.window()))
}

// scanRejected reads the rejected events of the window.
func (w *walk) scanRejected(ctx context.Context, n int) ([]candidate, error) {
	q := w.where(selectEvents(tableEvents), tableEvents, w.window())
	return w.readWindow(ctx, n, q.Add(" AND verdict = ", string(event.VerdictRejected)))
}

// scanEndpoints reads the events of the window from the table that is ordered by endpoint.
func (w *walk) scanEndpoints(ctx context.Context, n int) ([]candidate, error) {
	if len(w.Endpoints) > 1 { // ClickHouse sorts the whole window, which is cheaper for ids alone
		q := new(ch.Query).Add("SELECT id FROM events_by_endpoint")
		return w.fetch(ctx, w.where(q, tableEndpoints, w.window()), overfetch(n), n, w.leaveWindow)
	}
	return w.readWindow(ctx, n, w.where(selectEvents(tableEndpoints), tableEndpoints, w.window()))
}

// readWindow runs a statement of selectEvents that reads the window in the order of its table.
func (w *walk) readWindow(ctx context.Context, n int, q *ch.Query) ([]candidate, error) {
	limit := overfetch(n)
	cands, seen, err := w.rows.readEvents(ctx, w.Account, q, limit)
	if err != nil {
		return nil, err
	}
	return w.advance(cands, n, seen == limit, w.leaveWindow), nil
}

// overfetch returns how many rows to ask for to get n events: a few rows may be duplicates that are not merged yet.
func overfetch(n int) int { return n + n/10 + 2 }

// advance cuts the candidates to n and moves the walk: below the last of them when the statement may have left out
// more, else by calling leave.
func (w *walk) advance(cands []candidate, n int, more bool, leave func()) []candidate {
	if len(cands) > n {
		cands, more = cands[:n], true
	}
	if more {
		w.before = cands[len(cands)-1].ID
	} else {
		leave()
	}
	return cands
}

// findTypes finds the events of the types.
func (w *walk) findTypes(ctx context.Context, n int) ([]candidate, error) {
	return w.fetch(ctx, w.selectByKey("type:", w.Types), overfetch(n), n, w.leaveWindow)
}

// findDestinations finds the events that name the destinations or were replayed to them.
func (w *walk) findDestinations(ctx context.Context, n int) ([]candidate, error) {
	q := w.selectByKey("dest:", w.Destinations)
	if w.used == byDestination { // no other filter: all of them match
		return w.fetch(ctx, q, overfetch(n), n, w.leaveWindow)
	}
	return w.fetchUnsure(ctx, q, n, w.leaveWindow)
}

// selectByKey selects the ids of events in event_keys with one of the keys prefix + value. For a single value
// ClickHouse reads them in their order.
func (w *walk) selectByKey(prefix string, values []string) *ch.Query {
	q := w.where(new(ch.Query).Add("SELECT id FROM event_keys"), tableKeys, w.window())
	if len(values) == 1 {
		return q.Add(" AND key = ", prefix+values[0])
	}
	keys := make([]string, len(values))
	for i, value := range values {
		keys[i] = prefix + value
	}
	return q.Add(" AND key IN ", keys)
}

// findFailures finds the events with a delivery whose newest row in failure_candidates has one of the statuses. Events
// of one endpoint are found by the table that is ordered by endpoint, events without a destination by the key 'dest:'.
func (w *walk) findFailures(ctx context.Context, n int) ([]candidate, error) {
	lowest, cut, err := w.failureChunkStart(ctx)
	if err != nil {
		return nil, err
	}
	s := w.window().above(lowest)
	q := new(ch.Query).Add("SELECT DISTINCT id FROM (SELECT id FROM failure_candidates FINAL")
	w.where(q, tableFailures, s).Add(" AND status IN ", w.deliveryStatuses())
	if w.has(byEndpoint) {
		w.where(q.Add(" AND id IN (SELECT id FROM failure_candidates_by_endpoint"), tableEndpointFailures, s).Add(")")
	}
	if slices.Contains(w.Statuses, event.Skipped) { // events without a destination
		// DISTINCT, because LIMIT counts events and not rows.
		w.where(q.Add(" UNION ALL (SELECT DISTINCT id FROM event_keys"), tableKeys, s)
		q.Add(" AND key = 'dest:' ORDER BY id DESC LIMIT ", max(overfetch(n), w.ids)).Add(")")
	}
	return w.fetchUnsure(ctx, q.Add(")"), n, func() { w.leaveChunk(lowest, cut) })
}

// leaveChunk continues below the chunk whose lowest id was read, or in the next window when the chunk ended this one.
func (w *walk) leaveChunk(lowest id.ID, cut bool) {
	if cut {
		w.before = lowest
	} else {
		w.leaveWindow()
	}
}

// failureChunkStart is chunkStart for the table of failures. It bounds the rows that FINAL reads, which a LIMIT does
// not.
func (w *walk) failureChunkStart(ctx context.Context) (lowest id.ID, cut bool, err error) {
	if w.has(byEndpoint) {
		q := new(ch.Query).Add("SELECT id FROM failure_candidates_by_endpoint")
		return w.chunkStartOf(ctx, w.where(q, tableEndpointFailures, w.window()), everFailedFactor*w.ids)
	}
	q := w.where(new(ch.Query).Add("SELECT id FROM failure_candidates"), tableFailures, w.window())
	return w.chunkStartOf(ctx, q.Add(" AND status IN ", w.deliveryStatuses()), sameStatusFactor*w.ids)
}

// findRuns finds the events that the runs had deliveries of, whatever happened to these deliveries afterwards.
func (w *walk) findRuns(ctx context.Context, n int) ([]candidate, error) {
	q := w.where(new(ch.Query).Add("SELECT id FROM run_deliveries"), tableRuns, w.window())
	if len(w.Runs) == 1 { // ClickHouse reads the rows of one run in the order of ids
		q.Add(" AND run = ", w.Runs[0])
	} else {
		q.Add(" AND run IN ", w.Runs)
	}
	cands, err := w.fetchUnsure(ctx, q, n, w.leaveWindow)
	for i := range cands {
		cands[i].ofRun = true
	}
	return cands, err
}

// findReceipts finds the events with a receipt that has or had one of the states.
func (w *walk) findReceipts(ctx context.Context, n int) ([]candidate, error) {
	q := w.where(new(ch.Query).Add("SELECT id FROM receipts"), tableReceipts, w.window())
	return w.fetchUnsure(ctx, q.Add(" AND state IN ", event.Convert[string](w.Processing...)), n, w.leaveWindow)
}

// fetchUnsure is fetch for candidates that may not match. It reads more at a time while few of them do.
func (w *walk) fetchUnsure(ctx context.Context, q *ch.Query, n int, leave func()) ([]candidate, error) {
	limit := max(overfetch(n), w.ids)
	return w.fetch(ctx, q, limit, limit, leave)
}

// fetch runs a statement that selects ids, and reads those of the events that match the fixed filters. When the
// statement has no more ids it calls leave.
func (w *walk) fetch(ctx context.Context, q *ch.Query, limit, n int, leave func()) (cands []candidate, err error) {
	ids, err := cluster.Newest(ctx, w.r.Cluster, q, limit, cluster.Identity, cluster.ScanID)
	if err != nil {
		return nil, err
	}
	full := len(ids) == limit
	if ids = slices.Compact(ids); len(ids) > n {
		ids, full = ids[:n], true
	}
	if cands, err = w.rows.readByID(ctx, w, ids); err != nil {
		return nil, err
	}
	if full {
		w.before = ids[len(ids)-1]
	} else {
		leave()
	}
	return cands, nil
}

// scanFiltered runs one statement with the conditions of all filters, over one chunk of events.
func (w *walk) scanFiltered(ctx context.Context, n int) ([]candidate, error) {
	start, q := w.chunkStart, selectEvents(tableEvents)
	if w.Search != nil {
		start, q = w.searchChunkStart, w.selectSearched()
	}
	lowest, cut, err := start(ctx)
	if err != nil {
		return nil, err
	}
	limit, s := overfetch(n), w.window().above(lowest)
	w.where(q, tableEvents, s)
	if w.has(byEndpoint) {
		w.where(q.Add(" AND id IN (SELECT id FROM events_by_endpoint"), tableEndpoints, s).Add(")")
	}
	w.addCandidates(q, s)
	search.Where(q, w.Search, w.r.Config.SearchIndex)
	cands, seen, err := w.rows.readEvents(ctx, w.Account, q, limit)
	if err != nil {
		return nil, err
	}
	return w.matchRefused(ctx, w.advance(cands, n, seen == limit, func() { w.leaveChunk(lowest, cut) }))
}

// eventsTable returns the table of events to read. In the one ordered by endpoint, the events of an endpoint lie
// together; in the other one nearly every granule would have to be read.
func (w *walk) eventsTable() table {
	if w.has(byEndpoint) {
		return tableEndpoints
	}
	return tableEvents
}

// shardLimit returns the share of a chunk that each shard reads.
func (r *Reader) shardLimit(chunk int) int { return max(min(chunk, maxChunk)/r.ReadPool.Count(), 1) }

// chunkStart returns the lowest id that the next statement reads, and whether the window continues below it (cut). It
// is the highest of the shards' own bounds, so that no shard reads more than its share of the chunk.
func (w *walk) chunkStart(ctx context.Context) (lowest id.ID, cut bool, err error) {
	t := w.eventsTable()
	return w.chunkStartOf(ctx, w.where(new(ch.Query).Add("SELECT id FROM ").Add(t.name), t, w.window()), w.chunk)
}

// chunkStartOf is chunkStart for the ids that a statement selects, in chunks of another size.
func (w *walk) chunkStartOf(ctx context.Context, q *ch.Query, chunk int) (lowest id.ID, cut bool, err error) {
	lowest = id.Lowest(w.from())
	err = w.r.Each(ctx, q.Add(" ORDER BY id DESC LIMIT 1 OFFSET ", w.r.shardLimit(chunk)-1), func(rows driver.Rows) error {
		d, err := cluster.ScanID(rows)
		if !cut || d.Compare(lowest) > 0 {
			lowest, cut = d, true
		}
		return err
	})
	return lowest, cut, err
}
