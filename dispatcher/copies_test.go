package dispatcher

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/eventrelay/relay/dispatcher/destination/webhook"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
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
		w.copyBeforeAnother("hangs once")
		time.Sleep(2 * time.Second)
		if n := w.committed(stream.Partition{Topic: stream.Commands}); n != 0 || len(s.all()) != 2 {
			t.Errorf("committed %d, want 0: the first record is not finished; %d requests", n, len(s.all()))
		}
		d.ownership.lose(d.assignment.all())
		go stop()
		w.start(testConfig())
		w.outcomes(count(2, event.Delivered))
		time.Sleep(15 * time.Minute) // until the handler has returned
		if n := w.committed(stream.Partition{Topic: stream.Commands}); n != 3 || len(s.all()) != 3 {
			t.Errorf("committed %d of 3, %d requests, want 3", n, len(s.all()))
		}
	})
}

// copyBeforeAnother appends a delivery twice, and another one, whose outcome it waits for.
func (w *bubbleWorld) copyBeforeAnother(body string) {
	work := &event.Work{Event: w.newEvent(body), Dest: testDest, Trigger: event.TriggerReplay, Attempt: 1,
		Run: id.NewGenerator(nil).NewUnbounded(0).Text(id.Run)}
	another := *work
	another.Event = w.newEvent(`{}`)
	w.command(work)
	w.command(work)
	w.command(&another)
	w.outcomes(count(1, event.Delivered))
}

// While a request runs, a second record of its delivery ends as a copy, then a third record is delivered. The node
// loses the partition. If it comes back, only the third record needs nothing more: the owner in between may have ended
// the first record as a copy of the second.
func TestCopyOfALostPartitionIsReadAgain(t *testing.T) {
	kafkaBubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{answer: func(_ int, r received) int {
			if string(r.body) == "hangs" {
				time.Sleep(time.Minute)
			}
			return 200
		}}
		url, _ := w.serve(80, s)
		w.endpoint(url).Destinations[0].TimeoutSeconds = 90
		d, _ := w.start(testConfig())
		w.copyBeforeAnother("hangs")
		time.Sleep(time.Second)
		p := d.assignment.partition(stream.Partition{Topic: stream.Commands})
		epoch := p.tracker.epochs[0].epoch
		again := must.Get(newPartition(p.host, p.id, 0, stream.Commit{Offset: 1, LeaderEpoch: epoch}))(t)
		again.inherit(p)
		if again.beginRecord(1, epoch) == nil || again.beginRecord(2, epoch) != nil {
			t.Error("the copy is skipped, or the record after it is not")
		}
		time.Sleep(2 * time.Minute) // until the handler has returned
	})
}

