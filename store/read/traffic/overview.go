package traffic

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/ch"
)

// How many endpoints an Overview has: those with the most requests, and those with the greatest part of failed ones.
const (
	overviewBusiest = 20
	overviewWorst   = 10
)

// measuredSums are the columns that scanMeasured reads after the key.
const measuredSums = ", toInt64(sum(attempts)), toInt64(sum(delivered)), toInt64(sum(failed)), " +
	"toInt64(sum(first_attempts)), toInt64(sum(first_delivered)), quantilesTDigestMerge(0.5,0.95,0.99)(lat) " +
	"FROM usage_minute"

// Overview returns the traffic of the last hour, the last day and a range, with everything acknowledged before the call
// unless AsOf is set. It reads tables of counts only: their rows depend on the destinations and the minutes, not on how
// many events are stored. now is the end of the last minute.
func (r Counts) Overview(ctx context.Context, account string, span event.TrafficRange, now time.Time) (event.Overview,
	error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	var o event.Overview
	var err error
	if o.AsOf, err = r.Fence.WaitAll(ctx); err != nil {
		return o, err
	}
	x := overviewReader{r, account, now.UTC().Truncate(time.Minute).Add(time.Minute)}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { o.Hour, o.Minutes, err = x.steps(gctx, event.TrafficHour); return err })
	g.Go(func() (err error) { o.Range.Total, o.Range.Steps, err = x.steps(gctx, span); return err })
	if span.Span() <= day {
		g.Go(func() (err error) { _, o.Range.DayBefore, err = x.dayBefore().steps(gctx, span); return err })
	}
	g.Go(func() (err error) { o.Busiest, err = x.busiest(gctx); return err })
	g.Go(func() (err error) { o.Worst, err = x.worst(gctx); return err })
	if err := g.Wait(); err != nil {
		return o, err
	}
	return o, x.addDetails(ctx, &o)
}

// DestinationTraffic returns the traffic of one endpoint in a range, in the last day, and in the last hour, by
// destination.
func (r Counts) DestinationTraffic(
	ctx context.Context, account, endpoint string, span event.TrafficRange, now time.Time,
) (event.DestinationTraffic, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	var d event.DestinationTraffic
	var err error
	if d.AsOf, err = r.Fence.WaitAll(ctx); err != nil {
		return d, err
	}
	x := overviewReader{r, account, now.UTC().Truncate(time.Minute).Add(time.Minute)}
	groups := map[string]*event.MeasuredGroup{}
	if err := x.addSteps(ctx, endpoint, event.TrafficDay, groups); err != nil {
		return d, err
	}
	before := map[string]*event.MeasuredGroup{}
	if span.Span() <= day {
		if err := x.dayBefore().addSteps(ctx, endpoint, span, before); err != nil {
			return d, err
		}
	}
	for _, g := range groups {
		g.Day = g.Steps
	}
	if span != event.TrafficDay {
		for _, g := range groups {
			g.Total, g.Steps = event.Measured{}, nil
		}
		if err := x.addSteps(ctx, endpoint, span, groups); err != nil {
			return d, err
		}
	}
	q := x.since(new(ch.Query).Add("SELECT dest"+measuredSums), x.end.Add(-time.Hour))
	q.Add(" AND endpoint = ", endpoint).Add(" GROUP BY dest")
	if err := x.lastHours(ctx, q, groups); err != nil {
		return d, err
	}
	for dest, g := range before {
		groupOf(groups, dest).DayBefore = g.Steps
	}
	d.Destinations = sortedGroups(groups)
	return d, nil
}

// addSteps adds the requests of a range to the destinations of an endpoint.
func (x overviewReader) addSteps(
	ctx context.Context, endpoint string, span event.TrafficRange, groups map[string]*event.MeasuredGroup,
) error {
	q := new(ch.Query).Add("SELECT dest, toUInt8(grouping(at)) AS in_all, toStartOfInterval(t, toIntervalSecond(",
		int(span.Step/time.Second)).Add(")) AS at" + measuredSums)
	q = x.since(q, span.Start(x.end)).Add(" AND endpoint = ", endpoint).
		Add(" GROUP BY GROUPING SETS ((dest, at), (dest))")
	return x.Each(ctx, q, func(rows driver.Rows) error {
		var dest string
		var inAll uint8
		var at time.Time
		m, err := scanMeasured(rows, &dest, &inAll, &at)
		if g := groupOf(groups, dest); inAll == 1 {
			g.Total = addMeasured(g.Total, m)
		} else {
			g.Steps = addStep(g.Steps, at, m)
		}
		return err
	})
}

// overviewReader reads the traffic of one account up to end, a whole minute.
type overviewReader struct {
	Counts
	account string
	end     time.Time
}

const day = 24 * time.Hour

// dayBefore reads the same time one day before.
func (x overviewReader) dayBefore() overviewReader {
	x.end = x.end.Add(-day)
	return x
}

