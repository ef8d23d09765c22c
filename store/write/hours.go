package write

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/schema"
)

// Usage is counted per hour, always from the events themselves, so that rows inserted twice change nothing. Requests to
// destinations are summed per hour from usage_minute, where a row inserted twice counts twice.
//
// An hour that is older than youngHours when one of its rows is stored is counted before the offsets are committed:
// after a crash in between the next partition owner stores and counts it again. A younger hour, which nearly every row
// belongs to, is counted once it has ended; until then reads count the last schema.LiveHours themselves. Hours that a
// writer had not counted when it stopped are counted by the next owner of its partitions, see recountStart.
//
// A count only grows, because events are only added until the retention drops them. So the greatest count of an hour is
// the newest one, in whatever order writers count and insert; when the retention drops the events, the count stays.
// usage_minute keeps 35 days: a request that is stored later than that is not counted.
const (
	youngHours = time.Hour
	// countDelay is how long after its end an hour is counted; most late events are stored by then.
	countDelay = 2 * time.Minute
	// recountMargin is how long before the last counted hour a new owner begins to recount. Writers count within a few
	// hours, so a day suffices.
	recountMargin = 26 * time.Hour
	// hoursPerStatement is the largest number of hours that one statement counts.
	hoursPerStatement = 24
	countTimeout      = time.Minute
)

// dirtyHours are the hours with rows that were stored since the hour was last counted.
type dirtyHours struct {
	mu      sync.Mutex // guards hours and recount
	hours   map[time.Time]bool
	recount bool // partitions were taken over whose last owner may have left hours uncounted
}

func newDirtyHours() *dirtyHours { return &dirtyHours{hours: make(map[time.Time]bool)} }

func (d *dirtyHours) mark(hours ...time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range hours {
		d.hours[h] = true
	}
}

func (d *dirtyHours) requireRecount() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recount = true
}

func (d *dirtyHours) needsRecount() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recount
}

// takeDue removes and returns the hours that can be counted now, and whether a recount is required.
func (d *dirtyHours) takeDue(now time.Time) (due []time.Time, recount bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for h := range d.hours {
		if !now.Before(h.Add(time.Hour + countDelay)) {
			due = append(due, h)
			delete(d.hours, h)
		}
	}
	recount, d.recount = d.recount, false
	return due, recount
}

// usageHours returns the hours of the batch's billed events and of its requests, oldest first.
func (b *batch) usageHours() []time.Time {
	seen := make(map[time.Time]bool)
	for _, e := range b.events {
		if e.billed() == 1 {
			seen[schema.HourOf(e.ID.Time())] = true
		}
	}
	for _, a := range b.attempts {
		seen[schema.HourOf(a.Attempt.StartedAt)] = true
	}
	hours := make([]time.Time, 0, len(seen))
	for h := range seen {
		hours = append(hours, h)
	}
	slices.SortFunc(hours, time.Time.Compare)
	return hours
}

// updateUsage counts the old hours of a stored batch and marks the young ones as dirty. It returns an error only if ctx
// ended.
func (w *Writer) updateUsage(ctx context.Context, s *shard, b *batch) error {
	hours := b.usageHours()
	young := schema.HourOf(time.Now()).Add(-youngHours)
	i, _ := slices.BinarySearchFunc(hours, young, time.Time.Compare)
	old := hours[:i]
	s.dirty.mark(hours[i:]...)
	for try := 0; len(old) > 0; try++ {
		left, err := s.countOld(ctx, old)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		case rowsRejected(err):
			// It must not block the rows that can be stored: these hours are counted again with the young ones.
			w.log.LogAttrs(ctx, slog.LevelError, "cannot count usage, counting again later", slog.Any("error", err))
			s.dirty.mark(left...)
			return nil
		}
		w.setUnavailable(ctx, s, err)
		if err := wait.For(ctx, pauses.After(try)); err != nil {
			return err
		}
		old = left
	}
	return nil
}

// CountUsage counts the dirty hours that have ended. Hours whose count failed are counted by the next call. It waits
// until Run has connected.
func (w *Writer) CountUsage(ctx context.Context) error {
	select {
	case <-w.connected:
	case <-ctx.Done():
		return ctx.Err()
	}
	var failed error
	for _, s := range w.shards { // one shard after the other, as a background load
		failed = errors.Join(failed, s.countUsage(ctx, time.Now()))
	}
	return failed
}

// countOld counts hours that have ended. A required recount comes first, because recountStart reads the last counted
// hour.
func (s *shard) countOld(ctx context.Context, hours []time.Time) (left []time.Time, err error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	if s.dirty.needsRecount() {
		if err := s.countDirty(ctx, time.Now()); err != nil {
			return hours, err
		}
	}
	return s.countHours(ctx, hours)
}

func (s *shard) countUsage(ctx context.Context, now time.Time) error {
	s.counting.Lock()
	defer s.counting.Unlock()
	return s.countDirty(ctx, now)
}

func (s *shard) countDirty(ctx context.Context, now time.Time) error {
	hours, recount := s.dirty.takeDue(now)
	if recount {
		since, err := s.recountStart(ctx, now)
		if err != nil {
			s.dirty.requireRecount()
			s.dirty.mark(hours...)
			return err
		}
		for h := schema.HourOf(since); !h.After(now); h = h.Add(time.Hour) {
			hours = append(hours, h)
		}
	}
	slices.SortFunc(hours, time.Time.Compare)
	hours = slices.Compact(hours)
	left, err := s.countHours(ctx, hours)
	s.dirty.mark(left...)
	if err != nil && recount {
		s.dirty.requireRecount() // hours are counted oldest first, so the next recount begins where this one failed
	}
	return err
}

// recountStart returns where a recount begins: recountMargin before the last counted hour, or at the oldest event.
func (s *shard) recountStart(ctx context.Context, now time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	var hours, events uint64
	var newest, oldest time.Time
	q := new(ch.Query).Add("SELECT count(), max(t) FROM usage_hour WHERE t <= ", now)
	if err := s.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&hours, &newest); err != nil {
		return now, fmt.Errorf("read the last counted hour: %w", err)
	}
	if hours > 0 {
		return newest.Add(-recountMargin), nil
	}
	// The row of a probe has no account, and its time is 1970.
	err := s.conn.QueryRow(ctx, "SELECT count(), min(ts) FROM events WHERE account != ''").Scan(&events, &oldest)
	if err != nil {
		return now, fmt.Errorf("read the time of the oldest event: %w", err)
	}
	if events == 0 {
		return now, nil
	}
	return oldest, nil
}

// countHours counts the hours, given oldest first, and returns those that were not counted.
func (s *shard) countHours(ctx context.Context, hours []time.Time) (left []time.Time, err error) {
	for left = hours; len(left) > 0; {
		n := 1
		for n < len(left) && n < hoursPerStatement && left[n].Equal(left[n-1].Add(time.Hour)) {
			n++
		}
		if err := countRange(ctx, s.conn, left[0], left[n-1].Add(time.Hour)); err != nil {
			return left, err
		}
		left = left[n:]
	}
	return nil, nil
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
