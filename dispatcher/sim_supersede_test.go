package dispatcher

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// What a replay has delivered ends the automatic chain also where it was parked before its first attempt.
func TestReplayEndsParkedWork(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig())
		e := w.newEvent(`{}`)
		w.command(&event.Work{Event: e, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1, Run: "run_1"})
		w.outcomes(count(1, event.Delivered))
		w.command(&event.Work{
			Event: e, Dest: testDest, Trigger: event.TriggerInitial, Attempt: 1, Parked: event.BreakerOpen, Due: time.Now().Add(5 * time.Second),
		})
		got := statuses(w.outcomes(count(2)))
		if len(s.all()) != 1 || got[1] != "skipped superseded" {
			t.Errorf("%d requests, outcomes %q", len(s.all()), got)
		}
	})
}
