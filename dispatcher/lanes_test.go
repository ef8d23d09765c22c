package dispatcher

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// The lane of a destination that has no delivery any more is removed, with its opened secrets.
func TestUnusedLanesAreRemoved(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		url, _ := w.serve(80, &sink{})
		w.endpoint(url)
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		w.outcomes(count(1, event.Delivered))
		if n := w.metric("relay_dispatch_lanes", "all"); n != 1 {
			t.Fatalf("%v lanes after a delivery, want 1", n)
		}
		time.Sleep(3 * time.Minute)
		if n := w.metric("relay_dispatch_lanes", "all"); n != 0 {
			t.Errorf("%v lanes are left", n)
		}
	})
}
