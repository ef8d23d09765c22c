package write

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/schema"
)

// The hours of events and of requests to destinations, see counting.go.

// hoursOfEvents counts usage by the hour, always from the events themselves, so that rows inserted twice change
// nothing. Until an hour has ended, reads count it themselves, as they do the last schema.LiveHours. Requests to
// destinations are summed per hour from usage_minute, where a row inserted twice counts twice; it keeps 35 days: a
// request that is stored later than that is not counted.
func hoursOfEvents() *tally {
	return &tally{length: time.Hour, spansOf: (*batch).usageHours, count: countRange,
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
