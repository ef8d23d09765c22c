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
	"github.com/eventrelay/relay/test/is"
)

func TestFlushBudget(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	k := newFlushBudget(now)
	for i := range requestedFlushReserve {
		if wait := k.spend(now, 1); wait != 0 {
			t.Fatalf("flush %d waits %v, want none", i, wait)
		}
	}
	if wait := k.spend(now, 1); wait != 100*time.Millisecond {
		t.Fatalf("a flush without budget waits %v, want 100ms", wait)
	}
	if wait := k.spend(now.Add(100*time.Millisecond), 1); wait != 0 {
		t.Fatalf("after 100 ms a flush waits %v, want none", wait)
	}
	n := 0
	for at := now.Add(time.Second); at.Before(now.Add(11 * time.Second)); at = at.Add(time.Millisecond) {
		if k.spend(at, 1) == 0 {
			n++
		}
	}
	if n < 100 || n > 110 {
		t.Fatalf("%d flushes in 10 s, want 100 to 110", n)
	}
}

// testLoader is a loader of events without connections.
func testLoader(cfg WriterConfig) *loader {
	return newLoaders(newShared(cfg, WriterDeps{Log: slog.New(slog.DiscardHandler)}), 1)[0]
}

// TestWhenAFlushIsDue checks each reason to flush, and combinations of them, without running anything.
func TestWhenAFlushIsDue(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	cfg := WriterConfig{FlushRows: 100, FlushBytes: 10_000, FlushEvery: time.Second}
	f := func(name string, cfg WriterConfig, fill func(*loader, *assignment), after time.Duration, want bool) {
		t.Helper()
		l := testLoader(cfg)
		fill(l, &assignment{Partition: stream.Partition{Topic: stream.Events}})
		b, wait := l.takeDueBatch(now.Add(after), newFlushBudget(now))
		is.Equal(t, b != nil, want, "%s: flush: wait %v", name, wait)
	}
	add := func(n int, body int, days int) func(*loader, *assignment) {
		return func(l *loader, p *assignment) {
			for i := range n {
				ms := now.AddDate(0, 0, -i%days)
				e := event.Event{ID: id.Lowest(ms), Endpoint: "ep_1", Body: make([]byte, body)}
				l.filling.addRecords(p, []*stream.Record{e.Record()}, now)
			}
		}
	}
	requested := func(fill func(*loader, *assignment)) func(*loader, *assignment) {
		return func(l *loader, p *assignment) { fill(l, p); l.flushRequested = true }
	}
	throttled := func(fill func(*loader, *assignment)) func(*loader, *assignment) {
		return func(l *loader, p *assignment) { fill(l, p); l.throttled.Store(true) }
	}
	read := func(fill func(*loader, *assignment)) func(*loader, *assignment) {
		return func(l *loader, p *assignment) { fill(l, p); l.askedAt = now }
	}
	slow := WriterConfig{}.withDefaults()
	f("nothing", cfg, add(0, 0, 1), time.Hour, false)
	f("nothing, requested", cfg, requested(add(0, 0, 1)), time.Hour, false)
	f("fresh", cfg, add(10, 10, 1), 0, false)
	f("a second old", cfg, add(10, 10, 1), time.Second, true)
	f("requested", cfg, requested(add(10, 10, 1)), 0, true)
	f("many rows", cfg, add(100, 10, 1), 0, true)
	f("many bytes", cfg, add(10, 2_000, 1), 0, true)
	f("spread over 8 days", cfg, add(20, 10, 8), time.Second, true)
	f("spread over 9 days", cfg, add(20, 10, 9), time.Second, false)
	f("spread over 9 days, 5 s old", cfg, add(20, 10, 9), 5*time.Second, true)
	f("few rows of a writer with defaults", slow, add(10, 10, 1), 9*time.Second, false)
	f("few rows, 10 s old", slow, add(10, 10, 1), 10*time.Second, true)
	f("few rows, requested", slow, requested(add(10, 10, 1)), 0, true)
	f("nearly many rows", slow, add(fullerBatch-1, 10, 1), unreadWait, false)
	f("many rows, nearly old", slow, add(fullerBatch, 10, 1), unreadWait-1, false)
	f("many rows, old", slow, add(fullerBatch, 10, 1), unreadWait, true)
	f("many rows, read, not a second old", slow, read(add(fullerBatch, 10, 1)), time.Second-1, false)
	f("many rows, read, a second old", slow, read(add(fullerBatch, 10, 1)), time.Second, true)
	f("a third, read", cfg, read(add(34, 10, 1)), 0, true)
	f("nearly a third, read", cfg, read(add(33, 10, 1)), 0, false)
	f("a third of the bytes, read", cfg, read(add(4, 2_000, 1)), 0, true)
	f("a third, read, throttled", cfg, throttled(read(add(34, 10, 1))), 0, false)
	long := WriterConfig{FlushRows: 100, FlushBytes: 10_000, FlushEvery: time.Minute}
	f("a third, read long ago", long, read(add(34, 10, 1)), readLately, false)
	f("many rows, spread over 9 days", slow, add(fullerBatch, 10, 9), 4*time.Second, false)
	f("many rows, spread over 9 days, 5 s old", slow, add(fullerBatch, 10, 9), 5*time.Second, true)
	f("throttled", cfg, throttled(add(10, 10, 1)), 4*time.Second, false)
	f("throttled for 5 s", cfg, throttled(add(10, 10, 1)), 5*time.Second, true)
	f("throttled, many rows", cfg, throttled(add(99, 10, 1)), time.Second, false)
	f("throttled, very many rows", cfg, throttled(add(100, 10, 1)), 0, true)
	f("throttled, very many bytes", cfg, throttled(add(20, 2_000, 1)), 0, true)
	f("throttled, requested", cfg, requested(throttled(add(10, 10, 1))), 0, true)

	l := testLoader(cfg)
	k := newFlushBudget(now)
	flushes := 0
	for range requestedFlushReserve {
		requested(throttled(add(1, 10, 1)))(l, &assignment{Partition: stream.Partition{Topic: stream.Events}})
		if b, _ := l.takeDueBatch(now, k); b != nil {
			flushes++
		}
	}
	is.Equal(t, flushes, requestedFlushReserve/throttledFlushCost, "requested flushes are due while throttled")
}

