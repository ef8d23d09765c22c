package dispatcher

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// A delivery that a replay has made also ends the automatic delivery that was parked before its first attempt.
func TestReplayEndsParkedDelivery(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig())
		ev := w.newEvent(`{}`)
		w.command(&event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1, Run: "run_1"})
		w.outcomes(count(1, event.Delivered))
		w.command(&event.Work{
			Event: ev, Dest: testDest, Trigger: event.TriggerInitial, Attempt: 1, Parked: event.BreakerOpen,
			Due: time.Now().Add(5 * time.Second),
		})
		got := statuses(w.outcomes(count(2)))
		if len(s.all()) != 1 || got[1] != "skipped superseded" {
			t.Errorf("%d requests, outcomes %q", len(s.all()), got)
		}
	})
}

// A fault between producing a follow-up and the commit makes two copies of a record. The first copy that is delivered
// ends the others, retries and parked ones alike, and the event shows as delivered. The retry of another event is
// unaffected.
func TestCopiesOfWaitingDeliveriesEnd(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig())
		retried, parked := w.newEvent("retried"), w.newEvent("parked")
		for i := range 4 {
			due := time.Now().Add(time.Duration(2+i) * time.Second)
			w.command(&event.Work{Event: retried, Dest: testDest, Trigger: event.TriggerRetry, Attempt: 2, Due: due})
			w.command(&event.Work{Event: parked, Dest: testDest, Trigger: event.TriggerInitial, Attempt: 1,
				Parked: event.LaneFull, Due: due})
		}
		w.command(&event.Work{Event: w.newEvent("other"), Dest: testDest, Trigger: event.TriggerRetry, Attempt: 3,
			Due: time.Now().Add(8 * time.Second)})
		n := map[string]int{}
		for _, status := range statuses(w.outcomes(count(9))) {
			n[status]++
		}
		if len(s.all()) != 3 || n["delivered"] != 3 || n["skipped superseded"] != 6 {
			t.Errorf("%d requests, outcomes %v", len(s.all()), n)
		}
	})
}