// What a node knows of partitions that it lost holds until another one has committed there, in any of those with the
// same number: it may have ended a follow-up as the copy of the record before it.
func TestAnotherOwnerEndsWhatWasKnown(t *testing.T) {
	h := &host{group: pauses{}, memory: &tierMemory{}, wake: make(chan struct{}, 1)}
	events, tier := stream.Partition{Topic: stream.Events, Index: 1}, stream.Partition{Topic: "retry.1m", Index: 1}
	other := stream.Partition{Topic: stream.Events, Index: 2}
	mine := stream.Commit{Offset: 5, LeaderEpoch: 1, Metadata: "gaps"}
	all := func(commits map[stream.Partition]stream.Commit) (parts []*partition) {
		for _, id := range []stream.Partition{events, tier, other} {
			commit, ok := commits[id]
			if !ok {
				commit = stream.Commit{Offset: -1, LeaderEpoch: -1}
			}
			p, _ := newPartition(h, id, 0, commit)
			parts = append(parts, p)
		}
		return parts
	}
	type commits = map[stream.Partition]stream.Commit
	for name, c := range map[string]struct {
		commits commits
		inherit []bool
	}{
		"nobody":                 {commits{tier: mine}, []bool{true, true, true}},
		"further":                {commits{tier: {Offset: 6, LeaderEpoch: 1}}, []bool{false, false, true}},
		"in another of the same": {commits{tier: mine, events: mine}, []bool{false, false, true}},
		"other gaps":             {commits{tier: {Offset: 5, LeaderEpoch: 1, Metadata: "more"}}, []bool{false, false, true}},
	} {
		a, before := newAssignment(), all(nil)
		before[1].addCommit(stream.Commit{Offset: 4}, true)
		before[1].addCommit(mine, false) // it was made, and not answered
		before[1].addCommit(stream.Commit{Offset: 5}, false)
		a.rememberLost(before)
		again := all(c.commits)
		a.add(again)
		for i, p := range again {
			is.Equal(t, p.predecessor != nil, c.inherit[i], "%s has committed: %v is remembered", name, p.id)
		}
	}
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

// Deliveries of recovery jobs have their own retry policy, whatever their endpoint and the receiver say.
func TestRecoveryBudget(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	expiry := now.Add(5 * time.Second)
	policy := retry.Policy{Strategy: "linear", IntervalSeconds: 3600, MaxAttempts: 50, RespectRetryAfter: true,
		MaxRetryAfterSeconds: 86400}
	f := func(attempt, status int, failure event.ErrorCode, want string) {
		t.Helper()
		work := &event.Work{Attempt: attempt, Run: "rec_1"}
		policy := policyOf(work, &config.Endpoint{RetryPolicy: policy})
		next := decide(work, webhook.Classify(status, failure, policy.RetryOn), policy, time.Hour, now, expiry, 0.9)
		got := fmt.Sprint(next.status, " ", next.reason)
		if next.status == event.Retrying {
			got = fmt.Sprint("again after ", next.due.Sub(now))
		}
		is.Equal(t, got, want, "attempt %d, %d %s", attempt, status, failure)
	}
	f(1, 200, "", "delivered ")
	f(1, 503, "", "again after 2s")
	f(2, 404, "", "again after 10s") // whether there is time for it is checked then
	f(3, 503, "", "failed attempts_exhausted")
	f(1, 302, "", "again after 2s")
	f(1, 0, event.CodeTimeout, "again after 2s")
	f(1, 410, "", "failed gone_410")
	f(1, 0, event.CodeAddressBlocked, "failed not_retryable")
	f(3, 204, "", "delivered ")
}

// recoveryWork is a delivery of a job that had failed before.
func (w *world) recoveryWork(job jobs.Recovery) *event.Work {
	w.view.job(job)
	return &event.Work{Event: w.newEvent(`{}`), Dest: testDest, Trigger: event.TriggerCanary, Attempt: 1, Run: job.ID,
		Prior: event.Failed, PriorReason: event.Gone410}
}

func recoveryJob(change ...func(*jobs.Recovery)) jobs.Recovery {
	j := jobs.Recovery{Meta: entity.Meta{ID: id.NewGenerator(nil).NewUnbounded(0).Text(id.Recovery)},
		State: jobs.RecoveryRunning, Deadline: time.Now().Add(time.Hour)}
	for _, f := range change {
		f(&j)
	}
	return j
}

// A delivery is skipped when its job has ended. It gets its earlier status back, and the outcome has the reason.
func TestDeliveriesOfEndedJobs(t *testing.T) {
	f := func(job func(*jobs.Recovery), change func(*event.Work), want string) {
		t.Helper()
		bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
			s := &sink{}
			url, _ := w.serve(80, s)
			w.endpoint(url)
			w.start(testConfig())
			work := w.recoveryWork(recoveryJob(job))
			change(work)
			w.command(work)
			outcome := w.outcomes(count(1))[0]
			if got := fmt.Sprint(outcome.Status, " ", outcome.Reason, " ", outcome.SkipReason, " ", len(s.all())); got != want {
				t.Errorf("the outcome is %s, want %s", got, want)
			}
		})
	}
	same := func(*event.Work) {}
	state := func(s jobs.RecoveryState) func(*jobs.Recovery) {
		return func(j *jobs.Recovery) { j.State = s }
	}
	f(state(jobs.RecoveryRunning), same, "delivered   1")
	f(state(jobs.RecoveryAwaitingApproval), same, "delivered   1") // a second copy of its canary
	f(state(jobs.RecoveryStopped), same, "failed gone_410 job_stopped 0")
	f(state(jobs.RecoveryCancelled), same, "failed gone_410 job_cancelled 0")
	f(state(jobs.RecoveryExpired), same, "failed gone_410 deadline 0")
	f(state(jobs.RecoveryCompleted), same, "failed gone_410 already_delivered 0")
	f(func(j *jobs.Recovery) { j.Deadline = time.Now() }, same, "failed gone_410 deadline 0")
	f(state(jobs.RecoveryRunning), func(work *event.Work) { work.Run = "rec_unknown" }, "failed gone_410 job_stopped 0")
	f(state(jobs.RecoveryStopped), func(work *event.Work) { work.Prior = "" }, "skipped job_stopped job_stopped 0")
	f(state(jobs.RecoveryRunning), func(work *event.Work) {
		work.Event.ID[0], work.Event.ID[1], work.Event.ID[2] = 0, 0,
			1
	},
		"failed gone_410 payload_expired 0") // of 1970
}

