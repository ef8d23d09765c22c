package read

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/column"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/read/fence"
)

// eventReader reads what belongs to one event.
type eventReader struct{ *Reader }

const (
	// detailAttempts bounds the attempts in the read of one event, detailBody their bodies in bytes.
	detailAttempts, detailBody = 200, 1 << 10
	// behindTimeout bounds a read of a store that did not pass the fence; after it the log is read instead. It also
	// bounds the read of a receipt from the log.
	behindTimeout = time.Second
	// attemptBody bounds the bodies in a page of attempts, in bytes; longer ones are never stored.
	attemptBody = 16 << 10
)

// Event returns one event with its deliveries, attempts and receipt. An event that ClickHouse does not have yet, or
// cannot return, is read from the log with its outcomes, and AsOf is set. Errors are event.ErrNotFound,
// event.ErrUnavailable and event.ErrOverloaded.
func (r *Reader) Event(ctx context.Context, account string, d id.ID) (*event.Detail, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	if d.Time().Before(r.Oldest()) {
		return nil, event.ErrNotFound
	}
	unstored, asOf, err := r.Fence.ReadPartition(ctx, d.Partition())
	if err != nil {
		return nil, err
	}
	release, err := r.AcquireSlot(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	inMemory := unstoredOf(unstored, account, d)
	var limit time.Duration // none: the store has just answered the writer
	switch {
	case !asOf.IsZero():
		limit = behindTimeout
	case unstored != nil:
		limit = r.Config.FenceWait + behindTimeout
	}
	detail, err := eventReader{r}.readStoreSoon(ctx, account, d, inMemory, limit)
	fromLog := errors.Is(err, event.ErrNotFound) || errors.Is(err, event.ErrUnavailable)
	var logErr error
	if fromLog {
		if detail, logErr = (eventReader{r}).readLog(ctx, account, d, asOf); !errors.Is(logErr, event.ErrNotFound) {
			err = logErr
		} // else an old event may be trimmed from the log, so only the store can tell that there is none
	}
	if errors.Is(err, event.ErrUnavailable) && !asOf.IsZero() && ctx.Err() == nil {
		// It is too old for the log, or the log cannot be read: wait for the store.
		detail, err = eventReader{r}.readStore(ctx, account, d, inMemory)
		mayBeNewer := !d.Time().Add(fence.LateAppend).Before(asOf) // than what the store has; clocks of nodes differ
		if mayBeNewer && errors.Is(err, event.ErrNotFound) && errors.Is(logErr, event.ErrUnavailable) {
			err = logErr // the log may have the event
		}
	}
	if err != nil {
		return nil, err
	}
	if detail.AsOf.IsZero() {
		detail.AsOf = asOf
	}
	if !asOf.IsZero() && !fromLog && detail.Status != event.Rejected && !detail.Status.Terminal() {
		// The store is behind: the log may know that it was delivered since.
		soon, cancel := context.WithTimeout(ctx, behindTimeout)
		defer cancel()
		if newer, err := (eventReader{r}).readLog(soon, account, d, asOf); err == nil && newer.AsOf.Equal(asOf) {
			detail, fromLog = newer, true
		}
	}
	if !detail.AsOf.IsZero() {
		eventReader{r}.addReceiptFromLog(ctx, detail, fromLog)
	}
	return detail, nil
}

// addReceiptFromLog sets the receipt that is current according to the log, while the store is behind: its sender has
// already got that answer. It leaves the receipt as it is when the log cannot be read within behindTimeout.
func (r eventReader) addReceiptFromLog(ctx context.Context, detail *event.Detail, fromLog bool) {
	ctx, cancel := context.WithTimeout(ctx, behindTimeout)
	defer cancel()
	ends, err := r.Topic.Ends(ctx, stream.Receipts)
	if err != nil {
		return
	}
	e := detail.Event
	end := ends[stream.Partition{Topic: stream.Receipts, Index: e.ID.Partition()}]
	known, err := receiptReader(r).receiptsWhileBehind(ctx, e.Account, e.ID, end, fromLog)
	if err == nil && known.newest != nil {
		detail.Receipt, detail.Processing = known.newest, known.newest.State
		detail.Receipt.FirstAt, detail.Receipt.Endpoint = known.first, e.Endpoint
	}
}

// HasEvent reports whether an event is durable: in the log, or in the store if it may be trimmed. After an error, such
// as event.ErrUnavailable, nothing is known.
func (r *Reader) HasEvent(ctx context.Context, account string, d id.ID) (bool, error) {
	_, err := r.lateScans.find(ctx, account, d)
	if errors.Is(err, event.ErrNotFound) {
		err = eventReader{r}.exists(ctx, account, d, r.lateScans)
	}
	if errors.Is(err, event.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// readStoreSoon is readStore, bounded unless limit is 0: ClickHouse may hang, and the log has the newest events.
func (r eventReader) readStoreSoon(
	ctx context.Context, account string, d id.ID, inMemory *unstoredRows, limit time.Duration,
) (*event.Detail, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return r.readStore(ctx, account, d, inMemory)
}

// readLog reads the event and its outcomes from the log. If the outcomes cannot be read, an event that was just
// accepted is returned as of then; of an older one it is not known what was delivered.
func (r eventReader) readLog(ctx context.Context, account string, d id.ID, asOf time.Time) (*event.Detail, error) {
	e, err := r.scans.find(ctx, account, d)
	if err != nil {
		return nil, err
	}
	if asOf.IsZero() {
		asOf = r.Fence.LastPassedAt()
	}
	detail := &event.Detail{Event: e, AsOf: asOf}
	if err := r.addOutcomesFromLog(ctx, detail); err != nil {
		if r.Now().Sub(d.Time()) > justAccepted {
			return nil, err
		}
		detail.AsOf = e.ReceivedAt()
		addDeliveries(detail, nil, nil, len(e.Body))
	}
	if r.Erased(d) {
		detail.Event = store.WithoutPayload(e)
		for i := range detail.Attempts {
			erasePayload(&detail.Attempts[i])
		}
	}
	return detail, nil
}

// erasePayload removes what an attempt has of an event whose payload was erased.
func erasePayload(a *event.AttemptRow) {
	a.RequestHeader, a.ResponseHeader, a.ResponseBody = "", "", nil
}

// readStore reads the event and everything about it from ClickHouse and from memory.
func (r eventReader) readStore(
	ctx context.Context, account string, d id.ID, inMemory *unstoredRows,
) (*event.Detail, error) {
	detail := new(event.Detail)
	var deliveries []event.Delivery
	var counts map[string]attemptCount
	size := 0
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		detail.Event, size, err = r.event(gctx, account, d, inMemory)
		return err
	})
	g.Go(func() error {
		return inMemory.readInOrder(gctx, func(ctx context.Context) (err error) {
			deliveries, err = r.deliveries(ctx, account, d, inMemory)
			return err
		}, func(ctx context.Context) (err error) {
			counts, err = r.addAttempts(ctx, account, detail, d, inMemory)
			return err
		})
	})
	g.Go(func() (err error) {
		detail.Receipt, err = receiptReader(r).receipt(gctx, account, d, inMemory)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	addDeliveries(detail, deliveries, counts, size)
	if detail.Receipt != nil {
		detail.Receipt.Endpoint = detail.Event.Endpoint
		detail.Processing = detail.Receipt.State
	}
	return detail, nil
}

// addDeliveries sets the summary and the deliveries of an event with a body of size bytes.
func addDeliveries(detail *event.Detail, deliveries []event.Delivery, counts map[string]attemptCount, size int) {
	detail.Summary = summarize(detail.Event, deliveries, size)
	detail.Deliveries = cluster.WithPending(detail.Event, deliveries)
	for i := range detail.Deliveries {
		c := counts[detail.Deliveries[i].Destination]
		detail.Deliveries[i].Attempts = c.n
		detail.Summary.Attempts += c.n
		if c.last.After(detail.LastAttemptAt) {
			detail.LastAttemptAt = c.last
		}
	}
}

// addAttempts reads the newest attempts of an event into detail, and counts all.
func (r eventReader) addAttempts(
	ctx context.Context, account string, detail *event.Detail, d id.ID, inMemory *unstoredRows,
) (counts map[string]attemptCount, err error) {
	detail.Attempts, detail.AttemptsTruncated, err = r.attempts(ctx, account, d,
		attemptRange{limit: detailAttempts, maxBody: detailBody}, inMemory)
	slices.Reverse(detail.Attempts)
	if err == nil && detail.AttemptsTruncated {
		return r.attemptCounts(ctx, account, d, id.ID{}, inMemory)
	}
	return countPerDestination(detail.Attempts), err
}

// summarize derives the list row of an event with a body of size bytes, without deliveries, attempts and receipt.
func summarize(e *event.Event, ds []event.Delivery, size int) event.Summary {
	s := event.Summary{
		ID: e.ID, Account: e.Account, Endpoint: e.Endpoint, Type: e.Type, Source: e.Source, Proof: e.Proof(),
		DuplicateOf: e.DuplicateOf, Processing: event.ProcessingNone, Size: size,
	}
	s.Status, s.Reason, s.Counts = event.Summarize(e, ds)
	for _, d := range ds {
		if !d.NextAttemptAt.IsZero() && (s.NextAttemptAt.IsZero() || d.NextAttemptAt.Before(s.NextAttemptAt)) {
			s.NextAttemptAt = d.NextAttemptAt
		}
	}
	return s
}

// whereEvent appends the conditions that select the rows of one event.
func whereEvent(q *ch.Query, account string, d id.ID) *ch.Query {
	return q.ForEvents(d).Add(" WHERE account = ", account).Add(" AND ts = ", d.Time()).Add(" AND id = ", d)
}

// event reads an event, and the size of its body as it was received.
func (r eventReader) event(ctx context.Context, account string, d id.ID, inMemory *unstoredRows) (
	found *event.Event, size int, err error) {
	if found, size = inMemory.event, inMemory.size; found == nil {
		err = r.Each(ctx, whereEvent(cluster.SelectFullEvent(), account, d).Add(" LIMIT 1"),
			func(rows driver.Rows) (err error) {
				found, size, err = cluster.ScanFullEvent(rows, account)
				return err
			})
	}
	if err == nil && found == nil {
		err = event.ErrNotFound
	}
	if err == nil && r.Erased(d) {
		found = store.WithoutPayload(found)
	}
	return found, size, err
}

func (r eventReader) deliveries(ctx context.Context, account string, d id.ID, inMemory *unstoredRows) (
	ds []event.Delivery, err error) {
	q := whereEvent(cluster.SelectVersions().Add(" FINAL"), account, d)
	ds, err = inMemory.readDeliveries(ctx, r.Reader, q)
	slices.SortFunc(ds, func(a, b event.Delivery) int { return cmp.Compare(a.Destination, b.Destination) })
	return ds, err
}

// attemptCount is the number of attempts to a destination, and the time of the last one.
type attemptCount struct {
	n    int
	last time.Time
}

// plus returns the count with one more attempt.
func (c attemptCount) plus(at time.Time) attemptCount {
	c.n++
	if at.After(c.last) {
		c.last = at
	}
	return c
}

// countPerDestination counts attempts in memory, as attemptCounts does in ClickHouse.
func countPerDestination(all []event.AttemptRow) map[string]attemptCount {
	counts := make(map[string]attemptCount)
	for _, a := range all {
		counts[a.Destination] = counts[a.Destination].plus(a.StartedAt)
	}
	return counts
}

// attemptCounts counts the attempts of an event by destination, only those older than below; the zero id counts all.
func (r eventReader) attemptCounts(
	ctx context.Context, account string, d, below id.ID, inMemory *unstoredRows,
) (map[string]attemptCount, error) {
	q := whereEvent(new(ch.Query).Add("SELECT dest, uniqExact(attempt), max(at) FROM attempts"), account, d)
	if !below.IsZero() {
		q.Add(" AND attempt < ", below)
	}
	inMemory.exceptAttempts(q)
	counts, err := cluster.ByKey(ctx, r.Cluster, q.Add(" GROUP BY dest"), scanCount[string])
	for of, o := range inMemory.attemptsBelow(below) {
		counts[of.dest] = counts[of.dest].plus(o.Attempt.StartedAt)
	}
	return counts, err
}

// Attempts returns one page of at most limit attempts of an event, newest first, with their bodies. before is the id of
// the last attempt on the previous page, zero on the first page, which waits for the fence. Errors are
// event.ErrNotFound, event.ErrUnavailable and event.ErrOverloaded.
func (r *Reader) Attempts(ctx context.Context, account string, d, before id.ID, limit int) (event.AttemptPage, error) {
	if d.Time().Before(r.Oldest()) {
		return event.AttemptPage{}, event.ErrNotFound
	}
	ctx, end, asOf, err := r.Begin(ctx, before.IsZero(), func(ctx context.Context) (time.Time, error) {
		return r.Fence.WaitPartition(ctx, d.Partition())
	})
	defer end()
	page := event.AttemptPage{AsOf: asOf}
	if err != nil {
		return page, err
	}
	page.Rows, page.More, err = eventReader{r}.attempts(ctx, account, d, attemptRange{before, limit, attemptBody},
		new(unstoredRows))
	if err != nil || len(page.Rows) > 0 {
		return page, err
	}
	return page, eventReader{r}.exists(ctx, account, d, r.scans)
}

// exists returns nil when the store or the log has the event, else event.ErrNotFound or an error of the read.
func (r eventReader) exists(ctx context.Context, account string, d id.ID, scans *scanner) error {
	found := false
	q := whereEvent(new(ch.Query).Add("SELECT 1 FROM events"), account, d)
	err := r.Each(ctx, q.Add(" LIMIT 1"), func(driver.Rows) error { found = true; return nil })
	if err != nil || found {
		return err
	}
	_, err = scans.find(ctx, account, d)
	return err
}

// attemptRange is a page of attempts: those before an id (zero: all), and the most bytes of each response's body.
type attemptRange struct {
	before         id.ID
	limit, maxBody int
}

// attempts reads the attempts of a page, newest first, and reports whether there are more. Duplicate rows are equal, so
// LIMIT 1 BY is enough; FINAL would also read the bodies of all rows in the same granules.
func (r eventReader) attempts(
	ctx context.Context, account string, d id.ID, page attemptRange, inMemory *unstoredRows,
) (list []event.AttemptRow, more bool, err error) {
	q := new(ch.Query).Add("SELECT ")
	reader := column.SelectAttempts(q, page.maxBody)
	whereEvent(q.Add(" FROM attempts"), account, d)
	if !page.before.IsZero() {
		q.Add(" AND attempt < ", page.before)
	}
	q.Add(" ORDER BY attempt DESC LIMIT 1 BY dest, attempt LIMIT ", page.limit+1)
	err = r.Each(ctx, q, func(rows driver.Rows) error {
		a, err := reader.Scan(rows)
		list = append(list, a)
		return err
	})
	list = inMemory.addAttempts(list, page)
	if err != nil || len(list) == 0 {
		return nil, false, err
	}
	if r.Erased(d) {
		for i := range list {
			erasePayload(&list[i])
		}
	}
	if more = len(list) > page.limit; more {
		list = list[:page.limit]
	}
	return list, more, r.numberAttempts(ctx, account, d, list, more, inMemory)
}

// numberAttempts sets the Number of the attempts of a page, newest first. older says that there are attempts before the
// page; they are counted first.
func (r eventReader) numberAttempts(
	ctx context.Context, account string, d id.ID, page []event.AttemptRow, older bool, inMemory *unstoredRows,
) (err error) {
	counts := make(map[string]attemptCount)
	if older {
		if counts, err = r.attemptCounts(ctx, account, d, page[len(page)-1].ID, inMemory); err != nil {
			return err
		}
	}
	for i := len(page) - 1; i >= 0; i-- {
		c := counts[page[i].Destination]
		c.n++
		counts[page[i].Destination], page[i].Number = c, c.n
	}
	return nil
}
