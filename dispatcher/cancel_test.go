package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
)

// A delivery of a cancelled replay run is skipped at once, although its run is paced: in the topic of commands
// and in a retry topic, before its first attempt and between two. It gets its earlier status back.
func TestDeliveriesOfCancelledRuns(t *testing.T) {
	f := func(cancelled bool, change func(*event.Work), want string) {
		t.Helper()
		bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
			s := &sink{}
			url, _ := w.serve(80, s)
			w.endpoint(url)
			w.start(testConfig())
			work := &event.Work{Event: w.newEvent(`{}`), Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1,
				Run: id.NewGenerator(nil).NewUnbounded(0).Text(id.Run)}
			change(work)
			if cancelled {
				w.view.cancelRun(work.Run)
			}
			began := time.Now()
			w.command(work)
			outcome := w.outcomes(count(1))[0]
			got := fmt.Sprint(outcome.Status, " ", outcome.Reason, " ", outcome.SkipReason, " ", len(s.all()),
				time.Since(began) > 15*time.Second)
			is.Equal(t, got, want, "the outcome")
		})
	}
	late := func(w *event.Work) { w.Due = time.Now().Add(20 * time.Second) }
	f(false, func(*event.Work) {}, "delivered   1 false")
	f(false, late, "delivered   1 true")
	f(true, func(*event.Work) {}, "skipped run_stopped run_stopped 0 false")
	f(true, late, "skipped run_stopped run_stopped 0 false")
	f(true, func(w *event.Work) { w.Attempt = 3 }, "skipped run_stopped run_stopped 0 false")
	f(true, func(w *event.Work) { w.Prior, w.PriorReason = event.Failed, event.Gone410 },
		"failed gone_410 run_stopped 0 false")
}
