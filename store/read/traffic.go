package read

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/internal/ch"
	"github.com/eventrelay/relay/store/schema"
)

// minuteSpan is the longest span that Traffic returns by the minute; longer ones are returned by the hour.
const minuteSpan = 25 * time.Hour

// Traffic counts the requests to destinations in a span, by time and by endpoint, without waiting for the writer.
// Requests are counted at least once: rows that a writer inserts again after a crash count again. A span of up to 25
// hours is returned by the minute, a longer one by the hour; the span is widened to whole steps. Steps without a
// request are left out.
func (r *Reader) Traffic(ctx context.Context, account string, from, to time.Time) (event.Traffic, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	step, endpointStep := time.Minute, time.Hour
	if to.Sub(from) > minuteSpan {
		step, endpointStep = time.Hour, 24*time.Hour
	}
	from, to = from.Truncate(step), to.Add(step-1).Truncate(step)
	const sums = ", toInt64(sum(attempts)), toInt64(sum(delivered)), toInt64(sum(failed)) FROM "
	at := ch.SQL("t")
	if step == time.Hour {
		at = "toStartOfHour(t)"
	}
	byTime := usageReader{r}.requests(new(ch.Query).Add("SELECT "+at+" AS at"+sums), account, from, to, step).
		Add(" GROUP BY at")
	byEndpoint := usageReader{r}.requests(new(ch.Query).Add("SELECT endpoint"+sums), account, from, to, endpointStep).
		Add(" GROUP BY endpoint")
	traffic := event.Traffic{Step: step}
	points, endpoints := map[time.Time]event.Requests{}, map[string]event.Requests{}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return sumRequests(gctx, r, byTime, points) })
	g.Go(func() error { return sumRequests(gctx, r, byEndpoint, endpoints) })
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

// countTable is a table of requests by time and endpoint; each row counts one step of time.
type countTable struct {
	step time.Duration
	name ch.SQL
}

// countTables are the tables of requests, the finest step first. Hours and days are filled some time after they end;
// see store/write/hours.go.
var countTables = []countTable{
	{time.Minute, "usage_minute"}, {time.Hour, "attempts_hour FINAL"}, {24 * time.Hour, "attempts_day FINAL"}}

// tableSpan is the part of a span that one table answers.
type tableSpan struct {
	of       countTable
	from, to time.Time
}

// splitSpan divides [from, to) between tables, which are sorted by step, the finest first. The last table has the whole
// steps that end before counted, the time up to which steps are filled; the others have the rest.
func splitSpan(tables []countTable, from, to, counted time.Time) []tableSpan {
	coarsest, finer := tables[len(tables)-1], tables[:len(tables)-1]
	switch {
	case !from.Before(to):
		return nil
	case len(finer) == 0:
		return []tableSpan{{coarsest, from, to}}
	}
	begin, end := from.Add(coarsest.step-1).Truncate(coarsest.step), to.Truncate(coarsest.step)
	if last := counted.Truncate(coarsest.step); end.After(last) {
		end = last
	}
	if !begin.Before(end) {
		return splitSpan(finer, from, to, counted)
	}
	return slices.Concat(splitSpan(finer, from, begin, counted), []tableSpan{{coarsest, begin, end}},
		splitSpan(finer, end, to, counted))
}

// requests appends a subquery for the requests in [from, to), by time and endpoint, in steps of at most longest. from
// and to are whole minutes.
func (r usageReader) requests(q *ch.Query, account string, from, to time.Time, longest time.Duration) *ch.Query {
	var tables []countTable
	for _, t := range countTables {
		if t.step <= longest {
			tables = append(tables, t)
		}
	}
	all := splitSpan(tables, from, to, schema.HourOf(r.now()).Add(-schema.LiveHours))
	if len(all) == 0 {
		all = []tableSpan{{countTables[0], from, from}}
	}
	for i, p := range all {
		q.Add([]ch.SQL{"(", " UNION ALL "}[min(i, 1)])
		q.Add("SELECT t, endpoint, attempts, delivered, failed FROM "+p.of.name+" WHERE account = ", account).
			Add(" AND t >= ", p.from).Add(" AND t < ", p.to)
	}
	return q.Add(")")
}

// sumRequests runs a statement and adds up the counts of all shards, by key.
func sumRequests[K comparable](ctx context.Context, r *Reader, q *ch.Query, into map[K]event.Requests) error {
	return r.each(ctx, q, func(rows driver.Rows) error {
		var of K
		var n event.Requests
		err := rows.Scan(&of, &n.Attempts, &n.Delivered, &n.Failed)
		sum := into[of]
		into[of] = event.Requests{
			Attempts: sum.Attempts + n.Attempts, Delivered: sum.Delivered + n.Delivered, Failed: sum.Failed + n.Failed}
		return err
	})
}
