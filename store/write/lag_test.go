package write

import (
	"log/slog"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// The lag is the age of the oldest record that was read: of the batch that is being inserted, else of the one that is
// being filled.
func TestLagIsThatOfTheOldestRecord(t *testing.T) {
	p := stream.Partition{Topic: stream.Events}
	c := newShared(WriterConfig{}.withDefaults(), WriterDeps{Log: slog.New(slog.DiscardHandler)})
	w := &Writer{shared: c, loaders: newLoaders(c, 1)}
	l := w.loaders[0]
	l.pos.assign(map[stream.Partition]stream.Commit{p: {}})
	now := time.Now()
	add := func(offset int64, age time.Duration) {
		e := event.Event{ID: id.Lowest(now), Endpoint: "ep_1"}
		r := e.Record()
		r.Offset, r.Timestamp = offset, now.Add(-age)
		l.addRecords(p, []*stream.Record{r})
	}
	is := func(when string, want time.Duration) {
		t.Helper()
		is.Equal(t, w.lag(now), want, when)
	}
	is("without records", 0)
	add(0, 5*time.Second)
	add(1, 9*time.Second)
	add(2, time.Second)
	is("with three records", 9*time.Second)
	b := l.takeBatch()
	l.flushingSince.Store(&b.oldest)
	add(3, 2*time.Second)
	is("while a batch is inserted", 9*time.Second)
	l.flushingSince.Store(nil)
	is("after it was inserted", 2*time.Second)
	hits := stream.Partition{Topic: stream.Findings}
	w.loaders[1].pos.assign(map[stream.Partition]stream.Commit{hits: {}})
	w.loaders[1].addRecords(hits, []*stream.Record{{Timestamp: now.Add(-7 * time.Second)}})
	is("with an older hit", 7*time.Second)
}
