package store

import (
	"context"
	"errors"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// receipt is the one that stands, nil for none.
func (r *Reader) receipt(ctx context.Context, account string, d id.ID) (*event.Receipt, error) {
	x, _, err := r.receipts(ctx, account, d)
	return x, err
}

// receipts is receipt and the version of the first one that said processed. That an event is stored is not asked.
func (r *Reader) receipts(ctx context.Context, account string, d id.ID) (x *event.Receipt, processed uint64, err error) {
	// One statement, so that both tables are read at nearly one moment; the order does not matter, for the first
	// of all receipts is never written after a later one.
	q := r.one(new(query).add("SELECT state, reference, details, at, first_at, processed FROM (SELECT account, id, state, reference, details, at FROM receipts FINAL"), account, d)
	q = r.one(q.add(") AS newest LEFT JOIN (SELECT id, min(first_at) AS first_at, min(processed) AS processed FROM receipt_firsts"), account, d)
	err = r.each(ctx, q.add(" GROUP BY id) AS firsts USING (id)"), func(rows driver.Rows) error {
		var state string
		var at, first time.Time
		x = &event.Receipt{Event: d, Account: account}
		err := rows.Scan(&state, &x.Reference, &x.Details, &at, &first, &processed)
		x.State, x.At, x.FirstAt = event.Processing(state), instant(at), instant(first)
		return err
	})
	return x, processed, err
}

// EventEndpoint is the endpoint that an event belongs to. Errors are event.ErrNotFound and
// event.ErrUnavailable.
func (r *Reader) EventEndpoint(ctx context.Context, account string, d id.ID) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	if d.Time().Before(r.oldest()) {
		return "", event.ErrNotFound
	}
	endpoint, err := r.endpointOf(ctx, account, d) // it never changes, so what is there needs no fence
	if !errors.Is(err, event.ErrNotFound) && !errors.Is(err, event.ErrUnavailable) {
		return endpoint, err
	}
	if asOf, fenceErr := r.fence.one(ctx, d.Partition()); fenceErr != nil {
		return "", readError(ctx, fenceErr)
	} else if asOf.IsZero() {
		return r.endpointOf(ctx, account, d)
	}
	e, logErr := r.scans.find(ctx, account, d)
	switch {
	case logErr == nil:
		return e.Endpoint, nil
	case errors.Is(logErr, event.ErrNotFound):
		return "", err // an old event may have left the log, so only the store may say that there is none
	}
	return "", logErr
}

func (r *Reader) endpointOf(ctx context.Context, account string, d id.ID) (endpoint string, err error) {
	q := r.one(new(query).add("SELECT endpoint FROM events"), account, d)
	err = r.each(ctx, q.add(" LIMIT 1"), func(rows driver.Rows) error { return rows.Scan(&endpoint) })
	if err == nil && endpoint == "" {
		err = event.ErrNotFound
	}
	return endpoint, err
}

// Standing tells what became of a receipt that the log has at offset. It waits until the store has it too;
// the error is event.ErrUnavailable when that takes too long.
func (r *Reader) Standing(ctx context.Context, sent *event.Receipt, offset int64) (event.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	at := stream.Partition{Topic: stream.Receipts, Index: sent.Event.Partition()}
	if err := r.fence.at(ctx, at, offset+1); err != nil {
		return event.Standing{}, readError(ctx, err)
	}
	newest, processed, err := r.receipts(ctx, sent.Account, sent.Event)
	if err != nil {
		return event.Standing{}, err
	}
	if newest == nil {
		return event.Standing{}, readError(ctx, errors.New("receipt is not in the store"))
	}
	return standing(sent, offset, newest, processed), nil
}

// standing derives what became of a receipt from the order of the log alone: whoever asks, and whatever came
// after it, gets the same answer. Only a receipt that said processed before it can have kept it out.
func standing(sent *event.Receipt, offset int64, newest *event.Receipt, processed uint64) event.Standing {
	mine := *sent
	mine.FirstAt = newest.FirstAt
	if sent.State == event.ProcessingDone || processed > uint64(offset)|processedBit {
		return event.Standing{Receipt: mine, Applied: true}
	}
	return event.Standing{Receipt: *newest}
}
