package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
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

// A replay that has delivered ends the waiting retry of an earlier replay, and not that of a later one: who replays
// what was delivered wants it sent again.
func TestReplayEndsTheRetryOfAnEarlierReplay(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var up atomic.Bool
		s := &sink{answer: func(int, received) int {
			if up.Load() {
				return 200
			}
			return 500
		}}
		url, _ := w.serve(80, s)
		endpoint := w.endpoint(url)
		endpoint.RetryPolicy = config.RetryPolicy{Strategy: "linear", IntervalSeconds: 60, MaxAttempts: 3}
		w.start(testConfig())
		ev := w.newEvent(`{}`)
		replay := func() (run string) {
			time.Sleep(time.Second)
			run = id.Lowest(time.Now()).Text(id.Run)
			w.command(&event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1, Run: run})
			return run
		}
		earlier := replay()
		w.outcomes(count(1, event.Retrying))
		up.Store(true)
		middle := replay()
		w.outcomes(count(1, event.Delivered))
		up.Store(false)
		later := replay()
		w.outcomes(count(2, event.Retrying))
		up.Store(true)
		last := map[string]string{}
		for _, outcome := range w.outcomes(count(5)) {
			last[outcome.Run] = string(outcome.Status) + string(outcome.Reason)
		}
		want := map[string]string{earlier: "skippedsuperseded", middle: "delivered", later: "delivered"}
		if d := cmp.Diff(want, last); d != "" {
			t.Error(d)
		}
		if n := len(s.all()); n != 4 {
			t.Errorf("%d requests, want 4", n)
		}
	})
}
