package config

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
)

// RecoveriesChanged fires for every change of a recovery job, and for nothing else.
func TestRecoveriesChanged(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	ctx := t.Context()
	expectSignal := func(what string, want bool, do func()) {
		t.Helper()
		changed := n.RecoveriesChanged()
		do()
		select {
		case <-changed:
			if !want {
				t.Errorf("%s was reported", what)
			}
		default:
			if want {
				t.Errorf("%s was not reported", what)
			}
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expectSignal("a new job", true, func() {
		must(errOf(n.AddRecovery(ctx, &jobs.Recovery{Meta: entity.Meta{ID: "rec_1"}, State: jobs.RecoveryPreparing})))
	})
	expectSignal("a run", false, func() { must(errOf(entity.Create(ctx, n, &jobs.Run{Meta: entity.Meta{ID: "run_1"}}))) })
	expectSignal("a change", true, func() {
		must(errOf(n.UpdateRecovery(ctx, "rec_1", func(j *jobs.Recovery) error { j.State = jobs.RecoveryReady; return nil })))
	})
	expectSignal("the end of a job", true, func() { must(n.ForgetRecovery(ctx, "rec_1")) })
}

func errOf[T any](_ T, err error) error { return err }

// UnsettledRecoveries returns the jobs with unfinished work and those to be removed. Those that wait for approval are
// counted. The number
// of open jobs is bounded.
func TestUnsettledRecoveries(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	ctx := t.Context()
	now := time.Now()
	for i, j := range []jobs.Recovery{
		{State: jobs.RecoveryRunning, Meta: entity.Meta{CreatedAt: now.Add(-time.Hour)}},
		{State: jobs.RecoveryCompleted, Settled: true, Meta: entity.Meta{CreatedAt: now.Add(-time.Hour)}},
		{State: jobs.RecoveryStopped, Settled: true}, {State: jobs.RecoveryStopped}, {State: jobs.RecoveryReady},
	} {
		j.ID = fmt.Sprint("rec_", i)
		must(n.AddRecovery(ctx, &j))(t)
	}
	ids := func(jobs []*jobs.Recovery) (out []string) {
		for _, j := range jobs {
			out = append(out, j.ID)
		}
		return out
	}
	unsettled, old := n.UnsettledRecoveries(now.Add(-time.Minute))
	if !slices.Equal(ids(unsettled), []string{"rec_4", "rec_3", "rec_0"}) || !slices.Equal(ids(old), []string{"rec_1"}) {
		t.Errorf("unsettled %v, old %v", ids(unsettled), ids(old))
	}
	must(n.UpdateRecovery(ctx, "rec_4", func(j *jobs.Recovery) error {
		j.State = jobs.RecoveryAwaitingApproval
		return nil
	}))(t)
	if got, other := n.AwaitingApproval(n.Account().ID), n.AwaitingApproval("acc_other"); got != 1 || other != 0 {
		t.Errorf("%d jobs wait for approval, %d of another account", got, other)
	}
	page, more := n.Recoveries(n.Account().ID, 0, 1,
		func(j *jobs.Recovery) bool { return j.State == jobs.RecoveryStopped })
	if !slices.Equal(ids(page), []string{"rec_3"}) || !more {
		t.Errorf("page %v, more %v", ids(page), more)
	}

	var all sync.WaitGroup
	for i := range jobs.MaxOpenRecoveries - 2 {
		all.Go(func() {
			if _, err := entity.Create(ctx, n, &jobs.Recovery{Meta: entity.Meta{ID: fmt.Sprint("rec_x", i)},
				State: jobs.RecoveryReady}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	one := &jobs.Recovery{Meta: entity.Meta{ID: "rec_y", Account: n.Account().ID}, State: jobs.RecoveryPreparing}
	if _, err := n.AddRecovery(ctx, one); !errors.Is(err, jobs.ErrTooManyOpenRecoveries) {
		t.Errorf("with %d open jobs another was created: %v", jobs.MaxOpenRecoveries, err)
	}
	must(n.UpdateRecovery(ctx, "rec_x1", func(j *jobs.Recovery) error {
		j.End(jobs.RecoveryCancelled, jobs.StopCancelled, now)
		return nil
	}))(t)
	if _, err := n.AddRecovery(ctx, one); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

func TestRecoveryMoves(t *testing.T) {
	at := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	f := func(sendable, total int, state jobs.RecoveryState) {
		t.Helper()
		j := &jobs.Recovery{State: jobs.RecoveryReady, Sendable: sendable}
		if j.StartCanary(at); j.State != state || j.Canary.Total != total || !j.StartedAt.Equal(at) ||
			j.Settled != state.Ended() {
			t.Errorf("the canary of %d is %+v", sendable, j)
		}
	}
	f(0, 0, jobs.RecoveryCompleted)
	f(4, 4, jobs.RecoveryCanaryRunning)
	f(5, 5, jobs.RecoveryCanaryRunning)
	f(6, 5, jobs.RecoveryCanaryRunning)

	j := &jobs.Recovery{State: jobs.RecoveryRunning, Reserved: 1}
	j.End(jobs.RecoveryStopped, jobs.StopDeliveryFailed, at)
	j.End(jobs.RecoveryCancelled, jobs.StopCancelled, at.Add(time.Hour)) // too late
	if j.State != jobs.RecoveryStopped || j.StopReason != jobs.StopDeliveryFailed || !j.FinishedAt.Equal(at) || j.Settled {
		t.Errorf("it ended as %+v", j)
	}
	unsent := map[jobs.RecoveryState]event.Reason{
		jobs.RecoveryStopped: event.JobStopped, jobs.RecoveryFailed: event.JobStopped,
		jobs.RecoveryCancelled: event.JobCancelled,
		jobs.RecoveryExpired:   event.Deadline,
	}
	ended := 0
	for _, s := range jobs.RecoveryStates() {
		if s.UnsentReason() != unsent[s] || unsent[s] != "" && !s.Ended() {
			t.Errorf("%s leaves %q unsent, ended: %v", s, s.UnsentReason(), s.Ended())
		}
		if s.Ended() {
			ended++
		}
	}
	if ended != 5 || len(jobs.RecoveryStates()) != 10 || !jobs.RecoveryRunning.Sending() ||
		!jobs.RecoveryCanaryRunning.Sending() ||
		jobs.RecoveryAwaitingApproval.Sending() {
		t.Errorf("%d of %d states are final", ended, len(jobs.RecoveryStates()))
	}
	overlap := func(a, b jobs.Recovery, want bool) {
		t.Helper()
		if a.Overlaps(&b) != want || b.Overlaps(&a) != want {
			t.Errorf("%s %s and %s %s overlap: %v", a.Endpoint, a.Destination, b.Endpoint, b.Destination, !want)
		}
	}
	overlap(jobs.Recovery{Endpoint: "ep_1"}, jobs.Recovery{Endpoint: "ep_1", Destination: "dst_a"}, true)
	overlap(jobs.Recovery{Endpoint: "ep_1", Destination: "dst_a"}, jobs.Recovery{Endpoint: "ep_1", Destination: "dst_a"},
		true)
	overlap(jobs.Recovery{Endpoint: "ep_1", Destination: "dst_b"}, jobs.Recovery{Endpoint: "ep_1", Destination: "dst_a"},
		false)
	overlap(jobs.Recovery{Endpoint: "ep_2"}, jobs.Recovery{Endpoint: "ep_1"}, false)
}
