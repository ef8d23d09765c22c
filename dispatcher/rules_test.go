package dispatcher

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Erased and expired payloads are not sent.
func TestErasedAndExpiredPayloadsAreNotSent(t *testing.T) {
	now := time.Now()
	erased, kept := &event.Event{ID: id.Lowest(now)}, &event.Event{ID: id.Lowest(now.Add(-time.Hour))}
	old := &event.Event{ID: id.Lowest(now.AddDate(0, 0, -31))}
	rules := &rules{
		retentionDays: 30, now: func() time.Time { return now }, erased: func(e id.ID) bool { return e == erased.ID },
	}
	dest := &config.Destination{DestinationSettings: config.DestinationSettings{Enabled: true}}
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
		v := newView(&config.Endpoint{ID: testEndpoint, Destinations: []config.Destination{{ID: testDest,
			DestinationSettings: config.DestinationSettings{Enabled: true}}}})
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
		is.Equal(t, rules.isSuperseded(&work), want,
			"attempt %d, run %q, parked %q", work.Attempt, work.Run, work.Parked)
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

// Re-checks of parked deliveries do not read the body: it is read once per event, for both destinations, when the
// event is read. After a change of the endpoint, workers read it once more, and the current filter counts.
func TestParkedDeliveriesDoNotReadBodies(t *testing.T) {
	const events = 50
	endpoint := simEndpoint("ep_1", "dst_down", "dst_other")
	endpoint.Destinations[0].Filter = &filter.Filter{Body: map[string]any{"id": 1.0}}
	endpoint.Destinations[1].Filter = &filter.Filter{Body: map[string]any{"id": 2.0}}
	simulate(t, simConfig(), []*config.Endpoint{endpoint}, func(s *sim) {
		up := time.Now().Add(30 * time.Minute)
		s.answer = func(_ string, now time.Time) (time.Duration, int) {
			if now.Before(up) {
				return time.Millisecond, 0
			}
			return time.Millisecond, 200
		}
		for range events {
			s.accept(endpoint)
		}
		time.Sleep(15 * time.Minute)
		read := func() float64 { return testutil.ToFloat64(s.d.rules.bodiesRead) }
		if n, passes := read(), s.passesInAll(); n != events || passes < 10*events {
			t.Errorf("%v bodies were read for %d events that were parked %d times", n, events, passes)
		}
		if n := s.statuses(); n["skipped filtered"] != events || n["skipped"]+n["delivered"] != 0 {
			t.Errorf("%v", n)
		}
		// This change leaves the filters alone; the next one sets a filter that matches nothing.
		s.view.change("ep_1", func(e *config.Endpoint) { e.Name = "renamed" })
		time.Sleep(3 * time.Hour)
		if n := read(); n > 2*events {
			t.Errorf("%v bodies were read after a change of the endpoint, for %d events", n, events)
		}
		if n := s.statuses(); n["delivered"] != events {
			t.Errorf("%v", n)
		}
	})
}

// The reader and the timer let a delivery pass if they would have to read its body. A worker evaluates the filter.
func TestOnlyWorkersReevaluateFilters(t *testing.T) {
	endpoint := simEndpoint("ep_1", "dst_1")
	endpoint.Destinations[0].Filter = &filter.Filter{Body: map[string]any{"id": 2.0}}
	simulate(t, simConfig(), []*config.Endpoint{endpoint}, func(s *sim) {
		eventID := must.Get(s.ids.New(0))(t)
		work := &event.Work{
			Event: &event.Event{
				ID: eventID, Account: "acc_1", Endpoint: "ep_1", Method: "POST", Body: []byte(`{"id":1}`), Dests: []string{"dst_1"},
			},
			Dest: "dst_1", Trigger: event.TriggerInitial, Attempt: 1,
		}
		again := func() *event.Work { // as it comes back from a retry topic
			record := must.Get(work.Record())(t)
			back := must.Get(event.DecodeWork(record))(t)
			return back
		}
		step := func(what string, readBody bool, want event.Reason, bodies float64) {
			t.Helper()
			work = again()
			is.Equal(t, s.d.rules.Check(work, readBody).Reason, want, "%s: ends", what)
			is.Equal(t, testutil.ToFloat64(s.d.rules.bodiesRead), bodies, "%s: bodies were read", what)
		}
		step("the reader", false, "", 0)
		step("a worker", true, event.Filtered, 1)
		step("the reader, after the change", false, event.Filtered, 1)
		s.view.change("ep_1", func(e *config.Endpoint) {
			e.Destinations[0].Filter = &filter.Filter{Body: map[string]any{"id": 1.0}}
		})
		step("the reader, after a change", false, "", 1)
		step("a worker, after a change", true, "", 2)
		step("a worker, after the change", true, "", 2)
		s.view.change("ep_1", func(e *config.Endpoint) { e.Destinations[0].Filter = &filter.Filter{Types: []string{"x"}} })
		step("a filter on the type", false, event.Filtered, 2)
	})
}

// A condition that cannot be evaluated ends the delivery as failed; one on what the event does not have does not hold.
func TestRulesOfFilters(t *testing.T) {
	endpoint := simEndpoint("ep_1", "dst_1", "dst_2")
	endpoint.Tenant = "ten_1"
	simulate(t, simConfig(), []*config.Endpoint{endpoint}, func(s *sim) {
		for when, want := range map[string]event.Reason{
			`body.n == 1 && headers["x-kind"] == "a" && event.tenant == "ten_1"`: "",
			`body.n == 2`:               event.Filtered,
			`body.missing == 1`:         event.Filtered,
			`headers["x-other"] == "a"`: event.Filtered,
			`body.n == 1 && body.text`:  event.TransformFailed,
			`body.text > 5`:             event.TransformFailed,
			`boddy`:                     event.TransformFailed, // a newer version wrote it
		} {
			work := &event.Work{
				Event: &event.Event{ID: must.Get(s.ids.New(0))(t), Account: "acc_1", Endpoint: "ep_1",
					Body:   []byte(`{"n":1,"text":"x"}`),
					Header: []event.Field{{Name: "X-Kind", Value: "a"}}, Dests: []string{"dst_2"}},
				Dest: "dst_2", Trigger: event.TriggerInitial, Attempt: 1,
			}
			s.view.change("ep_1", func(e *config.Endpoint) { e.Destinations[1].Filter = &filter.Filter{When: when} })
			is.Equal(t, s.d.rules.Check(work, false).Reason, "", "%s: before it is read", when)
			is.Equal(t, s.d.rules.Check(work, true).Reason, want, "%s: by a worker", when)
			work.FilterRev = 0
			s.d.rules.matches(work.Event).setFiltered(work)
			is.Equal(t, work.Filtered, want == event.Filtered, "%s: by the reader", when)
			is.Equal(t, s.d.rules.Check(work, true).Reason, want, "%s: after the reader", when)
		}
		s.view.change("ep_1", func(e *config.Endpoint) {
			e.Destinations[1].Filter = &filter.Filter{Match: []byte(`{"body":{"n":{"$gt":1}}}`)}
		})
		ev := &event.Event{ID: must.Get(s.ids.New(0))(t), Endpoint: "ep_1", Body: []byte(`{"n":1}`)}
		work := &event.Work{Event: ev, Dest: "dst_2", Attempt: 1}
		is.Equal(t, s.d.rules.Check(work, true).Reason, event.Filtered, "a pattern")
	})
}

// The cache of compiled filters is bounded by the number of conditions, however many endpoints there are.
func TestCompiledFiltersAreBounded(t *testing.T) {
	var b filters
	body := map[string]any{}
	for i := range 1000 {
		body[string(rune('a'+i%26))+string(rune('a'+i/26))] = "x"
	}
	for i := range 300 {
		endpoint := simEndpoint("ep_"+time.Duration(i).String(), "dst_1")
		endpoint.Destinations[0].Filter = &filter.Filter{Body: body}
		for endpoint.Rev = range int64(3) {
			b.compiled(endpoint)
		}
		if b.weight > maxConditions || b.weight != len(b.endpoints)*len(body) {
			t.Fatalf("%d conditions of %d endpoints", b.weight, len(b.endpoints))
		}
	}
}

// view is a configuration in memory.
type view struct {
	mu        sync.Mutex
	endpoints map[string]*config.Endpoint
	jobs      map[string]*jobs.Recovery
	runs      map[string]*jobs.Run
	deleted   map[string]bool
	onSync    func() error
	syncs     int
	onUpdate  func() error
	updates   int
	cutOff    chan struct{} // not nil: there is no lease until it is closed
}

func (v *view) Lease() (time.Duration, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-v.cutOff:
		return 0, true
	default:
		return 0, v.cutOff == nil
	}
}

