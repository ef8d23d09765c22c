package write

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/semaphore"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/schema"
)

// Usage is counted in spans: events by the hour, findings by the UTC day.
//
// A span that has ended more than a span ago when one of its rows is stored is counted before the offsets are
// committed: after a crash in between the next partition owner stores and counts it again. A younger span, which nearly
// every row belongs to, is counted once it has ended; until then reads count it themselves. Spans that a writer had not
// counted when it stopped are counted by the next owner of its partitions, see recountStart.
//
// A count only grows, because rows are only added until the retention drops them. So the greatest count of a span is
// the newest one, in whatever order writers count and insert; when the retention drops the rows, the count stays.
const (
	// countDelay is how long after its end a span is counted; most late rows are stored by then.
	countDelay = 2 * time.Minute
	// recountMargin is how long before the last counted span a new owner begins to recount. Writers count within a few
	// hours, so a day suffices.
	recountMargin = 26 * time.Hour
	// spansPerStatement is the largest number of spans that one statement counts.
	spansPerStatement = 24
	countTimeout      = time.Minute
)

// tally counts one kind of usage of a shard.
type tally struct {
	length time.Duration // of a span
	// spansOf returns the spans of a batch, oldest first.
	spansOf func(*batch) []time.Time
	// count counts every span of [from, to).
	count func(ctx context.Context, conn driver.Conn, from, to time.Time) error
	// counted is the beginning of a statement for the number and the time of counted spans up to a time, oldest a
	// statement for the number of rows that are counted and the time of the oldest one.
	counted, oldest ch.SQL

	counting *semaphore.Weighted // weight 1; held while counting: each statement takes up to countTimeout

	mu      sync.Mutex         // guards dirty and recount
	dirty   map[time.Time]bool // the spans with rows that were stored since the span was last counted
	recount bool               // partitions were taken over whose last owner may have left spans uncounted
}

// spanOf returns the beginning of the span of a time, in UTC.
func (t *tally) spanOf(at time.Time) time.Time { return at.UTC().Truncate(t.length) }

func (t *tally) mark(spans ...time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range spans {
		t.dirty[s] = true
	}
}

func (t *tally) requireRecount() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.recount = true
}

func (t *tally) needsRecount() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.recount
}

// takeDue removes and returns the spans that can be counted now, and whether a recount is required.
func (t *tally) takeDue(now time.Time) (due []time.Time, recount bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.dirty {
		if !now.Before(s.Add(t.length + countDelay)) {
			due = append(due, s)
			delete(t.dirty, s)
		}
	}
	recount, t.recount = t.recount, false
	return due, recount
}

// updateUsage counts the old spans of a stored batch and marks the young ones as dirty. It returns an error only if ctx
// ended.
func (l *loader) updateUsage(ctx context.Context, s *shard, b *batch) error {
	t, spans := s.usage, s.usage.spansOf(b)
	young := t.spanOf(time.Now()).Add(-t.length)
	i, _ := slices.BinarySearchFunc(spans, young, time.Time.Compare)
	old := spans[:i]
	t.mark(spans[i:]...)
	for try := 0; len(old) > 0; try++ {
		left, err := t.countOld(ctx, s.conn, old)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		case rowsRejected(err):
			// It must not block the rows that can be stored: these spans are counted again with the young ones.
			l.log.LogAttrs(ctx, slog.LevelError, "cannot count usage, counting again later", slog.Any("error", err))
			t.mark(left...)
			return nil
		}
		l.setUnavailable(ctx, s, err)
		if err := wait.For(ctx, pauses.After(try)); err != nil {
			return err
		}
		old = left
	}
	return nil
}

// CountUsage counts the dirty hours and days that have ended. Those whose count failed are counted by the next call. It
// waits until Run has connected.
func (w *Writer) CountUsage(ctx context.Context) error {
	select {
	case <-w.connected:
	case <-ctx.Done():
		return ctx.Err()
	}
	var failed error
	for _, l := range w.loaders {
		for _, s := range l.shards { // one shard after the other, as a background load
			failed = errors.Join(failed, s.usage.countAll(ctx, s.conn, time.Now()))
		}
	}
	return failed
}

