package write_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// runChores runs an eraser and an expirer until the returned function is called.
func (b *bench) runChores(r *read.Reader, erased *erasures) (stop func()) {
	b.Helper()
	log, reg, owner := slog.New(slog.DiscardHandler), prometheus.NewRegistry(), func() bool { return true }
	eraser := write.NewEraser(write.EraserConfig{Every: 40 * time.Millisecond, Settle: time.Millisecond}, write.EraserDeps{
		ChoreDeps: write.ChoreDeps{Log: log, Store: r, IsOwner: owner, Metrics: reg},
		Erasures:  erased, Now: time.Now,
	})
	expirer := write.NewExpirer(40*time.Millisecond, write.ChoreDeps{Log: log, Store: r, IsOwner: owner, Metrics: reg})
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

// TestChoresUnderFaults makes each kind of statement of the eraser and the expirer fail in every way (three in an
// ordinary run: a lost answer, a stuck statement and a random fault). Both finish their work, and no erasure is
// finished while a row has the payload. A stuck statement is given up when its process stops, and the next process goes
// on.
func TestChoresUnderFaults(t *testing.T) {
	b := newBench(t)
	erased := newErasures()
	b.Erased = erased.erased
	w, _ := b.Writer(write.WriterConfig{})
	g := storetest.NewFaultProxy(b.Bench)
	r := b.ReaderWith(cluster.Config{URL: g.URL, RetentionDays: 7}, w)
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
	others := []storetest.Fault{storetest.Refused, storetest.Half, storetest.Cut, storetest.Torn}
	rnd := kit.Rand(t)
	rnd.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	for _, f := range slices.Concat([]storetest.Fault{storetest.Lost, storetest.Stuck},
		others[:storetest.Rounds(1, 1, len(others))]) {
		old := b.storeFailedEvent(time.Now().AddDate(0, 0, -20), 1)
		e := b.storeFailedEvent(time.Now().Add(-time.Hour), 1)
		b.ProduceOutcomes(b.Outcome(e, "dst_b", event.Failed, func(o *event.Outcome) { o.Attempt.RequestHeader = "A: b\n" }))
		must.Do(t, r.CaughtUp(t.Context()))
		erased.erase(e.ID)
		failed := make([]bool, len(kinds)) // guarded by the proxy
		hits := 0
		g.SetRule(func(_ int, statement string) storetest.Fault {
			for i, kind := range kinds {
				if strings.Contains(statement, kind) && !failed[i] {
					failed[i] = true
					hits++
					return f
				}
			}
			return storetest.NoFault
		})
		stop := b.runChores(r, erased)
		storetest.Eventually(t, func() bool {
			select {
			case <-g.StuckStatement: // start the next process
				stop()
				stop = b.runChores(r, erased)
			default:
			}
			_, unfinished := erased.Unfinished()
			return len(unfinished) == 0 && b.QuerySum("SELECT count() FROM events WHERE ts < now() - INTERVAL 9 DAY") == 0
		})
		stop()
		g.SetRule(nil)
		if n := payloads(); n > 0 {
			t.Errorf("%v: the erasure is finished, but %d rows have a payload", f, n)
		}
		for i, kind := range kinds {
			if !failed[i] {
				t.Errorf("%v: no statement with %q got the fault", f, kind)
			}
		}
		if rows := storetest.ListEvents(t, r, event.Query{Account: storetest.Account, Limit: 50}, 1); len(rows) == 0 ||
			rows[0].ID == old.ID {
			t.Errorf("%v: %v are listed", f, rows)
		}
	}
}

// TestErasureWaitsForStoppedMerges: while merges are stopped no payload leaves the rows, and however often the eraser
// runs, only one statement of each table waits for the merges. No read shows the payload meanwhile, and no erasure
// counts as finished. This includes an event of which an earlier run has emptied only the table of events.
func TestErasureWaitsForStoppedMerges(t *testing.T) {
	b := newBench(t)
	erased := newErasures()
	b.Erased = erased.erased
	w, _ := b.Writer(write.WriterConfig{})
	r := b.Reader(w)
	half, halfOutcome := b.newEventWithPayload()
	e, o := b.newEventWithPayload()
	b.ProduceEvents(half, e)
	b.ProduceOutcomes(halfOutcome, o)
	must.Do(t, r.CaughtUp(t.Context()))
	b.Exec("ALTER TABLE events UPDATE body = '', headers = '', query = '' WHERE id = unhex('" +
		fmt.Sprintf("%x", half.ID[:]) + "') SETTINGS mutations_sync = 2")
	b.Exec("SYSTEM STOP MERGES events")
	b.Exec("SYSTEM STOP MERGES attempts")
	// another waiting mutation must not keep the eraser from its own
	b.Exec("ALTER TABLE events MATERIALIZE INDEX by_verdict SETTINGS mutations_sync = 0")
	erased.erase(half.ID)
	erased.erase(e.ID)
	const statements = "(SELECT count() AS n FROM system.mutations " +
		"WHERE database = currentDatabase() AND NOT is_done AND command LIKE '%body%' GROUP BY table)"
	waiting := func() uint64 { return b.QuerySum("SELECT max(n) FROM " + statements) }
	// Two processes are stopped while their statement waits, of events and of attempts. The third one finds both.
	for n := range uint64(3) {
		erased.runs.Store(0)
		stop := b.runChores(r, erased)
		storetest.Eventually(t, func() bool {
			tables := b.QuerySum("SELECT count() FROM " + statements)
			return tables > n || erased.runs.Load() > 1 || waiting() > 1
		})
		stop()
	}
	is.Equal(t, waiting(), 1, "statements of one table wait for the merges")
	if d, err := r.Event(t.Context(), storetest.Account, e.ID); err != nil || len(d.Event.Body) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, unfinished := erased.Unfinished(); len(unfinished) != 2 {
		t.Errorf("of two erasures %d are unfinished, but rows of both have their payload", len(unfinished))
	}
	b.Exec("SYSTEM START MERGES events")
	b.Exec("SYSTEM START MERGES attempts")
	b.runChores(r, erased)
	storetest.Eventually(t, func() bool { _, unfinished := erased.Unfinished(); return len(unfinished) == 0 })
	if n := b.rowsWithPayload(); n > 0 {
		t.Errorf("%d rows have the payload after the erasure", n)
	}
}
