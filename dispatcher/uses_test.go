package dispatcher

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A use of a tripwire is not delivered. Its hit is made at once and stored some time later, and the offset waits for
// it, even if brokers reject the hit: a node that is killed meanwhile leaves the use to the next one. Events do not
// wait for it.
func TestUses(t *testing.T) {
	kafkaBubble(t, 2, func(t *testing.T, w *bubbleWorld) {
		dest := &sink{}
		url, _ := w.serve(80, dest)
		w.endpoint(url)
		var made atomic.Int64
		refused := w.refuseWith(stream.Findings, "hit a", kerr.MessageTooLarge)
		start := func() func() {
			_, stop := w.start(testConfig(), func(d *Deps) {
				d.UseHit = func(_ context.Context, e *event.Event) (int32, *stream.Record, error) {
					made.Add(1)
					switch string(e.Body) {
					case "none":
						return 0, nil, nil
					case "fails":
						return 0, nil, errors.New("no keys")
					}
					return 1, &stream.Record{Key: []byte("fnd_1"), Value: []byte("hit " + string(e.Body))}, nil
				}
			})
			return stop
		}
		use := func(body string, source event.Source) {
			t.Helper()
			e := w.newEvent(body)
			e.Source, e.Endpoint = source, "trw_1"
			w.accept(e)
		}
		wantCommitted := func(want int64) {
			t.Helper()
			time.Sleep(10 * time.Second)
			is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), want, "records are committed")
		}
		stop := start()
		use("none", event.SourceTripwire)
		use("a", event.SourceTripwire)
		w.accept(w.newEvent("x"))
		w.outcomes(count(1))
		if wantCommitted(1); made.Load() != 2 {
			t.Errorf("%d hits are made", made.Load())
		}
		stop()
		refused.Remove()
		start()
		wantCommitted(3)
		is.Equal(t, made.Load(), 3, "hits are made with those of the next node")

		use("b", event.SourceTripwireTest)
		time.Sleep(hitPause / 2)
		if synctest.Wait(); made.Load() != 4 || w.end(stream.Findings, 1) != 1 {
			t.Errorf("%d hits are made, %d stored at once", made.Load(), w.end(stream.Findings, 1))
		}
		wantCommitted(4)
		use("fails", event.SourceTripwire)
		wantCommitted(5)
		if hits, dead := w.end(stream.Findings, 1), w.end(stream.Dead, 0); hits != 2 || dead != 1 {
			t.Errorf("%d hits, and %d dead letters of a use that makes none", hits, dead)
		}
		if n := len(dest.all()); n != 1 {
			t.Errorf("%d requests, want that of the event", n)
		}
	})
}

// end returns the end offset of a partition.
func (w *world) end(topic string, index int32) int64 {
	w.tb.Helper()
	reader, err := stream.NewReader(w.stream, "test")
	must.Do(w.tb, err)
	defer reader.Close()
	ends, err := reader.Ends(w.tb.Context(), topic)
	must.Do(w.tb, err)
	return ends[stream.Partition{Topic: topic, Index: index}]
}
