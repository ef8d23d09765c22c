package read

import (
	"cmp"
	"context"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/column"
	"github.com/eventrelay/relay/store/read/cluster"
)

// rowReader reads the rows of lists.
type rowReader struct{ *Reader }

// candidate is an event that may match a query, with the rows that determine its status.
type candidate struct {
	event.Event // without headers and body
	size        uint32
	deliveries  []event.Delivery
	summary     event.Summary // set by addStatuses
	receiptRead bool          // addReceiptStates has set the state of processing
	ofRun       bool          // one of the query's runs has or had a delivery of the event
	bodyUnread  bool          // the statement of a search could not parse the body
}

// any reports whether f is true for a delivery of the candidate.
func (c *candidate) any(f func(event.Delivery) bool) bool {
	return slices.ContainsFunc(c.deliveries, f)
}

const eventColumns ch.SQL = "SELECT id, endpoint, type, source, verdict, reason, duplicate_of, dests, size"

// selectEvents selects the columns that readEvents scans, from one of the two tables of events.
func selectEvents(from table) *ch.Query {
	return new(ch.Query).Add(eventColumns + ", false FROM ").Add(from.name)
}

// readEvents runs a statement of selectEvents, newest first, for at most limit rows (0 = all), and removes duplicate
// rows. seen is the number of rows before that.
func (r rowReader) readEvents(
	ctx context.Context, account string, q *ch.Query, limit int,
) (cands []candidate, seen int, err error) {
	key := func(c *candidate) id.ID { return c.ID }
	cands, err = cluster.Newest(ctx, r.Cluster, q, limit, key, func(rows driver.Rows) (c candidate, err error) {
		var duplicate id.ID
		err = rows.Scan(&c.ID, &c.Endpoint, &c.Type, (*string)(&c.Source), (*string)(&c.Verdict),
			(*string)(&c.Reason), &duplicate, &c.Dests, &c.size, &c.bodyUnread)
		c.Account, c.DuplicateOf = account, cluster.EventText(duplicate)
		return c, err
	})
	seen = len(cands)
	return slices.CompactFunc(cands, func(a, b candidate) bool { return a.ID == b.ID }), seen, err
}

// readByID reads those of the events that match the fixed filters of a walk.
func (r rowReader) readByID(ctx context.Context, w *walk, ids []id.ID) ([]candidate, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	q := selectEvents(w.eventsTable()).Add(" WHERE account = ", w.Account)
	ch.WhereIDs(w.addColumns(q, byEndpoint), ids)
	w.addColumns(q, fixedFilters&^byEndpoint)
	cands, _, err := r.readEvents(ctx, w.Account, q, 0)
	return cands, err
}

// addStatuses reads the deliveries of the candidates, which are ordered newest first, and derives their summaries.
func (r rowReader) addStatuses(ctx context.Context, account string, cands []candidate) error {
	if len(cands) == 0 {
		return nil
	}
	at := make(map[id.ID]*candidate, len(cands))
	ids := make([]id.ID, len(cands))
	for i := range cands {
		ids[i] = cands[i].ID
		at[cands[i].ID] = &cands[i]
	}
	q := ch.WhereIDs(cluster.SelectDeliveries().Add(" FINAL WHERE account = ", account), ids)
	err := r.Each(ctx, q, func(rows driver.Rows) error {
		d, of, err := cluster.ScanDelivery(rows)
		if err == nil {
			at[of].deliveries = append(at[of].deliveries, d)
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range cands {
		c := &cands[i]
		// The first delivery with the deciding status gives the reason; the order makes that the same one each time.
		slices.SortFunc(c.deliveries, func(a, b event.Delivery) int { return cmp.Compare(a.Destination, b.Destination) })
		c.summary = summarize(&c.Event, c.deliveries, int(c.size))
	}
	return nil
}

// addAttemptsAndReceipts adds the deliveries, the number and time of the attempts and the state of processing to the
// rows of a page, and with addStatus their statuses. States of processing that the filter has read are not read again.
func (r rowReader) addAttemptsAndReceipts(ctx context.Context, account string, page []candidate, addStatus bool) error {
	if len(page) == 0 {
		return nil
	}
	ids := idsOf(page)
	var attempts map[id.ID]attemptCount
	var receipts map[id.ID]event.Processing
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		if addStatus { // before the attempts, which the writer inserts first
			if err := r.addStatuses(gctx, account, page); err != nil {
				return err
			}
		}
		attempts, err = r.countAttempts(gctx, account, ids)
		return err
	})
	if !page[0].receiptRead { // equal for all rows of a page
		g.Go(func() (err error) { receipts, err = r.findReceipts(gctx, account, ids); return err })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range page {
		s, tried := &page[i].summary, attempts[page[i].ID]
		s.Attempts, s.LastAttemptAt = tried.n, tried.last
		s.Deliveries = cluster.WithPending(&page[i].Event, page[i].deliveries)
		if state, ok := receipts[page[i].ID]; ok {
			s.Processing = state
		}
	}
	return nil
}

func idsOf(cands []candidate) []id.ID {
	ids := make([]id.ID, len(cands))
	for i := range cands {
		ids[i] = cands[i].ID
	}
	return ids
}

// addReceiptStates reads the states of processing of the candidates.
func (r rowReader) addReceiptStates(ctx context.Context, account string, cands []candidate) error {
	receipts, err := r.findReceipts(ctx, account, idsOf(cands))
	if err != nil {
		return err
	}
	for i := range cands {
		cands[i].receiptRead = true
		if state, ok := receipts[cands[i].ID]; ok {
			cands[i].summary.Processing = state
		}
	}
	return nil
}

// addRuns sets ofRun of the candidates, which are ordered newest first.
func (r rowReader) addRuns(ctx context.Context, q *event.Query, cands []candidate) error {
	at := make(map[id.ID]*candidate, len(cands))
	ids := make([]id.ID, 0, len(cands))
	for i := range cands {
		if !cands[i].ofRun {
			ids = append(ids, cands[i].ID)
			at[cands[i].ID] = &cands[i]
		}
	}
	if len(ids) == 0 {
		return nil
	}
	find := new(ch.Query).Add("SELECT DISTINCT id FROM run_deliveries WHERE account = ", q.Account)
	return r.Each(ctx, ch.WhereIDs(find.Add(" AND run IN ", q.Runs), ids), func(rows driver.Rows) error {
		d, err := cluster.ScanID(rows)
		if c := at[d]; err == nil && c != nil {
			c.ofRun = true
		}
		return err
	})
}

func (r rowReader) countAttempts(ctx context.Context, account string, ids []id.ID) (map[id.ID]attemptCount, error) {
	q := new(ch.Query).Add("SELECT id, uniqExact(dest, attempt), max(at) FROM attempts WHERE account = ", account)
	return cluster.ByKey(ctx, r.Cluster, ch.WhereIDs(q, ids).Add(" GROUP BY id"), scanCount[id.ID])
}

func scanCount[K any](rows driver.Rows, of *K, c *attemptCount) error {
	var n uint64
	err := rows.Scan(of, &n, &c.last)
	c.n, c.last = int(n), column.TimeFromColumn(c.last)
	return err
}

func (r rowReader) findReceipts(ctx context.Context, account string, ids []id.ID) (map[id.ID]event.Processing, error) {
	q := new(ch.Query).Add("SELECT id, argMax(state, ver) FROM receipts WHERE account = ", account)
	return cluster.ByKey(ctx, r.Cluster, ch.WhereIDs(q, ids).Add(" GROUP BY id"),
		func(rows driver.Rows, d *id.ID, state *event.Processing) error { return rows.Scan(d, (*string)(state)) })
}
