package config

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

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

// TestOldRunsAreRemoved: runs are removed after runRetention, and the oldest one when a new one would exceed maxRuns.
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
	n.SetOwner(false)
	n.inject(entity.KindRun, "len", jobs.MaxRuns)
	must(n.AddRun(t.Context(), queueing("new", "ep_new")))(t)
	if !removed("2") || removed("new") || n.View().Len(entity.KindRun) != jobs.MaxRuns {
		t.Fatalf("%d runs", n.View().Len(entity.KindRun))
	}
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
