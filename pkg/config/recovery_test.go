package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
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

func queueing(name string, endpoints ...string) *jobs.Run {
	return &jobs.Run{Meta: entity.Meta{ID: "run_" + name}, Endpoints: endpoints, State: jobs.RunQueueing}
}

// TestOneRunPerEndpoint: while a run is queueing, no node starts another run that shares an endpoint with it, until it
// has ended or has made no progress for too long.
func TestOneRunPerEndpoint(t *testing.T) {
	conf := broker(t)
	var ahead atomic.Int64
	a, b := node(t, conf, Config{Node: "a"}, withMovableClock(&ahead)),
		node(t, conf, Config{Node: "b"}, withMovableClock(&ahead))
	try := func(n *testNode, r *jobs.Run, want error) {
		t.Helper()
		if _, err := n.AddRun(t.Context(), r); !errors.Is(err, want) {
			t.Fatalf("%s of %v on %s: %v, want %v", r.ID, r.Endpoints, n.cfg.Node, err, want)
		}
		for _, n := range []*testNode{a, b} {
			noError(t, n.Sync(t.Context()))
		}
	}
	single := queueing("single", "ep_1")
	single.Single = true
	try(a, queueing("1", "ep_1"), nil)
	try(a, queueing("1", "ep_9"), ErrConflict)
	try(b, queueing("2", "ep_0", "ep_1"), jobs.ErrEndpointBusy)
	try(b, queueing("2"), jobs.ErrEndpointBusy)
	try(b, single, nil)
	try(b, queueing("2", "ep_2"), nil)
	try(a, queueing("3", "ep_2"), jobs.ErrEndpointBusy)
	end := func(name string) {
		t.Helper()
		must(b.ChangeRun(t.Context(), "run_"+name, func(r *jobs.Run) error {
			r.State = jobs.RunQueued
			return nil
		}))(t)
	}
	end("1")
	end("2")
	try(a, queueing("4"), nil) // all endpoints
	try(b, queueing("5", "ep_3"), jobs.ErrEndpointBusy)
	ahead.Store(int64(jobs.DefaultRunProgressTimeout - time.Second))
	try(b, queueing("5", "ep_3"), jobs.ErrEndpointBusy)
	if _, err := a.ChangeRun(t.Context(), "run_4", func(r *jobs.Run) error { r.Queued = 500; return nil }); err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(2*jobs.DefaultRunProgressTimeout - 2*time.Second))
	try(b, queueing("5", "ep_3"), jobs.ErrEndpointBusy)
	ahead.Store(int64(2 * jobs.DefaultRunProgressTimeout))
	try(b, queueing("5", "ep_3"), nil)
	if got := a.QueueingRuns(time.Time{}); len(got) != 3 || got[0].ID != "run_5" || got[1].ID != "run_4" ||
		got[2].ID != "run_single" {
		t.Fatalf("queueing: %+v", got)
	}

	// Many runs start at the same moment on both nodes: one of them queues, and nothing is left of the others.
	var won atomic.Int32
	var all sync.WaitGroup
	for i, n := range []*testNode{a, b, a, b, a, b, a, b} {
		all.Go(func() {
			_, err := n.AddRun(t.Context(), queueing(fmt.Sprint("race", i), "ep_4"))
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, jobs.ErrEndpointBusy) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := a.Sync(t.Context()); err != nil { // the removals by the losers on the other node
		t.Fatal(err)
	}
	if left := len(a.QueueingRuns(time.Time{})); won.Load() != 1 || left != 4 {
		t.Fatalf("%d of 8 runs started, %d are queueing", won.Load(), left)
	}
}

// TestOldRunsAreRemoved: runs are removed after RunRetention.
func TestOldRunsAreRemoved(t *testing.T) {
	var ahead atomic.Int64
	n := node(t, broker(t), Config{Node: "a"}, withMovableClock(&ahead))
	n.SetOwner(true)
	for i := range 3 {
		must(n.AddRun(t.Context(), queueing(fmt.Sprint(i), fmt.Sprint("ep_", i))))(t)
		ahead.Add(int64(24 * time.Hour))
	}
	if page, _ := n.ReplayRuns(n.Account().ID, 0, 10, nil); len(page) != 3 || page[0].ID != "run_2" {
		t.Fatalf("%+v", page)
	}
	ahead.Store(int64(jobs.RunRetention + 36*time.Hour))
	removed := func(name string) bool { _, p := n.ReplayRun("run_" + name); return p == entity.Unknown }
	for end := time.Now().Add(2 * time.Minute); !removed("1") &&
		time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
	}
	if !removed("0") || !removed("1") || removed("2") {
		t.Fatalf("removed: %v %v %v", removed("0"), removed("1"), removed("2"))
	}
}

