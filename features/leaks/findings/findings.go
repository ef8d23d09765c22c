// Package findings reads findings of secrets, their hits and the counters of those that
// send them. Which findings there are, and in which state, the configuration says; a caller's Keep asks it.
package findings

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/column"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/read/fence"
)

// A list walks the table findings, which has a row for each finding, in the order of first hits, and keeps what the
// caller's Keep accepts.
const (
	// Each statement of a walk reads listGrowth times as many findings as the one before, at most maxWalk: a list of few
	// among many takes few statements.
	listGrowth = 8
	maxWalk    = 100_000
	// maxLocations is how many locations of a finding are returned.
	maxLocations = 20
)

// Reader reads findings, their hits and the counters of senders.
type Reader struct{ *cluster.Cluster }

// Findings returns one page of findings. The first page shows every hit that was acknowledged before the call, unless
// AsOf is set.
func (r Reader) Findings(ctx context.Context, q finding.Query) (page finding.Page, err error) {
	ctx, end, asOf, err := r.Begin(ctx, q.After.IsZero(), r.Fence.WaitFindings)
	defer end()
	if page.AsOf = asOf; err != nil {
		return page, err
	}
	keys, err := r.walk(ctx, &q)
	if err != nil {
		return finding.Page{}, err
	}
	if page.More = len(keys) > q.Limit; page.More {
		keys = keys[:q.Limit]
	}
	if page.Rows, err = r.rows(ctx, q.Account, keys); err != nil {
		return finding.Page{}, err
	}
	return page, nil
}

// Finding returns one finding, with every hit that was acknowledged before the call unless asOf is set. The error is
// event.ErrNotFound if the store has no hit of it.
func (r Reader) Finding(ctx context.Context, account, name string) (
	row finding.Row, asOf time.Time, err error) {
	ctx, end, asOf, err := r.Begin(ctx, true, r.Fence.WaitFindings)
	defer end()
	if err != nil {
		return row, asOf, err
	}
	rows, err := r.rows(ctx, account, []finding.Key{{ID: name}})
	if err == nil && len(rows) == 0 {
		err = event.ErrNotFound
	}
	if err != nil {
		return row, asOf, err
	}
	return rows[0], asOf, nil
}

// walk returns the keys of the page, and one more if there is one.
func (r Reader) walk(ctx context.Context, q *finding.Query) (keys []finding.Key, err error) {
	if q.IDs != nil && len(q.IDs) == 0 {
		return nil, nil
	}
	after := q.After
	for size := q.Limit + 1; ; size = min(size*listGrowth, maxWalk) {
		batch, err := r.keys(ctx, q, after, size)
		if err != nil {
			return nil, err
		}
		for _, k := range batch {
			if q.Keep(k.ID) {
				keys = append(keys, k)
			}
			if len(keys) > q.Limit {
				return keys, nil
			}
		}
		if len(batch) < size {
			return keys, nil
		}
		after = batch[len(batch)-1]
	}
}

// keys returns the first keys after one, at most limit, that match the filters of the query.
func (r Reader) keys(ctx context.Context, q *finding.Query, after finding.Key, limit int) (
	keys []finding.Key, err error) {
	s := new(ch.Query).Add("SELECT finding, min(first_at) AS first FROM findings WHERE account = ", q.Account)
	if q.IDs != nil {
		s.Add(" AND finding IN ", q.IDs)
	}
	s.Add(" GROUP BY finding HAVING 1")
	if !after.IsZero() {
		s.Add(" AND (first, finding) < (", after.FirstSeen).Add(", ", after.ID).Add(")")
	}
	if len(q.Kinds) > 0 {
		s.Add(" AND min(kind) IN ", event.Convert[string](q.Kinds...))
	}
	if len(q.Rules) > 0 {
		s.Add(" AND min(rule) IN ", q.Rules)
	}
	if len(q.Sources) > 0 {
		s.Add(" AND hasAny(groupUniqArrayArray(sources), ", event.Convert[string](q.Sources...)).Add(")")
	}
	if !q.Since.IsZero() {
		s.Add(" AND max(last_at) >= ", cluster.CeilMilli(q.Since))
	}
	if !q.Until.IsZero() {
		s.Add(" AND max(last_at) < ", cluster.CeilMilli(q.Until))
	}
	s.Add(" ORDER BY first DESC, finding DESC LIMIT ", limit)
	err = r.Each(ctx, s, func(rows driver.Rows) error {
		var k finding.Key
		err := rows.Scan(&k.ID, &k.FirstSeen)
		k.FirstSeen = k.FirstSeen.UTC()
		keys = append(keys, k)
		return err
	})
	slices.SortFunc(keys, func(a, b finding.Key) int { // of several shards
		return cmp.Or(b.FirstSeen.Compare(a.FirstSeen), cmp.Compare(b.ID, a.ID))
	})
	return keys[:min(len(keys), limit)], err
}

// rows returns the findings of the keys that the store has, in their order.
func (r Reader) rows(ctx context.Context, account string, keys []finding.Key) ([]finding.Row, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	names, ids := make([]string, len(keys)), make([]id.ID, len(keys))
	for i, k := range keys {
		d, err := id.Parse(finding.Prefix, k.ID)
		if err != nil {
			return nil, fmt.Errorf("read findings: %w", err)
		}
		names[i], ids[i] = k.ID, d
	}
	var lines map[string]finding.Row
	var hits map[string]finding.Row
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { lines, err = r.lines(gctx, account, names, ids); return err })
	g.Go(func() (err error) { hits, err = r.counts(gctx, account, names, ids); return err })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var rows []finding.Row
	for _, name := range names {
		row, ok := lines[name]
		if !ok {
			continue
		}
		h := hits[name]
		row.Occurrences, row.Environment, row.Release, row.Locations = h.Occurrences, h.Environment, h.Release, h.Locations
		rows = append(rows, row)
	}
	return rows, nil
}