// countOld counts spans that have ended. A required recount comes first, because recountStart reads the last counted
// span.
func (t *tally) countOld(ctx context.Context, conn driver.Conn, spans []time.Time) (left []time.Time, err error) {
	if err := t.counting.Acquire(ctx, 1); err != nil {
		return spans, err
	}
	defer t.counting.Release(1)
	if t.needsRecount() {
		if err := t.countDirty(ctx, conn, time.Now()); err != nil {
			return spans, err
		}
	}
	return t.countSpans(ctx, conn, spans)
}

func (t *tally) countAll(ctx context.Context, conn driver.Conn, now time.Time) error {
	if err := t.counting.Acquire(ctx, 1); err != nil {
		return err
	}
	defer t.counting.Release(1)
	return t.countDirty(ctx, conn, now)
}

func (t *tally) countDirty(ctx context.Context, conn driver.Conn, now time.Time) error {
	spans, recount := t.takeDue(now)
	if recount {
		since, err := t.recountStart(ctx, conn, now)
		if err != nil {
			t.requireRecount()
			t.mark(spans...)
			return err
		}
		for s := t.spanOf(since); !s.After(now); s = s.Add(t.length) {
			spans = append(spans, s)
		}
	}
	slices.SortFunc(spans, time.Time.Compare)
	spans = slices.Compact(spans)
	left, err := t.countSpans(ctx, conn, spans)
	t.mark(left...)
	if err != nil && recount {
		t.requireRecount() // spans are counted oldest first, so the next recount begins where this one failed
	}
	return err
}

// recountStart returns where a recount begins: recountMargin before the last counted span, or at the oldest row.
func (t *tally) recountStart(ctx context.Context, conn driver.Conn, now time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	var spans, rows uint64
	var newest, oldest time.Time
	q := new(ch.Query).Add(t.counted, now)
	if err := conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&spans, &newest); err != nil {
		return now, fmt.Errorf("read the last counted hour or day: %w", err)
	}
	if spans > 0 {
		return newest.Add(-recountMargin), nil
	}
	q = new(ch.Query).Add(t.oldest)
	if err := conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&rows, &oldest); err != nil {
		return now, fmt.Errorf("read the time of the oldest row that is counted: %w", err)
	}
	if rows == 0 {
		return now, nil
	}
	return oldest, nil
}

// countSpans counts the spans, given oldest first, and returns those that were not counted.
func (t *tally) countSpans(ctx context.Context, conn driver.Conn, spans []time.Time) (left []time.Time, err error) {
	for left = spans; len(left) > 0; {
		n := 1
		for n < len(left) && n < spansPerStatement && left[n].Equal(left[n-1].Add(t.length)) {
			n++
		}
		if err := t.count(ctx, conn, left[0], left[n-1].Add(t.length)); err != nil {
			return left, err
		}
		left = left[n:]
	}
	return nil, nil
}

// The hours of events and of requests to destinations, see counting.go.

// hoursOfEvents counts usage by the hour, always from the events themselves, so that rows inserted twice change
// nothing. Until an hour has ended, reads count it themselves, as they do the last schema.LiveHours. Requests to
// destinations are summed per hour from usage_minute, where a row inserted twice counts twice; it keeps 35 days: a
// request that is stored later than that is not counted.
func hoursOfEvents() *tally {
	return &tally{counting: semaphore.NewWeighted(1), length: time.Hour, spansOf: (*batch).usageHours, count: countRange,
		counted: "SELECT count(), max(t) FROM usage_hour WHERE t <= ",
		// The row of a probe has no account, and its time is 1970.
		oldest: "SELECT count(), min(ts) FROM events WHERE account != ''",
		dirty:  make(map[time.Time]bool)}
}

