package read

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/internal/column"
)

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
	page.Rows, page.More, err = eventReader{r}.attempts(ctx, account, d, attemptRange{before, limit, attemptBody}, nil)
	if err != nil || len(page.Rows) > 0 {
		return page, err
	}
	return page, eventReader{r}.exists(ctx, account, d)
}

// exists returns nil when the store or the log has the event, else event.ErrNotFound or an error of the read.
func (r eventReader) exists(ctx context.Context, account string, d id.ID) error {
	found := false
	q := whereEvent(new(ch.Query).Add("SELECT 1 FROM events"), account, d)
	err := r.Each(ctx, q.Add(" LIMIT 1"), func(driver.Rows) error { found = true; return nil })
	if err != nil || found {
		return err
	}
	_, err = r.scans.find(ctx, account, d)
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
			list[i].RequestHeader, list[i].ResponseHeader, list[i].ResponseBody = "", "", nil
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