// firstHour is the first of the 24 hours of the last day; the current hour is the last of them.
func (x overviewReader) firstHour() time.Time { return event.TrafficDay.Start(x.end) }

// since appends the condition of the rows of usage_minute from a time on.
func (x overviewReader) since(q *ch.Query, from time.Time) *ch.Query {
	return q.Add(" WHERE account = ", x.account).Add(" AND t >= ", from).Add(" AND t < ", x.end)
}

// countedSums are measuredSums of a subquery without first attempts and latency.
const countedSums = ", toInt64(sum(attempts)), toInt64(sum(delivered)), toInt64(sum(failed)), toInt64(0), " +
	"toInt64(0), emptyArrayFloat32() FROM "

// steps returns the requests of a range, in all and by step. Over a day it reads the counts of hours and
// days, which have no latency: a month of minutes is 30 times a day.
func (x overviewReader) steps(ctx context.Context, span event.TrafficRange) (
	all event.Measured, steps []event.MeasuredStep, err error) {
	q := new(ch.Query).Add("SELECT toUInt8(grouping(at)) AS in_all, toStartOfInterval(t, toIntervalSecond(",
		int(span.Step/time.Second)).Add(")) AS at")
	if span.Span() > day {
		q = x.requests(q.Add(countedSums), x.account, span.Start(x.end), x.end, span.Step)
	} else {
		q = x.since(q.Add(measuredSums), span.Start(x.end))
	}
	q.Add(" GROUP BY GROUPING SETS ((at), ())")
	err = x.Each(ctx, q, func(rows driver.Rows) error {
		var inAll uint8
		var at time.Time
		m, err := scanMeasured(rows, &inAll, &at)
		if inAll == 1 {
			all = addMeasured(all, m)
		} else if m.Attempts > 0 {
			steps = addStep(steps, at, m)
		}
		return err
	})
	return all, steps, err
}

// busiest returns the endpoints with the most requests in the last day.
func (x overviewReader) busiest(ctx context.Context) ([]event.MeasuredGroup, error) {
	q := x.requests(new(ch.Query).Add("SELECT endpoint, toInt64(sum(attempts)) AS n, toInt64(sum(delivered)), "+
		"toInt64(sum(failed)) FROM "), x.account, x.firstHour(), x.end, time.Hour)
	q.Add(" GROUP BY endpoint ORDER BY n DESC, endpoint LIMIT ", overviewBusiest)
	return x.ranked(ctx, q, overviewBusiest, func(n event.Requests) float64 { return float64(n.Attempts) })
}

// worst returns the endpoints with the greatest part of failed requests in the last hour. Twenty more requests are
// assumed to have succeeded, so that a single failure does not come before a broken destination.
func (x overviewReader) worst(ctx context.Context) ([]event.MeasuredGroup, error) {
	q := x.since(new(ch.Query).Add("SELECT endpoint, toInt64(sum(attempts)) AS n, toInt64(sum(delivered)), "+
		"toInt64(sum(failed)) AS bad FROM usage_minute"), x.end.Add(-time.Hour))
	q.Add(" GROUP BY endpoint HAVING bad > 0 ORDER BY bad / (n + 20) DESC, endpoint LIMIT ", overviewWorst)
	return x.ranked(ctx, q, overviewWorst, func(n event.Requests) float64 {
		return float64(n.Failed) / float64(n.Attempts+20)
	})
}

// ranked reads endpoints with their requests and returns the most that rank highest, without details.
func (x overviewReader) ranked(ctx context.Context, q *ch.Query, most int, rank func(event.Requests) float64) (
	[]event.MeasuredGroup, error) {
	found := map[string]event.Requests{}
	if err := sumRequests(ctx, x.Cluster, q, found); err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(found))
	for endpoint := range found {
		ids = append(ids, endpoint)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(found[b]), rank(found[a])), cmp.Compare(a, b))
	})
	groups := make([]event.MeasuredGroup, min(len(ids), most))
	for i := range groups {
		groups[i].ID = ids[i]
	}
	return groups, nil
}

