package write

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

func TestKickBudget(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	k := newFlushBudget(now)
	for i := range requestedFlushReserve {
		if wait := k.spend(now, 1); wait != 0 {
			t.Fatalf("kick %d waits %v", i, wait)
		}
	}
	if wait := k.spend(now, 1); wait != 100*time.Millisecond {
		t.Fatalf("a kick without budget waits %v", wait)
	}
	if wait := k.spend(now.Add(100*time.Millisecond), 1); wait != 0 {
		t.Fatalf("and then another %v", wait)
	}
	n := 0
	for at := now.Add(time.Second); at.Before(now.Add(11 * time.Second)); at = at.Add(time.Millisecond) {
		if k.spend(at, 1) == 0 {
			n++
		}
	}
	if n < 100 || n > 110 {
		t.Fatalf("%d flushes in 10 s", n)
	}
}

// TestWhenAFlushIsDue holds the reasons to flush against each other; nothing runs.
func TestWhenAFlushIsDue(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	cfg := WriterConfig{FlushRows: 100, FlushBytes: 10_000, FlushEvery: time.Second}
	f := func(name string, cfg WriterConfig, fill func(*Writer, *assignment), after time.Duration, want bool) {
		t.Helper()
		w := &Writer{cfg: cfg, log: slog.New(slog.DiscardHandler), pos: newPositions(), filling: newBatch(),
			batchTaken: make(chan struct{}, 1)}
		fill(w, &assignment{Partition: stream.Partition{Topic: stream.Events}})
		b, wait := w.takeDueBatch(now.Add(after), newFlushBudget(now))
		if (b != nil) != want {
			t.Errorf("%s: flush %v, wait %v", name, b != nil, wait)
		}
	}
	add := func(n int, body int, days int) func(*Writer, *assignment) {
		return func(w *Writer, p *assignment) {
			for i := range n {
				ms := now.AddDate(0, 0, -i%days)
				e := event.Event{ID: id.Lowest(ms), Endpoint: "ep_1", Body: make([]byte, body)}
				w.filling.addRecords(p, []*stream.Record{e.Record()}, now)
			}
		}
	}
	kicked := func(fill func(*Writer, *assignment)) func(*Writer, *assignment) {
		return func(w *Writer, p *assignment) { fill(w, p); w.flushRequested = true }
	}
	crowded := func(fill func(*Writer, *assignment)) func(*Writer, *assignment) {
		return func(w *Writer, p *assignment) { fill(w, p); w.throttle.set(true) }
	}
	small := cfg
	small.FlushSmall = 100 * time.Millisecond
	f("nothing", cfg, add(0, 0, 1), time.Hour, false)
	f("nothing, kicked", cfg, kicked(add(0, 0, 1)), time.Hour, false)
	f("fresh", cfg, add(10, 10, 1), 0, false)
	f("a second old", cfg, add(10, 10, 1), time.Second, true)
	f("kicked", cfg, kicked(add(10, 10, 1)), 0, true)
	f("many rows", cfg, add(100, 10, 1), 0, true)
	f("many bytes", cfg, add(10, 2_000, 1), 0, true)
	f("spread over 8 days", cfg, add(20, 10, 8), time.Second, true)
	f("spread over 9 days", cfg, add(20, 10, 9), time.Second, false)
	f("spread over 9 days, 5 s old", cfg, add(20, 10, 9), 5*time.Second, true)
	f("small", small, add(10, 10, 1), 100*time.Millisecond, true)
	f("small, not yet", small, add(10, 10, 1), 50*time.Millisecond, false)
	f("crowded", cfg, crowded(add(10, 10, 1)), 4*time.Second, false)
	f("crowded, small", small, crowded(add(10, 10, 1)), 4*time.Second, false)
	f("crowded for 5 s", cfg, crowded(add(10, 10, 1)), 5*time.Second, true)
	f("crowded, many rows", cfg, crowded(add(399, 10, 1)), time.Second, false)
	f("crowded, very many rows", cfg, crowded(add(400, 10, 1)), 0, true)
	f("crowded, very many bytes", cfg, crowded(add(20, 2_000, 1)), 0, true)
	f("crowded, kicked", cfg, kicked(crowded(add(10, 10, 1))), 0, true)

	w := &Writer{cfg: cfg, pos: newPositions(), filling: newBatch(), batchTaken: make(chan struct{}, 1)}
	k := newFlushBudget(now)
	flushes := 0
	for range requestedFlushReserve {
		kicked(crowded(add(1, 10, 1)))(w, &assignment{Partition: stream.Partition{Topic: stream.Events}})
		if b, _ := w.takeDueBatch(now, k); b != nil {
			flushes++
		}
	}
	if flushes != requestedFlushReserve/throttledFlushCost {
		t.Errorf("%d kicks are heard while there are too many parts, want %d", flushes,
			requestedFlushReserve/throttledFlushCost)
	}
}

// A reader causes one flush: while what it waits for is on its way, neither records that come meanwhile nor another
// reader of the same cause a second one.
func TestOneFlushForWhatIsWanted(t *testing.T) {
	p := stream.Partition{Topic: stream.Events}
	w := &Writer{
		cfg: WriterConfig{FlushRows: 100, FlushBytes: 10_000, FlushEvery: time.Hour}, log: slog.New(slog.DiscardHandler),
		metrics: newWriterMetrics(nil), pos: newPositions(),
		filling: newBatch(), batchTaken: make(chan struct{}, 1), flushWake: make(chan struct{}, 1),
		pollNow: make(chan struct{}, 1),
	}
	w.pos.assign(map[stream.Partition]stream.Commit{p: {}})
	offset := int64(0)
	come := func() {
		e := event.Event{ID: id.Lowest(time.Now()), Endpoint: "ep_1"}
		r := e.Record()
		r.Offset = offset
		offset++
		w.addRecords(p, []*stream.Record{r})
	}
	kicks := newFlushBudget(time.Now())
	due := func(what string, want bool) {
		t.Helper()
		if b, _ := w.takeDueBatch(time.Now(), kicks); (b != nil) != want {
			t.Errorf("%s: flush %v", what, b != nil)
		}
	}
	come()
	due("nobody waits", false)
	w.RequestFlush(map[stream.Partition]int64{p: 2})
	due("what is wanted was not read yet", false)
	come()
	due("it was read", true)
	come()
	due("more comes while it is on its way", false)
	w.RequestFlush(map[stream.Partition]int64{p: 2})
	due("it is wanted again", false)
	w.RequestFlush(map[stream.Partition]int64{p: 3})
	due("what came later is wanted", true)
}

func TestRefused(t *testing.T) {
	f := func(err error, want bool) {
		t.Helper()
		if got := rowsRejected(fmt.Errorf("insert: %w", err)); got != want {
			t.Errorf("refused(%v) = %v", err, got)
		}
	}
	f(errors.New("connection refused"), false)
	f(errRowsRejected, true)
	f(&clickhouse.Exception{Code: 469}, true) // VIOLATED_CONSTRAINT
	f(&clickhouse.Exception{Code: 53}, false) // TYPE_MISMATCH: the program and the table disagree
	f(&clickhouse.Exception{Code: 241}, false)
	f(&clickhouse.Exception{Code: 252}, false)
	f(&clickhouse.Exception{Code: 60}, false)
	f(&clickhouse.HTTPError{StatusCode: 502, Err: errors.New("bad gateway")}, false)
	f(&clickhouse.HTTPError{StatusCode: 500, Err: &clickhouse.Exception{Code: 469}}, true)
}
