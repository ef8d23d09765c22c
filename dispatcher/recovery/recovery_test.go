package recovery

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }

func bubble(t *testing.T, failed int, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newWorld(t, failed)) })
}

// A job from its creation to its end.
func TestJobLifecycle(t *testing.T) {
	bubble(t, 450, func(w *world) {
		w.runner()
		job := w.ready(func(edited *jobs.Recovery) { edited.Since = time.Now().Add(-time.Hour) })
		if items, _ := w.submitted(job); items > 0 {
			t.Fatalf("the preparation has submitted %d items", items)
		}
		w.act(job, canary)
		edited := w.waitForState(job, jobs.RecoveryAwaitingApproval, time.Second)
		w.mu.Lock()
		selected := w.selection
		w.mu.Unlock()
		if selected.Account != edited.Account || selected.Endpoint != "ep_1" || !selected.Since.Equal(edited.Since) ||
			!selected.Until.Equal(edited.Until) || edited.Since.IsZero() {
			t.Errorf("the job selects %+v", selected)
		}
		if d := edited.Destinations; len(d) != 1 || d[0].Total != 450 || d[0].Sendable != 450 {
			t.Errorf("the job lists %+v", d)
		}
		if edited.Canary != (jobs.CanaryResult{Total: 5, Delivered: 5}) || edited.Reserved != 5 {
			t.Fatalf("after the canary the job is %+v", edited)
		}
		time.Sleep(time.Hour)
		w.act(job, goOn)
		began := time.Now()
		edited = w.waitForState(job, jobs.RecoveryCompleted, 10*time.Second)
		if took := time.Since(began); took < 4400*time.Millisecond || took > 7*time.Second {
			t.Errorf("445 deliveries at 100 a second took %v", took)
		}
		if edited.Delivered != 450 || edited.Failed+edited.Skipped > 0 || edited.FinishedAt.IsZero() ||
			edited.StopReason != "" ||
			edited.Canary.Delivered != 5 {
			t.Errorf("the job is %+v", edited)
		}
		if items, times := w.submitted(job); items != 450 || times != 450 {
			t.Errorf("%d items were submitted, %d times", items, times)
		}
		is.List(t, w.reserved, []int{5, 205, 405, 450}, "pages end at")
		w.spaced(job)
	})
}

// spaced checks the submitted deliveries of a job: triggers, and due times a hundredth of a second apart.
func (w *world) spaced(job string) {
	w.Helper()
	var last time.Time
	items := w.items[w.jobs[job].Selection]
	for seq := range len(items) {
		work := items[seq].works[0]
		want := event.TriggerRecovery
		if seq < 5 {
			want = event.TriggerCanary
		}
		if work.Trigger != want || work.Attempt != 1 || work.Prior != event.Failed ||
			work.PriorReason != event.AttemptsExhausted {
			w.Errorf("item %d is submitted as %+v", seq, work)
		}
		if gap := work.Due.Sub(last); gap < 10*time.Millisecond {
			w.Errorf("item %d is due %v after the one before", seq, gap)
		}
		last = work.Due
	}
}

func TestSmallSelections(t *testing.T) {
	f := func(failed int, state jobs.RecoveryState, delivered int) {
		t.Helper()
		bubble(t, failed, func(w *world) {
			w.runner()
			job := w.ready()
			w.act(job, canary)
			edited := w.waitForState(job, state, time.Second)
			if items, _ := w.submitted(job); items != delivered || edited.Canary.Delivered != delivered ||
				edited.Canary.Total != delivered {
				t.Errorf("of %d, %d were submitted, and the job is %+v", failed, items, edited)
			}
		})
	}
	f(0, jobs.RecoveryCompleted, 0)
	f(1, jobs.RecoveryCompleted, 1)
	f(5, jobs.RecoveryCompleted, 5)
	f(6, jobs.RecoveryAwaitingApproval, 5)
}

