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
// that leads to them fastest. What they return still has to be judged.

// plain takes the events of the window as they are.
func (w *walk) plain(ctx context.Context, n int) ([]candidate, error) {
	limit := roomFor(n)
	q := w.immutable(w.bound(selectEvents()))
	if w.onlyRejected() {
		q.Add(" AND verdict = ", string(event.VerdictRejected))
	}
	cands, seen, err := w.r.candidates(ctx, w.q.Account, q, limit)
	if err != nil {
		return nil, err
	}
	return w.advance(cands, n, seen == limit, w.leaveWindow), nil
}

// roomFor is how many rows to ask for to get n, since some may have been written twice.
func roomFor(n int) int { return n + n/10 + 2 }

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

// byEndpoint finds the events in the order of the endpoints, then the events.
func (w *walk) byEndpoint(ctx context.Context, n int) ([]candidate, error) {
	if len(w.q.Endpoints) > 1 { // all of a window are sorted, which is cheaper for ids
		return w.nominated(ctx, w.immutable(w.bound(new(ch.Query).Add("SELECT id FROM events_by_endpoint"))), roomFor(n), n, w.leaveWindow)
	}
	limit := roomFor(n)
	cands, seen, err := w.r.candidates(ctx, w.q.Account, w.immutable(w.bound(selectOfEndpoints())), limit)
	if err == nil && slices.ContainsFunc(cands, isUnsure) {
		cands, err = w.fetchFrom(ctx, selectEvents(), idsOf(cands))
	}
	if err != nil {
		return nil, err
	}
	return w.advance(cands, n, seen == limit, w.leaveWindow), nil
}

// byType reports whether the events of some types are looked for by their types alone.
func (w *walk) byType() bool {
	return len(w.q.Types) > 0 && !slices.ContainsFunc(w.q.Types, isPrefix) && len(w.q.Endpoints)+len(w.q.Sources) == 0 && !w.changing() && w.q.Search == nil
}

// ofTypes takes the events of the types.
func (w *walk) ofTypes(ctx context.Context, n int) ([]candidate, error) {
	return w.nominated(ctx, w.keyed("type:", w.q.Types), roomFor(n), n, w.leaveWindow)
}

// keyed selects the ids of events by what begins with a word. Of a single one they are read in their order.
func (w *walk) keyed(word string, of []string) *ch.Query {
	q := w.window(new(ch.Query).Add("SELECT id FROM event_keys"))
	if len(of) == 1 {
		return q.Add(" AND key = ", word+of[0])
	}
	keys := make([]string, len(of))
	for i, x := range of {
		keys[i] = word + x
	}
	return q.Add(" AND key IN ", keys)
}

// trouble takes the events of which a delivery has such a status, or had it and nobody has heard of it since. Those of
// one endpoint are found by the table that has its order, those without a delivery by what they lack.
func (w *walk) trouble(ctx context.Context, n int) ([]candidate, error) {
	edge, cut, err := w.edgeOfTrouble(ctx)
	if err != nil {
		return nil, err
	}
	q := w.statuses(w.types(w.above(new(ch.Query).Add("SELECT DISTINCT id FROM (SELECT id FROM failure_candidates FINAL"), edge)))
	if len(w.q.Endpoints) > 0 {
		w.above(q.Add(" AND id IN (SELECT id FROM failure_candidates_by_endpoint"), edge).Add(")")
	}
	if slices.Contains(w.q.Statuses, event.Skipped) { // those that were to be sent nowhere
		q.Add(" UNION ALL (SELECT DISTINCT id FROM event_keys") // as many as are asked for, however often each was written
		w.window(q).Add(" AND id >= ", edge).Add(" AND key = 'dest:' ORDER BY id DESC LIMIT ", max(roomFor(n), w.nominees)).Add(")")
	}
	return w.several(ctx, q.Add(")"), n, func() {
		if cut {
			w.before = edge
		} else {
			w.leaveWindow()
		}
	})
}

// edgeOfTrouble is edge for chunks of deliveries: FINAL reads whatever it is not kept from.
func (w *walk) edgeOfTrouble(ctx context.Context) (lowest id.ID, cut bool, err error) {
	if len(w.q.Endpoints) > 0 {
		return w.edgeOf(ctx, w.bound(new(ch.Query).Add("SELECT id FROM failure_candidates_by_endpoint")), onceTroubled*w.nominees)
	}
	return w.edgeOf(ctx, w.statuses(w.types(w.bound(new(ch.Query).Add("SELECT id FROM failure_candidates")))), stillTroubled*w.nominees)
}

// ofRuns takes the events that ever belonged to the runs.
func (w *walk) ofRuns(ctx context.Context, n int) ([]candidate, error) {
	return w.several(ctx, w.window(new(ch.Query).Add("SELECT DISTINCT id FROM run_deliveries")).Add(" AND run IN ", w.q.Runs), n, w.leaveWindow)
}

// byReceipt reports whether events are looked for by what their receipts say alone.
func (w *walk) byReceipt() bool {
	others := len(w.q.Endpoints) + len(w.q.Types) + len(w.q.Sources) + len(w.q.Statuses) + len(w.q.Destinations) + len(w.q.Runs)
	return len(w.q.Processing) > 0 && others == 0 && w.q.Search == nil &&
		!slices.Contains(w.q.Processing, event.ProcessingNone) && !slices.Contains(w.q.Processing, event.ProcessingMissing)
}

