package cluster

import (
	"context"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/column"
)

// DeliveryKey names a delivery.
type DeliveryKey struct {
	Event id.ID
	Dest  string
}

const deliveryColumns ch.SQL = "SELECT id, dest, status, reason, code, behind, next_at, last_at, run"

// SelectDeliveries selects the columns that ScanDelivery scans.
func SelectDeliveries() *ch.Query { return new(ch.Query).Add(deliveryColumns + " FROM deliveries") }

// SelectVersions selects the versions of the rows, too.
func SelectVersions() *ch.Query { return new(ch.Query).Add(deliveryColumns + ", ver FROM deliveries") }

// ScanDelivery scans a row, its last columns into more.
func ScanDelivery(rows driver.Rows, more ...any) (d event.Delivery, of id.ID, err error) {
	var code uint16
	err = rows.Scan(append([]any{&of, &d.Destination, (*string)(&d.Status), (*string)(&d.Reason), &code, &d.Behind,
		&d.NextAttemptAt, &d.LastAt, &d.Run}, more...)...)
	d.Code, d.NextAttemptAt, d.LastAt = int(code), column.TimeFromColumn(d.NextAttemptAt), column.TimeFromColumn(d.LastAt)
	return d, of, err
}

// WithPending appends a pending delivery for each destination of the event without a row.
func WithPending(e *event.Event, ds []event.Delivery) []event.Delivery {
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

// SelectFullEvent selects the columns that ScanFullEvent scans.
func SelectFullEvent() *ch.Query {
	return new(ch.Query).Add("SELECT id, endpoint, type, source, verdict, reason, duplicate_of, dests, method, query, " +
		"remote_ip, idempotency_key, trace, mismatch, headers, body, size FROM events")
}

// ScanFullEvent scans a row of an account, and the size of the body as it was received.
func ScanFullEvent(rows driver.Rows, account string) (e *event.Event, size int, err error) {
	e = &event.Event{Account: account}
	var headers string
	var duplicate id.ID
	var ip [16]byte
	var bodySize uint32
	err = rows.Scan(&e.ID, &e.Endpoint, &e.Type, (*string)(&e.Source), (*string)(&e.Verdict), (*string)(&e.Reason),
		&duplicate, &e.Dests, &e.Method, &e.Query, &ip, &e.IdempotencyKey, &e.Trace, &e.Mismatch,
		&headers, &e.Body, &bodySize)
	e.DuplicateOf = EventText(duplicate)
	e.RemoteIP, e.Header = column.IPFromBytes(ip), event.Lines(headers).Fields()
	return e, int(bodySize), err
}

// FullEvents reads events by their ids, which must be sorted newest first.
func (c *Cluster) FullEvents(ctx context.Context, account string, ids []id.ID) (map[id.ID]*event.Event, error) {
	q := ch.WhereIDs(SelectFullEvent().Add(" WHERE account = ", account), ids)
	return ByKey(ctx, c, q, func(rows driver.Rows, d *id.ID, e **event.Event) (err error) {
		*e, _, err = ScanFullEvent(rows, account)
		*d = (*e).ID
		return err
	})
}

// EventText returns the text of an event's id, "" for the zero id.
func EventText(d id.ID) string {
	if d.IsZero() {
		return ""
	}
	return d.Text(id.Event)
}
