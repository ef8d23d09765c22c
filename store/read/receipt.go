package read

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/column"
)

// receiptReader reads the receipts of one event from the store and from the log.
type receiptReader struct{ *Reader }

// receiptHistory summarizes all receipts of an event.
type receiptHistory struct {
	newest    *event.Receipt // the current one, nil = none
	version   uint64         // of newest
	processed uint64         // lowest version with the state processed; 0 = none
	first     time.Time      // of the first receipt
	end       int64          // log offset: every receipt below it is included; 0 when only the store was read
}

// add includes one more receipt. Adding a receipt twice changes nothing.
func (k *receiptHistory) add(r *event.Receipt, offset int64) {
	version := r.Version(offset)
	if k.newest == nil || version > k.version {
		k.newest, k.version = r, version
	}
	if r.State == event.ProcessingDone && (k.processed == 0 || version < k.processed) {
		k.processed = version
	}
	if k.first.IsZero() || r.At.Before(k.first) {
		k.first = r.At
	}
}

// receipt reads the current receipt from the store and from memory, nil = none.
func (r receiptReader) receipt(ctx context.Context, account string, d id.ID, inMemory *unstoredRows) (
	*event.Receipt, error) {
	k, err := r.receipts(ctx, account, d)
	for _, x := range inMemory.receipts {
		own := *x.Receipt // the row is shared
		k.add(&own, x.offset)
	}
	if k.newest != nil {
		k.newest.FirstAt = k.first
	}
	return k.newest, err
}

// receipts reads the history of an event's receipts from the store.
func (r receiptReader) receipts(ctx context.Context, account string, d id.ID) (k receiptHistory, err error) {
	q := new(ch.Query).Add("SELECT * FROM (SELECT 1 AS newest, state, reference, details, at, ver FROM receipts")
	whereEvent(q, account, d).Add(" ORDER BY ver DESC LIMIT 1)")
	q.Add(" UNION ALL SELECT 0, '', '', '', min(first_at), min(processed) FROM receipt_firsts")
	whereEvent(q, account, d)
	err = r.Each(ctx, q.Add(" HAVING count() > 0"), func(rows driver.Rows) error {
		var newest uint8
		var state string
		var at time.Time
		var version uint64
		x := &event.Receipt{Event: d, Account: account}
		err := rows.Scan(&newest, &state, &x.Reference, &x.Details, &at, &version)
		switch {
		case newest == 1:
			x.State, x.At = event.Processing(state), column.TimeFromColumn(at)
			k.newest, k.version = x, version
		case version == noVersion:
			k.first = column.TimeFromColumn(at)
		default:
			k.first, k.processed = column.TimeFromColumn(at), version
		}
		return err
	})
	if k.newest == nil {
		return receiptHistory{}, err
	}
	k.newest.FirstAt = k.first
	return k, err
}

// noVersion stands in receipt_firsts for "no receipt with the state processed".
const noVersion = math.MaxUint64

// EventEndpoint returns the endpoint of an event. Errors are event.ErrNotFound, event.ErrUnavailable and
// event.ErrOverloaded.
func (r *Reader) EventEndpoint(ctx context.Context, account string, d id.ID) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	if d.Time().Before(r.Oldest()) {
		return "", event.ErrNotFound
	}
	release, err := r.AcquireSlot(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	endpoint, err := receiptReader{r}.endpointOf(ctx, account, d) // it never changes, so a stored row needs no fence
	if errors.Is(err, event.ErrNotFound) {
		asOf, fenceErr := r.Fence.WaitPartition(ctx, d.Partition())
		if fenceErr != nil {
			return "", fenceErr
		}
		if asOf.IsZero() {
			if endpoint, err = (receiptReader{r}).endpointOf(ctx, account, d); errors.Is(err, event.ErrNotFound) {
				return "", err
			}
		}
	}
	if !errors.Is(err, event.ErrNotFound) && !errors.Is(err, event.ErrUnavailable) {
		return endpoint, err
	}
	e, logErr := r.scans.find(ctx, account, d)
	switch {
	case logErr == nil:
		return e.Endpoint, nil
	case errors.Is(logErr, event.ErrNotFound):
		return "", err // an old event may be trimmed from the log, so only the store can tell that there is none
	}
	return "", logErr
}

func (r receiptReader) endpointOf(ctx context.Context, account string, d id.ID) (endpoint string, err error) {
	q := whereEvent(new(ch.Query).Add("SELECT endpoint FROM events"), account, d)
	err = r.Each(ctx, q.Add(" LIMIT 1"), func(rows driver.Rows) error { return rows.Scan(&endpoint) })
	if err == nil && endpoint == "" {
		err = event.ErrNotFound
	}
	return endpoint, err
}

