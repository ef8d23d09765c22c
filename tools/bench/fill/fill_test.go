package fill_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/schema"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/tools/bench/fill"
)

var address string // of the engine; set once by TestMain

func TestMain(m *testing.M) {
	os.Exit(kit.ClickHouse(func(a string) int {
		address = a
		return m.Run()
	}))
}

const events, outage, days = 10_000, 500, 4

// shared is a database that is filled once for all tests that only read it.
type shared struct {
	url      string
	result   fill.Result
	reported int // events in the last progress report
}

var sharedFill = sync.OnceValues(func() (f shared, err error) {
	f.url = "http://" + address + "/f" + strings.ToLower(id.Random("")[:16])
	ctx := context.Background()
	if _, err := schema.Migrate(ctx, schema.Config{URL: f.url, RetentionDays: 30}); err != nil {
		return f, err
	}
	f.result, err = fill.Run(ctx, f.url, config(), func(p fill.Progress) { f.reported = max(f.reported, p.Events) })
	return f, err
})

// filled returns a connection to the shared database, and the result of its fill.
func filled(t *testing.T) (driver.Conn, fill.Result) {
	t.Helper()
	f := must.Get(sharedFill())(t)
	r := f.result
	if f.reported != events || r.Events != events {
		t.Errorf("reported %d events, wrote %d, want %d", f.reported, r.Events, events)
	}
	opts := must.Get(clickhouse.ParseDSN(f.url))(t)
	conn := must.Get(clickhouse.Open(opts))(t)
	t.Cleanup(func() { conn.Close() })
	return conn, r
}

func config() fill.Config {
	cfg := fill.Config{Account: "acc_1", Events: events, Days: days, Outage: outage, Batch: 3_000, Merge: true}
	for i := range 50 {
		e := fill.Endpoint{ID: fmt.Sprintf("ep_%d", i),
			Dests: []fill.Destination{{ID: fmt.Sprintf("dst_%d", i), URL: "https://example.com/h"}}}
		if i%5 == 1 {
			e.Dests = append(e.Dests, fill.Destination{ID: fmt.Sprintf("dst_%d_b", i), URL: "https://example.com/b"})
		}
		cfg.Endpoints = append(cfg.Endpoints, e)
	}
	return cfg
}

// A filled store has all kinds of events, outcomes and receipts in the shares of a busy service.
func TestFillLooksLikeABusyService(t *testing.T) {
	conn, r := filled(t)
	number := func(statement string) (n float64) {
		t.Helper()
		must.Do(t, conn.QueryRow(t.Context(), "SELECT toFloat64("+statement+")").Scan(&n))
		return n
	}
	between := func(what, statement string, least, most float64) {
		t.Helper()
		if n := number(statement); n < least || n > most {
			t.Errorf("%s: %v, want %v to %v", what, n, least, most)
		}
	}
	exactly := func(what, statement string, want float64) {
		t.Helper()
		between(what, statement, want, want)
	}
	exactly("events", "(SELECT uniqExact(id) FROM events)", events)
	exactly("events by endpoint", "(SELECT count() FROM events_by_endpoint FINAL)", events)
	exactly("attempts", "(SELECT count() FROM attempts FINAL)", float64(r.Attempts))
	between("mean size", "(SELECT avg(size) FROM events)", 1_150, 1_500)
	between("smallest", "(SELECT min(size) FROM events)", 200, 400)
	between("largest", "(SELECT max(size) FROM events)", 20_000, 64<<10)
	between("rows an event", fmt.Sprintf("%d", (2*r.Events+r.Deliveries+r.Attempts+r.Receipts)/(r.Events/10)), 35, 60)
	share := func(status string) string {
		return fmt.Sprintf("(SELECT 100 * uniqExactIf(id, status = '%s' AND endpoint != 'ep_1') / %d FROM deliveries FINAL)",
			status, events-outage)
	}
	between("failed, %", share("failed"), 0.6, 1.4)
	between("retrying, %", share("retrying"), 0.1, 0.6)
	between("delivered, %", share("delivered"), 70, 99)
	between("rejected, %", fmt.Sprintf("(SELECT 100 * count() / %d FROM events WHERE verdict = 'rejected')", events), 0.4,
		1.2)
	between("outage", "(SELECT uniqExact(id) FROM deliveries FINAL WHERE status = 'failed' AND endpoint = 'ep_1')",
		outage*0.95, outage*1.1)
	between("troubled", "(SELECT count() FROM failure_candidates_by_endpoint FINAL WHERE (id, dest) NOT IN (SELECT id, "+
		"dest FROM deliveries FINAL WHERE status != 'delivered'))", 50, 500)
	between("receipts", "(SELECT count() FROM receipts FINAL)", 250, 1_000)
	between("replayed", "(SELECT count() FROM run_deliveries FINAL)", 5, 100)
	between("waiting", "(SELECT uniqExact(id) FROM deliveries FINAL WHERE status = 'pending')", 30, 50)
	exactly("nothing said", "(SELECT countIf(notEmpty(dests) AND id NOT IN (SELECT id FROM deliveries)) FROM events)", 0)
	exactly("troubled as deliveries say", "(SELECT count() FROM failure_candidates FINAL WHERE status NOT IN "+
		"('delivered', 'skipped'))",
		number("(SELECT count() FROM deliveries FINAL WHERE status NOT IN ('delivered', 'skipped'))"))
	exactly("hours", "(SELECT sum(received + sent) FROM usage_hour FINAL)",
		number("(SELECT count() FROM events WHERE billed = 1)"))
	between("busiest / tenth", "(SELECT countIf(endpoint = 'ep_0') / countIf(endpoint = 'ep_9') FROM events)", 6, 15)
	exactly("endpoints", "(SELECT uniqExact(endpoint) FROM events)", 50)
	between("seconds since the newest", "(SELECT dateDiff('second', max(ts), now64(3)) FROM events)", 0, 3600)
	// The oldest event is five minutes younger than that many days: just before midnight (UTC) it has the next date.
	between("dates", "(SELECT uniqExact(toDate(ts)) FROM events)", days, days+1)
	exactly("parts a day", "(SELECT max(c) FROM (SELECT count() AS c FROM system.parts WHERE active AND database = "+
		"currentDatabase() AND table = 'events' GROUP BY partition))", 1)
}

