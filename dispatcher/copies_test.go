package dispatcher

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// A node dies while it moves the deliveries of a paced replay to the retry topics, before it commits that. The next one
// moves them again, so there are two records of each, due in the same millisecond. Each delivery is made once, at the
// rate of the replay, and its newest outcome says so, also where the event was delivered before the replay. A
// delivery that fails is made again.
func TestCrashWhilePacedReplayQueues(t *testing.T) {
	f := func(name string, answers time.Duration, failures int) {
		t.Run(name, func(t *testing.T) {
			kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
				tries := map[string]int{}
				s := &sink{}
				s.answer = func(_ int, r received) int {
					time.Sleep(answers)
					s.mu.Lock()
					defer s.mu.Unlock()
					if tries[string(r.body)]++; tries[string(r.body)] <= failures {
						return 500
					}
					return 200
				}
				url, _ := w.serve(80, s)
				w.endpoint(url)
				restarted := w.refuseCommits()
				_, stop := w.start(testConfig())
				const deliveries = 200
				run, due := id.NewGenerator(nil).NewUnbounded(0).Text(id.Run), time.Now().Add(time.Minute)
				for i := range deliveries {
					w.command(&event.Work{Event: w.newEvent(string(rune('a' + i))), Dest: testDest, Trigger: event.TriggerReplay,
						Attempt: 1, Run: run, Prior: event.Delivered, Due: due.Add(time.Duration(i) * 10 * time.Millisecond)})
				}
				time.Sleep(2 * time.Second)
				if n := w.passes(); n < deliveries {
					t.Fatalf("%d deliveries were moved to retry topics before the crash", n)
				}
				stop()
				restarted()
				w.start(testConfig())
				newest := newestOutcomes(t, w.outcomes(count(deliveries, event.Delivered)))
				time.Sleep(time.Minute)
				got := s.all()
				if len(got) != deliveries*(1+failures) || len(newest) != deliveries {
					t.Errorf("%d requests and outcomes of %d deliveries, want %d and %d", len(got), len(newest),
						deliveries*(1+failures), deliveries)
				}
				for _, outcome := range newest {
					if outcome.Status != event.Delivered || outcome.SkipReason != "" {
						t.Fatalf("the newest outcome is %+v", outcome)
					}
				}
				for i := range got {
					if k := i + 20; answers == 0 && k < len(got) && got[k].at.Sub(got[i].at) < 150*time.Millisecond {
						t.Fatalf("20 requests within %v at 100 a second", got[k].at.Sub(got[i].at))
					}
				}
			})
		})
	}
	f("at once", 0, 0)           // the second record is due after the answer
	f("slow", time.Second, 0)    // or while the request runs
	f("failing", time.Second, 1) // then the follow-up of the first record delivers it
}

// refuseCommits makes the log refuse commits until the returned function is called: what a node does until then, it has
// done as if it had died before its commit.
func (w *bubbleWorld) refuseCommits() (accept func()) {
	var accepts atomic.Bool
	w.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorLoadInProgress, Count: -1,
		When: func(kmsg.Request) bool { return !accepts.Load() },
	})
	return func() { accepts.Store(true) }
}

// While a request runs, a second record of its delivery is finished and committed. The node dies before the answer: the
// first record is still there, and the next node delivers it.
func TestCopyIsNotTheLastRecord(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		var hung atomic.Bool
		s := &sink{answer: func(_ int, r received) int {
			if string(r.body) == "hangs once" && !hung.Swap(true) {
				time.Sleep(10 * time.Minute)
			}
			return 200
		}}
		url, _ := w.serve(80, s)
		w.endpoint(url).Destinations[0].TimeoutSeconds = 900
		d, stop := w.start(testConfig())
		work := &event.Work{Event: w.newEvent("hangs once"), Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1,
			Run: id.NewGenerator(nil).NewUnbounded(0).Text(id.Run)}
		w.command(work)
		w.command(work)
		third := *work
		third.Event = w.newEvent(`{}`)
		w.command(&third)
		w.outcomes(count(1, event.Delivered)) // of the third record
		time.Sleep(2 * time.Second)
		if n := w.committed(stream.Partition{Topic: stream.Commands}); n != 0 || len(s.all()) != 2 {
			t.Errorf("committed %d, want 0: the first record is not finished; %d requests", n, len(s.all()))
		}
		d.onLost(d.assignment.all())
		go stop()
		w.start(testConfig())
		w.outcomes(count(2, event.Delivered))
		time.Sleep(15 * time.Minute) // until the handler has returned
		if n := w.committed(stream.Partition{Topic: stream.Commands}); n != 3 || len(s.all()) != 3 {
			t.Errorf("committed %d of 3, %d requests, want 3", n, len(s.all()))
		}
	})
}

// Kafka takes follow-ups and no outcomes. A follow-up is due while the attempt before it is not recorded: it is no
// copy, and the delivery is made.
func TestFollowUpIsNoCopy(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{answer: func(n int, _ received) int {
			if n <= 4 {
				return 500
			}
			return 200
		}}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		accept := w.refuse(kmsg.Produce, stream.Outcomes)
		w.start(testConfig())
		w.accept(w.newEvent(`{}`))
		w.command(&event.Work{Event: w.newEvent(`{}`), Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1,
			Run: id.NewGenerator(nil).NewUnbounded(0).Text(id.Run)})
		w.command(&event.Work{Event: w.newEvent(`{}`), Dest: testDest, Trigger: event.TriggerInitial, Attempt: 1,
			ReportedNextAt: time.Now()})
		time.Sleep(2 * time.Minute)
		if n := len(s.all()); n != 7 {
			t.Errorf("%d requests, want 4 that fail and 3 that are accepted", n)
		}
		accept()
		w.outcomes(count(3, event.Delivered))
	})
}
