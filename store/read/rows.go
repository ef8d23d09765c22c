package read

import (
	"context"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/internal/column"
)

// deliveryKey names a delivery.
type deliveryKey struct {
	event id.ID
	dest  string
}

const deliveryColumns ch.SQL = "SELECT id, dest, status, reason, code, next_at, last_at, run"

// selectDeliveries selects the columns that scanDelivery scans.
func selectDeliveries() *ch.Query { return new(ch.Query).Add(deliveryColumns + " FROM deliveries") }

// scanDelivery scans a row, its last columns into more.
func scanDelivery(rows driver.Rows, more ...any) (d event.Delivery, of id.ID, err error) {
	var code uint16
	err = rows.Scan(append([]any{&of, &d.Destination, (*string)(&d.Status), (*string)(&d.Reason), &code,
		&d.NextAttemptAt, &d.LastAt, &d.Run}, more...)...)
	d.Code, d.NextAttemptAt, d.LastAt = int(code), column.TimeFromColumn(d.NextAttemptAt), column.TimeFromColumn(d.LastAt)
	return d, of, err
}

// withPending appends a pending delivery for each destination of the event without a row.
func withPending(e *event.Event, ds []event.Delivery) []event.Delivery {
	if e.Verdict == event.VerdictRejected {
		return ds
	}
	for _, dest := range e.Dests {
		if !slices.ContainsFunc(ds, func(d event.Delivery) bool { return d.Destination == dest }) {
			ds = append(ds, event.Delivery{Destination: dest, Status: event.Pending, Reason: event.Queued})
		}
	}
	return ds
}

// selectFullEvent selects the columns that scanFullEvent scans.
func selectFullEvent() *ch.Query {
	return new(ch.Query).Add("SELECT id, endpoint, type, source, verdict, reason, duplicate_of, dests, method, query, " +
		"remote_ip, idempotency_key, trace, headers, body, size FROM events")
}

func scanFullEvent(rows driver.Rows, account string) (e *event.Event, size int, err error) {
	e = &event.Event{Account: account}
	var headers string
	var duplicate id.ID
	var ip [16]byte
	var bodySize uint32
	err = rows.Scan(&e.ID, &e.Endpoint, &e.Type, (*string)(&e.Source), (*string)(&e.Verdict), (*string)(&e.Reason),
		&duplicate, &e.Dests, &e.Method, &e.Query, &ip, &e.IdempotencyKey, &e.Trace, &headers, &e.Body, &bodySize)
	e.DuplicateOf = eventText(duplicate)
	e.RemoteIP, e.Header = column.IPFromBytes(ip), event.Lines(headers).Fields()
	return e, int(bodySize), err
}

// fullEvents reads events by their ids, which must be sorted newest first.
func (c *Cluster) fullEvents(ctx context.Context, account string, ids []id.ID) (map[id.ID]*event.Event, error) {
	q := ch.WhereIDs(selectFullEvent().Add(" WHERE account = ", account), ids)
	return byKey(ctx, c, q, func(rows driver.Rows, d *id.ID, e **event.Event) (err error) {
		*e, _, err = scanFullEvent(rows, account)
		*d = (*e).ID
		return err
	})
}

// eventText returns the text of an event's id, "" for the zero id.
func eventText(d id.ID) string {
	if d.IsZero() {
		return ""
	}
	return d.Text(id.Event)
}
