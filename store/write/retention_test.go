package write_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// storeFailedEvent produces an event received at a time, in a partition, with a failed outcome.
func (b *bench) storeFailedEvent(at time.Time, partition int) *event.Event {
	b.Helper()
	b.IDs = id.NewGenerator(func() time.Time { return at })
	e := b.Event(1, func(e *event.Event) { e.Body = []byte(`{"word":"needle"}`) })
	var err error
	if e.ID, err = b.IDs.New(int32(partition)); err != nil {
		b.Fatal(err)
	}
	r := e.Record()
	r.Timestamp = time.Time{} // the producer gives up on records with an old timestamp
	b.Produce("events", e.ID.Partition(), r)
	b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Failed, func(o *event.Outcome) { o.Run = newRunID(b) }))
	return e
}

func newRunID(b *bench) string { return b.IDs.NewUnbounded(0).Text(id.Run) }

// TestRetention lowers the retention: from then on no read shows, finds, selects or counts an event that is older, and
// every read has the event that is ten minutes younger, longer than the test takes. Usage does not change.
func TestRetention(t *testing.T) {
	const day = 24 * time.Hour
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	edge := time.Now().Add(-7 * day)
	expired, readable := b.storeFailedEvent(edge.Add(-time.Minute), 1), b.storeFailedEvent(edge.Add(10*time.Minute), 2)
	reading := func(days int) *read.Reader {
		return b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: days}, w)
	}
	before, r := reading(30), reading(7)
	ctx, since := t.Context(), time.Now().Add(-29*day)
	ids := func(r *read.Reader, q event.Query) (all []id.ID) {
		q.Account, q.Limit = storetest.Account, 10
		for _, row := range storetest.ListEvents(t, r, q, 1) {
			all = append(all, row.ID)
		}
		return all
	}
	one := func(err error, d id.ID) []id.ID {
		if errors.Is(err, event.ErrNotFound) {
			return nil
		}
		is.OK(t, err)
		return []id.ID{d}
	}
	job := event.RecoveryJob{
		Account: storetest.Account, ID: b.IDs.NewUnbounded(0).Text(id.Recovery), Selection: id.Random("")}
	failed := b.Selection(event.SelectionGroup{Dests: []string{"dst_a"}})
	failed.Since = since
	sel, err := before.SelectRecovery(ctx, failed, job.Selection)
	if job.Total = sel.Total; err != nil || sel.Total != 2 {
		t.Fatalf("selected %+v, %v", sel, err)
	}
	reads := map[string]func(*read.Reader) []id.ID{
		"list":                func(r *read.Reader) []id.ID { return ids(r, event.Query{}) },
		"list since":          func(r *read.Reader) []id.ID { return ids(r, event.Query{Since: since}) },
		"list of an endpoint": func(r *read.Reader) []id.ID { return ids(r, event.Query{Endpoints: []string{"ep_1"}}) },
		"failed list": func(r *read.Reader) []id.ID {
			return ids(r, event.Query{Statuses: []event.Status{event.Failed}})
		},
		"list by destination": func(r *read.Reader) []id.ID { return ids(r, event.Query{Destinations: []string{"dst_a"}}) },
		"list by type":        func(r *read.Reader) []id.ID { return ids(r, event.Query{Types: []string{"order.*"}}) },
		"text search": func(r *read.Reader) []id.ID {
			return ids(r, event.Query{Search: &event.Search{Text: "needle"}})
		},
		"second page": func(r *read.Reader) []id.ID {
			first := ids(r, event.Query{Before: id.Lowest(time.Now())})
			return append(first[:min(1, len(first)):1], ids(r, event.Query{Before: readable.ID})...)
		},
		"single read": func(r *read.Reader) (all []id.ID) {
			for _, e := range []*event.Event{readable, expired} {
				_, err := r.Event(ctx, storetest.Account, e.ID)
				all = append(all, one(err, e.ID)...)
			}
			return all
		},
		"attempts": func(r *read.Reader) (all []id.ID) {
			for _, e := range []*event.Event{readable, expired} {
				_, err := r.Attempts(ctx, storetest.Account, e.ID, id.ID{}, 10)
				all = append(all, one(err, e.ID)...)
			}
			return all
		},
		"receipt": func(r *read.Reader) (all []id.ID) {
			for _, e := range []*event.Event{readable, expired} {
				_, err := r.EventEndpoint(ctx, storetest.Account, e.ID)
				all = append(all, one(err, e.ID)...)
			}
			return all
		},
		"replay": func(r *read.Reader) (all []id.ID) {
			for _, m := range storetest.SelectEvents(
				t, r, event.Query{Account: storetest.Account, Since: since, Until: time.Now()}) {
				all = append(all, m.ID)
			}
			return all
		},
		"bodies of a replay": func(r *read.Reader) (all []id.ID) {
			stored, err := r.Stored(ctx, storetest.Account, []id.ID{readable.ID, expired.ID})
			is.OK(t, err)
			for _, s := range stored {
				all = append(all, s.ID)
			}
			return all
		},
		"recovery selection": func(r *read.Reader) (all []id.ID) {
			job, sel := b.SelectRecovery(r, failed)
			for _, x := range b.RecoveryItems(r, job, sel.Total, 10) {
				all = append(all, x.Event)
			}
			return all
		},
		"bodies of a recovery job": func(r *read.Reader) (all []id.ID) {
			if err := r.OpenRecoveryItems(ctx, job, 0, job.Total, func(x *event.OpenRecoveryItem) error {
				if x.StoredEvent != nil {
					all = append(all, x.Event)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			return all
		},
		"stream": func(r *read.Reader) (all []id.ID) {
			for _, p := range []int32{2, 1} {
				page, err := r.EventsByOffset(ctx,
					event.OffsetQuery{Account: storetest.Account, Endpoint: "ep_1", Partition: p, To: 1000, Limit: 10, Bytes: 1 << 20,
						MaxBody: 1 << 20, Since: since})
				is.OK(t, err)
				for _, x := range page.Rows {
					all = append(all, x.ID)
				}
			}
			return all
		},
	}
	newestFirst := func(ids []id.ID) []id.ID { // on two shards a job numbers its items shard by shard
		slices.SortFunc(ids, func(a, b id.ID) int { return slices.Compare(b[:], a[:]) })
		return ids
	}
	for name, read := range reads {
		if got := newestFirst(read(before)); !slices.Equal(got, []id.ID{readable.ID, expired.ID}) {
			t.Errorf("%s, with the longer retention: %v, want %v and %v", name, got, readable.ID, expired.ID)
		}
		if got := newestFirst(read(r)); !slices.Equal(got, []id.ID{readable.ID}) {
			t.Errorf("%s: %v, want %v", name, got, readable.ID)
		}
	}
	span := event.UsageSpan{From: since.Truncate(time.Hour), To: time.Now(), Recent: since.Truncate(time.Hour)}
	var used [2]event.Figures
	for i, r := range []*read.Reader{before, r} {
		if used[i], err = r.Usage(ctx, event.UsageOf{Account: storetest.Account}, span); err != nil {
			t.Fatal(err)
		}
		used[i].AsOf, used[i].QueryTime = time.Time{}, 0
	}
	if d := gocmp.Diff(used[0], used[1]); d != "" || used[1].Attempts != 2 {
		t.Errorf("usage: %+v, %s", used[1], d)
	}
}

// storedDays returns the days of the events whose rows a table has.
func (b *bench) storedDays(table string) (days []string) {
	b.Helper()
	b.ForEachShard(func(conn driver.Conn) error {
		return conn.QueryRow(b.Context(), "SELECT arraySort(groupUniqArray(toString(toDate(ts)))) FROM "+table).Scan(&days)
	})
	return days
}

// TestRetentionShowsWholeDays: when the retention is made shorter and then longer again, reads show a day completely or
// not at all. The TTL of the tables keeps a day until its last moment has expired, and an expired day does not come
// back.
func TestRetentionShowsWholeDays(t *testing.T) {
	const day = 24 * time.Hour
	b := newBench(t)
	w, _ := b.Writer(write.WriterConfig{})
	migrate := func(days int) {
		t.Helper()
		must.Do(t, storetest.Migrate(t.Context(), b.URL, days))
	}
	migrate(7)
	// One part for each of these times: the first and the last second of the day in which the retention ends, and of
	// the day before, which has expired.
	edge := time.Now().UTC().Add(-7 * day).Truncate(day)
	now := time.Now()
	listed := func(days int) (n int) {
		r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: days}, w)
		return len(storetest.ListEvents(t, r, event.Query{Account: storetest.Account, Limit: 10}, 1))
	}
	for _, table := range []string{"events", "events_by_endpoint", "deliveries", "attempts"} {
		b.Exec("SYSTEM STOP MERGES " + table)
	}
	for _, at := range []time.Time{
		edge.Add(-day + time.Second), edge.Add(-time.Second), edge.Add(time.Second), edge.Add(day - time.Second),
		now.Add(-time.Hour)} {
		b.storeFailedEvent(at, 1)
		b.WaitCaughtUp(b.Reader(w))
	}
	if n := b.QuerySum("SELECT count() FROM system.parts WHERE active AND database = currentDatabase() AND table = " +
		"'events'"); n != 5 {
		t.Fatalf("%d parts of events, want 5", n)
	}
	b.Exec("SYSTEM START MERGES events")
	b.Exec("OPTIMIZE TABLE events FINAL") // drops what the TTL has expired
	yesterday := now.UTC().Add(-time.Hour).Format(time.DateOnly)
	is.List(t, b.storedDays("events"), []string{edge.Format(time.DateOnly), yesterday}, "after the TTL days … are left")
	if n := listed(30); n != 3 {
		t.Errorf("%d events are listed, want those of two whole days", n)
	}

	// The first half of an expired day, whose other part has been dropped.
	b.storeFailedEvent(edge.Add(-time.Second), 1)
	b.WaitCaughtUp(b.Reader(w))
	migrate(30)
	for _, table := range []string{"events", "events_by_endpoint", "deliveries", "attempts"} {
		is.List(t, b.storedDays(table), []string{edge.Format(time.DateOnly), yesterday}, "%s has days", table)
	}
	if n := listed(30); n != 3 {
		t.Errorf("%d events are listed after the retention was made longer, want those of two whole days", n)
	}
	migrate(30)
	is.Equal(t, listed(30), 3, "events are listed after a migration without changes")
}

