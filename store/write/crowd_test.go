package write_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/internal/storetest"
	"github.com/eventrelay/relay/store/write"
)

// crowdedPause is the shortest pause after such a refusal, but for chance.
const crowdedPause = time.Second

// lines are what is logged.
type lines struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), message)
}

// TestTooManyParts stops the merges of a table, as a disk that is too slow for them does. The writer writes less often
// well before ClickHouse refuses, does not hammer when it does, says both once, and has everything in the end.
func TestTooManyParts(t *testing.T) {
	b := newBench(t)
	var said lines
	b.Logger = slog.New(slog.NewTextHandler(&said, nil))
	g, reg := storetest.NewFaultProxy(b.Bench), prometheus.NewRegistry()
	b.Exec("SYSTEM STOP MERGES events")
	w, _ := b.WriterWithMetrics(g.WriterConfig(
		write.WriterConfig{FlushEvery: time.Millisecond, ThrottleParts: 8, PartsInterval: 20 * time.Millisecond}), reg)
	n := 0
	send := func() {
		b.ProduceEvents(b.Event(1))
		n++
	}
	for storetest.Metric(t, reg, "relay_store_crowded") == 0 {
		send()
	}
	if parts := storetest.Metric(t, reg, "relay_store_parts"); parts < 8 {
		t.Errorf("%v parts count as too many", parts)
	}
	crowded := g.CountInserts("events")
	r := b.Reader(w)
	began := time.Now()
	for time.Since(began) < time.Second {
		send()
	}
	// One was due already.
	if got, most := crowded(), 2+int(time.Since(began)/(5*time.Second)); got > most {
		t.Errorf("%d inserts in a second while there are too many parts, want %d at most", got, most)
	}

	b.Exec("ALTER TABLE events MODIFY SETTING parts_to_throw_insert = 5")
	for storetest.Metric(t, reg, "relay_store_away") == 0 {
		send()
		w.RequestFlushNow()
	}
	refused := g.CountInserts("events")
	began = time.Now()
	for time.Since(began) < 1500*time.Millisecond {
		send()
	}
	if got, most := refused(), 1+int(time.Since(began)/(crowdedPause/2)); got > most {
		t.Errorf("%d inserts are refused for the number of parts in 1.5 s, want %d at most", got, most)
	}
	b.Exec("SYSTEM START MERGES events")
	b.Exec("OPTIMIZE TABLE events FINAL")
	storetest.Eventually(t, func() bool {
		page, err := r.Events(t.Context(), event.Query{Account: storetest.Account, Limit: 1})
		return err == nil && page.AsOf.IsZero()
	})
	if got := b.QuerySum("SELECT uniqExact(id) FROM events"); got != uint64(n) {
		t.Errorf("%d of %d events are stored", got, n)
	}
	if got := b.QuerySum("SELECT count() FROM events"); got != uint64(n) {
		t.Errorf("%d rows are %d events: refused inserts have left rows", got, n)
	}
	b.Exec("OPTIMIZE TABLE events_by_endpoint FINAL")
	storetest.Eventually(t, func() bool { return storetest.Metric(t, reg, "relay_store_crowded") == 0 })
	for message, want := range map[string]int{
		"clickhouse has many parts": 1, "takes no rows": 1, "takes rows again": 1, "has merged its parts": 1} {
		if got := said.count(message); got != want {
			t.Errorf("%q is logged %d times, want %d", message, got, want)
		}
	}
	if len(b.DeadLetters(1)) > 0 {
		t.Error("events are in dead because there were too many parts")
	}
}
