package write_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// TestExpiredDaysAreDropped: whole days older than the retention are dropped, also those inserted under a longer
// retention, and the TTL of the tables follows a changed retention. Usage stays.
func TestExpiredDaysAreDropped(t *testing.T) {
	b := newBench(t)
	shards := 1
	if storetest.TwoShards(t) {
		shards = 2
	}
	w, _ := b.Writer(write.WriterConfig{})
	now := time.Now()
	for _, age := range []int{9, 40, 100, 0} { // in days; 0 comes last, so that the generator stays at today
		b.IDs = id.NewGenerator(func() time.Time { return now.AddDate(0, 0, -age) })
		e := b.Event(1)
		r := e.Record()
		r.Timestamp = time.Time{}
		b.Produce("events", e.ID.Partition(), r)
		b.ProduceOutcomes(b.Outcome(e, "dst_a", event.Failed))
	}
	r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 7}, w)
	if rows := storetest.ListEvents(t, r, event.Query{Account: storetest.Account, Limit: 10}, 1); len(rows) != 1 {
		t.Fatalf("%+v", rows)
	}
	b.WaitCaughtUp(r)
	if n := b.QuerySum("SELECT count() FROM events"); n < 2 {
		t.Fatalf("%d rows are stored", n) // the TTL of 30 days may have dropped the two older events
	}
	must.Do(t, storetest.Migrate(t.Context(), b.URL, 7))
	if n := b.QuerySum("SELECT count() FROM system.tables WHERE database = currentDatabase() AND engine_full LIKE '%TTL " +
		"toStartOfDay(toDateTime(ts)) + toIntervalDay(8) %'"); n != 9*uint64(shards) {
		t.Errorf("%d tables follow the retention, want 9 on each shard", n)
	}
	usage := b.QuerySum("SELECT sum(received) FROM usage_hour FINAL")
	x := write.NewExpirer(20*time.Millisecond, write.ChoreDeps{
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Store: r, IsOwner: func() bool {
			return true
		}, Metrics: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		is.OK(t, x.Run(ctx))
	})
	rowsLeft := func() (n uint64) {
		for _, table := range []string{"events", "events_by_endpoint", "deliveries", "attempts"} {
			n += b.QuerySum("SELECT count() FROM " + table)
		}
		return n
	}
	for deadline := time.Now().Add(5 * time.Minute); rowsLeft() > 4 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	running.Wait()
	if n := rowsLeft(); n != 4 {
		t.Errorf("%d rows are left, want the 4 of one event", n)
	}
	is.Equal(t, b.QuerySum("SELECT uniqExact(id) FROM event_keys"), 1, "events have keys")
	if n := b.QuerySum("SELECT count() FROM failure_candidates_by_endpoint WHERE ts < now() - INTERVAL 62 DAY"); n != 0 {
		t.Errorf("%d rows of an expired month are left", n)
	}
	is.Equal(t, b.QuerySum("SELECT sum(received) FROM usage_hour FINAL"), usage, "usage is … as before")
}
