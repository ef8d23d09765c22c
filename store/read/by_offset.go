package read

import (
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/read/fence"
)

const (
	// firstOffsetWindow is the first window of time; it grows while nothing is found.
	firstOffsetWindow = time.Hour
	// maxOffsetDisorder is how far offsets may be out of time order: of two events whose times are further apart, the
	// later one has the higher offset.
	maxOffsetDisorder = fence.LateAppend
)

// eventOffset is an event's id with the offset of its record and the size of its body.
type eventOffset struct {
	id     id.ID
	offset int64
	size   int
}

// EventsByOffset returns the next events of an endpoint in the order of their offsets. Between From and the
// last event returned it leaves out only what OffsetQuery excludes. It does not wait for the writer: events that the
// log has trimmed are stored already.
func (r *Reader) EventsByOffset(ctx context.Context, q event.OffsetQuery) (event.OffsetPage, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	page := event.OffsetPage{Next: q.To, Since: q.Since}
	since, width := q.Since, firstOffsetWindow
	if oldest := r.Oldest(); since.Before(oldest) {
		since = oldest
	}
	for since = cluster.CeilMilli(since); since.Before(r.Now().Add(fence.MaxIDSkew)); width *= windowGrowth {
		until := since.Add(width)
		found, err := r.findOffsets(ctx, q, since, until)
		if err != nil {
			return page, err
		}
		if len(found) > 0 {
			page.Rows, err = r.eventsAtOffsets(ctx, q, found)
			page.Next = found[len(found)-1].offset + 1
			return page, err
		}
		since = until
		page.Since = since
	}
	return page, nil
}

// findOffsets finds the next events in [since, until). It also reads events up to maxOffsetDisorder later, because
// their offsets may be lower.
func (r *Reader) findOffsets(ctx context.Context, q event.OffsetQuery, since, until time.Time) ([]eventOffset, error) {
	edge := until.Add(maxOffsetDisorder)
	bound := func(s *ch.Query) *ch.Query {
		return s.Add(" WHERE account = ", q.Account).Add(" AND endpoint = ", q.Endpoint).Add(" AND ts >= ", since).
			Add(" AND ts < ", edge).
			Add(" AND id >= ", id.Lowest(since)).Add(" AND id < ", id.Lowest(edge))
	}
	s := bound(new(ch.Query).ForPartition(q.Partition).Add("SELECT id, kafka_offset, size FROM events"))
	bound(s.Add(" AND id IN (SELECT id FROM events_by_endpoint")).Add(")")
	s.Add(" AND kafka_partition = ", int(q.Partition)).Add(" AND kafka_offset >= ", int(q.From)).
		Add(" AND kafka_offset < ", int(q.To))
	s.Add(" AND verdict != 'rejected' AND reason != 'duplicate' AND duplicate_of = ", id.ID{})
	var found []eventOffset
	size, complete := 0, 0 // found[:complete] ends with the last event before until
	full := false
	err := r.Each(ctx, s.Add(" ORDER BY kafka_offset LIMIT ", q.Limit), func(rows driver.Rows) error {
		var x eventOffset
		var offset uint64
		var body uint32
		if err := rows.Scan(&x.id, &offset, &body); err != nil {
			return err
		}
		x.offset, x.size = int64(offset), int(body)
		if n := len(found); n > 0 && found[n-1].offset == x.offset { // written twice
			return nil
		}
		if full = full || size >= q.Bytes; full {
			return nil
		}
		if x.size <= q.MaxBody {
			size += x.size
		}
		if found = append(found, x); x.id.Time().Before(until) {
			complete = len(found)
		}
		return nil
	})
	if err == nil && complete == 0 && (full || len(found) == q.Limit) {
		return r.findOffsets(ctx, q, since, edge) // the events before until have higher offsets than these
	}
	return found[:complete], err
}

// eventsAtOffsets reads the events that were found.
func (r *Reader) eventsAtOffsets(ctx context.Context, q event.OffsetQuery, found []eventOffset) (
	[]event.AtOffset, error) {
	ids := make([]id.ID, len(found))
	for i, x := range found {
		ids[i] = x.id
	}
	slices.SortFunc(ids, id.NewestFirst)
	s := new(ch.Query).Add("SELECT id, type, source, verdict, reason, method, query, headers, if(size > ", q.MaxBody).
		Add(", '', body) FROM events WHERE account = ", q.Account)
	ch.WhereIDs(s, ids)
	events := make(map[id.ID]*event.Event, len(found))
	err := r.Each(ctx, s, func(rows driver.Rows) error {
		e := &event.Event{Account: q.Account, Endpoint: q.Endpoint}
		var headers string
		err := rows.Scan(&e.ID, &e.Type, (*string)(&e.Source), (*string)(&e.Verdict), (*string)(&e.Reason),
			&e.Method, &e.Query,
			&headers, &e.Body)
		e.Header = event.Lines(headers).Fields()
		events[e.ID] = e
		return err
	})
	rows := make([]event.AtOffset, 0, len(found))
	for _, x := range found {
		if e := events[x.id]; e != nil { // nil: its retention has just ended
			rows = append(rows, event.AtOffset{Event: e, Offset: x.offset, Size: x.size})
		}
	}
	return rows, err
}
