package dispatcher

import (
	"testing"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
)

// Erased and expired payloads are not sent.
func TestErasedAndExpiredPayloadsAreNotSent(t *testing.T) {
	now := time.Now()
	erased, kept := &event.Event{ID: id.Lowest(now)}, &event.Event{ID: id.Lowest(now.Add(-time.Hour))}
	old := &event.Event{ID: id.Lowest(now.AddDate(0, 0, -31))}
	rules := &rules{
		retentionDays: 30, now: func() time.Time { return now }, erased: func(e id.ID) bool { return e == erased.ID },
	}
	dest := &config.Destination{Enabled: true}
	job := id.Lowest(now).Text(id.Recovery)
	for _, c := range []struct {
		e    *event.Event
		run  string
		want event.Status
		why  event.Reason
	}{
		{erased, "", event.Failed, event.PayloadExpired},
		{erased, job, event.Skipped, event.PayloadExpired},
		{old, "", event.Failed, event.PayloadExpired},
		{old, job, event.Skipped, event.PayloadExpired},
		{kept, "", "", ""},
	} {
		work := &event.Work{Event: c.e, Run: c.run, Attempt: 1}
		if got, why := rules.endByState(work, dest); got != c.want || why != c.why {
			t.Errorf("%s in run %q: %s %s, want %s %s", c.e.ID, c.run, got, why, c.want, c.why)
		}
	}
}

// A delivery that its run or job has made already ends as a copy, whatever else would end it.
func TestCopiesEndAsCopies(t *testing.T) {
	now := time.Now()
	f := func(prefix string, change func(v *view, run string), otherwise, want event.Reason) {
		t.Helper()
		v := newView(&config.Endpoint{ID: testEndpoint, Destinations: []config.Destination{{ID: testDest, Enabled: true}}})
		rules := &rules{config: v, retentionDays: 30, now: func() time.Time { return now }}
		work := &event.Work{Event: &event.Event{ID: id.Lowest(now), Endpoint: testEndpoint}, Dest: testDest, Attempt: 1,
			Run: id.Lowest(now).Text(prefix)}
		v.job(jobs.Recovery{Meta: entity.Meta{ID: work.Run}, State: jobs.RecoveryRunning, Deadline: now.Add(time.Hour)})
		change(v, work.Run)
		if got := rules.Check(work, true); got.Reason != otherwise {
			t.Errorf("the first record ends as %q, want %q", got.Reason, otherwise)
		}
		rules.superseded.add(lane.KeyOf(work), now)
		if got := rules.Check(work, true); !got.Known || got.Status != event.Skipped || got.Reason != want {
			t.Errorf("the copy ends as %q, want %q: %+v", got.Reason, want, got)
		}
	}
	dest := func(change func(*config.Destination)) func(*view, string) {
		return func(v *view, _ string) {
			v.change(testEndpoint, func(endpoint *config.Endpoint) { change(&endpoint.Destinations[0]) })
		}
	}
	f(id.Run, func(*view, string) {}, "", event.Superseded)
	f(id.Run, (*view).cancelRun, event.RunStopped, event.Superseded)
	f(id.Run, dest(func(d *config.Destination) { d.Enabled = false }), event.DestinationDisabled, event.Superseded)
	f(id.Run, dest(func(d *config.Destination) { d.ID = "dst_2" }), event.DestinationDeleted, event.Superseded)
	f(id.Run, dest(func(d *config.Destination) { d.PurgeBefore = now.Add(time.Hour) }), event.Purged, event.Superseded)
	f(id.Run, func(v *view, _ string) { v.remove(testEndpoint) }, event.EndpointDeleted, event.Superseded)
	f(id.Recovery, func(*view, string) {}, "", event.AlreadyDelivered)
	f(id.Recovery, func(v *view, run string) {
		v.job(jobs.Recovery{Meta: entity.Meta{ID: run}, State: jobs.RecoveryCancelled})
	}, event.JobCancelled, event.AlreadyDelivered)
}

