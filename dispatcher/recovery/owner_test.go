package recovery

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

// The owner dies at every step in turn. The next owner continues: everything is submitted, and at most one page twice.
func TestTakeover(t *testing.T) {
	for _, step := range []string{"select", "update", "work", "submit", "counts", "caught"} {
		for nth := int32(1); nth <= 6; nth++ {
			bubble(t, 450, func(w *world) {
				var calls atomic.Int32
				died := make(chan struct{})
				w.on(func(s string) error {
					if s == step && calls.Add(1) == nth {
						close(died)
					}
					select {
					case <-died: // a dead node does nothing more
						return errors.New("dead")
					default:
						return nil
					}
				})
				stop := w.runner()
				job := w.add(func(edited *jobs.Recovery) { edited.Destination = "dst_a" })
				live := func(died <-chan struct{}) {
					for range 2000 {
						synctest.Wait()
						switch edited, _ := w.Recovery(job); {
						case edited.State == jobs.RecoveryReady:
							w.actIf(job, jobs.RecoveryReady, canary)
						case edited.State == jobs.RecoveryAwaitingApproval:
							w.actIf(job, jobs.RecoveryAwaitingApproval, goOn)
						case edited.State.Ended():
							return
						}
						select {
						case <-died:
							return
						case <-time.After(10 * time.Millisecond):
						}
					}
				}
				live(died)
				stop()
				w.on(nil)
				w.runner()
				live(nil)
				edited := w.waitForState(job, jobs.RecoveryCompleted, 10*time.Second)
				items, times := w.submitted(job)
				if edited.Delivered != 450 || items != 450 || times > 450+200 {
					t.Errorf("killed at %s %d: %d items submitted %d times, %+v", step, nth, items, times, edited)
				}
			})
		}
	}
}

// actIf acts as a client does: only if the job has the state.
func (w *world) actIf(job string, state jobs.RecoveryState, change func(*jobs.Recovery)) {
	_, _ = w.write(job, func(edited *jobs.Recovery) error {
		if edited.State == state {
			change(edited)
		}
		return nil
	})
}

// Two nodes believe all the time that they own a job. Each page is reserved once. A node may submit what the other has
// reserved, as a new owner does, but neither submits anything twice.
func TestStaleOwner(t *testing.T) {
	bubble(t, 450, func(w *world) {
		w.runner()
		w.runner()
		job := w.ready()
		w.act(job, canary)
		w.waitForState(job, jobs.RecoveryAwaitingApproval, 2*time.Second)
		w.act(job, goOn)
		w.waitForState(job, jobs.RecoveryCompleted, 20*time.Second)
		if items, times := w.submitted(job); items != 450 || w.maxSubmissions(job) > 2 {
			t.Errorf("%d items were submitted %d times, one of them %d times", items, times, w.maxSubmissions(job))
		}
		for i := 1; i < len(w.reserved); i++ {
			if n := w.reserved[i] - w.reserved[i-1]; n < 1 || n > 200 {
				t.Errorf("pages end at %v", w.reserved)
			}
		}
	})
}

// A cancel races a reservation: one of them wins. If it is the cancel, nothing is submitted.
func TestCancelRacesReservation(t *testing.T) {
	for _, first := range []bool{true, false} {
		bubble(t, 100, func(w *world) {
			w.runner()
			job := w.ready()
			w.act(job, canary)
			w.waitForState(job, jobs.RecoveryAwaitingApproval, time.Second)
			var once sync.Once
			at := "submit"
			if first {
				at = "update"
			}
			w.on(func(step string) error {
				if step == at {
					once.Do(func() {
						w.mu.Lock()
						defer w.mu.Unlock()
						j := *w.jobs[job]
						cancel(&j)
						w.put(&j)
					})
				}
				return nil
			})
			w.actIf(job, jobs.RecoveryAwaitingApproval, goOn)
			edited := w.waitForState(job, jobs.RecoveryCancelled, 20*time.Second)
			items, _ := w.submitted(job)
			if first && (items != 5 || edited.Reserved != 5) || !first && (items != 100 || edited.Skipped < 90) ||
				edited.Delivered+edited.Skipped != edited.Reserved {
				t.Errorf("cancelled first: %v; %d were submitted, and the job is %+v", first, items, edited)
			}
		})
	}
}

// A job that starts while another one sends to the same destination waits for it.
func TestOneJobSendsAtATime(t *testing.T) {
	bubble(t, 6, func(w *world) {
		w.runner()
		one, two := w.ready(), w.ready()
		w.act(one, func(edited *jobs.Recovery) { canary(edited); edited.Canary.Total, edited.RatePerSecond = 5, 1 })
		time.Sleep(time.Millisecond)
		w.act(two, canary)
		time.Sleep(2 * time.Second)
		if items, _ := w.submitted(two); items > 0 {
			t.Errorf("the second job has submitted %d items beside the first", items)
		}
		w.waitForState(one, jobs.RecoveryAwaitingApproval, 10*time.Second)
		w.waitForState(two, jobs.RecoveryAwaitingApproval, 10*time.Second)
	})
}

