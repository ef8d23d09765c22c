package recovery

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
)

// Nothing is submitted before the store has caught up with the log: at the start, what the store does not know yet may
// have been delivered; later, what it does not know yet may have been submitted.
func TestNothingIsSubmittedBeforeTheStoreHasCaughtUp(t *testing.T) {
	f := func(refuseSubmission bool, wantReserved int) {
		t.Helper()
		bubble(t, 20, func(w *world) {
			var started, caughtUp atomic.Bool
			var submissions atomic.Int32
			w.on(func(step string) error {
				switch {
				case step == "caught" && started.Load() && !caughtUp.Load() && (!refuseSubmission || submissions.Load() > 0):
					return errAway
				case step == "submit" && submissions.Add(1) == 1 && refuseSubmission:
					return errAway
				}
				return nil
			})
			w.runner()
			job := w.ready()
			started.Store(true)
			w.act(job, canary)
			time.Sleep(time.Minute)
			edited, _ := w.Recovery(job)
			if items, _ := w.submitted(job); items > 0 || edited.Reserved != wantReserved {
				t.Errorf("%d items are submitted, %d reserved, want %d", items, edited.Reserved, wantReserved)
			}
			caughtUp.Store(true)
			w.waitForState(job, config.RecoveryAwaitingApproval, time.Minute)
			if items, times := w.submitted(job); items != 5 || times != 5 {
				t.Errorf("%d items are submitted, %d times", items, times)
			}
		})
	}
	f(false, 0)
	f(true, 5)
}

// One submission has at most batchBytes of bodies. A larger body is submitted alone.
func TestSubmissionsAreBounded(t *testing.T) {
	f := func(body, want int) {
		t.Helper()
		bubble(t, 5, func(w *world) {
			w.Body = make([]byte, body)
			w.runner()
			job := w.ready()
			w.act(job, canary)
			w.waitForState(job, config.RecoveryCompleted, time.Second)
			if items, times := w.submitted(job); w.mostBytes != want || items != 5 || times != 5 {
				t.Errorf("bodies of %d bytes: %d at once, want %d; %d items, %d times", body, w.mostBytes, want, items, times)
			}
		})
	}
	f(batchBytes/2, batchBytes)
	f(batchBytes/2+1, batchBytes/2+1)
	f(batchBytes+1, batchBytes+1)
}
