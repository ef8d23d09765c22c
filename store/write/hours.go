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

// Usage is counted hour by hour, always from the events themselves, so that rows written again change nothing; requests
// to destinations are summed with it, from those of each minute, which count a row that is written again.
//
// Hours that are older than lazyHours when something of them is stored are counted before the offsets are committed: a
// crash in between lets the next owner store and count them again. Younger ones, which nearly everything belongs to,
// are counted once they have ended, and reads count the last liveHours themselves. What a writer had not
// counted when it died is counted by whoever takes its partitions over; see recount.
//
// A count can only grow, for events are only added until their retention drops them. So the greatest count of an hour
// is the newest: whoever counts when, and however late its row is written, and when events are gone what they came to
// stays. Minutes are kept for 35 days: requests that are stored later than that after they were made count nowhere.
const (
	lazyHours = time.Hour
	// hourSettles is how long after its end an hour is counted: most late events are there.
	hourSettles = 2 * time.Minute
	// recountHours is how far before the last hour that was ever counted a new owner begins. A writer counts within
	// hours, so a day is plenty.
	recountHours = 26 * time.Hour
	// countedAtOnce bounds the hours of one statement.
	countedAtOnce = 24
	countTimeout  = time.Minute
)

// dirtyHours are the hours of which something has come since they were counted.
type dirtyHours struct {
	mu      sync.Mutex // guards the rest
	hours   map[time.Time]bool
	recount bool // partitions were taken over, and nobody knows what their last owner had not counted
}

func newDirtyHours() *dirtyHours { return &dirtyHours{hours: make(map[time.Time]bool)} }

func (d *dirtyHours) add(hours ...time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range hours {
		d.hours[h] = true
	}
}

func (d *dirtyHours) addAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recount = true
}

func (d *dirtyHours) unknown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.recount
}

// take returns the hours that can be counted now and forgets them.
func (d *dirtyHours) take(now time.Time) (due []time.Time, recount bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for h := range d.hours {
		if !now.Before(h.Add(time.Hour + hourSettles)) {
			due = append(due, h)
			delete(d.hours, h)
		}
	}
	recount, d.recount = d.recount, false
	return due, recount
}

// countedHours are the hours of the batch's events that count, and of its requests, oldest first.
func (b *batch) countedHours() []time.Time {
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

// noteHours counts the old hours of a batch that was written and remembers the young ones. It returns an error only
// when ctx ended.
func (w *Writer) noteHours(ctx context.Context, s *shard, b *batch) error {
	hours := b.countedHours()
	young := schema.HourOf(time.Now()).Add(-lazyHours)
	i, _ := slices.BinarySearchFunc(hours, young, time.Time.Compare)
	old := hours[:i]
	s.dirty.add(hours[i:]...)
	for try := 0; len(old) > 0; try++ {
		left, err := s.countOld(ctx, old)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		case refused(err):
			// Not worth holding up what can be stored: it is tried again with the young ones.
			w.log.LogAttrs(ctx, slog.LevelError, "count usage", slog.Any("error", err))
			s.dirty.add(left...)
			return nil
		}
		w.setAway(ctx, s, err)
		if err := wait.For(ctx, pauses.After(try)); err != nil {
			return err
		}
		old = left
	}
	return nil
}

// CountUsage counts the hours that have ended and whose events have changed since they were last counted. What fails
// is tried again by the next call. It waits for Run to begin.
func (w *Writer) CountUsage(ctx context.Context) error {
	select {
	case <-w.connected:
	case <-ctx.Done():
		return ctx.Err()
	}
	var failed error
	for _, s := range w.shards { // one after the other: they are counted in the background
		failed = errors.Join(failed, s.countUsage(ctx, time.Now()))
	}
	return failed
}

// countOld counts hours that are over. What the last owner of partitions had not counted comes first: where to begin
// with that is told from the last hour that was counted.
func (s *shard) countOld(ctx context.Context, hours []time.Time) (left []time.Time, err error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	if s.dirty.unknown() {
		if err := s.countDirty(ctx, time.Now()); err != nil {
			return hours, err
		}
	}
	return s.count(ctx, hours)
}

func (s *shard) countUsage(ctx context.Context, now time.Time) error {
	s.counting.Lock()
	defer s.counting.Unlock()
	return s.countDirty(ctx, now)
}

func (s *shard) countDirty(ctx context.Context, now time.Time) error {
	hours, recount := s.dirty.take(now)
	if recount {
		since, err := s.countedUpTo(ctx, now)
		if err != nil {
			s.dirty.addAll()
			s.dirty.add(hours...)
			return err
		}
		for h := schema.HourOf(since); !h.After(now); h = h.Add(time.Hour) {
			hours = append(hours, h)
		}
	}
	slices.SortFunc(hours, time.Time.Compare)
	hours = slices.Compact(hours)
	left, err := s.count(ctx, hours)
	s.dirty.add(left...)
	if err != nil && recount {
		s.dirty.addAll() // the oldest come first, so what was counted says how far this came
	}
	return err
}