// A run makes room among those of its tenant, or of the account, and never by one that queues or was cancelled: its
// deliveries would be sent.
func TestRunsMakeRoomAmongTheirOwn(t *testing.T) {
	var ahead atomic.Int64
	n := node(t, broker(t), Config{Node: "a"}, withMovableClock(&ahead))
	of := func(tenant, name string, state jobs.RunState) *jobs.Run {
		r := &jobs.Run{Meta: entity.Meta{ID: "run_" + name}, Single: true, Tenant: tenant, State: state}
		if state == jobs.RunCancelled {
			r.CancelledAt = time.Now()
		}
		return r
	}
	create := func(r *jobs.Run) { must(entity.Create(t.Context(), n, r))(t) }
	fill := func(tenant string, state jobs.RunState, count int) {
		var all sync.WaitGroup
		for i := range count {
			all.Go(func() {
				if _, err := entity.Create(t.Context(), n, of(tenant, fmt.Sprint(tenant, i), state)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	kept := map[string]bool{}
	add := func(tenant, name string, want error, removed ...string) {
		t.Helper()
		if _, err := n.AddRun(t.Context(), of(tenant, name, jobs.RunQueueing)); !errors.Is(err, want) {
			t.Fatalf("%s: %v, want %v", name, err, want)
		}
		kept[name] = want == nil
		for _, x := range removed {
			kept[x] = false
		}
		for x, want := range kept {
			_, p := n.ReplayRun("run_" + x)
			is.Equal(t, p == entity.Present, want, "after %s, %s is kept", name, x)
		}
	}
	for _, r := range []*jobs.Run{
		of("", "queueing", jobs.RunQueueing), of("", "ended", jobs.RunQueued), of("b", "b", jobs.RunQueued),
		of("a", "a cancelled", jobs.RunCancelled), of("a", "a queueing", jobs.RunQueueing),
		of("a", "a ended", jobs.RunQueued),
	} {
		create(r)
		kept[strings.TrimPrefix(r.ID, "run_")] = true
	}
	fill("a", jobs.RunQueued, jobs.MaxTenantRuns-4)
	add("a", "a fits", nil)
	add("a", "a more", nil, "a ended")
	add("b", "b fits", nil)
	fill("full", jobs.RunCancelled, jobs.MaxTenantRuns)
	add("full", "refused", jobs.ErrTooManyRuns)

	stored := int64(n.View().Len(entity.KindRun))
	n.inject(entity.KindRun, "len", jobs.MaxTenantsRuns+1) // two of them are the account's
	add("b", "fits", nil)
	add("c", "c", nil, "b")
	n.inject(entity.KindRun, "len", jobs.MaxAccountRuns+stored-2)
	add("", "account fits", nil)
	add("", "account", nil, "ended")
	add("", "refused", jobs.ErrTooManyRuns)
	ahead.Store(int64(jobs.RunRetention + time.Hour))
	add("full", "after the retention", nil)
}

// Creating and cancelling a run are audited with their author, and so only these; a cancellation is possible when the
// outbox of the audit log is full.
func TestRunIsCancelledOnce(t *testing.T) {
	n := node(t, broker(t), Config{Node: "a"})
	ctx := WithOrigin(t.Context(), Origin{Actor: "usr_1"})
	run, err := n.AddRun(ctx, queueing("cancelled", "ep_1"))
	if err != nil || run.CreatedBy != "usr_1" {
		t.Fatal(run, err)
	}
	audited := func(want string) {
		t.Helper()
		var actions []string
		for _, e := range n.Outbox(audit.Query{Account: n.Account().ID, Entities: []string{run.ID}, Limit: 100}) {
			actions = append(actions, e.Action+" by "+e.Actor.ID)
		}
		is.Equal(t, strings.Join(actions, ", "), want, "the audit log has")
	}
	if _, err = n.ChangeRun(ctx, run.ID, func(r *jobs.Run) error { r.Queued = 7; return nil }); err != nil {
		t.Fatal(err)
	}
	audited("run.created by usr_1")
	first, err := n.CancelRun(ctx, run.ID)
	if err != nil || first.State != jobs.RunQueueing || first.ReportedState() != jobs.RunCancelled || first.Queued != 7 {
		t.Fatal(first, err)
	}
	audited("run.updated by usr_1, run.created by usr_1")
	again, err := n.CancelRun(ctx, run.ID)
	if err != nil || again.Rev != first.Rev {
		t.Error(again, err)
	}
	ended, err := n.ChangeRun(ctx, run.ID, func(r *jobs.Run) error { r.Finish(jobs.RunQueued); return nil })
	if err != nil || ended.State != jobs.RunCancelled {
		t.Error(ended, err)
	}
	if !run.OnlyRestricts(first) || first.OnlyRestricts(ended) {
		t.Error("only a cancellation is possible beyond the bounds")
	}
}

// When a cancellation is answered, no node with a lease takes the run for a running one, although one node hangs.
// Cancelling again waits as well: the answer to the first call may have been lost.
func TestRunIsCancelledEverywhere(t *testing.T) {
	bubble(t, func(t *testing.T, conf stream.Config) {
		var cold kit.Freezer
		a, _ := pair(t, conf, conf)
		c := node(t, freezable(&cold, conf), Config{Node: "c"})
		time.Sleep(2 * time.Second)
		run := must(a.AddRun(t.Context(), queueing("cancelled", "ep_1")))(t)
		time.Sleep(time.Second)
		cold.Freeze(t)
		for _, call := range []string{"first", "second"} {
			must(a.CancelRun(t.Context(), run.ID))(t)
			if r, _ := c.ReplayRun(run.ID); r == nil || !r.Cancelled() {
				if _, ok := c.Lease(); ok {
					t.Errorf("after the %s call a node acts on the run as it was before", call)
				}
			}
		}
	})
}