// A failure stops the job, in the canary and later. Deliveries that run still count.
func TestFailureStopsJob(t *testing.T) {
	bubble(t, 20, func(w *world) {
		w.Result = func(seq int) (event.Status, event.Reason) { return event.Failed, "" }
		w.runner()
		job := w.ready()
		w.act(job, canary)
		edited := w.waitForState(job, jobs.RecoveryStopped, 2*time.Second)
		if edited.StopReason != jobs.StopDeliveryFailed || edited.Reserved != 5 || edited.Delivered+edited.Failed+
			edited.Skipped != 5 ||
			edited.Canary.Failed != edited.Failed ||
			edited.Destinations[0].Failed != 1 || edited.Destinations[0].TopError != "timeout" {
			t.Errorf("the job is %+v", edited)
		}
	})
	bubble(t, 1000, func(w *world) {
		w.Result = func(seq int) (event.Status, event.Reason) {
			if seq == 300 {
				return event.Failed, ""
			}
			return event.Delivered, ""
		}
		w.runner()
		job := w.ready()
		w.act(job, canary)
		w.waitForState(job, jobs.RecoveryAwaitingApproval, time.Second)
		w.act(job, goOn)
		edited := w.waitForState(job, jobs.RecoveryStopped, 20*time.Second)
		if edited.Failed != 1 || edited.Reserved != 405 || edited.Delivered+edited.Failed+edited.Skipped != 405 ||
			edited.Skipped == 0 ||
			edited.Delivered < 300 {
			t.Errorf("the job is %+v", edited)
		}
	})
}

// Items of destinations that are disabled or deleted before a job is ready are skipped.
func TestDestinationsUnavailableBeforeReadyAreSkipped(t *testing.T) {
	two := func(w *world) {
		w.ep.Destinations = []config.Destination{{ID: "dst_a",
			DestinationSettings: config.DestinationSettings{Enabled: true}}, {ID: "dst_b"}}
	}
	f := func(setup func(w *world), destination, want string, total, sendable int) {
		t.Helper()
		bubble(t, 7, func(w *world) {
			setup(w)
			w.runner()
			job := w.ready(func(edited *jobs.Recovery) { edited.Destination = destination })
			edited, _ := w.Recovery(job)
			if got := fmt.Sprint(w.selection.Groups); got != want || edited.Total != total || edited.Sendable != sendable {
				t.Errorf("selected %v: %d of %d, want %s: %d of %d", got, edited.Sendable, edited.Total, want, sendable, total)
			}
		})
	}
	f(two, "", "[{[dst_a] false } {[dst_b] false destination_disabled} {[dst_a dst_b] true destination_deleted}]", 14, 7)
	f(two, "dst_a", "[{[dst_a] false } {[] false destination_disabled} {[] false destination_deleted}]", 7, 7)
	f(two, "dst_b", "[{[] false } {[dst_b] false destination_disabled} {[] false destination_deleted}]", 7, 0)
	f(two, "dst_c", "[{[] false } {[] false destination_disabled} {[dst_c] false destination_deleted}]", 7, 0)
	f(func(w *world) { w.ep = nil }, "dst_a",
		"[{[] false } {[] false destination_disabled} {[dst_a] false endpoint_deleted}]", 7, 0)
	f(func(w *world) { w.ep = nil }, "", "[{[] false } {[] false destination_disabled} {[] true endpoint_deleted}]", 0, 0)
}

