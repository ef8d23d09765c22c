package traffic

import (
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/schema"
)

// countTable is a table of requests by time and endpoint; each row counts one step of time.
type countTable struct {
	step time.Duration
	name ch.SQL
}

// countTables are the tables of requests, the finest step first. Hours and days are filled some time after they end;
// see store/write/counting.go.
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
func (r Counts) requests(q *ch.Query, account string, from, to time.Time, longest time.Duration) *ch.Query {
	var tables []countTable
	for _, t := range countTables {
		if t.step <= longest {
			tables = append(tables, t)
		}
	}
	all := splitSpan(tables, from, to, schema.HourOf(r.Now()).Add(-schema.LiveHours))
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
func sumRequests[K comparable](ctx context.Context, c *cluster.Cluster, q *ch.Query, into map[K]event.Requests) error {
	return c.Each(ctx, q, func(rows driver.Rows) error {
		var of K
		var n event.Requests
		err := rows.Scan(&of, &n.Attempts, &n.Delivered, &n.Failed)
		into[of] = addRequests(into[of], n)
		return err
	})
}

func addRequests(a, b event.Requests) event.Requests {
	return event.Requests{Attempts: a.Attempts + b.Attempts, Delivered: a.Delivered + b.Delivered,
		Failed: a.Failed + b.Failed}
}
