package alert

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// TestFollowsHoweverFastTheyCome: what came while nobody judged is read without a pause between two fetches. A group
// that is always behind keeps the log from being trimmed.
func TestFollowsHoweverFastTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 4_000
		_, conf := logInBubble(t)
		producer, err := stream.NewProducer(conf, "test")
		if err != nil {
			t.Fatal(err)
		}
		defer producer.Close()
		r := newRig(t)
		r.books, r.deps.Stream = map[int32]*book{}, conf
		for i := range events {
			e, err := r.ids.New(0)
			if err != nil {
				t.Fatal(err)
			}
			accepted := event.Event{ID: e, Endpoint: testEndpoint, Verdict: event.VerdictVerified, Body: make([]byte, 2_000)}
			producer.Produce(stream.Events, 0, accepted.Record(), func(_ *stream.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
			if i%50 != 0 {
				continue
			}
			if err := producer.Flush(t.Context()); err != nil { // a batch that is larger than a fetch is handed over whole
				t.Fatal(err)
			}
		}
		if err := producer.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		reader, err := stream.NewReader(conf, "test")
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		all.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(4 * time.Second) // of a group that is joined in some tenths, and commits once a second
		done, err := reader.Committed(ctx, stream.AlertGroup, stream.Events)
		if n := done[stream.Partition{Topic: stream.Events}]; err != nil || n != events {
			t.Errorf("%d of %d were judged, %v", n, events, err)
		}
	})
}