// ofReceipts takes the events of which a receipt has such a state, or had it.
func (w *walk) ofReceipts(ctx context.Context, n int) ([]candidate, error) {
	states := make([]string, len(w.q.Processing))
	for i, p := range w.q.Processing {
		states[i] = string(p)
	}
	return w.several(ctx, w.window(new(ch.Query).Add("SELECT id FROM receipts")).Add(" AND state IN ", states), n, w.leaveWindow)
}

// toDestinations takes the events that were to be sent to the destinations, and those that were by a replay.
func (w *walk) toDestinations(ctx context.Context, n int) ([]candidate, error) {
	q := w.keyed("dest:", w.q.Destinations)
	if len(w.q.Endpoints)+len(w.q.Types)+len(w.q.Sources) == 0 { // all of them match
		return w.nominated(ctx, q, roomFor(n), n, w.leaveWindow)
	}
	return w.several(ctx, q, n, w.leaveWindow)
}

// several is nominated for what may turn out not to match: it looks at more of it, the less did so far.
func (w *walk) several(ctx context.Context, q *ch.Query, n int, leave func()) ([]candidate, error) {
	limit := max(roomFor(n), w.nominees)
	return w.nominated(ctx, q, limit, limit, leave)
}

// nominated runs a statement that selects ids and reads the events behind them. When there are no more it goes on by
// leave.
func (w *walk) nominated(ctx context.Context, q *ch.Query, limit, n int, leave func()) ([]candidate, error) {
	ids, err := newest(ctx, w.r, q, limit, itself, scanID)
	if err != nil {
		return nil, err
	}
	full := len(ids) == limit
	if ids = slices.Compact(ids); len(ids) > n {
		ids, full = ids[:n], true
	}
	var cands []candidate
	if len(ids) > 0 {
		if cands, err = w.fetch(ctx, ids); err != nil {
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

// fetch reads the events with these ids, given newest first, as far as what never changes of them matches. Those of an endpoint
// lie together in the order of endpoints, and in a granule of each in the other.
func (w *walk) fetch(ctx context.Context, ids []id.ID) ([]candidate, error) {
	if len(w.q.Endpoints) > 0 {
		cands, err := w.fetchFrom(ctx, selectOfEndpoints(), ids)
		if err != nil || !slices.ContainsFunc(cands, isUnsure) {
			return cands, err
		}
	}
	return w.fetchFrom(ctx, selectEvents(), ids)
}

func (w *walk) fetchFrom(ctx context.Context, q *ch.Query, ids []id.ID) ([]candidate, error) {
	w.endpoints(q.Add(" WHERE account = ", w.q.Account))
	ch.BoundIDs(q, ids)
	cands, _, err := w.r.candidates(ctx, w.q.Account, w.immutable(q), 0)
	return cands, err
}

// filtered lets ClickHouse nominate by status, destination, run and search, within as many events as one
// statement may judge.
func (w *walk) filtered(ctx context.Context, n int) ([]candidate, error) {
	edge, q := w.edge, selectEvents()
	if w.q.Search != nil {
		edge, q = w.stretch, w.selectFound()
	}
	lowest, cut, err := edge(ctx)
	if err != nil {
		return nil, err
	}
	limit := roomFor(n)
	w.immutable(w.above(q, lowest))
	if len(w.q.Endpoints) > 0 {
		q.Add(" AND id IN (SELECT id FROM events_by_endpoint")
		w.immutable(w.above(q, lowest)).Add(")")
	}
	w.nominate(q, lowest)
	w.searched(q)
	cands, seen, err := w.r.candidates(ctx, w.q.Account, q, limit)
	if err != nil {
		return nil, err
	}
	cands = w.advance(cands, n, seen == limit, func() {
		if cut {
			w.before = lowest
		} else {
			w.leaveWindow()
		}
	})
	return w.judgeRefused(ctx, cands)
}

// The tables that hold the events in order.
const allEvents, endpointEvents ch.SQL = "events", "events_by_endpoint"

// table is the one that leads to the events of the query.
func (w *walk) table() ch.SQL {
	if len(w.q.Endpoints) > 0 {
		return endpointEvents
	}
	return allEvents
}

// share is what each shard has of a chunk.
func (w *walk) share() int { return w.r.share(w.chunk) }

func (r *Reader) share(chunk int) int { return max(min(chunk, largestChunk)/r.pool.Count(), 1) }

// edge is the lowest id that the next statement judges, and whether the window goes on below it. Above the highest of
// the shards' edges there is no more than its share of the chunk on any.
func (w *walk) edge(ctx context.Context) (lowest id.ID, cut bool, err error) {
	return w.edgeOf(ctx, w.immutable(w.bound(new(ch.Query).Add("SELECT id FROM ").Add(w.table()))), w.chunk)
}

// edgeOf is edge by the ids that a statement selects, for chunks of another size.
func (w *walk) edgeOf(ctx context.Context, q *ch.Query, chunk int) (lowest id.ID, cut bool, err error) {
	lowest = id.Lowest(w.from())
	err = w.r.each(ctx, q.Add(" ORDER BY id DESC LIMIT 1 OFFSET ", w.r.share(chunk)-1), func(rows driver.Rows) error {
		d, err := scanID(rows)
		if !cut || slices.Compare(d[:], lowest[:]) > 0 {
			lowest, cut = d, true
		}
		return err
	})
	return lowest, cut, err
}
