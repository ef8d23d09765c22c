package store

import (
	"context"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// The functions below find the next events of a walk that may match, newest first, each by the table
// that leads to them fastest. What they return still has to be judged.

// plain takes the events of the window as they are.
func (w *walk) plain(ctx context.Context, n int) ([]candidate, error) {
	limit := roomFor(n)
	q := w.immutable(w.bound(selectEvents()))
	if w.onlyRejected() {
		q.add(" AND verdict = ", string(event.VerdictRejected))
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

// byEndpoint finds the ids in the order of the endpoints, then the events.
func (w *walk) byEndpoint(ctx context.Context, n int) ([]candidate, error) {
	q := w.immutable(w.bound(new(query).add("SELECT id FROM events_by_endpoint")))
	return w.nominated(ctx, q, roomFor(n), n)
}

// trouble takes the events of which a delivery has such a status, or had it and nobody has heard of it since. Those of
// one endpoint are found by the table that has its order.
func (w *walk) trouble(ctx context.Context, n int) ([]candidate, error) {
	q := w.bound(new(query).add("SELECT DISTINCT id FROM troubled FINAL")).add(" AND status IN ", w.deliveryStatuses())
	if len(w.q.Types) > 0 {
		w.types(q)
	}
	if len(w.q.Endpoints) > 0 {
		w.bound(q.add(" AND id IN (SELECT id FROM delivery_trouble")).add(")")
	}
	return w.several(ctx, q, n)
}

// ofRuns takes the events that ever belonged to the runs.
func (w *walk) ofRuns(ctx context.Context, n int) ([]candidate, error) {
	return w.several(ctx, w.window(new(query).add("SELECT DISTINCT id FROM run_deliveries")).add(" AND run IN ", w.q.Runs), n)
}

// toDestinations takes the events that were to be sent to the destinations, and those that were by a replay.
func (w *walk) toDestinations(ctx context.Context, n int) ([]candidate, error) {
	q := new(query).add("SELECT DISTINCT id FROM (SELECT id FROM events")
	w.immutable(w.bound(q)).add(" AND hasAny(dests, ", w.q.Destinations).add(") UNION ALL SELECT id FROM deliveries")
	w.bound(q).add(" AND dest IN ", w.q.Destinations)
	return w.several(ctx, q.add(")"), n)
}

// several is nominated for what may turn out not to match: it looks at more of it, the less did so far.
func (w *walk) several(ctx context.Context, q *query, n int) ([]candidate, error) {
	limit := max(roomFor(n), min(w.chunk, largestNominated))
	return w.nominated(ctx, q, limit, limit)
}

// nominated runs a statement that selects ids and reads the events behind them.
func (w *walk) nominated(ctx context.Context, q *query, limit, n int) ([]candidate, error) {
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
		q := w.endpoints(selectEvents().add(" WHERE account = ", w.q.Account))
		boundIDs(q, ids)
		if cands, _, err = w.r.candidates(ctx, w.q.Account, w.immutable(q), 0); err != nil {
			return nil, err
		}
	}
	if full {
		w.before = ids[len(ids)-1]
	} else {
		w.leaveWindow()
	}
	return cands, nil
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
		q.add(" AND id IN (SELECT id FROM events_by_endpoint")
		w.immutable(w.above(q, lowest)).add(")")
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
const allEvents, endpointEvents sql = "events", "events_by_endpoint"

// table is the one that leads to the events of the query.
func (w *walk) table() sql {
	if len(w.q.Endpoints) > 0 {
		return endpointEvents
	}
	return allEvents
}

// share is what each shard has of a chunk.
func (w *walk) share() int { return max(w.chunk/len(w.r.conns), 1) }

// edge is the lowest id that the next statement judges, and whether the window goes on below it. Above the highest of
// the shards' edges there is no more than its share of the chunk on any.
func (w *walk) edge(ctx context.Context) (lowest id.ID, cut bool, err error) {
	q := w.immutable(w.bound(new(query).add("SELECT id FROM ").add(w.table())))
	lowest = id.Lowest(w.from())
	err = w.r.each(ctx, q.add(" ORDER BY id DESC LIMIT 1 OFFSET ", w.share()-1), func(rows driver.Rows) error {
		d, err := scanID(rows)
		if !cut || slices.Compare(d[:], lowest[:]) > 0 {
			lowest, cut = d, true
		}
		return err
	})
	return lowest, cut, err
}
