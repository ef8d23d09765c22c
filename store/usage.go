package store

import (
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// busiestEndpoints is how many endpoints Usage names.
const busiestEndpoints = 20

// longestSpan bounds the groups of one answer: a month, and the days before it that are recent.
const longestSpan = 50 * 24 * time.Hour

// Usage counts what an account has used in a span, whatever was acknowledged before included. Hours that are older
// than the newest few were counted by the writers; the events of the others are counted now.
func (r *Reader) Usage(ctx context.Context, account string, span event.UsageSpan) (event.Figures, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	asked := r.now()
	asOf, err := r.fence.all(ctx)
	if err != nil {
		return event.Figures{}, readError(ctx, err)
	}
	if asOf.IsZero() {
		asOf = asked
	}
	f := event.Figures{AsOf: asOf.UTC()}
	began := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.countUse(gctx, account, span, &f) })
	g.Go(func() error { return r.countRequests(gctx, account, span, &f) })
	if err := g.Wait(); err != nil {
		return event.Figures{}, err
	}
	f.Took = time.Since(began)
	return f, nil
}

// countUse fills in what counts, by day and by endpoint.
func (r *Reader) countUse(ctx context.Context, account string, span event.UsageSpan, f *event.Figures) error {
	since := span.Recent
	if span.From.Before(since) {
		since = span.From
	}
	live := hourOf(r.now()).Add(-liveHours)
	// One pass over the hours gives both groups; within makes the days before the period count as recent alone.
	q := new(query).add("SELECT toUInt8(grouping(endpoint)) AS by_day, toDateTime(toStartOfDay(hour), 'UTC') AS day, endpoint")
	for _, column := range []string{"received", "sent", "findings", "bytes"} {
		q.add(", toInt64(sumIf("+column+", hour >= ", span.From).add("))")
	}
	q.add(", toInt64(sumIf(received + sent + findings, hour >= ", span.Recent).add("))")
	q.add(" FROM (SELECT t AS hour, endpoint, received, sent, findings, bytes FROM usage_hour FINAL WHERE account = ", account)
	q.add(" AND t >= ", since).add(" AND t < ", span.To).add(" AND t < ", live)
	q.add(" UNION ALL SELECT "+hourColumns+" FROM events FINAL WHERE account = ", account).add(" AND billed = 1")
	for _, from := range []time.Time{since, live} {
		q.add(" AND ts >= ", from).add(" AND id >= ", id.Lowest(from))
	}
	q.add(" AND ts < ", span.To).add(" AND id < ", id.Lowest(span.To))
	q.add(" GROUP BY hour, endpoint) GROUP BY GROUPING SETS ((day), (endpoint))")
	q.add(" ORDER BY by_day, sumIf(received + sent + findings, hour >= ", span.From).add(") DESC, endpoint LIMIT ", int(longestSpan/(24*time.Hour))).add(" BY by_day")
	err := r.each(ctx, q, func(rows driver.Rows) error {
		var byDay uint8
		var day time.Time
		var endpoint string
		var use event.Use
		var recent int64
		if err := rows.Scan(&byDay, &day, &endpoint, &use.Received, &use.Sent, &use.Findings, &use.Bytes, &recent); err != nil {
			return err
		}
		if byDay == 1 {
			f.Recent += recent
		}
		switch {
		case use.Total() == 0:
		case byDay == 1:
			f.Daily = append(f.Daily, event.DayUse{Day: day.UTC(), Use: use})
		case endpoint != "" && len(f.ByEndpoint) < busiestEndpoints: // findings belong to none
			f.ByEndpoint = append(f.ByEndpoint, event.EndpointUse{Endpoint: endpoint, Use: use})
		}
		return nil
	})
	slices.SortFunc(f.Daily, func(a, b event.DayUse) int { return a.Day.Compare(b.Day) })
	return err
}

// countRequests fills in the requests to destinations. A redo of the writer counts them again.
func (r *Reader) countRequests(ctx context.Context, account string, span event.UsageSpan, f *event.Figures) error {
	q := new(query).add("SELECT toInt64(sum(attempts)), toInt64(sum(delivered)) FROM usage_minute WHERE account = ", account)
	q.add(" AND t >= ", span.From).add(" AND t < ", span.To)
	return r.each(ctx, q, func(rows driver.Rows) error { return rows.Scan(&f.Attempts, &f.Deliveries) })
}
