package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination/webhook"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/config/retry"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
)

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
		if got := fmt.Sprint(statuses(w.outcomes(count(3)))); got != "[retrying retrying failed attempts_exhausted]" {
			t.Errorf("outcomes %s", got)
		}
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