// A fault has made two copies of a delivery of a job: it is sent once, and the second copy ends when the first is
// delivered. A delivery of another job is independent.
func TestCopiesOfRecoveryDeliveriesEnd(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig())
		work, other := w.recoveryWork(recoveryJob()), recoveryJob()
		w.view.job(other)
		w.command(work)
		w.outcomes(count(1))
		time.Sleep(time.Second) // until this node knows that its outcome is in the log
		w.command(work)
		nextWork := *work
		nextWork.Run = other.ID
		w.command(&nextWork)
		got := map[string]int{}
		for _, outcome := range w.outcomes(count(3)) {
			got[fmt.Sprint(outcome.Status, " ", outcome.SkipReason)]++
		}
		if len(s.all()) != 2 || got["delivered "] != 2 || got["failed already_delivered"] != 1 {
			t.Errorf("%d requests, outcomes %v", len(s.all()), got)
		}
	})
}

// The attempts of a delivery keep their trigger. If the job is stopped between two of them, the delivery ends.
func TestRecoveryChain(t *testing.T) {
	bubble(t, 1, func(t *testing.T, w *bubbleWorld) {
		s := &sink{answer: func(int, received) int { return 503 }}
		url, _ := w.serve(80, s)
		w.endpoint(url)
		w.start(testConfig())
		job := recoveryJob()
		began := time.Now()
		w.command(w.recoveryWork(job))
		is.Equal(t, fmt.Sprint(statuses(w.outcomes(count(3)))), "[retrying retrying failed attempts_exhausted]",
			"outcomes")
		requests := s.all()
		for i, after := range []time.Duration{0, 2 * time.Second, 12 * time.Second} {
			if late := requests[i].at.Sub(began) - after; late < 0 || late > 3*time.Second ||
				requests[i].header.Get("Relay-Trigger") != "canary" {
				t.Errorf("attempt %d came %v after its time, as %s", i+1, late, requests[i].header.Get("Relay-Trigger"))
			}
		}
		second := recoveryJob()
		w.command(w.recoveryWork(second))
		w.outcomes(count(4))
		second.State = jobs.RecoveryStopped
		w.view.job(second)
		outcome := w.outcomes(count(5))[4]
		if len(s.all()) != 4 || outcome.SkipReason != event.JobStopped || outcome.Status != event.Failed {
			t.Errorf("%d requests, then %+v", len(s.all()), outcome)
		}
	})
}