// A destination that is disabled or deleted once the job is ready stops it, in whatever state it is; one that nothing
// is sent to does not.
func TestUnavailableDestinationStopsRunningJob(t *testing.T) {
	disable := func(endpoint *config.Endpoint) { endpoint.Destinations[0].Enabled = false }
	f := func(until func(w *world, job string), change func(w *world)) {
		t.Helper()
		bubble(t, 400, func(w *world) {
			w.ep.Destinations = append(w.ep.Destinations, config.Destination{ID: "dst_b"})
			w.runner()
			job := w.ready()
			until(w, job)
			w.change(func(endpoint *config.Endpoint) { endpoint.Destinations = endpoint.Destinations[:1] })
			time.Sleep(2 * time.Second)
			if edited, _ := w.Recovery(job); edited.State.Ended() {
				t.Fatalf("a destination that nothing is sent to has ended the job: %+v", edited)
			}
			change(w)
			if edited := w.waitForState(job, jobs.RecoveryStopped,
				10*time.Second); edited.StopReason != jobs.StopDestinationUnavailable {
				t.Errorf("the job is %+v", edited)
			}
		})
	}
	untilReady := func(*world, string) {}
	untilAwaiting := func(w *world, job string) {
		w.act(job, canary)
		w.waitForState(job, jobs.RecoveryAwaitingApproval, time.Second)
	}
	untilRunning := func(w *world, job string) { untilAwaiting(w, job); w.act(job, goOn) }
	f(untilReady, func(w *world) { w.change(disable) })
	f(untilAwaiting, func(w *world) { w.change(disable) })
	f(untilRunning, func(w *world) { w.change(disable) })
	f(untilReady, func(w *world) { w.mu.Lock(); w.ep = nil; w.mu.Unlock() })
}

// The failures of a canary have disabled its destination (410). The job is stopped by the failure, also if the store
// has it later than the configuration has the change.
func TestFailureComesBeforeUnavailableDestination(t *testing.T) {
	bubble(t, 20, func(w *world) {
		stored := make(chan struct{})
		w.on(func(step string) error {
			if step == "caught" && w.reservedItems() > 0 {
				<-stored
			}
			return nil
		})
		w.Result = func(int) (event.Status, event.Reason) { return event.Pending, "" }
		w.runner()
		job := w.ready()
		w.act(job, canary)
		time.Sleep(time.Second)
		w.change(func(endpoint *config.Endpoint) { endpoint.Destinations[0].Enabled = false })
		time.Sleep(3 * time.Second)
		w.mu.Lock()
		for _, x := range w.items[w.jobs[job].Selection] {
			if x.status == event.Pending {
				x.status = event.Failed
			}
		}
		w.mu.Unlock()
		close(stored)
		edited := w.waitForState(job, jobs.RecoveryStopped, 10*time.Second)
		if edited.StopReason != jobs.StopDeliveryFailed || edited.Failed != 5 || edited.Reserved != 5 {
			t.Errorf("the job is %+v", edited)
		}
	})
}

// A store that is away delays the stop, but does not prevent it.
func TestUnavailableDestinationStopsJobWithoutStore(t *testing.T) {
	bubble(t, 20, func(w *world) {
		w.Result = func(int) (event.Status, event.Reason) { return event.Pending, "" }
		w.runner()
		job := w.ready()
		w.act(job, canary)
		time.Sleep(time.Second)
		w.on(func(step string) error {
			if step == "caught" || step == "counts" {
				return errAway
			}
			return nil
		})
		w.change(func(endpoint *config.Endpoint) { endpoint.Destinations[0].Enabled = false })
		time.Sleep(20 * time.Second)
		if edited, _ := w.Recovery(job); edited.State.Ended() {
			t.Errorf("after 20 s the job is %+v", edited)
		}
		time.Sleep(time.Minute)
		if edited, _ := w.Recovery(job); edited.StopReason != jobs.StopDestinationUnavailable {
			t.Errorf("after 80 s the job is %+v", edited)
		}
	})
}

// reservedItems is the newest value of Reserved.
func (w *world) reservedItems() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.reserved); n > 0 {
		return w.reserved[n-1]
	}
	return 0
}

// A delivery that finds its destination disabled stops the job, however short that state was.
func TestUnavailableOutcomeStopsJob(t *testing.T) {
	bubble(t, 9, func(w *world) {
		w.Result = func(int) (event.Status, event.Reason) { return event.Failed, event.DestinationDisabled }
		w.runner()
		job := w.ready()
		w.act(job, canary)
		if edited := w.waitForState(job, jobs.RecoveryStopped,
			time.Second); edited.StopReason != jobs.StopDestinationUnavailable ||
			edited.Failed != 0 || edited.Skipped != 5 {
			t.Errorf("the job is %+v", edited)
		}
	})
}

