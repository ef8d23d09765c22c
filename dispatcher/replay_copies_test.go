package dispatcher

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Copies of one record of a replay end once one of them is delivered, although the replay is so young that another
// replay's success would not count.
func TestCopiesOfAReplayEnd(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig())
		ev, run := w.newEvent(`{}`), id.Lowest(time.Now()).Text(id.Run)
		for i := range 3 {
			w.command(&event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 2, Run: run,
				Due: time.Now().Add(time.Duration(2+i) * time.Second)})
		}
		n := map[string]int{}
		for _, status := range statuses(w.outcomes(count(3))) {
			n[status]++
		}
		if len(s.all()) != 1 || n["delivered"] != 1 || n["skipped superseded"] != 2 {
			t.Errorf("%d requests, outcomes %v", len(s.all()), n)
		}
	})
}