// TestCheckReportsShortTableRetention: Check reports tables that drop rows which reads would still show.
func TestCheckReportsShortTableRetention(t *testing.T) {
	b := newBench(t)
	check := func(days int) error {
		return b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: days, FenceWait: time.Second}, nil).
			Check(t.Context())
	}
	for days, right := range map[int]bool{7: true, 30: true, 31: false} {
		if err := check(days); (err == nil) != right || err != nil &&
			!strings.Contains(err.Error(), "drop events after 30 days, RELAY_RETENTION_DAYS is 31: run relay migrate") {
			t.Errorf("tables keep 30 days, the reader's retention is %d: %v", days, err)
		}
	}
	// A row lives to the end of its last day.
	b.Exec("ALTER TABLE events MODIFY TTL toStartOfDay(toDateTime(ts)) + INTERVAL 10 DAY DELETE SETTINGS " +
		"materialize_ttl_after_modify = 0")
	is.OK(t, check(9))
	if err := check(10); err == nil {
		t.Error("no error, although a table keeps 9 days and the reader's retention is 10")
	}
}

// TestChoresWithAnUnavailableShard: while one shard is unavailable, the other one's expired days are dropped and its
// erased payloads emptied. The first shard follows when it is back, and no erasure is finished before that.
func TestChoresWithAnUnavailableShard(t *testing.T) {
	b := newBench(t)
	p := storetest.NewProxy(t)
	b.URL = b.URL + "_1," + p.URL(b.Bench) + "_2"
	must.Do(t, storetest.Migrate(t.Context(), b.URL, 30))
	erasures := newErasures()
	b.Erased = erasures.erased
	w, _ := b.Writer(write.WriterConfig{})
	// The wait is long enough for a flush on a busy machine; with the unavailable shard each one ends late.
	r := b.ReaderWith(cluster.Config{
		URL: b.URL, RetentionDays: 7, FenceWait: time.Second, Timeout: 30 * time.Second}, w)
	const day = 24 * time.Hour
	expiredTime, recent := time.Now().Add(-20*day), time.Now().Add(-time.Hour)
	old, oldUnavailable := b.storeFailedEvent(expiredTime, 0), b.storeFailedEvent(expiredTime, 1)
	near, nearUnavailable := b.storeFailedEvent(recent, 0), b.storeFailedEvent(recent, 1)
	storetest.Eventually(t, func() bool { return r.CaughtUp(t.Context()) == nil })

	p.Cut()
	erasures.erase(near.ID)
	erasures.erase(nearUnavailable.ID)
	b.IDs = id.NewGenerator(nil)
	b.ProduceEvents(b.Event(1)) // makes the writer wait for the unavailable shard
	var ownerChecks atomic.Int64
	log, reg := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	owner := func() bool { ownerChecks.Add(1); return true }
	eraser := write.NewEraser(write.EraserConfig{Every: 50 * time.Millisecond, Settle: time.Millisecond}, write.EraserDeps{
		ChoreDeps: write.ChoreDeps{Log: log, Store: r, IsOwner: owner, Metrics: reg},
		Erasures:  erasures, Now: time.Now,
	})
	expirer := write.NewExpirer(50*time.Millisecond, write.ChoreDeps{Log: log, Store: r, IsOwner: owner, Metrics: reg})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{eraser.Run, expirer.Run} {
		running.Go(func() {
			is.OK(t, run(ctx))
		})
	}
	defer running.Wait()
	defer cancel()
	engine := b.URL
	left := func(shard string) (rows, bodies uint64) {
		b.URL = shard
		defer func() { b.URL = engine }()
		return max(b.QuerySum("SELECT uniqExact(id) FROM events"), b.QuerySum("SELECT uniqExact(id) FROM attempts")),
			b.QuerySum("SELECT uniqExact(id) FROM events WHERE body != ''")
	}
	first, second, _ := strings.Cut(engine, ",")
	second = strings.Replace(second, p.Address, storetest.Engines.ClickHouse, 1)
	storetest.Eventually(t, func() bool { rows, bodies := left(first); return rows == 1 && bodies == 0 })
	if rows, bodies := left(second); rows != 2 || bodies != 2 {
		t.Errorf("the unavailable shard has %d rows, %d of them with a body; want 2 and 2", rows, bodies)
	}
	seen := ownerChecks.Load()
	storetest.Eventually(t, func() bool { return ownerChecks.Load() > seen+4 })
	if _, unfinished := erasures.Unfinished(); len(unfinished) != 2 {
		t.Errorf("%d erasures are unfinished while the store lags, want 2", len(unfinished))
	}
	p.Restore()
	storetest.Eventually(t, func() bool {
		rows, bodies := left(second)
		_, unfinished := erasures.Unfinished()
		return rows == 2 && bodies == 1 && len(unfinished) == 0
	})
	for e, want := range map[*event.Event]error{
		old: event.ErrNotFound, oldUnavailable: event.ErrNotFound, near: nil, nearUnavailable: nil} {
		var d *event.Detail
		var err error
		storetest.Eventually(t, func() bool { // a busy machine may take longer than a read waits
			d, err = r.Event(t.Context(), storetest.Account, e.ID)
			return !errors.Is(err, event.ErrUnavailable)
		})
		if !errors.Is(err, want) || err == nil && len(d.Event.Body) > 0 {
			t.Errorf("%+v, %v", d, err)
		}
	}
}

