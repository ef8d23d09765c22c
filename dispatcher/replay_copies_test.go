package dispatcher

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
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

// The second of two records of a replay's delivery is due after the first was delivered, and after something else would
// end it. The newest outcome is that of the attempt, on the node that has made it and on another one. The event was
// delivered before the replay.
func TestLateCopyDoesNotReplaceTheOutcome(t *testing.T) {
	f := func(name string, otherNode bool, change func(w *bubbleWorld, run string)) {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				s := &sink{}
				url, _ := w.serve(80, s)
				w.endpoint(url)
				_, stop := w.start(testConfig())
				ev, run := w.newEvent(`{}`), id.Lowest(time.Now()).Text(id.Run)
				time.Sleep(time.Second)
				for i := range 2 {
					w.command(&event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1, Run: run,
						Prior: event.Delivered, Due: time.Now().Add(time.Duration(20*i) * time.Second)})
				}
				w.outcomes(count(1, event.Delivered))
				time.Sleep(2 * time.Second)
				change(w, run)
				if otherNode {
					stop()
					w.start(testConfig())
				}
				newest := newestOutcomes(t, w.outcomes(count(2)))[ev.ID]
				if len(s.all()) != 1 || newest.Status != event.Delivered || newest.SkipReason != "" || newest.Attempt == nil {
					t.Errorf("%d requests, the newest outcome is %+v", len(s.all()), newest)
				}
			})
		})
	}
	cancel := func(w *bubbleWorld, run string) { w.view.cancelRun(run) }
	disable := func(w *bubbleWorld, _ string) {
		w.view.change(testEndpoint, func(e *config.Endpoint) { e.Destinations[0].Enabled = false })
	}
	purge := func(w *bubbleWorld, _ string) {
		w.view.change(testEndpoint, func(e *config.Endpoint) { e.Destinations[0].PurgeBefore = time.Now() })
	}
	f("cancelled", false, cancel)
	f("disabled", false, disable)
	f("purged", false, purge)
	f("cancelled, other node", true, cancel)
	f("disabled, other node", true, disable)
}

// A run that is cancelled after a later one has failed gives back its deliveries, and the failure stays the newest
// outcome.
func TestSkipDoesNotReplaceTheOutcomeOfALaterRun(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{answer: func(int, received) int { return 410 }}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig())
		replay := func(ev *event.Event, due time.Duration) (run string) {
			time.Sleep(time.Second)
			run = id.Lowest(time.Now()).Text(id.Run)
			w.command(&event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1, Run: run,
				Prior: event.Delivered, Due: time.Now().Add(due)})
			return run
		}
		ev := w.newEvent(`{}`)
		earlier := replay(ev, time.Minute)
		later := replay(ev, 0)
		w.outcomes(count(1, event.Failed))
		w.view.cancelRun(earlier)
		newest := newestOutcomes(t, w.outcomes(count(2)))[ev.ID]
		if len(s.all()) != 1 || newest.Run != later || newest.Status != event.Failed {
			t.Errorf("%d requests, the newest outcome is %+v", len(s.all()), newest)
		}
	})
}