// lines reads the rows of the table findings.
func (r Reader) lines(ctx context.Context, account string, names []string, ids []id.ID) (
	map[string]finding.Row, error) {
	q := new(ch.Query).Add("SELECT finding, min(first_at), max(last_at), min(kind), min(rule), min(masked), "+
		"max(fingerprint), max(key_id), max(severity), max(verified), min(test), arraySort(groupUniqArrayArray(sources)) "+
		"FROM findings WHERE account = ", account).Add(" AND finding IN ", names).Add(" GROUP BY finding")
	q.ForEvents(ids...)
	return cluster.ByKey(ctx, r.Cluster, q, func(rows driver.Rows, name *string, row *finding.Row) error {
		var kind string
		var severity, verified, test uint8
		var sources []string
		err := rows.Scan(&row.ID, &row.FirstSeen, &row.LastSeen, &kind, &row.Rule, &row.Masked, &row.Fingerprint,
			&row.KeyID, &severity, &verified, &test, &sources)
		*name, row.Kind, row.Severity = row.ID, finding.Kind(kind), finding.Severity(severity)
		row.Unverified, row.Test = verified == 0, test != 0
		row.FirstSeen, row.LastSeen = row.FirstSeen.UTC(), row.LastSeen.UTC()
		for _, s := range sources {
			row.Sources = append(row.Sources, finding.Source(s))
		}
		return err
	})
}

// linesSeen are the lines of a location at which an SDK saw a secret: the newest, in their order in the file.
const linesSeen = "arraySort(arraySlice(arrayReverseSort((number, seen) -> (seen, number), " +
	"(maxMapIf([if(source = 'sdk', toUInt32(JSONExtractUInt(place, 'line')), 0) AS line], " +
	"[toUnixTimestamp64Milli(at)], line > 0) AS lines).1, lines.2), 1, 20))"

// counts reads what only the hits know, each once. The rows have no other members.
func (r Reader) counts(ctx context.Context, account string, names []string, ids []id.ID) (
	map[string]finding.Row, error) {
	q := new(ch.Query).Add("SELECT finding, argMax(place, (at, hit)), toInt64(sum(n)) AS hits, max(at) AS seen, "+
		"toInt64(sum(hits) OVER (PARTITION BY finding)), argMax(environment, (at, hit)), argMax(release, (at, hit)), "+
		linesSeen+" FROM findings_hits FINAL WHERE account = ", account).Add(" AND finding IN ", names)
	q.Add(" GROUP BY finding, location ORDER BY finding, seen DESC, max((at, hit)) DESC LIMIT ", maxLocations).
		Add(" BY finding")
	out := make(map[string]finding.Row)
	err := r.Each(ctx, q.ForEvents(ids...), func(rows driver.Rows) error {
		var name, location, environment, release string
		var l finding.CountedLocation
		var sum int64
		var lines []uint32
		if err := rows.Scan(&name, &location, &l.Count, &l.LastSeen, &sum, &environment, &release, &lines); err != nil {
			return err
		}
		l.Location, l.LastSeen = readLocation(location), l.LastSeen.UTC()
		for _, line := range lines {
			l.Lines = append(l.Lines, int(line))
		}
		row, ok := out[name]
		if !ok { // the newest location comes first
			row.Occurrences, row.Environment, row.Release = sum, environment, release
		}
		row.Locations = append(row.Locations, l)
		out[name] = row
		return nil
	})
	return out, err
}

// readLocation reads the JSON of a location, which the writer has encoded.
func readLocation(text string) (l finding.Location) {
	_ = json.Unmarshal([]byte(text), &l) // a newer version may write another form: the rest of the row is still right
	return l
}

// Received returns what came from the senders since a time, by sender. It waits for the fence of findings; senders
// without a report are left out.
func (r Reader) Received(ctx context.Context, account string, senders []string, since time.Time) (
	map[string]finding.Received, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Config.Timeout)
	defer cancel()
	if _, err := r.Fence.WaitFindings(ctx); err != nil {
		return nil, err
	}
	if len(senders) == 0 {
		return map[string]finding.Received{}, nil
	}
	q := new(ch.Query).Add("SELECT sender, toInt64(sum(requests)), toInt64(sum(lines)), toInt64(sum(bytes)), "+
		"toInt64(sum(hits)), toInt64(sum(rejected)), max(last_at), argMaxIf(platform, (last_at, ver), platform != ''), "+
		"argMaxIf(last_error, (last_at, ver), last_error != '') FROM senders_minute FINAL WHERE account = ", account)
	q.Add(" AND sender IN ", senders).Add(" AND t >= ", since).Add(" GROUP BY sender")
	return cluster.ByKey(ctx, r.Cluster, q, func(rows driver.Rows, sender *string, x *finding.Received) error {
		err := rows.Scan(sender, &x.Requests, &x.Lines, &x.Bytes, &x.Hits, &x.Rejected, &x.LastAt, &x.Platform,
			&x.LastError)
		x.LastAt = column.TimeFromColumn(x.LastAt)
		return err
	})
}

// CaughtUp is Cluster.CaughtUp for the hits of findings.
func (r Reader) CaughtUp(ctx context.Context) error { return fence.CaughtUp(r.Fence.WaitFindings(ctx)) }

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
