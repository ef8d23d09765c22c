package read_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventrelay/relay/features/leaks/findings"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// findingsModel is a list of hits with the findings that they should make.
type findingsModel struct {
	*bench
	rnd   *rand.Rand
	hits  []*finding.Hit
	today time.Time // another day may begin during the test
	// reports are the newest ones of each minute and boot.
	reports map[string]*finding.Counts
}

func newFindingsModel(b *bench, rnd *rand.Rand) *findingsModel {
	return &findingsModel{bench: b, rnd: rnd, today: time.Now().UTC().Truncate(24 * time.Hour),
		reports: map[string]*finding.Counts{}}
}

// hitsOf returns the hits of one finding, the newest first. Of a hit that was sent twice the first record counts.
func (m *findingsModel) hitsOf(name string) (hits []*finding.Hit) {
	seen := map[[16]byte]bool{}
	for _, h := range m.hits {
		if h.Finding == name && !seen[h.ID] {
			seen[h.ID] = true
			hits = append(hits, h)
		}
	}
	slices.SortFunc(hits, func(a, b *finding.Hit) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return slices.Compare(b.ID[:], a.ID[:])
	})
	return hits
}

// want returns the expected findings, newest first.
func (m *findingsModel) want() (rows []finding.Row) {
	names := map[string]bool{}
	for _, h := range m.hits {
		names[h.Finding] = true
	}
	for name := range names {
		hits := m.hitsOf(name)
		row := finding.Row{ID: name, Kind: hits[0].Kind, Rule: hits[0].Rule, Masked: hits[0].Masked,
			Fingerprint: hits[0].Fingerprint, KeyID: hits[0].KeyID, Unverified: true, Test: true,
			FirstSeen: hits[len(hits)-1].At, LastSeen: hits[0].At, Environment: hits[0].Environment,
			Release: hits[0].Release}
		locations := map[[16]byte]int{}
		for _, h := range hits {
			row.Severity = max(row.Severity, h.Severity)
			row.Unverified, row.Test = row.Unverified && h.Unverified, row.Test && h.Test
			if !slices.Contains(row.Sources, h.Source) {
				row.Sources = append(row.Sources, h.Source)
			}
			row.Occurrences += int64(h.N)
			i, ok := locations[h.LocationHash]
			if !ok {
				i = len(row.Locations)
				locations[h.LocationHash] = i
				row.Locations = append(row.Locations, finding.CountedLocation{Location: h.Location, LastSeen: h.At})
			}
			row.Locations[i].Count += int64(h.N)
		}
		row.Locations = row.Locations[:min(len(row.Locations), 20)]
		for i := range row.Locations {
			row.Locations[i].Lines = linesOf(hits, row.Locations[i].Location.Hash())
		}
		slices.Sort(row.Sources)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b finding.Row) int {
		if c := b.FirstSeen.Compare(a.FirstSeen); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return rows
}

// linesOf returns the 20 lines of the newest hits at a location. The newest hit comes first.
func linesOf(hits []*finding.Hit, location [16]byte) (lines []int) {
	for _, h := range hits {
		if h.LocationHash == location && h.Location.Line > 0 && len(lines) < 20 && !slices.Contains(lines, h.Location.Line) {
			lines = append(lines, h.Location.Line)
		}
	}
	slices.Sort(lines)
	return lines
}

// add produces n random hits of the last days, some of them twice, and reports of their senders.
func (m *findingsModel) add(n int) {
	m.Helper()
	var produced []*finding.Hit
	var reports []*finding.Counts
	for range n {
		reports = append(reports, m.report())
		source := finding.Sources[m.rnd.IntN(len(finding.Sources))]
		h := m.Hit(m.rnd.IntN(25), func(h *finding.Hit) {
			h.At = h.At.Add(-time.Duration(m.rnd.Int64N(int64(90 * time.Hour)))).Truncate(time.Millisecond)
			h.N, h.Source = 1+m.rnd.Uint32N(5), source
			h.Severity = finding.Severity(1 + m.rnd.IntN(4))
			h.Unverified, h.Test = m.rnd.IntN(2) == 0, m.rnd.IntN(2) == 0
			h.Billed = m.rnd.IntN(3) > 0
			h.Environment = fmt.Sprint("env", m.rnd.IntN(3))
			h.Location = finding.Location{Source: finding.Drain, DrainID: "drn_1", Label: fmt.Sprint("app", m.rnd.IntN(25))}
			if source == finding.SDK {
				h.Location = finding.Location{Source: source, File: "app.js", Line: m.rnd.IntN(40)}
			}
		})
		m.hits, produced = append(m.hits, h), append(produced, h)
		if m.rnd.IntN(5) == 0 { // the sender repeats its request a moment later
			again := *h
			again.At = minTime(h.At.Add(time.Second), endOfDay(h.At))
			produced = append(produced, &again)
		}
	}
	m.ProduceHits(produced...)
	m.ProduceCounts(reports...)
}

// report makes the next report of a node about a sender and a minute, or one that is late.
func (m *findingsModel) report() *finding.Counts {
	boot, minute, sender := byte(m.rnd.IntN(2)), m.rnd.IntN(3), fmt.Sprint("drn_", m.rnd.IntN(3))
	c := m.Counts(0, func(c *finding.Counts) {
		c.Sender, c.Boot = sender, [16]byte{boot}
		c.Minute = m.today.Add(time.Duration(minute-10) * time.Minute)
		if minute == 2 { // its requests are the newest, and were refused before their platform was known
			c.Platform, c.LastAt = "", c.LastAt.Add(time.Minute)
		}
	})
	key := fmt.Sprint(sender, boot, minute)
	if last := m.reports[key]; last != nil {
		if m.rnd.IntN(4) == 0 {
			return last
		}
		c.Version = last.Version + 1
		c.Requests, c.Lines, c.Bytes = last.Requests+1, last.Lines+10, last.Bytes+1000
		c.Hits, c.Rejected, c.LastAt = last.Hits+2, last.Rejected+3, last.LastAt.Add(time.Millisecond)
		c.LastError = "bad_gzip"
	}
	m.reports[key] = c
	return c
}

// compareReports compares what the senders sent with their newest reports.
func (m *findingsModel) compareReports(r *read.Reader) {
	m.Helper()
	want := map[string]finding.Received{}
	for _, c := range m.reports {
		x := want[c.Sender]
		x.Requests, x.Lines, x.Bytes = x.Requests+int64(c.Requests), x.Lines+int64(c.Lines), x.Bytes+int64(c.Bytes)
		x.Hits, x.Rejected = x.Hits+int64(c.Hits), x.Rejected+int64(c.Rejected)
		if c.LastAt.After(x.LastAt) {
			x.LastAt = c.LastAt
		}
		x.Platform = cmp.Or(c.Platform, x.Platform)
		if c.LastError != "" {
			x.LastError = c.LastError
		}
		want[c.Sender] = x
	}
	got, err := findingsOf(r).Received(m.Context(), storetest.Account, []string{"drn_0", "drn_1", "drn_2", "drn_3"},
		time.Now().AddDate(0, 0, -2))
	if err != nil {
		m.Fatal(err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		m.Fatalf("what senders sent (-want +got):\n%s", diff)
	}
}

func endOfDay(t time.Time) time.Time {
	return t.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1).Add(-time.Millisecond)
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func anyFinding(string) bool { return true }

func findingsOf(r *read.Reader) findings.Reader { return findings.Reader{Cluster: r.Cluster} }

// listFindings reads a list to its end.
func listFindings(t testing.TB, r *read.Reader, q finding.Query) (rows []finding.Row) {
	t.Helper()
	q.Account = storetest.Account
	if q.Keep == nil {
		q.Keep = anyFinding
	}
	for {
		page, err := findingsOf(r).Findings(t.Context(), q)
		if err != nil || !page.AsOf.IsZero() {
			t.Fatalf("findings as of %v: %v", page.AsOf, err)
		}
		rows = append(rows, page.Rows...)
		if !page.More {
			return rows
		}
		must.Equal(t, len(page.Rows), q.Limit, "a page of: rows is followed by another, limit %d", q.Limit)
		q.After = page.Rows[len(page.Rows)-1].Key()
	}
}

// listOccurrences reads the hits of a finding to their end.
func listOccurrences(t testing.TB, r *read.Reader, name string, limit int) (rows []finding.Occurrence) {
	t.Helper()
	q := finding.OccurrenceQuery{Account: storetest.Account, Finding: name, Limit: limit}
	for {
		page, err := findingsOf(r).Occurrences(t.Context(), q)
		if err != nil || !page.AsOf.IsZero() {
			t.Fatalf("occurrences as of %v: %v", page.AsOf, err)
		}
		rows = append(rows, page.Rows...)
		if !page.More {
			return rows
		}
		q.After = page.Rows[len(page.Rows)-1].OccurrenceKey
	}
}

// LastSeen may be that of a repeated request, which the hit itself keeps no time of.
var ignoreRepeats = cmpopts.IgnoreFields(finding.Row{}, "LastSeen")

// compare compares everything that can be read with the model.
func (m *findingsModel) compare(r *read.Reader) {
	m.Helper()
	want := m.want()
	if diff := gocmp.Diff(want, listFindings(m, r, finding.Query{Limit: 7}), ignoreRepeats); diff != "" {
		m.Fatalf("findings (-want +got):\n%s", diff)
	}
	row, asOf, err := findingsOf(r).Finding(m.Context(), storetest.Account, want[3].ID)
	if diff := gocmp.Diff(want[3], row, ignoreRepeats); diff != "" || err != nil || !asOf.IsZero() {
		m.Fatalf("%v, as of %v (-want +got):\n%s", err, asOf, diff)
	}
	var hits []finding.Occurrence
	for _, h := range m.hitsOf(want[3].ID) {
		hits = append(hits, finding.Occurrence{
			OccurrenceKey: finding.OccurrenceKey{At: h.At, Hit: h.ID}, ObservedAt: minTime(h.ObservedAt, h.At),
			N: int64(h.N), Source: h.Source, Channel: h.Channel, Severity: h.Severity, Unverified: h.Unverified,
			Test: h.Test, Location: h.Location, Environment: h.Environment, Release: h.Release, Method: h.Method,
			Agent: h.Agent, RemoteIP: h.RemoteIP, RemoteNet: netip.MustParsePrefix("192.0.2.0/24")})
	}
	if diff := gocmp.Diff(hits, listOccurrences(m, r, want[3].ID, 3), storetest.CompareIPs); diff != "" {
		m.Fatalf("occurrences (-want +got):\n%s", diff)
	}
	m.compareReports(r)
}

// reads returns each kind of read of findings.
func (m *findingsModel) reads(r *read.Reader) map[string]func() (any, error) {
	f, ctx, name := findingsOf(r), m.Context(), m.hits[0].Finding
	list := func(change func(*finding.Query)) func() (any, error) {
		q := finding.Query{Account: storetest.Account, Limit: 10, Keep: anyFinding}
		change(&q)
		return func() (any, error) { return f.Findings(ctx, q) }
	}
	return map[string]func() (any, error){
		"findings":           list(func(*finding.Query) {}),
		"findings by source": list(func(q *finding.Query) { q.Sources = []finding.Source{finding.Drain} }),
		"finding": func() (any, error) {
			row, asOf, err := f.Finding(ctx, storetest.Account, name)
			return []any{row, asOf}, err
		},
		"occurrences": func() (any, error) {
			return f.Occurrences(ctx, finding.OccurrenceQuery{Account: storetest.Account, Finding: name, Limit: 10})
		},
		"senders": func() (any, error) {
			return f.Received(ctx, storetest.Account, []string{"drn_0", "drn_1"}, time.Now().AddDate(0, 0, -2))
		},
		"usage of findings": func() (any, error) {
			to := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
			u, err := r.Usage(ctx, event.UsageOf{Account: storetest.Account},
				event.UsageSpan{From: to.AddDate(0, 0, -10), To: to, Recent: to})
			u.AsOf, u.QueryTime = time.Time{}, 0
			return u, err
		},
		"last hits": func() (any, error) {
			caughtUp := func(context.Context) error { return nil }
			return write.NewFindingTable(r, caughtUp).LastHits(ctx, storetest.Account, []string{name})
		},
	}
}

// usage returns the expected usage by day: each finding and source with a billed hit counts once a day.
func (m *findingsModel) usage() map[time.Time]int64 {
	m.Helper()
	billed, days := map[string]bool{}, map[time.Time]int64{}
	for _, h := range m.hits {
		if key := h.Finding + string(h.Source) + h.Day; h.Billed && !billed[key] {
			billed[key] = true
			days[h.At.UTC().Truncate(24*time.Hour)]++
		}
	}
	return days
}

// TestFindingPagesWhileHitsArrive: between two pages new findings arrive, known ones are seen again, and senders repeat
// requests. Pages have each finding and each hit that was there at the first page once.
func TestFindingPagesWhileHitsArrive(t *testing.T) {
	m := newFindingsModel(newBench(t), kit.Rand(t))
	m.add(60)
	w, _ := m.Writer(write.WriterConfig{})
	r := m.Reader(w)
	before := m.want()
	target := before[0].ID
	hits := m.hitsOf(target)
	odd := func(name string) bool { return name[len(name)-1]%2 == 1 }
	arrive := func() {
		m.ProduceHits(
			m.Hit(1000+m.rnd.IntN(1000)), m.Hit(m.rnd.IntN(25)), m.Hit(0, func(h *finding.Hit) { h.Finding = target }),
			hits[m.rnd.IntN(len(hits))])
		again := *hits[m.rnd.IntN(len(hits))] // moves its time, if the newer record counted
		again.At = endOfDay(again.At)
		m.ProduceHits(&again)
		m.WaitCaughtUp(r)
	}
	for _, keep := range []func(string) bool{anyFinding, odd} {
		q := finding.Query{Account: storetest.Account, Limit: 9, Keep: keep}
		var got, want []string
		for _, row := range before {
			if keep(row.ID) {
				want = append(want, row.ID)
			}
		}
		for more := true; more; {
			page := must.Get(findingsOf(r).Findings(t.Context(), q))(t)
			for _, row := range page.Rows {
				if slices.ContainsFunc(before, func(x finding.Row) bool { return x.ID == row.ID }) {
					got = append(got, row.ID)
				}
			}
			if more = page.More; more {
				q.After = page.Rows[len(page.Rows)-1].Key()
				arrive()
			}
		}
		is.Equal(t, gocmp.Diff(want, got), "", "findings (-want +got)")
	}
	var got, want [][16]byte
	for _, h := range hits {
		want = append(want, h.ID)
	}
	q := finding.OccurrenceQuery{Account: storetest.Account, Finding: target, Limit: 1}
	for more := true; more; {
		page := must.Get(findingsOf(r).Occurrences(t.Context(), q))(t)
		for _, o := range page.Rows {
			if slices.Contains(want, o.Hit) {
				got = append(got, o.Hit)
			}
		}
		if more = page.More; more {
			q.After = page.Rows[len(page.Rows)-1].OccurrenceKey
			arrive()
		}
	}
	is.Equal(t, gocmp.Diff(want, got), "", "occurrences (-want +got)")
}

// BenchmarkListBesideHits lists events right after one was accepted: alone, while 10,000 hits of findings are stored,
// and alone again, because the first and the last differ too. Run it with -benchtime 25x: after a hundred lists the
// budget of flushes that readers may request (ten a second) is what a list waits for.
func BenchmarkListBesideHits(b *testing.B) {
	x := newBench(b)
	w, _ := x.Writer(write.WriterConfig{})
	r := x.Reader(w)
	measure := func(b *testing.B) {
		var took []time.Duration
		for b.Loop() {
			x.ProduceEvents(x.Event(1))
			began := time.Now()
			if _, err := r.Events(b.Context(), event.Query{Account: storetest.Account, Limit: 50}); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "p50-ms")
		b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1e3, "p95-ms")
	}
	b.Run("before", measure)
	b.Run("beside", func(b *testing.B) {
		ctx, cancel := context.WithCancel(b.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for sent := 0; ctx.Err() == nil && sent < 10_000; sent += 200 {
				var hits []*finding.Hit
				for i := range 200 {
					hits = append(hits, x.Hit(i%50))
				}
				x.ProduceHits(hits...)
				_ = wait.For(ctx, 20*time.Millisecond)
			}
		})
		defer wg.Wait()
		defer cancel()
		measure(b)
	})
	b.Run("after", measure)
}