func (v *view) AwaitLease(ctx context.Context) error {
	if _, ok := v.Lease(); ok {
		return nil
	}
	select {
	case <-v.cutOff:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newView(eps ...*config.Endpoint) *view {
	v := &view{endpoints: map[string]*config.Endpoint{}, deleted: map[string]bool{},
		jobs: map[string]*jobs.Recovery{}, runs: map[string]*jobs.Run{}}
	for _, endpoint := range eps {
		v.put(endpoint)
	}
	return v
}

func (v *view) put(endpoint *config.Endpoint) {
	v.mu.Lock()
	defer v.mu.Unlock()
	endpoint.Rev++
	v.endpoints[endpoint.ID] = endpoint
}

// change replaces the endpoint by a changed copy, as the real configuration does.
func (v *view) change(id string, f func(*config.Endpoint)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ep := *v.endpoints[id]
	ep.Destinations = slices.Clone(ep.Destinations)
	f(&ep)
	ep.Rev++
	v.endpoints[id] = &ep
}

func (v *view) remove(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.endpoints, id)
	v.deleted[id] = true
}

func (v *view) Endpoint(id string) (*config.Endpoint, entity.Presence) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.endpoints[id] != nil:
		return v.endpoints[id], entity.Present
	case v.deleted[id]:
		return nil, entity.Deleted
	}
	return nil, entity.Unknown
}

