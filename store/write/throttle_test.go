package write_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/storetest"
)

// tooManyPartsPause is the shortest pause after TOO_MANY_PARTS, before jitter.
const tooManyPartsPause = time.Second

// TestTooManyPartsThrottleFlushes stops the merges of a table, as a disk that is too slow for them does. The writer
// throttles its flushes well before ClickHouse rejects inserts, does not retry at once when it does, logs each change
// once, and stores every event in the end.
func TestTooManyPartsThrottleFlushes(t *testing.T) {
	b := newBench(t)
	var logged kit.Buffer
	b.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	g, reg := storetest.NewFaultProxy(b.Bench), prometheus.NewRegistry()
	b.Exec("SYSTEM STOP MERGES events")
	w, _ := b.WriterWithMetrics(g.WriterConfig(
		write.WriterConfig{FlushEvery: time.Millisecond, ThrottleParts: 8, PartsInterval: 20 * time.Millisecond}), reg)
	n := 0
	send := func() { // every 5 ms at most: without a throttle each event would be a flush
		b.ProduceEvents(b.Event(1))
		n++
		_ = wait.For(t.Context(), 5*time.Millisecond)
	}
	for storetest.Metric(t, reg, "relay_store_throttled") == 0 {
		send()
	}
	if parts := storetest.Metric(t, reg, "relay_store_parts"); parts < 8 {
		t.Errorf("throttled at %v parts, want 8 at least", parts)
	}
	throttled := g.CountInserts("events")
	r := b.Reader(w)
	began := time.Now()
	for range 100 {
		send()
	}
	// One flush was due already.
	if got, took := throttled(), time.Since(began); got > 2+int(took/(5*time.Second)) {
		t.Errorf("%d inserts of 100 events in %v while there are too many parts, want one every 5 s", got, took)
	}

	b.Exec("ALTER TABLE events MODIFY SETTING parts_to_throw_insert = 5")
	for storetest.Metric(t, reg, "relay_store_unavailable_shards") == 0 {
		send()
		w.RequestFlush(map[stream.Partition]int64{{Topic: stream.Events, Index: 1}: int64(n)})
	}
	rejected := g.CountInserts("events")
	began = time.Now()
	for range 150 {
		send()
	}
	if got, took := rejected(), time.Since(began); got > 1+int(took/(tooManyPartsPause/2)) {
		t.Errorf("%d inserts are rejected with TOO_MANY_PARTS in %v, want one every %v", got, took, tooManyPartsPause/2)
	}
	b.Exec("SYSTEM START MERGES events")
	b.Exec("OPTIMIZE TABLE events FINAL")
	b.WaitCaughtUp(r)
	is.Equal(t, b.QuerySum("SELECT uniqExact(id) FROM events"), uint64(n), "of %d events are stored", n)
	is.Equal(t, b.QuerySum("SELECT count() FROM events"), uint64(n),
		"rows of %d events: rejected inserts have left rows", n)
	b.Exec("OPTIMIZE TABLE events_by_endpoint FINAL")
	storetest.Eventually(t, func() bool { return storetest.Metric(t, reg, "relay_store_throttled") == 0 })
	for message, want := range map[string]int{
		"clickhouse has too many parts": 1, "clickhouse inserts fail": 1, "clickhouse accepts inserts again": 1,
		"clickhouse has merged its parts": 1} {
		is.Equal(t, strings.Count(logged.String(), message), want, "%q is logged … times", message)
	}
	if len(b.DeadLetters(1)) > 0 {
		t.Error("TOO_MANY_PARTS has made dead letters")
	}
}