// usageHours returns the hours of the batch's billed events and of its requests, oldest first.
func (b *batch) usageHours() []time.Time {
	seen := make(map[time.Time]bool)
	for _, e := range sinkOf[*eventRow](b).rows {
		if e.billed() == 1 {
			seen[schema.HourOf(e.ID.Time())] = true
		}
	}
	for _, d := range sinkOf[*deliveryRow](b).rows {
		if d.hasAttempt() {
			seen[schema.HourOf(d.Attempt.StartedAt)] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), time.Time.Compare)
}

// countRange counts every hour of [from, to) and then sums their days. The version of a row is its count, see above.
func countRange(ctx context.Context, conn driver.Conn, from, to time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	q := new(ch.Query).Add("INSERT INTO usage_hour (account, t, endpoint, received, sent, bytes, ver) SELECT account, "+
		schema.HourColumns+", count() FROM events FINAL WHERE billed = 1 AND ts >= ", from).Add(" AND ts < ", to)
	q.Add(" AND id >= ", id.Lowest(from)).Add(" AND id < ", id.Lowest(to))
	q.Add(" GROUP BY account, hour, endpoint" + finalPerPartition)
	if err := execForSpan(ctx, conn, q, "count usage", from, to); err != nil {
		return err
	}
	q = new(ch.Query).Add("INSERT INTO attempts_hour (account, t, endpoint, attempts, delivered, failed) "+
		"SELECT account, toStartOfHour(t) AS hour, endpoint, sum(usage_minute.attempts), sum(usage_minute.delivered), "+
		"sum(usage_minute.failed) FROM usage_minute WHERE t >= ", from).Add(" AND t < ", to)
	q.Add(" GROUP BY account, hour, endpoint")
	if err := execForSpan(ctx, conn, q, "sum requests", from, to); err != nil {
		return err
	}
	return countDays(ctx, conn, schema.DayOf(from), schema.DayOf(to.Add(-1)).AddDate(0, 0, 1))
}

// countDays sums the hours of every day of [from, to) after countRange. Of two concurrent sums of one day the later one
// reads the hours of both, so its sum is the greater and wins.
func countDays(ctx context.Context, conn driver.Conn, from, to time.Time) error {
	q := new(ch.Query).Add("INSERT INTO usage_day (account, t, endpoint, received, sent, bytes, ver) "+
		"SELECT account, toStartOfDay(t) AS day, endpoint, sum(received), sum(sent), sum(bytes), sum(ver) "+
		"FROM usage_hour FINAL WHERE t >= ", from).Add(" AND t < ", to).
		Add(" GROUP BY account, day, endpoint" + finalPerPartition)
	if err := execForSpan(ctx, conn, q, "add up usage", from, to); err != nil {
		return err
	}
	q = new(ch.Query).Add("INSERT INTO attempts_day (account, t, endpoint, attempts, delivered, failed) "+
		"SELECT account, toStartOfDay(t) AS day, endpoint, sum(attempts_hour.attempts), sum(attempts_hour.delivered), "+
		"sum(attempts_hour.failed) FROM attempts_hour FINAL WHERE t >= ", from).Add(" AND t < ", to)
	return execForSpan(ctx, conn, q.Add(" GROUP BY account, day, endpoint"+finalPerPartition), "add up requests", from, to)
}

// finalPerPartition speeds up FINAL on tables whose rows with equal keys are always in one partition.
const finalPerPartition = " SETTINGS do_not_merge_across_partitions_select_final = 1"

func execForSpan(ctx context.Context, conn driver.Conn, q *ch.Query, action string, from, to time.Time) error {
	if err := conn.Exec(ctx, q.Text(), q.Args()...); err != nil {
		return fmt.Errorf("%s from %s to %s: %w", action, from.Format(time.RFC3339), to.Format(time.RFC3339), err)
	}
	return nil
}
