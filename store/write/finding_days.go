package write

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/store/internal/ch"
)

// The UTC days of findings, see counting.go.

// daysOfFindings counts the usage of findings by the UTC day: one for each finding and source with a billed hit. Reads
// count today and yesterday themselves (schema.LiveFindings).
func daysOfFindings() *tally {
	return &tally{length: 24 * time.Hour, spansOf: (*batch).findingDays, count: countFindings,
		counted: "SELECT count(), max(t) FROM usage_day WHERE endpoint = '' AND t <= ",
		oldest:  "SELECT count(), toDateTime(min(day), 'UTC') FROM findings_hits WHERE account != ''",
		dirty:   make(map[time.Time]bool)}
}

// findingDays returns the days of the batch's billed hits, oldest first.
func (b *batch) findingDays() []time.Time {
	seen := make(map[time.Time]bool)
	for _, h := range sinkOf[*hitRow](b).rows {
		if h.Billed {
			seen[h.day] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), time.Time.Compare)
}

// countFindings counts every day of [from, to). Rows that are stored twice count once without FINAL, because the number
// of different findings and sources is counted. The version of a row is its count.
func countFindings(ctx context.Context, conn driver.Conn, from, to time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	q := new(ch.Query).Add("INSERT INTO usage_day (account, t, endpoint, findings, ver) SELECT account, "+
		"toDateTime(day, 'UTC'), '', uniqExact(finding, source) AS number, number FROM findings_hits WHERE billed = 1 AND "+
		"day >= toDate(", from).Add(") AND day < toDate(", to).Add(") GROUP BY account, day")
	return execForSpan(ctx, conn, q, "count findings", from, to)
}
