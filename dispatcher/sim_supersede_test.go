package dispatcher

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
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

// After a restart, a delivery that waits ends if a replay has delivered its event before, and so does a second record
// of that replay. The retry of a later replay is made. If the store does not answer, what waits is sent.
func TestReplaysBeforeTheStartAreRemembered(t *testing.T) {
	for _, answers := range []bool{true, false} {
		bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
			s := &sink{}
			url, _ := w.serve(80, s)
			w.endpoint(url)
			ev, runs := w.newEvent(`{}`), id.NewGenerator(nil)
			elsewhere := runs.NewUnbounded(1) // a partition that is not assigned
			before, later := runs.NewUnbounded(0).Text(id.Run), runs.NewUnbounded(0).Text(id.Run)
			delivered := func(
				ctx context.Context, limit int, each func(run string, event id.ID, dest string, ended time.Time)) error {
				if !answers {
					<-ctx.Done()
					return ctx.Err()
				}
				each(before, ev.ID, testDest, time.Now().Add(10*time.Minute)) // a lease, begun before the later replay
				each(before, elsewhere, testDest, time.Now())
				return nil
			}
			w.command(&event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerRetry, Attempt: 2,
				Due: time.Now().Add(10 * time.Second)})
			w.command(&event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1, Run: before})
			d, _ := w.start(testConfig(), func(d *Deps) { d.Delivered = delivered })
			w.outcomes(count(2))
			w.command(&event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 2, Run: later})
			want := map[string]string{"": "skippedsuperseded", before: "skippedsuperseded", later: "delivered"}
			requests := 1
			if !answers {
				want[before], requests = "delivered", 2
			}
			got := map[string]string{}
			for _, o := range w.outcomes(count(3)) {
				got[o.Run] = string(o.Status) + string(o.Reason)
			}
			is.Same(t, got, want)
			if d.rules.superseded.hasSince(lane.DeliveryKey{Event: elsewhere, Dest: testDest}, time.Time{}) {
				t.Error("a delivery of another node's partition is remembered")
			}
			is.Equal(t, len(s.all()), requests, "requests, with an answer of the store: %v", answers)
		})
	}
}

// The store is asked only about partitions that this node has not had until now, and no longer than the node runs.
func TestRecallAsksOnlyWhenItMust(t *testing.T) {
	asked := 0
	o := &ownership{log: testLog(), delivered: func(
		ctx context.Context, _ int, _ func(run string, event id.ID, dest string, ended time.Time)) error {
		asked++
		<-ctx.Done()
		return ctx.Err()
	}}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, x := range []struct {
		partitions []int32
		want       int
	}{{nil, 0}, {[]int32{0, 1}, 1}, {[]int32{0}, 1}, {[]int32{0}, 1}, {[]int32{0, 1}, 2}} {
		all := make(map[stream.Partition]stream.Commit)
		for _, index := range x.partitions {
			all[stream.Partition{Topic: stream.Events, Index: index}] = stream.Commit{}
		}
		o.recall(stopped, all)
		is.Equal(t, asked, x.want, "questions after the assignment of %v", x.partitions)
	}
}

// A fault between producing a follow-up and the commit makes two copies of a record. The first copy that is delivered
// ends the others, and the event shows as delivered: retries, parked ones, and those that wait because the
// configuration could not be read. The retry of another event is unaffected.
func TestCopiesOfWaitingDeliveriesEnd(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig())
		time.Sleep(time.Second) // what was parked until the start is re-checked at once
		retried, parked, unchecked := w.newEvent("retried"), w.newEvent("parked"), w.newEvent("unchecked")
		for i := range 4 {
			due := time.Now().Add(time.Duration(2+i) * time.Second)
			w.command(&event.Work{Event: retried, Dest: testDest, Trigger: event.TriggerRetry, Attempt: 2, Due: due})
			w.command(&event.Work{Event: parked, Dest: testDest, Trigger: event.TriggerInitial, Attempt: 1,
				Parked: event.LaneFull, Due: due})
			w.command(&event.Work{Event: unchecked, Dest: testDest, Trigger: event.TriggerInitial, Attempt: 1,
				ReportedNextAt: due, Due: due})
		}
		w.command(&event.Work{Event: w.newEvent("other"), Dest: testDest, Trigger: event.TriggerRetry, Attempt: 3,
			Due: time.Now().Add(8 * time.Second)})
		n := map[string]int{}
		for _, status := range statuses(w.outcomes(count(13))) {
			n[status]++
		}
		if len(s.all()) != 4 || n["delivered"] != 4 || n["skipped superseded"] != 9 {
			t.Errorf("%d requests, outcomes %v", len(s.all()), n)
		}
	})
}

// Records of one delivery of a replay that are due one after the other make one attempt, also if it is the first one
// and was never parked. The event was delivered before, and the newest outcome is that of the attempt. Another replay
// of the event is sent meanwhile.
func TestCopiesOfPacedReplayEnd(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig())
		ids, ev := id.NewGenerator(nil), w.newEvent(`{}`)
		one, other := ids.NewUnbounded(0).Text(id.Run), ids.NewUnbounded(0).Text(id.Run)
		for i, run := range []string{one, other, one, one, other} {
			w.command(&event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1, Run: run,
				Prior: event.Delivered, Due: time.Now().Add(time.Duration(2+i) * time.Second)})
		}
		all := w.outcomes(count(5))
		is.Equal(t, len(s.all()), 2, "requests for two replays")
		for _, run := range []string{one, other} {
			ofRun := slices.DeleteFunc(slices.Clone(all), func(o *event.Outcome) bool { return o.Run != run })
			if newest := newestOutcomes(t, ofRun)[ev.ID]; newest.Attempt == nil || newest.SkipReason != "" {
				t.Errorf("the newest outcome of %s is %+v", run, newest)
			}
		}
	})
}