// caughtUp is set once the store has caught up with the log.
func (w *world) caughtUp() *atomic.Bool {
	var stored atomic.Bool
	w.on(func(step string) error {
		if step == "caught" {
			stored.Store(true)
		}
		return nil
	})
	return &stored
}

// Expired and delivered items are skipped, and stop nothing. That an item was delivered may have been seen before that
// was stored.
func TestDeliveredAndExpiredItemsAreSkipped(t *testing.T) {
	bubble(t, 6, func(w *world) {
		stored := w.caughtUp()
		w.Prior = func(seq int) event.Status {
			if seq%3 == 0 && !stored.Load() {
				return event.Failed
			}
			return []event.Status{event.Delivered, event.Failed, event.Retrying}[seq%3]
		}
		w.Gone = func(seq int) bool { return seq%3 == 2 }
		w.runner()
		job := w.ready()
		stored.Store(false)
		w.act(job, canary)
		w.waitForState(job, jobs.RecoveryAwaitingApproval, time.Second)
		w.act(job, goOn)
		edited := w.waitForState(job, jobs.RecoveryCompleted, 5*time.Second)
		items := w.items[edited.Selection]
		if edited.Delivered != 2 || edited.Skipped != 4 || items[0].skipped != event.AlreadyDelivered ||
			items[0].status != event.Delivered ||
			items[2].skipped != event.PayloadExpired || items[2].status != event.Skipped {
			t.Errorf("the job is %+v, the first items %+v %+v", edited, items[0], items[2])
		}
	})
}

// A canary that sent nothing shows nothing: the next items are the canary until one was sent or none is left. Two
// thousand items that cannot be sent are skipped at once.
func TestCanaryOfSkippedItemsGoesOn(t *testing.T) {
	f := func(total, delivered int, state jobs.RecoveryState, want jobs.CanaryResult, reserved ...int) {
		t.Helper()
		bubble(t, total, func(w *world) {
			stored := w.caughtUp()
			w.Prior = func(seq int) event.Status {
				if seq < delivered && stored.Load() {
					return event.Delivered
				}
				return event.Failed
			}
			w.runner()
			job := w.ready()
			stored.Store(false)
			w.act(job, canary)
			edited := w.waitForState(job, state, 5*time.Second)
			if edited.Canary != want || edited.Reserved != want.End() {
				t.Errorf("with %d delivered before, the job is %+v", delivered, edited)
			}
			is.List(t, w.reserved, reserved, "with %d delivered before, items are reserved up to", delivered)
			for seq, x := range w.items[edited.Selection] {
				if sent := len(x.works); sent > 0 && (seq < delivered || x.works[0].Trigger != event.TriggerCanary) ||
					sent == 0 && seq >= delivered && seq < want.End() {
					t.Errorf("with %d delivered before, item %d was sent %d times", delivered, seq, sent)
				}
			}
		})
	}
	f(2020, 4, jobs.RecoveryAwaitingApproval, jobs.CanaryResult{Total: 5, Delivered: 1}, 5)
	f(2020, 7, jobs.RecoveryAwaitingApproval, jobs.CanaryResult{From: 7, Total: 5, Delivered: 5}, 5, 12)
	f(2020, 2009, jobs.RecoveryAwaitingApproval, jobs.CanaryResult{From: 2009, Total: 5, Delivered: 5}, 5, 2005, 2014)
	f(2020, 2018, jobs.RecoveryCompleted, jobs.CanaryResult{From: 2018, Total: 2, Delivered: 2}, 5, 2005, 2020)
	f(2020, 2020, jobs.RecoveryCompleted, jobs.CanaryResult{From: 2015, Total: 5}, 5, 2005, 2020)
	f(7, 7, jobs.RecoveryCompleted, jobs.CanaryResult{From: 5, Total: 2}, 5, 7)
}

