// Package traffic counts events and requests: the usage of an account by day (usage.go), its overview of the last hour
// and day, and the traffic of destinations (overview.go). It reads tables of counts, which do not grow with the number
// of events; traffic.go chooses the coarsest ones that fit a span.
package traffic

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/schema"
)

// Counts counts the events and requests of accounts.
type Counts struct{ *cluster.Cluster }

// busiestEndpoints is how many endpoints Usage returns.
const busiestEndpoints = 20

// shardEndpoints is how many endpoints each shard returns when there are several. The sums of the busiest are exact in
// an account with no more endpoints; with more, they are exact unless an endpoint that moved is beyond this number on
// one shard.
const shardEndpoints = 10_000

// longestSpan bounds the days of one answer: a month, and the days of UsageSpan.Recent before it.
const longestSpan = 50 * 24 * time.Hour

// Usage counts the use in a span, with everything acknowledged before the call unless AsOf is older. The
// writers have counted all hours but the newest few; the events of these are counted now.
func (r Counts) Usage(ctx context.Context, of event.UsageOf, span event.UsageSpan) (event.Figures, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	asked := r.Now()
	asOf, err := r.Fence.WaitUsage(ctx)
	if err != nil {
		return event.Figures{}, err
	}
	if asOf.IsZero() {
		asOf = asked
	}
	f := event.Figures{AsOf: asOf.UTC()}
	began := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.countUse(gctx, of, span, &f) })
	g.Go(func() error { return r.countRequests(gctx, of, span, &f) })
	if err := g.Wait(); err != nil {
		return event.Figures{}, err
	}
	if span.EndpointDays {
		if err := r.countEndpointDays(ctx, of.Account, span, f.ByEndpoint); err != nil {
			return event.Figures{}, err
		}
	}
	f.QueryTime = time.Since(began)
	return f, nil
}

// useQuery returns a statement for the use by day and by endpoint.
func (r Counts) useQuery(of event.UsageOf, span event.UsageSpan) *ch.Query {
	// One pass over the hours yields both groups. sumIf counts the days before the period as recent only.
	q := new(ch.Query).Add("SELECT toUInt8(grouping(endpoint)) AS by_day, toDateTime(toStartOfDay(hour), 'UTC') AS " +
		"day, endpoint")
	for _, column := range []ch.SQL{"received", "sent", "findings", "bytes"} {
		q.Add(", toInt64(sumIf("+column+", hour >= ", span.From).Add("))")
	}
	q.Add(", toInt64(sumIf(received + sent + findings, hour >= ", span.Recent).Add("))")
	r.addUseRows(q, of.Account, span)
	if of.Endpoints != nil {
		q.Add(" WHERE has(", of.Endpoints).Add(", endpoint)")
	}
	q.Add(" GROUP BY GROUPING SETS ((day), (endpoint))")
	q.Add(" ORDER BY by_day, sumIf(received + sent + findings, hour >= ", span.From).
		Add(") DESC, endpoint LIMIT ", r.usageGroups()).Add(" BY by_day")
	return q
}

// addUseRows adds the use of a span by hour and endpoint as a subquery: from the tables of days and hours, and from the
// events of the hours that are not counted yet.
func (r Counts) addUseRows(q *ch.Query, account string, span event.UsageSpan) {
	since := span.Recent
	if span.From.Before(since) {
		since = span.From
	}
	live := schema.HourOf(r.Now()).Add(-schema.LiveHours)
	q.Add(" FROM (SELECT t AS hour, endpoint, received, sent, bytes, toUInt64(0) AS findings FROM usage_day FINAL WHERE "+
		"endpoint != '' AND account = ", account)
	edges := partialDays(span, live)
	q.Add(" AND t >= ", since).Add(" AND t < ", span.To).Add(" AND t < ", schema.DayOf(live))
	for _, day := range edges {
		q.Add(" AND (t < ", day).Add(" OR t > ", day).Add(")")
	}
	q.Add(" UNION ALL SELECT t AS hour, endpoint, received, sent, bytes, toUInt64(0) FROM usage_hour FINAL WHERE "+
		"account = ", account)
	q.Add(" AND t >= ", since).Add(" AND t < ", span.To).Add(" AND t < ", live).Add(" AND (t >= ", schema.DayOf(live))
	for _, day := range edges {
		q.Add(" OR t >= ", day).Add(" AND t < ", day.AddDate(0, 0, 1))
	}
	q.Add(") UNION ALL SELECT "+schema.HourColumns+", toUInt64(0) FROM events FINAL WHERE account = ", account).
		Add(" AND billed = 1")
	for _, from := range []time.Time{since, live} {
		q.Add(" AND ts >= ", from).Add(" AND id >= ", id.Lowest(from))
	}
	q.Add(" AND ts < ", span.To).Add(" AND id < ", id.Lowest(span.To))
	q.Add(" GROUP BY hour, endpoint")
	r.addFindings(q, account, since, span.To)
	q.Add(")")
}

// addFindings adds the findings of the days that begin in [since, to) to the rows of addUseRows: from the table of
// days, today's and yesterday's from their hits. Of hits that are stored twice each counts once, see
// write.countFindings.
func (r Counts) addFindings(q *ch.Query, account string, since, to time.Time) {
	live := schema.DayOf(r.Now()).Add(-schema.LiveFindings)
	q.Add(" UNION ALL SELECT t AS hour, endpoint, toUInt64(0), toUInt64(0), toUInt64(0), findings FROM usage_day FINAL "+
		"WHERE endpoint = '' AND account = ", account)
	q.Add(" AND t >= ", since).Add(" AND t < ", to).Add(" AND t < ", live)
	q.Add(" UNION ALL SELECT toDateTime(day, 'UTC') AS hour, '' AS endpoint, toUInt64(0), toUInt64(0), toUInt64(0), "+
		"uniqExact(finding, source) FROM findings_hits WHERE billed = 1 AND account = ", account)
	q.Add(" AND day >= toDate(", live).Add(") AND hour >= ", since).Add(" AND hour < ", to).Add(" GROUP BY day")
}

