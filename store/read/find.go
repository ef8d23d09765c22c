package read

import (
	"context"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
)

// The functions below find the next events of a walk that may match, newest first, each by the table
// that leads to them fastest. What changes of them still has to be checked.

// plain takes the events of the window as they are.
func (w *walk) scanEvents(ctx context.Context, n int) ([]candidate, error) {
	return w.readWindow(ctx, n, w.where(selectEvents(tableEvents), tableEvents, w.window()))
}

// rejected takes the rejected ones.
func (w *walk) scanRejected(ctx context.Context, n int) ([]candidate, error) {
	q := w.where(selectEvents(tableEvents), tableEvents, w.window())
	return w.readWindow(ctx, n, q.Add(" AND verdict = ", string(event.VerdictRejected)))
}

// scanEndpoints finds the events in the order of the endpoints, then the events.
func (w *walk) scanEndpoints(ctx context.Context, n int) ([]candidate, error) {
	if len(w.Endpoints) > 1 { // all of a window are sorted, which is cheaper for ids
		q := new(ch.Query).Add("SELECT id FROM events_by_endpoint")
		return w.fetch(ctx, w.where(q, tableEndpoints, w.window()), overfetch(n), n, w.leaveWindow)
	}
	return w.readWindow(ctx, n, w.where(selectEvents(tableEndpoints), tableEndpoints, w.window()))
}

// readWindow runs a statement of selectEvents that reads a window in the order of its table.
func (w *walk) readWindow(ctx context.Context, n int, q *ch.Query) ([]candidate, error) {
	limit := overfetch(n)
	cands, seen, err := rowReader{w.r}.readEvents(ctx, w.Account, q, limit)
	if err != nil {
		return nil, err
	}
	return w.advance(cands, n, seen == limit, w.leaveWindow), nil
}

// overfetch is how many rows to ask for to get n, since some may have been written twice.
func overfetch(n int) int { return n + n/10 + 2 }

// advance cuts the candidates to n and moves on: below the last of them when there may be more in what
// was looked at, else by leave.
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

// findTypes takes the events of the types.
func (w *walk) findTypes(ctx context.Context, n int) ([]candidate, error) {
	return w.fetch(ctx, w.selectByKey("type:", w.Types), overfetch(n), n, w.leaveWindow)
}

// findDestinations takes the events that were to be sent to the destinations, and those that were by a replay.
func (w *walk) findDestinations(ctx context.Context, n int) ([]candidate, error) {
	q := w.selectByKey("dest:", w.Destinations)
	if w.used == byDestination { // all of them match
		return w.fetch(ctx, q, overfetch(n), n, w.leaveWindow)
	}
	return w.fetchUnsure(ctx, q, n, w.leaveWindow)
}

// keyed selects the ids of events by what begins with a word. Of a single one they are read in their order.
func (w *walk) selectByKey(word string, of []string) *ch.Query {
	q := w.where(new(ch.Query).Add("SELECT id FROM event_keys"), tableKeys, w.window())
	if len(of) == 1 {
		return q.Add(" AND key = ", word+of[0])
	}
	keys := make([]string, len(of))
	for i, x := range of {
		keys[i] = word + x
	}
	return q.Add(" AND key IN ", keys)
}

// findFailures takes the events of which a delivery has such a status, or had it and nobody has heard of it since.
// Those of one endpoint are found by the table that has its order, those without a delivery by what they lack.
func (w *walk) findFailures(ctx context.Context, n int) ([]candidate, error) {
	edge, cut, err := w.failureChunkStart(ctx)
	if err != nil {
		return nil, err
	}
	s := w.window().above(edge)
	q := new(ch.Query).Add("SELECT DISTINCT id FROM (SELECT id FROM failure_candidates FINAL")
	w.where(q, tableFailures, s).Add(" AND status IN ", w.deliveryStatuses())
	if w.has(byEndpoint) {
		w.where(q.Add(" AND id IN (SELECT id FROM failure_candidates_by_endpoint"), tableEndpointFailures, s).Add(")")
	}
	if slices.Contains(w.Statuses, event.Skipped) { // those that were to be sent nowhere
		// As many as are asked for, however often each was written.
		w.where(q.Add(" UNION ALL (SELECT DISTINCT id FROM event_keys"), tableKeys, s)
		q.Add(" AND key = 'dest:' ORDER BY id DESC LIMIT ", max(overfetch(n), w.ids)).Add(")")
	}
	return w.fetchUnsure(ctx, q.Add(")"), n, func() { w.leaveChunk(edge, cut) })
}

// leaveChunk goes on below an edge of the window, or to the next window.
func (w *walk) leaveChunk(edge id.ID, cut bool) {
	if cut {
		w.before = edge
	} else {
		w.leaveWindow()
	}
}