// The deadline ends a job in every state, also while the store is unavailable.
func TestDeadlineEndsJob(t *testing.T) {
	f := func(until func(w *world, job string)) {
		t.Helper()
		bubble(t, 9000, func(w *world) {
			w.runner()
			job := w.add(func(edited *jobs.Recovery) { edited.RatePerSecond = 1 })
			until(w, job)
			w.mu.Lock()
			deadline := w.jobs[job].Deadline
			w.mu.Unlock()
			time.Sleep(time.Until(deadline) - time.Second)
			synctest.Wait()
			if edited, _ := w.Recovery(job); edited.State.Ended() {
				t.Fatalf("a second before its deadline the job is %s", edited.State)
			}
			w.on(nil)
			if edited := w.waitForState(job, jobs.RecoveryExpired, 40*time.Second); edited.StopReason != jobs.StopDeadline ||
				edited.FinishedAt.Before(deadline) || edited.FinishedAt.After(deadline.Add(10*time.Second)) {
				t.Errorf("the job is %+v", edited)
			}
		})
	}
	f(func(w *world, job string) {
		w.on(func(step string) error {
			if step == "select" {
				return errAway
			}
			return nil
		})
	})
	f(func(w *world, job string) { w.waitForState(job, jobs.RecoveryReady, time.Second) })
	f(func(w *world, job string) {
		w.waitForState(job, jobs.RecoveryReady, time.Second)
		w.act(job, canary)
		w.waitForState(job, jobs.RecoveryAwaitingApproval, 10*time.Second)
	})
	f(func(w *world, job string) {
		w.waitForState(job, jobs.RecoveryReady, time.Second)
		w.Result = func(int) (event.Status, event.Reason) { return event.Retrying, "" } // without end
		w.act(job, canary)
		time.Sleep(time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.jobs[job].Deadline = time.Now().Add(time.Minute)
		time.AfterFunc(time.Minute+2*time.Second, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, x := range w.items[w.jobs[job].Selection] {
				if x.status == event.Retrying {
					x.status, x.skipped = event.Failed, event.Deadline
				}
			}
		})
	})
}

// A permanent error of the preparation ends the job. While the store is unavailable, it waits.
func TestPreparationFails(t *testing.T) {
	bubble(t, 1, func(w *world) {
		var away atomic.Int32
		w.on(func(step string) error {
			switch {
			case step == "select" && away.Add(1) <= 3:
				return errAway
			case step == "select":
				return errWrong
			}
			return nil
		})
		w.runner()
		job := w.add()
		if edited := w.waitForState(job, jobs.RecoveryFailed, 20*time.Second); away.Load() != 4 || edited.StopReason != "" {
			t.Errorf("after %d tries the job is %+v", away.Load(), edited)
		}
	})
}

// While the store is unavailable a job waits. It continues afterwards.
func TestJobWaitsWhileStoreIsUnavailable(t *testing.T) {
	bubble(t, 300, func(w *world) {
		var away atomic.Bool
		w.on(func(step string) error {
			if away.Load() && step != "update" && step != "submit" {
				return errAway
			}
			return nil
		})
		w.runner()
		job := w.ready()
		w.act(job, canary)
		w.waitForState(job, jobs.RecoveryAwaitingApproval, time.Second)
		away.Store(true)
		w.act(job, goOn)
		time.Sleep(time.Minute)
		if edited, _ := w.Recovery(job); edited.State != jobs.RecoveryRunning {
			t.Fatalf("without the store the job is %s", edited.State)
		}
		away.Store(false)
		w.waitForState(job, jobs.RecoveryCompleted, 30*time.Second)
		if _, times := w.submitted(job); times != 300 {
			t.Errorf("%d submissions of 300 items", times)
		}
	})
}