// TestReadersShareOneFlush: a reader causes one flush. While that runs, neither later records nor another reader of the
// same records cause a second one.
func TestReadersShareOneFlush(t *testing.T) {
	p := stream.Partition{Topic: stream.Events}
	l := testLoader(WriterConfig{FlushRows: 100, FlushBytes: 10_000, FlushEvery: time.Hour})
	l.pos.assign(map[stream.Partition]stream.Commit{p: {}})
	offset := int64(0)
	addRecord := func() {
		e := event.Event{ID: id.Lowest(time.Now()), Endpoint: "ep_1"}
		r := e.Record()
		r.Offset = offset
		offset++
		l.addRecords(p, []*stream.Record{r})
	}
	budget := newFlushBudget(time.Now())
	checkDue := func(when string, want bool) {
		t.Helper()
		if b, _ := l.takeDueBatch(time.Now(), budget); (b != nil) != want {
			t.Errorf("%s: flush %v", when, b != nil)
		}
	}
	addRecord()
	checkDue("no reader waits", false)
	l.requestFlush(map[stream.Partition]int64{p: 2})
	checkDue("the wanted record has not been read yet", false)
	addRecord()
	checkDue("the wanted record has been read", true)
	addRecord()
	checkDue("another record comes during the flush", false)
	l.requestFlush(map[stream.Partition]int64{p: 2})
	checkDue("a second reader wants the same records", false)
	l.requestFlush(map[stream.Partition]int64{p: 3})
	checkDue("a reader wants the later record", true)
}

func TestRowsRejected(t *testing.T) {
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
