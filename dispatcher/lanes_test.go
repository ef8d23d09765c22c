package dispatcher

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The lane of a destination that has no delivery any more is removed, with its opened secrets.
func TestUnusedLanesAreRemoved(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		url, _ := w.serve(80, &sink{})
		w.endpoint(url)
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		w.outcomes(count(1, event.Delivered))
		must.Equal(t, w.metric("relay_dispatch_lanes", "all"), 1, "lanes after a delivery")
		time.Sleep(3 * time.Minute)
		is.Equal(t, w.metric("relay_dispatch_lanes", "all"), 0, "lanes are left")
	})
}
