package plans

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
	"github.com/eventrelay/relay/tools/bench/fill"
)

func TestMain(m *testing.M) { storetest.Main(m) }

type bench struct{ *storetest.Bench }

// boundedRead is one kind of read, with the maximum of rows that ClickHouse may read for it.
type boundedRead struct {
	name string
	most uint64
	do   func(context.Context, *read.Reader) (int, error)
}

// boundedReads returns all kinds of reads. A bound is about twice the measured rows. A page of 50 events that lie far
// apart costs three or four granules of 1,024 rows for each; a page of neighbours a few granules in all; an empty list
// one granule for each part, or the rows of the failure tables.
func boundedReads(account string, busy, rare fill.Endpoint, one id.ID, ago time.Time) []boundedRead {
	list := func(name string, most uint64, change func(*event.Query)) boundedRead {
		return boundedRead{name, most, func(ctx context.Context, r *read.Reader) (int, error) {
			q := event.Query{Account: account, Limit: 50}
			change(&q)
			page, err := r.Events(ctx, q)
			return len(page.Rows), err
		}}
	}
	only := func(statuses ...event.Status) func(*event.Query) {
		return func(q *event.Query) { q.Statuses = statuses }
	}
	at := func(e fill.Endpoint, f func(*event.Query)) func(*event.Query) {
		return func(q *event.Query) {
			q.Endpoints = []string{e.ID}
			f(q)
		}
	}
	all := func(*event.Query) {}
	kind := func(t string) func(*event.Query) { return func(q *event.Query) { q.Types = []string{t} } }
	past := func(f func(*event.Query)) func(*event.Query) {
		return func(q *event.Query) {
			q.Until = ago
			f(q)
		}
	}
	return []boundedRead{
		list("newest", 6_000, all), list("busy", 9_000, at(busy, all)), list("rare", 65_000, at(rare, all)),
		list("delivered", 22_000, only(event.Delivered)), list("failed", 45_000, only(event.Failed)),
		list("retrying", 150_000, only(event.Retrying)),
		list("pending", 22_000, only(event.Pending)), list("skipped", 60_000, only(event.Skipped)),
		list("rejected", 60_000, only(event.Rejected)), list("held", 4_000, only(event.Held)),
		list("type common", 9_000, kind("order.paid")), list("type prefix", 9_000, kind("invoice.*")),
		list("type rare", 21_000, kind("account.closed")), list("type none", 13_000, kind("no.such")),
		list("source", 180_000, func(q *event.Query) { q.Sources = []event.Source{event.SourceTest} }),
		list("processing failed", 65_000, func(q *event.Query) { q.Processing = []event.Processing{event.ProcessingFailed} }),
		list("processing missing", 40_000, func(q *event.Query) {
			q.Processing = []event.Processing{
				event.ProcessingMissing}
		}),
		list("destination busy", 14_000, func(q *event.Query) { q.Destinations = []string{busy.Dests[0].ID} }),
		list("destination rare", 92_000, func(q *event.Query) { q.Destinations = []string{rare.Dests[0].ID} }),
		list("run none", 8_000, func(q *event.Query) {
			q.Runs = []string{
				id.NewGenerator(nil).NewUnbounded(0).Text(id.Run)}
		}),
		list("far", 12_000, past(all)), list("far rare", 64_000, past(at(rare, all))),
		list("far failed", 55_000, past(only(event.Failed))), list("far pending", 4_000, past(only(event.Pending))),
		list("busy failed", 160_000, at(busy, only(event.Failed))), list("rare failed", 45_000, at(rare, only(event.Failed))),
		list("rare pending", 30_000, at(rare, only(event.Pending))),
		list("busy delivered", 42_000, at(busy, only(event.Delivered))),
		list("busy type rare", 8_000, at(busy, kind("account.closed"))),
		list("failed type rare", 4_000, func(q *event.Query) {
			q.Statuses, q.Types = []event.Status{event.Failed}, []string{"account.closed"}
		}),
		{"one event", 9_000, func(ctx context.Context, r *read.Reader) (int, error) {
			d, err := r.Event(ctx, account, one)
			if err != nil {
				return 0, err
			}
			return len(d.Attempts), nil
		}},
		{"attempts of one", 2_300, func(ctx context.Context, r *read.Reader) (int, error) {
			page, err := r.Attempts(ctx, account, one, id.ID{}, 100)
			return len(page.Rows), err
		}},
		{"overview", 80_000, func(ctx context.Context, r *read.Reader) (int, error) {
			o, err := r.Overview(ctx, account, event.TrafficDay, time.Now())
			return len(o.Busiest), err
		}},
		{"traffic of an endpoint", 60_000, func(ctx context.Context, r *read.Reader) (int, error) {
			d, err := r.DestinationTraffic(ctx, account, busy.ID, event.TrafficDay, time.Now())
			return len(d.Destinations), err
		}},
		{"usage", 90_000, func(ctx context.Context, r *read.Reader) (int, error) {
			now := time.Now()
			f, err := r.Usage(ctx, event.UsageOf{Account: account},
				event.UsageSpan{From: now.AddDate(0, 0, -20).Truncate(time.Hour), To: now.Add(time.Hour).Truncate(time.Hour),
					Recent: now.AddDate(0, 0, -7).Truncate(time.Hour)})
			return len(f.Daily), err
		}},
		{"usage by endpoint and day", 180_000, func(ctx context.Context, r *read.Reader) (int, error) {
			to := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
			from := to.AddDate(0, 0, -30)
			f, err := r.Usage(ctx, event.UsageOf{Account: account},
				event.UsageSpan{From: from, To: to, Recent: from, EndpointDays: true})
			return len(f.ByEndpoint), err
		}},
	}
}

