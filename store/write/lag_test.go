package write

import (
	"log/slog"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// The lag is the age of the oldest record that was read: of the batch that is being inserted, else of the one that is
// being filled.
func TestLagIsThatOfTheOldestRecord(t *testing.T) {
	p := stream.Partition{Topic: stream.Events}
	w := &Writer{
		cfg: WriterConfig{}.withDefaults(), log: slog.New(slog.DiscardHandler),
		metrics: newWriterMetrics(nil), pos: newPositions(),
		filling: newBatch(), batchTaken: make(chan struct{}, 1), flushWake: make(chan struct{}, 1),
		pollNow: make(chan struct{}, 1),
	}
	w.pos.assign(map[stream.Partition]stream.Commit{p: {}})
	now := time.Now()
	add := func(offset int64, age time.Duration) {
		e := event.Event{ID: id.Lowest(now), Endpoint: "ep_1"}
		r := e.Record()
		r.Offset, r.Timestamp = offset, now.Add(-age)
		w.addRecords(p, []*stream.Record{r})
	}
	is := func(when string, want time.Duration) {
		t.Helper()
		if lag := w.lag(now); lag != want {
			t.Errorf("%s: %v, want %v", when, lag, want)
		}
	}
	is("without records", 0)
	add(0, 5*time.Second)
	add(1, 9*time.Second)
	add(2, time.Second)
	is("with three records", 9*time.Second)
	b := w.takeBatch()
	w.flushingSince.Store(&b.oldest)
	add(3, 2*time.Second)
	is("while a batch is inserted", 9*time.Second)
	w.flushingSince.Store(nil)
	is("after it was inserted", 2*time.Second)
}