// addDetails adds the last hour and the hours of the last day to the endpoints.
func (x overviewReader) addDetails(ctx context.Context, o *event.Overview) error {
	groups := map[string]*event.MeasuredGroup{}
	for _, list := range [][]event.MeasuredGroup{o.Busiest, o.Worst} {
		for _, g := range list {
			groupOf(groups, g.ID)
		}
	}
	if len(groups) == 0 {
		return nil
	}
	var ids []string
	for endpoint := range groups {
		ids = append(ids, endpoint)
	}
	slices.Sort(ids)
	q := x.requests(new(ch.Query).Add("SELECT endpoint, toStartOfHour(t) AS hour, toInt64(sum(attempts)), "+
		"toInt64(sum(delivered)), toInt64(sum(failed)) FROM "), x.account, x.firstHour(), x.end, time.Hour)
	q.Add(" WHERE has(", ids).Add(", endpoint) GROUP BY endpoint, hour")
	err := x.Each(ctx, q, func(rows driver.Rows) error {
		var endpoint string
		var at time.Time
		var m event.Measured
		err := rows.Scan(&endpoint, &at, &m.Attempts, &m.Delivered, &m.Failed)
		g := groupOf(groups, endpoint)
		g.Day = addStep(g.Day, at, m)
		return err
	})
	if err != nil {
		return err
	}
	q = x.since(new(ch.Query).Add("SELECT endpoint"+measuredSums), x.end.Add(-time.Hour))
	q.Add(" AND has(", ids).Add(", endpoint) GROUP BY endpoint")
	if err := x.lastHours(ctx, q, groups); err != nil {
		return err
	}
	if err := x.addDestinations(ctx, ids, groups); err != nil {
		return err
	}
	for _, list := range [][]event.MeasuredGroup{o.Busiest, o.Worst} {
		for i := range list {
			list[i] = *groups[list[i].ID]
		}
	}
	return nil
}

// addDestinations adds the requests of the last hour to each destination of the endpoints.
func (x overviewReader) addDestinations(
	ctx context.Context, ids []string, groups map[string]*event.MeasuredGroup,
) error {
	q := x.since(new(ch.Query).Add("SELECT endpoint, dest, toInt64(sum(attempts)), toInt64(sum(delivered)), "+
		"toInt64(sum(failed)) FROM usage_minute"), x.end.Add(-time.Hour))
	q.Add(" AND has(", ids).Add(", endpoint) GROUP BY endpoint, dest")
	return x.Each(ctx, q, func(rows driver.Rows) error {
		var endpoint string
		var d event.DestinationRequests
		err := rows.Scan(&endpoint, &d.ID, &d.Attempts, &d.Delivered, &d.Failed)
		g := groupOf(groups, endpoint)
		g.Destinations = addDestination(g.Destinations, d)
		return err
	})
}

// addDestination adds requests to a destination, sorted by id. Each shard has a row of it.
func addDestination(all []event.DestinationRequests, d event.DestinationRequests) []event.DestinationRequests {
	i, found := slices.BinarySearchFunc(all, d.ID, func(x event.DestinationRequests, id string) int {
		return cmp.Compare(x.ID, id)
	})
	if !found {
		return slices.Insert(all, i, d)
	}
	all[i].Requests = addRequests(all[i].Requests, d.Requests)
	return all
}

// lastHours adds the requests of the last hour that a statement returns by id.
func (x overviewReader) lastHours(ctx context.Context, q *ch.Query, groups map[string]*event.MeasuredGroup) error {
	return x.Each(ctx, q, func(rows driver.Rows) error {
		var key string
		m, err := scanMeasured(rows, &key)
		g := groupOf(groups, key)
		g.Hour = addMeasured(g.Hour, m)
		return err
	})
}

// scanMeasured reads a row of measuredSums after its keys.
func scanMeasured(rows driver.Rows, keys ...any) (m event.Measured, err error) {
	var quantiles []float32
	err = rows.Scan(append(keys, &m.Attempts, &m.Delivered, &m.Failed, &m.First.Attempts, &m.First.Delivered,
		&quantiles)...)
	if len(quantiles) == 3 && m.Attempts > 0 {
		m.Latency = event.Latency{P50: float64(quantiles[0]), P95: float64(quantiles[1]), P99: float64(quantiles[2])}
	}
	return m, err
}

// addMeasured adds the counts of two shards. The latency is the greater one: quantiles cannot be added.
func addMeasured(a, b event.Measured) event.Measured {
	return event.Measured{Requests: addRequests(a.Requests, b.Requests), First: addRequests(a.First, b.First),
		Latency: event.Latency{P50: max(a.Latency.P50, b.Latency.P50), P95: max(a.Latency.P95, b.Latency.P95),
			P99: max(a.Latency.P99, b.Latency.P99)}}
}

// addStep adds the requests of a step of time.
func addStep(steps []event.MeasuredStep, at time.Time, m event.Measured) []event.MeasuredStep {
	at = at.UTC()
	i, found := slices.BinarySearchFunc(steps, at, func(s event.MeasuredStep, at time.Time) int {
		return s.At.Compare(at)
	})
	if found {
		steps[i].Measured = addMeasured(steps[i].Measured, m)
		return steps
	}
	return slices.Insert(steps, i, event.MeasuredStep{At: at, Measured: m})
}

func groupOf(groups map[string]*event.MeasuredGroup, key string) *event.MeasuredGroup {
	if groups[key] == nil {
		groups[key] = &event.MeasuredGroup{ID: key}
	}
	return groups[key]
}

// sortedGroups returns the groups by id.
func sortedGroups(groups map[string]*event.MeasuredGroup) []event.MeasuredGroup {
	all := make([]event.MeasuredGroup, 0, len(groups))
	for _, g := range groups {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b event.MeasuredGroup) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
