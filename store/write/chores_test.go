package write_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store/internal/storetest"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/write"
)

// chores runs an eraser and an expirer until the returned function is called.
func (b *bench) chores(r *read.Reader, gone *erasures) (stop func()) {
	b.Helper()
	log, reg, owner := slog.New(slog.DiscardHandler), prometheus.NewRegistry(), func() bool { return true }
	eraser := write.NewEraser(write.EraserConfig{Every: 10 * time.Millisecond, Settle: time.Millisecond}, write.EraserDeps{
		ChoreDeps: write.ChoreDeps{Log: log, Store: r, IsOwner: owner, Metrics: reg},
		Erasures:  gone, Now: time.Now,
	})
	expirer := write.NewExpirer(10*time.Millisecond, write.ChoreDeps{Log: log, Store: r, IsOwner: owner, Metrics: reg})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{eraser.Run, expirer.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	b.Cleanup(stop)
	return stop
}

// TestChoresUnderFaults spoils each kind of statement that erasing and dropping days are made of, in every way: both
// come to their end, and no erasure counts as finished while a row has the payload. One that is stuck is given up with
// its process, and the next one goes on.
func TestChoresUnderFaults(t *testing.T) {
	b := newBench(t)
	gone := newErasures()
	b.Erased = gone.erased
	w, _ := b.Writer(write.WriterConfig{})
	g := storetest.NewFaultProxy(b.Bench)
	r := b.ReaderWith(read.ReaderConfig{URL: g.URL, RetentionDays: 7, FenceWait: 20 * time.Second, Timeout: time.Minute},
		w)
	kinds := []string{
		"SELECT DISTINCT id FROM events ", "ALTER TABLE events UPDATE ", "SELECT DISTINCT id FROM attempts ",
		"ALTER TABLE attempts UPDATE ",
		"SELECT groupUniqArray(partition_id) FROM system.parts ", "ALTER TABLE events DROP PARTITION ",
		"ALTER TABLE deliveries DROP PARTITION ", "FROM system.mutations ",
	}
	payloads := func() uint64 {
		return b.QuerySum("SELECT count() FROM events WHERE body != ''") +
			b.QuerySum("SELECT count() FROM attempts WHERE req_headers != ''")
	}
	for _, f := range []storetest.Fault{
		storetest.Lost, storetest.Refused, storetest.Half, storetest.Cut, storetest.Torn, storetest.Stuck} {
		old := b.failedAt(time.Now().AddDate(0, 0, -20), 1)
		e := b.failedAt(time.Now().Add(-time.Hour), 1)
		b.ProduceOutcomes(b.Outcome(e, "dst_b", event.Failed, func(o *event.Outcome) { o.Attempt.RequestHeader = "A: b\n" }))
		if err := r.CaughtUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		gone.erase(e.ID)
		spoilt := make([]bool, len(kinds)) // guarded by the gate
		hits := 0
		g.SetRule(func(_ int, statement string) storetest.Fault {
			for i, kind := range kinds {
				if strings.Contains(statement, kind) && !spoilt[i] {
					spoilt[i] = true
					hits++
					return f
				}
			}
			return storetest.NoFault
		})
		stop := b.chores(r, gone)
		storetest.Eventually(t, func() bool {
			select {
			case <-g.StuckStatement: // the next process
				stop()
				stop = b.chores(r, gone)
			default:
			}
			_, unfinished := gone.Unfinished()
			return len(unfinished) == 0 && b.QuerySum("SELECT count() FROM events WHERE ts < now() - INTERVAL 9 DAY") == 0
		})
		stop()
		g.SetRule(nil)
		if n := payloads(); n > 0 {
			t.Errorf("%v: the erasure is finished, and %d rows have a payload", f, n)
		}
		for i, kind := range kinds {
			if !spoilt[i] {
				t.Errorf("%v: no statement was spoilt that has %q", f, kind)
			}
		}
		if rows := storetest.ListEvents(t, r, event.Query{Account: storetest.Account, Limit: 50}, 1); len(rows) == 0 ||
			rows[0].ID == old.ID {
			t.Errorf("%v: %v are listed", f, rows)
		}
	}
}

// While merges are stopped no payload leaves the rows, and nothing piles up: one statement waits for them, whoever asks
// again. The payload is shown by nobody meanwhile.
func TestErasureWithoutMerges(t *testing.T) {
	b := newBench(t)
	gone := newErasures()
	b.Erased = gone.erased
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	e, o := b.secretive()
	b.ProduceEvents(e)
	b.ProduceOutcomes(o)
	if err := r.CaughtUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Exec("SYSTEM STOP MERGES events")
	b.Exec("SYSTEM STOP MERGES attempts")
	// other work that waits keeps nobody from asking
	b.Exec("ALTER TABLE events MATERIALIZE INDEX by_verdict SETTINGS mutations_sync = 0")
	gone.erase(e.ID)
	waiting := func() uint64 {
		return b.QuerySum("SELECT count() FROM system.mutations WHERE database = currentDatabase() AND NOT is_done AND " +
			"command LIKE '%body%'")
	}
	for range 5 { // processes that are killed while they wait
		stop := b.chores(r, gone)
		storetest.Eventually(t, func() bool { return waiting() > 0 })
		_ = wait.For(t.Context(), 50*time.Millisecond)
		stop()
	}
	if n := waiting(); n != 1 {
		t.Errorf("%d statements wait for the merges, want 1", n)
	}
	if d, err := r.Event(t.Context(), storetest.Account, e.ID); err != nil || len(d.Event.Body) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, unfinished := gone.Unfinished(); len(unfinished) != 1 {
		t.Error("the erasure is finished, though nothing was erased")
	}
	b.Exec("SYSTEM START MERGES events")
	b.Exec("SYSTEM START MERGES attempts")
	b.chores(r, gone)
	storetest.Eventually(t, func() bool { _, unfinished := gone.Unfinished(); return len(unfinished) == 0 })
	if n := b.rowsWithPlanted(); n > 0 {
		t.Errorf("in %d rows", n)
	}
}