// A job that is created while deliveries of a cancelled one are still queued selects its items when they have ended:
// until then they are pending, and would be left out.
func TestPreparationWaitsForACancelledJob(t *testing.T) {
	for _, lost := range []bool{false, true} { // whether the results of the cancelled job never come
		bubble(t, 100, func(w *world) {
			w.runner()
			cancelled := w.ready()
			w.act(cancelled, func(edited *jobs.Recovery) { canary(edited); edited.RatePerSecond = 1 })
			w.waitForState(cancelled, jobs.RecoveryAwaitingApproval, 10*time.Second)
			w.act(cancelled, goOn)
			time.Sleep(time.Second)
			if lost {
				w.on(func(step string) error {
					if step == "counts" {
						return errors.New("no counts")
					}
					return nil
				})
			}
			w.act(cancelled, cancel)
			next, other := w.add(), w.add(func(edited *jobs.Recovery) { edited.Endpoint = "ep_2" })
			w.waitForState(other, jobs.RecoveryReady, time.Second)
			time.Sleep(5 * time.Second)
			if edited := w.jobs[next]; edited.State != jobs.RecoveryPreparing {
				t.Fatalf("the next job is %s while deliveries of the cancelled one are queued", edited.State)
			}
			if !lost {
				w.waitForState(next, jobs.RecoveryReady, 30*time.Second)
				if edited := w.jobs[cancelled]; !edited.Settled {
					t.Errorf("the next job is ready before the cancelled one is settled: %+v", edited)
				}
				return
			}
			time.Sleep(maxSettleWait - 30*time.Second)
			if edited := w.jobs[next]; edited.State != jobs.RecoveryPreparing {
				t.Errorf("the next job did not wait: it is %s", edited.State)
			}
			// A job that ends later, here the same one, does not prolong the wait.
			w.act(cancelled, func(edited *jobs.Recovery) { edited.FinishedAt = time.Now() })
			w.waitForState(next, jobs.RecoveryReady, 30*time.Second)
		})
	}
}

// The node that owns the partition of the endpoint runs its jobs, and deletes them after 30 days.
func TestOwnership(t *testing.T) {
	bubble(t, 1, func(w *world) {
		w.runner()
		w.change(func(endpoint *config.Endpoint) { endpoint.Partition = 2 })
		job := w.add()
		time.Sleep(time.Minute)
		if edited, _ := w.Recovery(job); edited.State != jobs.RecoveryPreparing {
			t.Errorf("a job of another node's partition is %s", edited.State)
		}
		w.change(func(endpoint *config.Endpoint) { endpoint.Partition = 1 }) // it has moved to this node
		w.waitForState(job, jobs.RecoveryReady, 10*time.Second)
		w.act(job, canary)
		w.waitForState(job, jobs.RecoveryCompleted, time.Second)
		edited, _ := w.Recovery(job)
		time.Sleep(time.Until(edited.CreatedAt.Add(jobs.RecoveryRetention - time.Minute)))
		forgotten := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.forgotten)
		}
		if forgotten() > 0 {
			t.Error("the job was forgotten before its history was over")
		}
		time.Sleep(2 * time.Minute)
		is.Equal(t, forgotten(), 1, "the job was not forgotten after 30 days")
	})
}

// A node that no longer owns a job does not change it, and continues it when it owns it again.
func TestJobReturns(t *testing.T) {
	bubble(t, 1000, func(w *world) {
		r, _ := w.ownedRunner()
		job := w.ready()
		w.act(job, canary)
		w.waitForState(job, jobs.RecoveryAwaitingApproval, time.Second)
		w.act(job, goOn)
		time.Sleep(3 * time.Second)
		r.SetOwned(nil)
		time.Sleep(time.Minute)
		left, _ := w.Recovery(job)
		if left.State != jobs.RecoveryRunning || left.Reserved == 0 || left.Reserved == 1000 {
			t.Fatalf("the job is %+v", left)
		}
		edited := &jobRun{runner: r, deps: r.deps}
		is.ErrorIs(t, edited.end(t.Context(), left, jobs.RecoveryStopped, ""), errJobChanged,
			"a node that does not own the job has ended it")
		r.SetOwned([]int32{3})
		w.waitForState(job, jobs.RecoveryCompleted, time.Minute)
		if items, times := w.submitted(job); items != 1000 || times != 1000 {
			t.Errorf("%d items were submitted, %d times", items, times)
		}
	})
}

func TestNewNeedsItsDependencies(t *testing.T) {
	w := newWorld(t, 0)
	for i := range 8 {
		deps := Deps{Log: slog.New(slog.DiscardHandler), Jobs: w, Endpoints: w, Store: w, Submitter: w, Now: time.Now,
			NewName: func() string { return "" }}
		remove := []func(){func() { deps.Log = nil }, func() { deps.Jobs = nil }, func() { deps.Endpoints = nil },
			func() { deps.Store = nil }, func() { deps.Submitter = nil }, func() { deps.Now = nil },
			func() { deps.NewName = nil }, func() {}}
		remove[i]()
		if _, err := New(deps); (err == nil) != (i == 7) {
			t.Errorf("a runner without dependency %d: %v", i, err)
		}
	}
}

// A header names a bounded number of destinations, and all that something is sent to.
func TestNamedDestinations(t *testing.T) {
	var all []event.DestinationTotals
	for i := range 150 {
		d := event.DestinationTotals{ID: fmt.Sprint("dst_", i), Total: i}
		if i < 40 {
			d.Sendable = 1
		}
		all = append(all, d)
	}
	is.List(t, namedDestinations(all[:100]), all[:100], "100 destinations became")
	got := namedDestinations(all)
	if len(got) != 100 || got[0].ID != "dst_39" || got[39].ID != "dst_0" || got[40].ID != "dst_149" ||
		got[99].ID != "dst_90" {
		t.Errorf("150 destinations became %v", got)
	}
}

// A page is ten seconds of the rate, within bounds.
func TestPageSize(t *testing.T) {
	for rate, want := range map[int]int{1: 10, 2: 20, 19: 190, 20: 200, 100: 200} {
		is.Equal(t, pageSize(&jobs.Recovery{RatePerSecond: rate}), want, "a page at %d a second has … items", rate)
	}
}
