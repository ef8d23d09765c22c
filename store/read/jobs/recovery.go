// Package jobs reads and writes what replays and recovery jobs work on: the selection of failed deliveries
// (recovery.go), its items and their states (recovery_items.go), and the events and commands of a run (runs.go).
//
// What is selected includes everything acknowledged before the call, or the call fails: nothing is sent on the strength
// of incomplete data. A selection may take long; each of its statements is bounded.
package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/cluster"
)

// selectTimeout bounds one INSERT SELECT of a selection.
const selectTimeout = 50 * time.Second

// SelectRecovery writes the items of a selection under a new name, which must not have been used before, and returns
// their number. It includes everything acknowledged before the call. After an error the name must not be used again;
// the rows written under it expire with their TTL.
func (r Jobs) SelectRecovery(ctx context.Context, s event.Selection, name string) (event.SelectionTotals, error) {
	if err := r.CaughtUp(ctx); err != nil {
		return event.SelectionTotals{}, err
	}
	if oldest := cluster.CeilMilli(r.Oldest()); s.Since.Before(oldest) {
		s.Since = oldest
	}
	s.Since, s.Until = cluster.CeilMilli(s.Since), cluster.CeilMilli(s.Until)
	next := 0
	for _, g := range s.Groups {
		if len(g.Dests) == 0 && !g.Except {
			continue
		}
		// The events of an endpoint that never moved to another partition are on one shard; the others find none.
		for shard := range r.ReadPool.Count() {
			var err error
			if next, err = (&groupSelector{r, s, g, name, shard}).run(ctx, next); err != nil {
				return event.SelectionTotals{}, r.ReadPool.ShardError(shard, err)
			}
		}
	}
	return r.countSelected(ctx, s.Account, name)
}

// groupSelector writes the items of one group on one shard. Items are stored on the shard of their deliveries.
type groupSelector struct {
	r Jobs
	event.Selection
	event.SelectionGroup
	name  string // of the items
	shard int
}

// run writes the items page by page, numbered from next on, and returns the number after the last.
func (g *groupSelector) run(ctx context.Context, next int) (int, error) {
	for after := (id.ID{}); g.Since.Before(g.Until); {
		end, more, err := g.pageEnd(ctx, after)
		if err != nil {
			return next, err
		}
		erased, nearerEnd, err := g.erasedUpTo(ctx, after, end)
		if err != nil {
			return next, err
		}
		more, end = more || nearerEnd != end, nearerEnd
		if err := g.writePage(ctx, next, after, end, erased); err != nil {
			return next, err
		}
		if next, err = g.r.countItems(ctx, g.Account, g.name); err != nil || !more {
			return next, err
		}
		after = end
	}
	return next, nil
}

// where appends the conditions of the selection and the group on a candidate, for ids in (after, end].
func (g *groupSelector) where(q *ch.Query, after, end id.ID) *ch.Query {
	q.Add(" WHERE account = ", g.Account).Add(" AND endpoint = ", g.Endpoint)
	q.Add(" AND ts >= ", g.Since).Add(" AND ts < ", g.Until).Add(" AND id > ", after).Add(" AND id <= ", end)
	if g.Except {
		return q.Add(" AND dest NOT IN ", g.Dests)
	}
	return q.Add(" AND dest IN ", g.Dests)
}

// pageEnd returns the last id of the next page, and whether there are more pages.
func (g *groupSelector) pageEnd(ctx context.Context, after id.ID) (end id.ID, more bool, err error) {
	end = id.Lowest(g.Until)
	q := g.where(new(ch.Query).Add("SELECT id FROM failure_candidates_by_endpoint"), after, end)
	q.Add(" ORDER BY id LIMIT 1 OFFSET ", g.r.Config.SelectPage-1)
	err = g.r.ReadPool.ForEachRow(ctx, g.shard, q, func(rows driver.Rows) error {
		more = true
		return rows.Scan(&end)
	})
	return end, more, err
}

// erasedUpTo returns the candidates of a page whose payload was erased, and the end of the page. It ends the page
// earlier when they are more than one statement should name.
func (g *groupSelector) erasedUpTo(ctx context.Context, after, edge id.ID) (erased []id.ID, end id.ID, err error) {
	q := g.where(new(ch.Query).Add("SELECT DISTINCT id FROM failure_candidates_by_endpoint"), after, edge)
	err = g.r.ReadPool.ForEachRow(ctx, g.shard, q.Add(" ORDER BY id"), func(rows driver.Rows) error {
		d, err := cluster.ScanID(rows)
		if err == nil && g.r.Erased(d) {
			erased = append(erased, d)
		}
		return err
	})
	if most := max(1, g.r.Config.SelectPage/100); len(erased) > most {
		erased = erased[:most]
		edge = erased[most-1]
	}
	return erased, edge, err
}

// timeOfID computes the time inside an id, as ID.Time does.
const timeOfID = "fromUnixTimestamp64Milli(toInt64(reinterpretAsUInt64(reverse(substring(id, 1, 6)))), 'UTC')"

