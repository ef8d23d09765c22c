package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
)

// When the clock is set forward, deliveries that become due are sent within seconds, however long the timer meant to
// sleep.
func TestClockSetForward(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var ahead atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig(), func(d *Deps) { d.Now, d.IDs = now, id.NewGenerator(now) })
		w.command(&event.Work{Event: w.newEvent(`{}`), Dest: testDest, Trigger: event.TriggerRetry, Attempt: 2,
			Due: time.Now().Add(29 * time.Minute)})
		time.Sleep(time.Minute)
		ahead.Store(int64(time.Hour))
		time.Sleep(maxSleep + time.Second)
		is.Equal(t, len(s.all()), 1, "requests after the clock has stepped over the due time")
	})
}