// planStore is the store that TestPlans fills: 15,000 events a day, so that each day has fifteen granules of events.
func planStore() fill.Config {
	cfg := fill.Config{Account: storetest.Account, Events: 30_000, Days: 2, Merge: true}
	for i := range 60 {
		cfg.Endpoints = append(cfg.Endpoints, fill.Endpoint{
			ID: fmt.Sprintf("ep_%d", i), Dests: []fill.Destination{{ID: fmt.Sprintf("dst_%d", i), URL: "https://example.com/h"}},
		})
	}
	return cfg
}

// TestPlans bounds the rows that ClickHouse reads for every kind of list: they must not grow with the store. The bounds
// leave room for a few more granules, because the number depends on the hour at which a day begins. With
// RELAY_PLAN_URL, the URL of a store that relay-bench fill has filled, it prints the figures of that store instead.
func TestPlans(t *testing.T) {
	if testing.Short() {
		t.Skip("measures, which says nothing of a short run")
	}
	b := &bench{storetest.NewBench(t)}
	cfg := planStore()
	of, busy, rare := storetest.Account, cfg.Endpoints[0], cfg.Endpoints[len(cfg.Endpoints)-1]
	foreign := os.Getenv("RELAY_PLAN_URL")
	if foreign == "" {
		must.Get(fill.Run(t.Context(), b.URL, cfg, func(fill.Progress) {}))(t)
	} else {
		b.URL = foreign
		of, busy, rare = b.extremes()
		cfg.Days = 30
	}
	r := b.Reader(nil)
	ago := time.Now().AddDate(0, 0, -cfg.Days/2)
	reads := boundedReads(of, busy, rare, b.delivered(), ago)
	if foreign == "" {
		b.fillFindings()
		reads = append(reads, boundedFindingReads()...)
	}
	for _, l := range reads {
		before, began := b.QueryCost(), time.Now()
		n, err := l.do(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", l.name, err)
		}
		took, c := time.Since(began), b.QueryCost()
		rows := c.Rows - before.Rows
		t.Logf("%-20s %3d rows of %8d read, %4d granules, %3d statements, %8.1f ms CPU, %8.1f ms", l.name, n, rows,
			c.Marks-before.Marks,
			c.Statements-before.Statements-1, float64(c.Micros-before.Micros)/1000, float64(took.Microseconds())/1000)
		if foreign == "" && rows > l.most {
			t.Errorf("%s: %d rows were read, want at most %d", l.name, rows, l.most)
		}
	}
}

// delivered returns an event with one attempt that is not among the newest.
func (b *bench) delivered() (d id.ID) {
	b.Helper()
	b.ForEachShard(func(conn driver.Conn) error {
		return conn.QueryRow(b.Context(), "SELECT id FROM attempts WHERE ts < now() - INTERVAL 1 DAY GROUP BY id HAVING "+
			"count() = 1 ORDER BY id DESC LIMIT 1").Scan((*[16]byte)(&d))
	})
	return d
}

// extremes returns the account of a filled store, its busiest and its rarest endpoint.
func (b *bench) extremes() (of string, busy, rare fill.Endpoint) {
	b.Helper()
	busy.Dests, rare.Dests = make([]fill.Destination, 1), make([]fill.Destination, 1)
	b.ForEachShard(func(conn driver.Conn) error {
		return conn.QueryRow(b.Context(), "SELECT any(account), argMax(e, c), argMax(d, c), argMin(e, c), argMin(d, c) FROM "+
			"(SELECT any(account) AS account, endpoint AS e, any(dests)[1] AS d, count() AS c FROM events WHERE "+
			"notEmpty(dests) GROUP BY endpoint)").
			Scan(&of, &busy.ID, &busy.Dests[0].ID, &rare.ID, &rare.Dests[0].ID)
	})
	return of, busy, rare
}
