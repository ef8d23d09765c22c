package dispatcher

import (
	"errors"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// A delivery that waits because the configuration cannot be read has one outcome before its event is committed: lists
// of pending events look for those without an outcome above the committed offsets only.
func TestUncheckedDeliveryIsReportedOnce(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		endpoint := w.endpoint(url)
		delete(w.view.endpoints, testEndpoint)
		began := time.Now()
		w.view.onSync = func() error {
			if time.Since(began) < 10*time.Minute {
				return errors.New("the log is unavailable")
			}
			w.view.put(endpoint)
			return nil
		}
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		outcomes := w.outcomes(count(1, event.Delivered))
		got := statuses(outcomes)
		if len(got) != 2 || outcomes[0].Status != event.Pending || outcomes[0].Dest != testDest || len(s.all()) != 1 {
			t.Errorf("%d requests, outcomes %q", len(s.all()), got)
		}
		if !outcomes[1].WasParked {
			t.Error("the delivery does not say that an earlier outcome reported it as waiting")
		}
		if waited := outcomes[1].At.Sub(outcomes[0].At); waited < 5*time.Minute {
			t.Errorf("the first outcome came %v before the delivery", waited)
		}
	})
}