// countUse sets the use by day and by endpoint, and the recent use.
func (r Counts) countUse(ctx context.Context, of event.UsageOf, span event.UsageSpan, f *event.Figures) error {
	q := r.useQuery(of, span)
	days, endpoints := make(map[time.Time]event.Use), make(map[string]event.Use)
	err := r.Each(ctx, q, func(rows driver.Rows) error {
		var byDay uint8
		var day time.Time
		var endpoint string
		var use event.Use
		var recent int64
		if err := rows.Scan(&byDay, &day, &endpoint, &use.Received, &use.Sent, &use.Findings, &use.Bytes,
			&recent); err != nil {
			return err
		}
		if byDay == 1 {
			f.Recent += recent
		}
		switch {
		case use.Total() == 0:
		case byDay == 1:
			days[day.UTC()] = addUse(days[day.UTC()], use)
		case endpoint != "": // findings belong to no endpoint
			endpoints[endpoint] = addUse(endpoints[endpoint], use)
		}
		return nil
	})
	f.Daily = sortedDays(days)
	for endpoint, use := range endpoints {
		f.ByEndpoint = append(f.ByEndpoint, event.EndpointUse{Endpoint: endpoint, Use: use})
	}
	slices.SortFunc(f.ByEndpoint, func(a, b event.EndpointUse) int {
		return cmp.Or(cmp.Compare(b.Total(), a.Total()), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	f.ByEndpoint = f.ByEndpoint[:min(len(f.ByEndpoint), busiestEndpoints)]
	return err
}

// countEndpointDays sets the days of the endpoints.
func (r Counts) countEndpointDays(ctx context.Context, account string, span event.UsageSpan,
	endpoints []event.EndpointUse) error {
	ids, found := make([]string, len(endpoints)), map[string]map[time.Time]event.Use{}
	for i, e := range endpoints {
		ids[i], found[e.Endpoint] = e.Endpoint, map[time.Time]event.Use{}
	}
	q := new(ch.Query).Add("SELECT toDateTime(toStartOfDay(hour), 'UTC') AS day, endpoint, toInt64(sum(received)), " +
		"toInt64(sum(sent)), toInt64(sum(bytes))")
	r.addUseRows(q, account, span)
	q.Add(" WHERE has(", ids).Add(", endpoint) AND hour >= ", span.From).Add(" GROUP BY day, endpoint")
	err := r.Each(ctx, q, func(rows driver.Rows) error {
		var day time.Time
		var endpoint string
		var use event.Use
		err := rows.Scan(&day, &endpoint, &use.Received, &use.Sent, &use.Bytes)
		if err == nil && use.Total() > 0 {
			found[endpoint][day.UTC()] = addUse(found[endpoint][day.UTC()], use)
		}
		return err
	})
	for i := range endpoints {
		endpoints[i].Days = sortedDays(found[endpoints[i].Endpoint])
	}
	return err
}

// sortedDays returns the use of days, oldest first; nil if there is none.
func sortedDays(days map[time.Time]event.Use) (all []event.DayUse) {
	for day, use := range days {
		all = append(all, event.DayUse{Day: day, Use: use})
	}
	slices.SortFunc(all, func(a, b event.DayUse) int { return a.Day.Compare(b.Day) })
	return all
}

// partialDays returns the days within which a part of the span begins or ends: their hours are counted one by one. So
// are the hours from the day of live on; live is the time before which all hours are counted.
func partialDays(span event.UsageSpan, live time.Time) (days []time.Time) {
	for _, t := range []time.Time{span.From, span.Recent, span.To} {
		if day := schema.DayOf(t); !day.Equal(t) && day.Before(schema.DayOf(live)) {
			days = append(days, day)
		}
	}
	return days
}

func addUse(a, b event.Use) event.Use {
	return event.Use{Received: a.Received + b.Received, Sent: a.Sent + b.Sent, Findings: a.Findings + b.Findings,
		Bytes: a.Bytes + b.Bytes}
}

// usageGroups bounds the days, and the endpoints, that one shard returns. An endpoint that moved counts on two shards,
// so with several shards more of them are added up than Usage returns.
func (r Counts) usageGroups() int {
	if r.ReadPool.Count() == 1 {
		return int(longestSpan / (24 * time.Hour))
	}
	return shardEndpoints
}

// countRequests sets the requests to destinations, in whole hours. They are counted at least once.
func (r Counts) countRequests(ctx context.Context, of event.UsageOf, span event.UsageSpan, f *event.Figures) error {
	q := new(ch.Query).Add("SELECT toInt64(sum(attempts)), toInt64(sum(delivered)) FROM ")
	q = r.requests(q, of.Account, ceilHour(span.From), ceilHour(span.To), 24*time.Hour)
	if of.Endpoints != nil {
		q.Add(" WHERE has(", of.Endpoints).Add(", endpoint)")
	}
	return r.Each(ctx, q, func(rows driver.Rows) error {
		var attempts, deliveries int64
		err := rows.Scan(&attempts, &deliveries)
		f.Attempts, f.Deliveries = f.Attempts+attempts, f.Deliveries+deliveries
		return err
	})
}

// ceilHour rounds t up to a whole hour.
func ceilHour(t time.Time) time.Time { return t.Add(time.Hour - 1).Truncate(time.Hour) }