// Every body is JSON, and every event has the common headers.
func TestBodiesAreJSON(t *testing.T) {
	conn, _ := filled(t)
	rows := must.Get(conn.Query(t.Context(), "SELECT type, body, headers FROM events ORDER BY id"))(t)
	defer rows.Close()
	seen := 0
	for rows.Next() {
		var kind, body, headers string
		var is struct {
			ID, Type string
			Number   *int
		}
		must.Do(t, rows.Scan(&kind, &body, &headers))
		if err := json.Unmarshal([]byte(body), &is); err != nil || is.Type != kind || is.Number == nil ||
			*is.Number != seen ||
			len(is.ID) != 12 {
			t.Fatalf("event %d of type %s: %v\n%.400s", seen, kind, err, body)
		}
		if want := fmt.Sprintf("Content-Length: %d\n", len(body)); !strings.Contains(headers, want) {
			t.Fatalf("headers without %q:\n%s", want, headers)
		}
		seen++
	}
	if err := rows.Err(); err != nil || seen != events {
		t.Fatalf("%d events: %v", seen, err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*fill.Config){
		"events must be":          func(c *fill.Config) { c.Events = 0 },
		"days must be":            func(c *fill.Config) { c.Days = 400 },
		"batch must be":           func(c *fill.Config) { c.Batch = 1_000_000 },
		"endpoints must be":       func(c *fill.Config) { c.Endpoints = nil },
		"outage must be":          func(c *fill.Config) { c.Outage = c.Events },
		"account is missing":      func(c *fill.Config) { c.Account = "" },
		"has no id or no destina": func(c *fill.Config) { c.Endpoints[0].Dests = nil },
	} {
		cfg := config()
		change(&cfg)
		if _, err := fill.Run(t.Context(), "http://127.0.0.1:1/relay", cfg, func(fill.Progress) {}); err == nil ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A fill stops when its context ends.
func TestFillStopsWithItsContext(t *testing.T) {
	t.Parallel()
	url := "http://" + address + "/s" + strings.ToLower(id.Random("")[:16])
	must.Get(schema.Migrate(t.Context(), schema.Config{URL: url, RetentionDays: 30}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := fill.Run(ctx, url, config(), func(fill.Progress) { cancel() }); err == nil {
		t.Error("the fill continued after its context had ended")
	}
}

func TestTimeLeft(t *testing.T) {
	t.Parallel()
	if left := (fill.Progress{Events: 25, Of: 100, Took: time.Second}).Left(); left != 3*time.Second {
		t.Error(left)
	}
	if left := (fill.Progress{Of: 100}).Left(); left != 0 {
		t.Error(left)
	}
}