// writePage writes the candidates of a page whose delivery is failed and whose payload is not erased. Every failed
// delivery has a row with the status failed in failure_candidates; the few that were delivered later are excluded by
// deliveries FINAL. The time comes from the id, so that no further column of deliveries is read. Failures far apart
// cost one granule each.
func (g *groupSelector) writePage(ctx context.Context, next int, after, end id.ID, erased []id.ID) error {
	q := new(ch.Query).Add("INSERT INTO recovery_items (account, selection, seq, id, dest, ts, skipped_reason, created) ")
	q.Add("SELECT account, ", g.name).Add(", ", next)
	q.Add(" + row_number() OVER (ORDER BY id, dest) - 1, id, dest, "+timeOfID+", ", string(g.SkipReason))
	q.Add(", now() FROM deliveries FINAL WHERE account = ", g.Account).Add(" AND id > ", after).Add(" AND id <= ", end)
	g.where(q.Add(" AND id IN (SELECT id FROM failure_candidates FINAL"), after, end).Add(" AND status = 'failed')")
	q.Add(" AND (id, dest) IN (SELECT id, dest FROM failure_candidates FINAL")
	g.where(q, after, end).Add(" AND status = 'failed') AND status = 'failed'")
	if len(erased) > 0 {
		q.Add(" AND id NOT IN ", erased)
	}
	ctx, cancel := context.WithTimeout(ctx, selectTimeout)
	defer cancel()
	if err := g.r.ReadPool.Exec(ctx, g.shard, q); err != nil {
		return ch.ClassifyError(ctx, fmt.Errorf("select failed deliveries: %w", err))
	}
	return nil
}

func (r Jobs) countItems(ctx context.Context, account, name string) (int, error) {
	q := new(ch.Query).Add("SELECT count() FROM recovery_items FINAL WHERE account = ", account)
	return r.Count(ctx, q.Add(" AND selection = ", name))
}

func (r Jobs) countSelected(ctx context.Context, account, name string) (s event.SelectionTotals, err error) {
	q := new(ch.Query).Add("SELECT dest, count(), countIf(skipped_reason = '') FROM recovery_items FINAL")
	q.Add(" WHERE account = ", account)
	dests := make(map[string]event.DestinationTotals)
	err = r.Each(ctx, q.Add(" AND selection = ", name).Add(" GROUP BY dest"), func(rows driver.Rows) error {
		var dest string
		var total, sendable uint64
		err := rows.Scan(&dest, &total, &sendable)
		s.Total += int(total)
		s.Sendable += int(sendable)
		d := dests[dest]
		dests[dest] = event.DestinationTotals{ID: dest, Total: d.Total + int(total), Sendable: d.Sendable + int(sendable)}
		return err
	})
	for _, dest := range slices.Sorted(maps.Keys(dests)) {
		s.Destinations = append(s.Destinations, dests[dest])
	}
	return s, err
}

// RecoveryCounts returns the results of the submitted items of jobs, by job. A job of which the store has neither a
// command nor an outcome is missing from the map. The time has the meaning of Page.AsOf.
func (r Jobs) RecoveryCounts(
	ctx context.Context, account string, jobs ...string,
) (map[string]event.RecoveryCounts, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	asOf, err := r.Fence.WaitAll(ctx)
	if err != nil {
		return nil, asOf, err
	}
	counts := make(map[string]event.RecoveryCounts, len(jobs))
	q := new(ch.Query).Add("SELECT run, status, skipped, count() FROM run_deliveries FINAL WHERE account = ", account)
	err = r.Each(ctx, q.Add(" AND run IN ", jobs).Add(" GROUP BY run, status, skipped"), func(rows driver.Rows) error {
		var run, status, skipped string
		var n uint64
		err := rows.Scan(&run, &status, &skipped, &n)
		c := counts[run]
		c.Add(event.Status(status), event.Reason(skipped), int(n))
		counts[run] = c
		return err
	})
	return counts, asOf, err
}

// RecoveryFailures returns the number of failed items of a job and their most frequent error, by destination.
func (r Jobs) RecoveryFailures(ctx context.Context, account, job string) (map[string]event.RecoveryFailures, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	failed := func(q *ch.Query) *ch.Query {
		q.Add(" FROM run_deliveries FINAL WHERE account = ", account).Add(" AND run = ", job)
		return q.Add(" AND status = 'failed' AND skipped = ''")
	}
	q := new(ch.Query).Add("SELECT dest, if(error = '', reason, error) AS why, count() FROM " +
		"(SELECT d.dest AS dest, d.reason AS reason, a.error AS error FROM (SELECT id, dest, reason")
	failed(q).Add(") AS d LEFT JOIN (SELECT id, dest, argMax(error_code, attempt) AS error FROM attempts")
	q.Add(" WHERE account = ", account).Add(" AND run = ", job)
	q.Add(" AND id IN (SELECT id")
	failed(q).Add(") GROUP BY id, dest) AS a USING (id, dest)) GROUP BY dest, why")
	byDest := make(map[string]map[string]int) // counts by destination and error
	err := r.Each(ctx, q, func(rows driver.Rows) error {
		var dest, why string
		var n uint64
		err := rows.Scan(&dest, &why, &n)
		if byDest[dest] == nil {
			byDest[dest] = make(map[string]int)
		}
		byDest[dest][why] += int(n)
		return err
	})
	out := make(map[string]event.RecoveryFailures, len(byDest))
	for dest, counts := range byDest {
		f := event.RecoveryFailures{}
		most := 0
		for _, why := range slices.Sorted(maps.Keys(counts)) {
			if f.Failed += counts[why]; counts[why] > most {
				most, f.TopError = counts[why], why
			}
		}
		out[dest] = f
	}
	return out, err
}