func (v *view) Recovery(id string) (*jobs.Recovery, entity.Presence) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if job := v.jobs[id]; job != nil {
		return job, entity.Present
	}
	return nil, entity.Unknown
}

func (v *view) ReplayRun(id string) (*jobs.Run, entity.Presence) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if run := v.runs[id]; run != nil {
		return run, entity.Present
	}
	return nil, entity.Unknown
}

// cancelRun adds a replay run that was cancelled.
func (v *view) cancelRun(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.runs[id] = &jobs.Run{Meta: entity.Meta{ID: id}, CancelledAt: time.Now()}
}

// job adds or replaces a recovery job.
func (v *view) job(job jobs.Recovery) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.jobs[job.ID] = &job
}

// during sets a function that runs while an update is being written.
func (v *view) during(f func() error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.onUpdate = f
}

func (v *view) written() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.updates
}

// UpdateEndpoint is a write during which the function of during runs.
func (v *view) UpdateEndpoint(_ context.Context, id string, change func(*config.Endpoint) error) (*config.Endpoint,
	error) {
	v.mu.Lock()
	v.updates++
	onUpdate := v.onUpdate
	v.mu.Unlock()
	if onUpdate != nil {
		if err := onUpdate(); err != nil {
			return nil, err
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.endpoints[id] == nil {
		return nil, config.ErrNotFound
	}
	ep := *v.endpoints[id]
	ep.Destinations = slices.Clone(ep.Destinations)
	if err := change(&ep); err != nil {
		return nil, err
	}
	ep.Rev++
	v.endpoints[id] = &ep
	return &ep, nil
}

func (v *view) Sync(context.Context) error {
	v.mu.Lock()
	v.syncs++
	f := v.onSync
	v.mu.Unlock()
	if f != nil {
		return f()
	}
	return nil
}
