package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
)

// minuteSpan is the longest span of which Traffic tells every minute; it tells the hours of longer ones.
const minuteSpan = 25 * time.Hour

// Traffic counts the requests to destinations in a span, by time and by endpoint: what is there, without waiting for
// the writer. A redo of the writer counts requests again. A span of up to 25 hours is told by the minute, a longer
// one by the hour; the span is widened to whole ones. Times without a request are left out.
func (r *Reader) Traffic(ctx context.Context, account string, from, to time.Time) (event.Traffic, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	fine, coarse, step, long := sql("usage_minute"), sql("requests_hour"), time.Minute, time.Hour
	if to.Sub(from) > minuteSpan {
		fine, coarse, step, long = "requests_hour", "requests_day", time.Hour, 24*time.Hour
	}
	from, to = from.Truncate(step), to.Add(step-1).Truncate(step)
	const sums = ", toInt64(sum(attempts)), toInt64(sum(delivered)), toInt64(sum(failed)) FROM "
	byTime := within(new(query).add("SELECT t"+sums+fine), account, from, to).add(" GROUP BY t")
	byEndpoint := inSteps(new(query).add("SELECT endpoint"+sums+"("), "endpoint, attempts, delivered, failed", coarse, fine, account, from, to, long)
	byEndpoint.add(") GROUP BY endpoint")
	traffic := event.Traffic{Step: step}
	points, endpoints := map[time.Time]event.Requests{}, map[string]event.Requests{}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return eachRequests(gctx, r, byTime, points) })
	g.Go(func() error { return eachRequests(gctx, r, byEndpoint, endpoints) })
	if err := g.Wait(); err != nil {
		return traffic, err
	}
	for at, n := range points {
		traffic.Points = append(traffic.Points, event.TrafficPoint{At: at.UTC(), Requests: n})
	}
	slices.SortFunc(traffic.Points, func(a, b event.TrafficPoint) int { return a.At.Compare(b.At) })
	for endpoint, n := range endpoints {
		traffic.Endpoints = append(traffic.Endpoints, event.EndpointTraffic{Endpoint: endpoint, Requests: n})
	}
	slices.SortFunc(traffic.Endpoints, func(a, b event.EndpointTraffic) int {
		return cmp.Or(cmp.Compare(b.Attempts, a.Attempts), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return traffic, nil
}

// eachRequests adds the counts of all shards up.
// within appends the conditions on a table that counts by time.
func within(q *query, account string, from, to time.Time) *query {
	return q.add(" WHERE account = ", account).add(" AND t >= ", from).add(" AND t < ", to)
}

// inSteps appends what selects columns of [from, to): of whole long steps from the coarse table, of what is before and
// behind them from the fine one.
func inSteps(q *query, columns, coarse, fine sql, account string, from, to time.Time, long time.Duration) *query {
	first, last := from.Add(long-1).Truncate(long), to.Truncate(long)
	if !first.Before(last) {
		return within(q.add("SELECT "+columns+" FROM "+fine), account, from, to)
	}
	within(q.add("SELECT "+columns+" FROM "+coarse), account, first, last)
	within(q.add(" UNION ALL SELECT "+columns+" FROM "+fine), account, from, to)
	return q.add(" AND (t < ", first).add(" OR t >= ", last).add(")")
}

func eachRequests[K comparable](ctx context.Context, r *Reader, q *query, into map[K]event.Requests) error {
	return r.each(ctx, q, func(rows driver.Rows) error {
		var of K
		var n event.Requests
		err := rows.Scan(&of, &n.Attempts, &n.Delivered, &n.Failed)
		sum := into[of]
		into[of] = event.Requests{Attempts: sum.Attempts + n.Attempts, Delivered: sum.Delivered + n.Delivered, Failed: sum.Failed + n.Failed}
		return err
	})
}
