package dispatcher

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

// A request that is cancelled because the node stops is no attempt: nothing is recorded, and the next owner delivers.
func TestRequestCancelledByAStopIsNoAttempt(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		release := make(chan struct{})
		defer close(release)
		s := &sink{answer: func(n int, _ received) int {
			if n == 1 {
				<-release
			}
			return 200
		}}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		cfg := testConfig()
		cfg.Drain = time.Second // shorter than the destination's timeout
		_, stop := w.start(cfg)
		w.accept(w.newEvent(`{}`))
		for len(s.all()) == 0 {
			time.Sleep(time.Millisecond)
		}
		stop()
		is.Equal(t, w.metric("relay_dispatch_attempts_total", ""), 0, "attempts are counted")
		w.start(cfg)
		if got := w.outcomes(count(1)); got[0].Status != event.Delivered || len(s.all()) != 2 {
			t.Errorf("after %d requests the first outcome is %+v", len(s.all()), got[0])
		}
	})
}