// newestOutcomes returns the outcome of each event that counts.
func newestOutcomes(t *testing.T, all []*event.Outcome) map[id.ID]*event.Outcome {
	t.Helper()
	newest, versions := map[id.ID]*event.Outcome{}, map[id.ID]event.Version{}
	for offset, outcome := range all {
		version := must.Get(outcome.Version(int64(offset)))(t)
		if newest[outcome.Event] == nil || version.Compare(versions[outcome.Event]) > 0 {
			newest[outcome.Event], versions[outcome.Event] = outcome, version
		}
	}
	return newest
}

// A replay that has delivered ends the waiting retry of an earlier replay, and not that of a later one: a replay of a
// delivered event sends it again.
func TestReplayEndsTheRetryOfAnEarlierReplay(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		repairable := newRepairable(w)
		w.start(testConfig())
		replay := w.replays(clockMargin+time.Second, 0)
		earlier := replay()
		w.outcomes(count(1, event.Retrying))
		repairable.up.Store(true)
		middle := replay()
		w.outcomes(count(1, event.Delivered))
		repairable.up.Store(false)
		later := replay()
		w.outcomes(count(2, event.Retrying))
		repairable.up.Store(true)
		last := map[string]string{}
		for _, outcome := range w.outcomes(count(5)) {
			last[outcome.Run] = string(outcome.Status) + string(outcome.Reason)
		}
		want := map[string]string{earlier: "skippedsuperseded", middle: "delivered", later: "delivered"}
		is.Same(t, last, want)
		is.Equal(t, len(repairable.all()), 4, "requests")
	})
}

// A replay of what a replay has just delivered is sent, also if its node's clock is as far behind as clocks may be.
func TestReplayAfterASuccessIsSent(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		repairable := newRepairable(w)
		w.start(testConfig())
		replay := w.replays(time.Second, id.MaxAhead+4*time.Second)
		repairable.up.Store(true)
		replay()
		w.outcomes(count(1, event.Delivered))
		repairable.up.Store(false)
		replay()
		w.outcomes(count(1, event.Retrying))
		repairable.up.Store(true)
		w.outcomes(count(2, event.Delivered))
		is.Equal(t, len(repairable.all()), 3, "requests")
	})
}

// The first attempt of a replay waits for the rate of the replay. It is made although another replay has delivered the
// event meanwhile.
func TestPacedReplayIsSentAfterAnother(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig())
		ev := w.newEvent(`{}`)
		for _, due := range []time.Duration{2 * clockMargin, 0} {
			w.command(&event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1,
				Run: id.Lowest(time.Now()).Text(id.Run), Due: time.Now().Add(due)})
			time.Sleep(clockMargin + time.Second)
		}
		time.Sleep(time.Minute)
		if n := len(s.all()); n != 2 {
			t.Errorf("%d requests for two replays, outcomes %q", n, statuses(w.outcomes(count(2))))
		}
	})
}

// A request that is in flight to a URL while the URL is corrected does not end the replay to the corrected one.
func TestReplayToACorrectedURLIsSent(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		wrong := &sink{answer: func(int, received) int { time.Sleep(100 * time.Second); return 200 }}
		url, _ := w.serve(81, wrong)
		repairable := newRepairable(w)
		right := *w.view.endpoints[testEndpoint]
		slow := right
		slow.Destinations = slices.Clone(right.Destinations)
		slow.Destinations[0].URL, slow.Destinations[0].TimeoutSeconds = url, 200
		w.view.put(&slow)
		w.start(testConfig())
		replay := w.replays(clockMargin+time.Second, 0)
		replay()
		time.Sleep(time.Second) // its request is in flight
		right.Rev++
		w.view.put(&right)
		replay()
		w.outcomes(count(1, event.Retrying))
		w.outcomes(count(1, event.Delivered)) // the wrong URL answers
		repairable.up.Store(true)
		w.outcomes(count(2, event.Delivered))
		is.Equal(t, len(repairable.all()), 2, "requests to the corrected URL")
	})
}

// repairable is a destination that answers 500 until it is up.
type repairable struct {
	*sink
	up atomic.Bool
}

// newRepairable serves the endpoint's destination, whose retries wait ten minutes.
func newRepairable(w *bubbleWorld) *repairable {
	r := &repairable{}
	r.sink = &sink{answer: func(int, received) int {
		if r.up.Load() {
			return 200
		}
		return 500
	}}
	url, _ := w.serve(80, r.sink)
	w.endpoint(url).RetryPolicy = retry.Policy{Strategy: "linear", IntervalSeconds: 600, MaxAttempts: 3}
	return r
}

// replays returns a function that pauses and replays the same event, from a node whose clock is behind.
func (w *bubbleWorld) replays(pause, behind time.Duration) func() (run string) {
	ev := w.newEvent(`{}`)
	return func() (run string) {
		time.Sleep(pause)
		run = id.Lowest(time.Now().Add(-behind)).Text(id.Run)
		w.command(&event.Work{Event: ev, Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1, Run: run})
		return run
	}
}