// A recovery job ends its deliveries by its state, also when it was deleted long ago. A job that this node does not
// know yet ends none.
func TestJobsEndTheirDeliveries(t *testing.T) {
	now := time.Now()
	run := id.Lowest(now).Text(id.Recovery)
	for name, c := range map[string]struct {
		job   *jobs.Recovery
		known bool
		want  event.Reason
	}{
		"unknown":   {nil, false, ""},
		"running":   {&jobs.Recovery{State: jobs.RecoveryRunning, Deadline: now.Add(1)}, true, ""},
		"too late":  {&jobs.Recovery{State: jobs.RecoveryRunning, Deadline: now}, true, event.Deadline},
		"completed": {&jobs.Recovery{State: jobs.RecoveryCompleted}, true, event.AlreadyDelivered},
		"cancelled": {&jobs.Recovery{State: jobs.RecoveryCancelled}, true, event.JobCancelled},
	} {
		v := newView()
		if c.job != nil {
			c.job.Meta.ID = run
			v.job(*c.job)
		}
		rules := &rules{config: v, now: func() time.Time { return now }}
		if _, reason, known := rules.endByJob(&event.Work{Run: run}); reason != c.want || known != c.known {
			t.Errorf("%s: %q, known %t", name, reason, known)
		}
	}
	rules := &rules{config: deletedJobs{newView()}, now: func() time.Time { return now }}
	status, reason, known := rules.endByJob(&event.Work{Run: run})
	if status != event.Skipped || reason != event.JobStopped || !known {
		t.Errorf("deleted: %s %s, known %t", status, reason, known)
	}
}

// deletedJobs is a view in which all recovery jobs were deleted.
type deletedJobs struct{ *view }

func (deletedJobs) Recovery(string) (*jobs.Recovery, entity.Presence) { return nil, entity.Deleted }

// Another attempt's success ends what waits, and no first attempt that was not parked: neither that of an event nor
// that of a replay, however long the rate of the replay lets it wait.
func TestOnlyWaitingDeliveriesAreSuperseded(t *testing.T) {
	began := time.Now()
	f := func(work event.Work, want bool) {
		t.Helper()
		work.Event, work.Dest = &event.Event{ID: id.Lowest(began)}, testDest
		rules := &rules{}
		rules.superseded.add(lane.DeliveryKey{Event: work.Event.ID, Dest: testDest}, began.Add(2*clockMargin))
		if got := rules.isSuperseded(&work); got != want {
			t.Errorf("attempt %d, run %q, parked %q: %v, want %v", work.Attempt, work.Run, work.Parked, got, want)
		}
	}
	run, later := id.Lowest(began).Text(id.Run), id.Lowest(began.Add(2*clockMargin)).Text(id.Run)
	f(event.Work{Attempt: 1}, false)
	f(event.Work{Attempt: 1, Run: run}, false)
	f(event.Work{Attempt: 2}, true)
	f(event.Work{Attempt: 2, Run: run}, true)
	f(event.Work{Attempt: 2, Run: later}, false)
	f(event.Work{Attempt: 1, Parked: event.LaneFull}, true)
	f(event.Work{Attempt: 1, ReportedNextAt: began}, true)
	f(event.Work{Attempt: 1, Run: run, Parked: event.Paced}, true)
}

// startedAt allocates nothing for automatic deliveries: every re-check calls it.
func TestStartedAt(t *testing.T) {
	at := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	ev := &event.Event{ID: id.Lowest(at)}
	later := at.Add(time.Hour)
	for run, want := range map[string]time.Time{
		"": at, id.Lowest(later).Text(id.Run): later, id.Lowest(later).Text(id.Recovery): later, "run": at, "run_": at,
		"run_x": at,
	} {
		if got := startedAt(&event.Work{Event: ev, Run: run}); !got.Equal(want) {
			t.Errorf("run %q began %v, want %v", run, got, want)
		}
	}
	work := &event.Work{Event: ev}
	is.Equal(t, testing.AllocsPerRun(100, func() { startedAt(work) }), 0, "allocations for an automatic delivery")
}

// startedAt must be cheap: it is called at every re-check.
func BenchmarkStartedAt(b *testing.B) {
	for name, run := range map[string]string{"automatic": "", "run": id.Lowest(time.Now()).Text(id.Run)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			work := &event.Work{Event: &event.Event{ID: id.Lowest(time.Now())}, Run: run}
			for b.Loop() {
				startedAt(work)
			}
		})
	}
}
