package findings

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/internal/column"
)

// Occurrences are read back through windows of days, because a finding may have millions of hits: the first window is
// firstOccurrenceDays long, each further one occurrenceGrowth times as long. Hits are kept for hitDays.
const (
	firstOccurrenceDays = 2
	occurrenceGrowth    = 6
	hitDays             = 400
)

// Occurrences returns one page of the hits of a finding, newest first. The first page shows every hit that was
// acknowledged before the call, unless AsOf is set.
func (r Reader) Occurrences(ctx context.Context, q finding.OccurrenceQuery) (
	page finding.OccurrencePage, err error) {
	after := q.After
	ctx, end, asOf, err := r.Begin(ctx, after.At.IsZero(), r.Fence.WaitFindings)
	defer end()
	if page.AsOf = asOf; err != nil {
		return page, err
	}
	if after.At.IsZero() {
		after.At = r.Now().AddDate(0, 0, 2) // beyond the clocks of all nodes
	}
	name, err := id.Parse(finding.Prefix, q.Finding)
	if err != nil {
		return page, fmt.Errorf("read occurrences: %w", err)
	}
	oldest := r.Now().AddDate(0, 0, -hitDays)
	to := after.At.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	for days := firstOccurrenceDays; len(page.Rows) <= q.Limit && to.After(oldest); days *= occurrenceGrowth {
		from := to.AddDate(0, 0, -days)
		s := occurrenceQuery(&q, after, from, to, q.Limit+1-len(page.Rows)).ForEvents(name)
		err := r.Each(ctx, s, func(rows driver.Rows) error {
			o, err := scanOccurrence(rows)
			page.Rows = append(page.Rows, o)
			return err
		})
		if err != nil {
			return finding.OccurrencePage{}, err
		}
		to = from
	}
	if page.More = len(page.Rows) > q.Limit; page.More {
		page.Rows = page.Rows[:q.Limit]
	}
	return page, nil
}

// occurrenceQuery selects hits of the days [from, to) after a key. The keys are found first: reading all columns of a
// day's hits to sort them would cost a hundred times as much.
func occurrenceQuery(q *finding.OccurrenceQuery, after finding.OccurrenceKey, from, to time.Time, limit int) *ch.Query {
	where := func(s *ch.Query) *ch.Query {
		s.Add(" FROM findings_hits FINAL WHERE account = ", q.Account).Add(" AND finding = ", q.Finding)
		return s.Add(" AND day >= toDate(", from).Add(") AND day < toDate(", to).Add(")")
	}
	s := where(new(ch.Query).Add("SELECT at, hit, observed_at, toInt64(n), source, channel, severity, verified, test, " +
		"place, environment, release, method, agent, remote_ip, remote_net"))
	where(s.Add(" AND (day, hit) IN (SELECT day, hit"))
	s.Add(" AND (at, hit) < (", after.At).Add(", ", id.ID(after.Hit)).Add(")")
	s.Add(" ORDER BY at DESC, hit DESC LIMIT ", limit)
	return s.Add(") ORDER BY at DESC, hit DESC")
}

func scanOccurrence(rows driver.Rows) (o finding.Occurrence, err error) {
	var source, location string
	var severity, verified, test uint8
	var ip, network [16]byte
	err = rows.Scan(&o.At, &o.Hit, &o.ObservedAt, &o.N, &source, &o.Channel, &severity, &verified, &test, &location,
		&o.Environment, &o.Release, &o.Method, &o.Agent, &ip, &network)
	o.At, o.ObservedAt, o.Source, o.Severity = o.At.UTC(), o.ObservedAt.UTC(), finding.Source(source),
		finding.Severity(severity)
	o.Unverified, o.Test, o.Location, o.RemoteIP = verified == 0, test != 0, readLocation(location), column.IPFromBytes(ip)
	o.RemoteNet = finding.NetworkOf(column.IPFromBytes(network))
	return o, err
}
