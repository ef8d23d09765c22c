package plans

import (
	"context"
	"time"

	"github.com/eventrelay/relay/features/leaks/findings"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/test/storetest"
)

// manyHits is the finding of fillFindings with most hitsOf(r).
const manyHits = 999

func filledFinding(n uint64) string {
	var d id.ID
	d[14], d[15] = byte(n>>8), byte(n)
	return d.Text(finding.Prefix)
}

// fillFindings stores 100,000 hits of 1,000 findings within 50 days, half of them of one finding, and the reports of 20
// senders for each minute of a day.
func (b *bench) fillFindings() {
	b.Helper()
	b.Exec("INSERT INTO findings_hits (account, finding, day, hit, at, observed_at, n, kind, rule, source, sender, " +
		"severity, verified, billed, masked, place) SELECT '" + storetest.Account + "', f, toDate(t), " +
		"toFixedString(unhex(leftPad(hex(number), 32, '0')), 16), t, t, 1, 'secret', 'stripe-secret-live', 'drain', " +
		"'drn_1', 3, 1, 1, '***', concat('{\"label\":\"shop', toString(number % 30), '\"}') FROM (SELECT number, " +
		"toDateTime64(now() - INTERVAL number * 43 SECOND, 3, 'UTC') AS t, arrayElement(" +
		arrayOfFindings() + ", if(number % 2 = 0, 1000, intDiv(number, 2) % 1000 + 1)) AS f FROM numbers(100000))")
	b.Exec("INSERT INTO senders_minute (account, sender, t, node, requests, lines, ver) SELECT '" + storetest.Account +
		"', concat('drn_', toString(number % 20)), toDateTime(now() - INTERVAL intDiv(number, 20) MINUTE, 'UTC'), 'n', 1, " +
		"1, 1 FROM numbers(28800)")
}

// arrayOfFindings returns the ids of the findings as an array of ClickHouse.
func arrayOfFindings() string {
	text := "["
	for n := range uint64(manyHits + 1) {
		if n > 0 {
			text += ","
		}
		text += "'" + filledFinding(n) + "'"
	}
	return text + "]"
}

func hitsOf(r *read.Reader) findings.Reader { return findings.Reader{Cluster: r.Cluster} }

// boundedFindingReads returns all kinds of reads of findings. A granule has 8,192 rows, and a finding or a day costs
// one of each month at least. A bound is about twice the measured rows.
func boundedFindingReads() []boundedRead {
	list := func(name string, most uint64, change func(*finding.Query)) boundedRead {
		return boundedRead{name, most, func(ctx context.Context, r *read.Reader) (int, error) {
			q := finding.Query{Account: storetest.Account, Limit: 50, Keep: func(string) bool { return true }}
			change(&q)
			page, err := hitsOf(r).Findings(ctx, q)
			return len(page.Rows), err
		}}
	}
	one := func(name string, most, n uint64) boundedRead {
		return boundedRead{name, most, func(ctx context.Context, r *read.Reader) (int, error) {
			row, _, err := hitsOf(r).Finding(ctx, storetest.Account, filledFinding(n))
			return len(row.Locations), err
		}}
	}
	occurrences := func(name string, most, n uint64) boundedRead {
		return boundedRead{name, most, func(ctx context.Context, r *read.Reader) (int, error) {
			page, err := hitsOf(r).Occurrences(ctx, finding.OccurrenceQuery{Account: storetest.Account,
				Finding: filledFinding(n), Limit: 50})
			return len(page.Rows), err
		}}
	}
	return []boundedRead{
		list("findings", 40_000, func(*finding.Query) {}),
		list("findings, one of many", 40_000, func(q *finding.Query) {
			q.IDs = []string{filledFinding(7)}
		}),
		list("findings, none", 3_000, func(q *finding.Query) { q.Rules = []string{"no-such"} }),
		one("finding of 50 hits", 35_000, 7), one("finding of 50,000", 125_000, manyHits),
		occurrences("occurrences of 50", 100_000, 7), occurrences("occurrences of 50,000", 32_000, manyHits),
		{"senders", 33_000, func(ctx context.Context, r *read.Reader) (int, error) {
			sent, err := hitsOf(r).Received(ctx, storetest.Account, []string{"drn_1", "drn_2"},
				time.Now().Add(-24*time.Hour))
			return len(sent), err
		}},
	}
}