// ReceiptResult returns the result of a receipt whose record has this offset. It waits until the store has the receipt;
// when that takes longer than the fence allows, it reads the missing receipts from the log. The error
// event.ErrUnavailable means that neither could be read.
func (r *Reader) ReceiptResult(ctx context.Context, sent *event.Receipt, offset int64) (event.ReceiptResult, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	at := stream.Partition{Topic: stream.Receipts, Index: sent.Event.Partition()}
	var known receiptHistory
	err := r.Fence.WaitOffset(ctx, at, offset+1)
	if err == nil {
		known, err = receiptReader{r}.receipts(ctx, sent.Account, sent.Event)
	}
	if err != nil && ctx.Err() == nil {
		known, err = receiptReader{r}.receiptsWhileBehind(ctx, sent.Account, sent.Event, offset+1, false)
	}
	if err == nil && known.newest == nil {
		err = errors.New("the receipt is in neither the store nor the log")
	}
	if err != nil {
		return event.ReceiptResult{}, ch.ClassifyError(ctx, err)
	}
	return resultOf(sent, offset, &known), nil
}

// receiptsWhileBehind reads the receipts of an event, at least all below the offset end, while the writer is behind.
// With withoutStore it reads the log only, which must have them all. Concurrent callers for one event share one load;
// each gets a receipt of its own.
func (r receiptReader) receiptsWhileBehind(
	ctx context.Context, account string, d id.ID, end int64, withoutStore bool,
) (known receiptHistory, err error) {
	flight := account + " " + d.String() + " " + strconv.FormatBool(withoutStore)
	for known.end < end {
		result := r.receiptLoads.DoChan(flight, func() (any, error) {
			load, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*scanTimeout)
			defer cancel()
			return r.loadReceipts(load, account, d, withoutStore)
		})
		select {
		case <-ctx.Done():
			return known, ctx.Err()
		case x := <-result:
			if x.Err != nil {
				return known, x.Err
			}
			known = x.Val.(receiptHistory) // its end may be lower: this load may have begun before the receipt was in the log
		}
	}
	if known.newest != nil {
		own := *known.newest
		known.newest = &own
	}
	return known, nil
}

// loadReceipts reads the stored receipts, and the later ones from the log. When the store is unavailable it reads all
// of them from the log, which has them as long as it has the event.
func (r receiptReader) loadReceipts(
	ctx context.Context, account string, d id.ID, withoutStore bool,
) (known receiptHistory, err error) {
	at := stream.Partition{Topic: stream.Receipts, Index: d.Partition()}
	// The committed offset is read first: everything below it is in the store by the time of the next read.
	committed, err := r.Topic.Committed(ctx, stream.StoreGroup, at.Topic)
	if err != nil {
		return known, err
	}
	from := max(committed[at], 0)
	if !withoutStore {
		storeCtx, cancel := context.WithTimeout(ctx, behindTimeout)
		known, err = r.receipts(storeCtx, account, d)
		cancel()
	}
	if withoutStore || err != nil {
		known = receiptHistory{}
		if from, err = r.receiptsStart(ctx, account, d); err != nil {
			return known, err
		}
	}
	ends, err := r.Topic.Ends(ctx, at.Topic)
	if err != nil {
		return known, err
	}
	known.end = ends[at]
	return known, r.readReceipts(ctx, &known, d, from)
}

// receiptsStart returns an offset below which the log never had a receipt of the event. It returns an error when
// receipts may be trimmed.
func (r receiptReader) receiptsStart(ctx context.Context, account string, d id.ID) (int64, error) {
	if _, err := r.scans.find(ctx, account, d); err != nil {
		return 0, err
	}
	return eventReader(r).firstOffsetAfter(ctx, stream.Partition{Topic: stream.Receipts, Index: d.Partition()}, d)
}

// readReceipts adds the receipts of an event in [from, known.end) of the log.
func (r receiptReader) readReceipts(ctx context.Context, known *receiptHistory, d id.ID, from int64) error {
	at, end := stream.Partition{Topic: stream.Receipts, Index: d.Partition()}, known.end
	if from >= end {
		return nil
	}
	release, err := r.scans.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	return r.Topic.Read(ctx, at, from, func(rec *stream.Record) error {
		if rec.Offset >= end {
			return stream.ErrStop
		}
		// An undecodable record is no receipt of this event; the writer sends it to the dead letter topic.
		if x, err := event.DecodeReceipt(rec); err == nil && x.Event == d {
			known.add(x, rec.Offset)
		}
		if rec.Offset == end-1 {
			return stream.ErrStop
		}
		return nil
	})
}

// resultOf derives the result of a receipt from the order of the log alone, so the answer is the same on every node and
// at any later time. Only an earlier receipt with the state processed can have overruled it.
func resultOf(sent *event.Receipt, offset int64, known *receiptHistory) event.ReceiptResult {
	current, applied := *sent, true
	if sent.State != event.ProcessingDone && known.processed != 0 && known.processed < processedVersion(offset) {
		current, applied = *known.newest, false
	}
	current.FirstAt, current.Endpoint = known.first, sent.Endpoint
	return event.ReceiptResult{Receipt: current, Applied: applied}
}

// processedVersion returns the version of a receipt with the state processed at this offset.
func processedVersion(offset int64) uint64 {
	return (&event.Receipt{State: event.ProcessingDone}).Version(offset)
}