// countedUpTo is where a recount begins: well before the last hour that was counted, or with the oldest event.
func (s *shard) countedUpTo(ctx context.Context, now time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	var hours, events uint64
	var newest, oldest time.Time
	q := new(ch.Query).Add("SELECT count(), max(t) FROM usage_hour WHERE t <= ", now)
	if err := s.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&hours, &newest); err != nil {
		return now, fmt.Errorf("read the hours that were counted: %w", err)
	}
	if hours > 0 {
		return newest.Add(-recountHours), nil
	}
	// A probe's row is of nobody, and of 1970.
	err := s.conn.QueryRow(ctx, "SELECT count(), min(ts) FROM events WHERE account != ''").Scan(&events, &oldest)
	if err != nil {
		return now, fmt.Errorf("read the time of the oldest event: %w", err)
	}
	if events == 0 {
		return now, nil
	}
	return oldest, nil
}

// count counts the hours, given oldest first, and returns those that it did not get to.
func (s *shard) count(ctx context.Context, hours []time.Time) (left []time.Time, err error) {
	for left = hours; len(left) > 0; {
		n := 1
		for n < len(left) && n < countedAtOnce && left[n].Equal(left[n-1].Add(time.Hour)) {
			n++
		}
		if err := countRange(ctx, s.conn, left[0], left[n-1].Add(time.Hour)); err != nil {
			return left, err
		}
		left = left[n:]
	}
	return nil, nil
}

// countRange counts every hour of [from, to), and the days that they are of. The version of a row is its count; see
// above.
func countRange(ctx context.Context, conn driver.Conn, from, to time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	q := new(ch.Query).Add("INSERT INTO usage_hour (account, t, endpoint, received, sent, bytes, ver) SELECT account, "+
		schema.HourColumns+", count() FROM events FINAL WHERE billed = 1 AND ts >= ", from).Add(" AND ts < ", to)
	q.Add(" AND id >= ", id.Lowest(from)).Add(" AND id < ", id.Lowest(to))
	q.Add(" GROUP BY account, hour, endpoint" + byPartition)
	if err := execSpan(ctx, conn, q, "count usage", from, to); err != nil {
		return err
	}
	q = new(ch.Query).Add("INSERT INTO attempts_hour (account, t, endpoint, attempts, delivered, failed) "+
		"SELECT account, toStartOfHour(t) AS hour, endpoint, sum(usage_minute.attempts), sum(usage_minute.delivered), "+
		"sum(usage_minute.failed) FROM usage_minute WHERE t >= ", from).Add(" AND t < ", to)
	q.Add(" GROUP BY account, hour, endpoint")
	if err := execSpan(ctx, conn, q, "sum requests", from, to); err != nil {
		return err
	}
	return countDays(ctx, conn, schema.DayOf(from), schema.DayOf(to.Add(-1)).AddDate(0, 0, 1))
}

// countDays adds the hours of every day of [from, to) up, behind countRange. Of two that do so at once for different
// hours of a day the later one sees what both have counted, and its sum is the greater.
func countDays(ctx context.Context, conn driver.Conn, from, to time.Time) error {
	q := new(ch.Query).Add("INSERT INTO usage_day (account, t, endpoint, received, sent, bytes, ver) "+
		"SELECT account, toStartOfDay(t) AS day, endpoint, sum(received), sum(sent), sum(bytes), sum(ver) "+
		"FROM usage_hour FINAL WHERE t >= ", from).Add(" AND t < ", to).Add(" GROUP BY account, day, endpoint" + byPartition)
	if err := execSpan(ctx, conn, q, "add up usage", from, to); err != nil {
		return err
	}
	q = new(ch.Query).Add("INSERT INTO attempts_day (account, t, endpoint, attempts, delivered, failed) "+
		"SELECT account, toStartOfDay(t) AS day, endpoint, sum(attempts_hour.attempts), sum(attempts_hour.delivered), "+
		"sum(attempts_hour.failed) FROM attempts_hour FINAL WHERE t >= ", from).Add(" AND t < ", to)
	return execSpan(ctx, conn, q.Add(" GROUP BY account, day, endpoint"+byPartition), "add up requests", from, to)
}

// byPartition is for tables whose equal rows are of one partition.
const byPartition = " SETTINGS do_not_merge_across_partitions_select_final = 1"

func execSpan(ctx context.Context, conn driver.Conn, q *ch.Query, what string, from, to time.Time) error {
	if err := conn.Exec(ctx, q.Text(), q.Args()...); err != nil {
		return fmt.Errorf("%s from %s to %s: %w", what, from.Format(time.RFC3339), to.Format(time.RFC3339), err)
	}
	return nil
}
