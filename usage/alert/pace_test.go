package alert

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A backlog is read without pauses between fetches. A group that stays behind would keep the log from being trimmed.
func TestConsumeReadsABacklogWithoutPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 4_000
		_, conf := logInBubble(t)
		producer := must.Get(stream.NewProducer(conf, "test"))(t)
		defer producer.Close()
		r := newRig(t)
		r.partitions, r.deps.Stream = map[int32]*partitionState{}, conf
		for i := range events {
			e := must.Get(r.ids.New(0))(t)
			accepted := event.Event{ID: e, Endpoint: testEndpoint, Verdict: event.VerdictVerified, Body: make([]byte, 2_000)}
			producer.Produce(stream.Events, 0, accepted.Record(), func(_ *stream.Record, err error) {
				is.OK(t, err)
			})
			if i%50 != 0 {
				continue
			}
			// A fetch returns a batch whole, even if it is larger than its limit.
			must.Do(t, producer.Flush(t.Context()))
		}
		must.Do(t, producer.Flush(t.Context()))
		reader := must.Get(stream.NewReader(conf, "test"))(t)
		defer reader.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		all.Go(func() {
			is.OK(t, r.Run(ctx))
		})
		time.Sleep(4 * time.Second) // joining takes some tenths of a second, and a commit is made every second
		done, err := reader.Committed(ctx, stream.AlertGroup, stream.Events)
		if n := done[stream.Partition{Topic: stream.Events}]; err != nil || n != events {
			t.Errorf("%d of %d were consumed, %v", n, events, err)
		}
	})
}