// TestBatchOfManyDays: one batch has deliveries of more days than ClickHouse accepts partitions per block by default
// (100), as a recovery of a year's failures does. All tables are inserted into with the setting that allows it.
func TestBatchOfManyDays(t *testing.T) {
	const days = 101
	b := newBench(t)
	must.Do(t, storetest.Migrate(t.Context(), b.URL, 365))
	g := storetest.NewFaultProxy(b.Bench)
	var mu sync.Mutex // guards limits
	limits := map[string]string{}
	g.OnStatement = func(r *http.Request, statement string, _ time.Duration) {
		if rest, ok := strings.CutPrefix(statement, "INSERT INTO "); ok {
			table, _, _ := strings.Cut(rest, " ")
			mu.Lock()
			limits[table] = r.URL.Query().Get("max_partitions_per_insert_block")
			mu.Unlock()
		}
	}
	b.storeFailedEvent(time.Now().Add(-time.Minute), 1)
	for i := 1; i < days; i++ { // without an attempt: the rows of one table are enough
		at := time.Now().AddDate(0, 0, -i)
		b.IDs = id.NewGenerator(func() time.Time { return at })
		b.ProduceOutcomes(b.Outcome(b.Event(1), "dst_a", event.Skipped, func(o *event.Outcome) { o.Attempt = nil }))
	}
	w, stop := b.Writer(g.WriterConfig(write.WriterConfig{FlushEvery: time.Second}))
	b.WaitCaughtUp(b.Reader(w))
	stop()
	is.Equal(t, b.QuerySum("SELECT uniqExact(id) FROM deliveries"), days, "of %d deliveries are stored", days)
	mu.Lock()
	defer mu.Unlock()
	for _, table := range []string{"events", "deliveries", "attempts", "failure_candidates", "run_deliveries"} {
		if limits[table] != "0" {
			t.Errorf("inserts into %s have the limit %q, want 0: none", table, limits[table])
		}
	}
	if dead := b.DeadLetters(1); len(dead) > 0 {
		t.Errorf("%d dead letters, want none", len(dead))
	}
}
