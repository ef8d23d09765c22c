package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

// A node whose clock was an hour ahead and is set right accepts no new events for an hour. Accepted ones are delivered
// all the same, at once.
func TestDeliveryAfterTheClockWasAhead(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		url, _ := w.serve(80, &sink{})
		w.endpoint(url)
		ev := w.newEvent(`{}`)
		var ahead atomic.Int64
		w.ids = id.NewGenerator(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		ahead.Store(int64(time.Hour))
		first := w.ids.NewUnbounded(0)
		ahead.Store(0)
		w.start(testConfig())
		w.accept(ev)
		began := time.Now()
		outcome := w.outcomes(count(1))[0]
		if took := time.Since(began); outcome.Status != event.Delivered || took > 2*time.Second {
			t.Errorf("%s after %v", outcome.Status, took)
		}
		if outcome.Attempt.ID.String() <= first.String() || !outcome.Attempt.StartedAt.Before(first.Time()) {
			t.Errorf("attempt %s at %v after id %s", outcome.Attempt.ID, outcome.Attempt.StartedAt, first)
		}
		is.Equal(t, w.cluster.PartitionInfo("t."+stream.Outcomes, 0).HighWatermark, 1, "outcomes")
	})
}