// failureChunkStart is edge for chunks of deliveries: FINAL reads whatever it is not kept from.
func (w *walk) failureChunkStart(ctx context.Context) (lowest id.ID, cut bool, err error) {
	if w.has(byEndpoint) {
		q := new(ch.Query).Add("SELECT id FROM failure_candidates_by_endpoint")
		return w.chunkStartOf(ctx, w.where(q, tableEndpointFailures, w.window()), everFailedFactor*w.ids)
	}
	q := w.where(new(ch.Query).Add("SELECT id FROM failure_candidates"), tableFailures, w.window())
	return w.chunkStartOf(ctx, q.Add(" AND status IN ", w.deliveryStatuses()), sameStatusFactor*w.ids)
}

// findRuns takes the events that ever belonged to the runs.
func (w *walk) findRuns(ctx context.Context, n int) ([]candidate, error) {
	q := w.where(new(ch.Query).Add("SELECT DISTINCT id FROM run_deliveries"), tableRuns, w.window())
	return w.fetchUnsure(ctx, q.Add(" AND run IN ", w.Runs), n, w.leaveWindow)
}

// findReceipts takes the events of which a receipt has such a state, or had it.
func (w *walk) findReceipts(ctx context.Context, n int) ([]candidate, error) {
	q := w.where(new(ch.Query).Add("SELECT id FROM receipts"), tableReceipts, w.window())
	return w.fetchUnsure(ctx, q.Add(" AND state IN ", event.Convert[string](w.Processing...)), n, w.leaveWindow)
}

// fetchUnsure is fetch for what may turn out not to match: it looks at more of it, the less did so far.
func (w *walk) fetchUnsure(ctx context.Context, q *ch.Query, n int, leave func()) ([]candidate, error) {
	limit := max(overfetch(n), w.ids)
	return w.fetch(ctx, q, limit, limit, leave)
}

// fetch runs a statement that selects ids and reads the events behind them, as far as what never changes of them
// matches. When there are no more it goes on by leave.
func (w *walk) fetch(ctx context.Context, q *ch.Query, limit, n int, leave func()) (cands []candidate, err error) {
	ids, err := newest(ctx, w.r, q, limit, identity, scanID)
	if err != nil {
		return nil, err
	}
	full := len(ids) == limit
	if ids = slices.Compact(ids); len(ids) > n {
		ids, full = ids[:n], true
	}
	if len(ids) > 0 {
		q := selectEvents(w.eventsTable()).Add(" WHERE account = ", w.Account)
		ch.WhereIDs(w.addColumns(q, byEndpoint), ids)
		w.addColumns(q, fixedFilters&^byEndpoint)
		if cands, _, err = (rowReader{w.r}).readEvents(ctx, w.Account, q, 0); err != nil {
			return nil, err
		}
	}
	if full {
		w.before = ids[len(ids)-1]
	} else {
		leave()
	}
	return cands, nil
}

// filtered lets ClickHouse look for candidates by all filters, within as many events as one statement may look at.
func (w *walk) scanFiltered(ctx context.Context, n int) ([]candidate, error) {
	edge, q := w.chunkStart, selectEvents(tableEvents)
	if w.Search != nil {
		edge, q = w.searchChunkStart, w.selectSearched()
	}
	lowest, cut, err := edge(ctx)
	if err != nil {
		return nil, err
	}
	limit, s := overfetch(n), w.window().above(lowest)
	w.where(q, tableEvents, s)
	if w.has(byEndpoint) {
		w.where(q.Add(" AND id IN (SELECT id FROM events_by_endpoint"), tableEndpoints, s).Add(")")
	}
	w.addCandidates(q, s)
	w.addSearch(q)
	cands, seen, err := rowReader{w.r}.readEvents(ctx, w.Account, q, limit)
	if err != nil {
		return nil, err
	}
	return w.matchRefused(ctx, w.advance(cands, n, seen == limit, func() { w.leaveChunk(lowest, cut) }))
}

// events is the table that leads to the events of the query; those of an endpoint lie together in the order of
// endpoints, and in a granule of each in the other.
func (w *walk) eventsTable() table {
	if w.has(byEndpoint) {
		return tableEndpoints
	}
	return tableEvents
}

// share is what each shard has of a chunk.
func (r *Reader) shardLimit(chunk int) int { return max(min(chunk, maxChunk)/r.pool.Count(), 1) }

// edge is the lowest id that the next statement looks at, and whether the window goes on below it. Above the highest of
// the shards' edges there is no more than its share of the chunk on any.
func (w *walk) chunkStart(ctx context.Context) (lowest id.ID, cut bool, err error) {
	t := w.eventsTable()
	return w.chunkStartOf(ctx, w.where(new(ch.Query).Add("SELECT id FROM ").Add(t.name), t, w.window()), w.chunk)
}

// chunkStartOf is edge by the ids that a statement selects, for chunks of another size.
func (w *walk) chunkStartOf(ctx context.Context, q *ch.Query, chunk int) (lowest id.ID, cut bool, err error) {
	lowest = id.Lowest(w.from())
	err = w.r.each(ctx, q.Add(" ORDER BY id DESC LIMIT 1 OFFSET ", w.r.shardLimit(chunk)-1), func(rows driver.Rows) error {
		d, err := scanID(rows)
		if !cut || slices.Compare(d[:], lowest[:]) > 0 {
			lowest, cut = d, true
		}
		return err
	})
	return lowest, cut, err
}
