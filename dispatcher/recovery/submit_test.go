package recovery

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
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
			w.waitForState(job, jobs.RecoveryAwaitingApproval, time.Minute)
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
			w.waitForState(job, jobs.RecoveryCompleted, time.Second)
			if items, times := w.submitted(job); w.mostBytes != want || items != 5 || times != 5 {
				t.Errorf("bodies of %d bytes: %d at once, want %d; %d items, %d times", body, w.mostBytes, want, items, times)
			}
		})
	}
	f(batchBytes/2, batchBytes)
	f(batchBytes/2+1, batchBytes/2+1)
	f(batchBytes+1, batchBytes+1)
}

// submissions keeps what is submitted.
type submissions struct {
	works    []*event.Work
	outcomes []*event.Outcome
}

func (s *submissions) Submit(_ context.Context, works []*event.Work, outcomes []*event.Outcome) error {
	s.works, s.outcomes = append(s.works, works...), append(s.outcomes, outcomes...)
	return nil
}

// An item becomes a delivery to its destination, or an outcome that keeps the final status from before the job.
func TestItemsBecomeDeliveriesOrOutcomes(t *testing.T) {
	now, before := time.Unix(1_800_000_000, 0), time.Unix(1_700_000_000, 0)
	var got submissions
	job := &jobs.Recovery{Meta: entity.Meta{ID: "rec_1", Account: "acc_1"}, Endpoint: "ep_1"}
	deps := Deps{Submitter: &got, Now: func() time.Time { return now }}
	b := batch{deps: deps, job: job, nextDue: now, every: time.Second}
	stored := &event.Event{ID: numbered(1), Type: "a.b"}
	add := func(stored *event.Event, prior event.Delivery) {
		t.Helper()
		item := &event.OpenRecoveryItem{StoredEvent: stored, Prior: prior}
		item.Event, item.Destination = numbered(1), "dst_a"
		must.Do(t, b.add(t.Context(), item))
	}
	add(stored, event.Delivery{Status: event.Failed, Reason: event.Gone410})
	add(stored, event.Delivery{Status: event.Retrying, Reason: event.LaneFull})
	add(stored, event.Delivery{Status: event.Delivered, Code: 204, LastAt: before})
	add(nil, event.Delivery{Status: event.Failed, Reason: event.Gone410, Code: 410, LastAt: before})
	add(nil, event.Delivery{Status: event.Retrying, LastAt: before})
	must.Do(t, b.flush(t.Context()))
	work := event.Work{Event: stored, Dest: "dst_a", Trigger: event.TriggerRecovery, Attempt: 1, Due: now, Run: "rec_1"}
	first, second := work, work
	first.Prior, first.PriorReason, second.Due = event.Failed, event.Gone410, now.Add(time.Second)
	is.Same(t, got.works, []*event.Work{&first, &second}, cmpopts.EquateComparable(netip.Addr{}))
	outcome := event.Outcome{Event: numbered(1), Account: "acc_1", Endpoint: "ep_1", Dest: "dst_a", Run: "rec_1"}
	delivered, gone, skipped := outcome, outcome, outcome
	delivered.Status, delivered.Code, delivered.At, delivered.Type = event.Delivered, 204, before, "a.b"
	delivered.SkipReason = event.AlreadyDelivered
	gone.Status, gone.Reason, gone.Code, gone.At = event.Failed, event.Gone410, 410, before
	gone.SkipReason = event.PayloadExpired
	skipped.Status, skipped.Reason, skipped.At = event.Skipped, event.PayloadExpired, now
	skipped.SkipReason = event.PayloadExpired
	is.Same(t, got.outcomes, []*event.Outcome{&delivered, &gone, &skipped})
	want := event.RecoveryJob{Account: "acc_1", ID: "rec_1", Selection: "s", Reserved: 3,
		UnsentReason: event.JobCancelled}
	job.Selection, job.Reserved, job.State = "s", 3, jobs.RecoveryCancelled
	is.Same(t, storeJob(job), want)
}

// Of two jobs with a common destination the one that was started first sends; at equal times it is the one with the
// lower id.
func TestJobIsBlockedByAnEarlierOne(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	job := func(id string, started time.Time, dest string) *jobs.Recovery {
		return &jobs.Recovery{Meta: entity.Meta{ID: id}, Endpoint: "ep_1", State: jobs.RecoveryRunning,
			StartedAt: started, Destination: dest}
	}
	for name, c := range map[string]struct {
		other *jobs.Recovery
		want  bool
	}{
		"itself":              {job("rec_2", at.Add(-1), "dst_a"), false},
		"earlier":             {job("rec_3", at.Add(-1), "dst_a"), true},
		"later":               {job("rec_1", at.Add(1), "dst_a"), false},
		"together, first":     {job("rec_1", at, "dst_a"), true},
		"together, second":    {job("rec_3", at, "dst_a"), false},
		"another destination": {job("rec_3", at.Add(-1), "dst_b"), false},
	} {
		w := newWorld(t, 0)
		w.put(c.other)
		run := &jobRun{deps: Deps{Jobs: w}}
		is.Equal(t, run.blockedByOtherJob(job("rec_2", at, "dst_a")), c.want, "%s: blocked", name)
	}
}
