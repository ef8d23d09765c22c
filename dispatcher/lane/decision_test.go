package lane

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

// full fills the lane of "d", so that it parks the next delivery.
func (lt *laneTest) full() {
	lt.fill("d", 1)
	lt.now = lt.now.Add(time.Minute)
	lt.fill("d", laneQueue)
}

// Each decision is complete: the action, the outcome, and when the delivery is re-checked.
func TestDecisions(t *testing.T) {
	ended := Eligibility{Known: true, Status: event.Skipped, Reason: event.Purged}
	paused := Eligibility{Endpoint: &config.Endpoint{}, Destination: &config.Destination{}, Known: true, Paused: true}
	admit := func(lt *laneTest, delivery *Delivery) Decision { return lt.Admit(delivery) }
	next := func(lt *laneTest, delivery *Delivery) Decision {
		lt.enqueue(delivery)
		return lt.byDest["d"].Next(context.Background(), Result{})
	}
	again := func(delivery *Delivery) { delivery.Work.Parked = event.LaneFull } // an outcome has reported it
	for name, c := range map[string]struct {
		prepare func(*laneTest)
		change  func(*Delivery)
		decide  func(*laneTest, *Delivery) Decision
		want    Decision
	}{
		"taken": {nil, nil, admit, Decision{Action: Queued}},
		"full": {(*laneTest).full, nil, admit,
			Decision{Action: Park, Status: event.Pending, Reason: event.LaneFull}},
		"full, a retry": {(*laneTest).full, func(x *Delivery) { x.Work.Attempt = 2 }, admit,
			Decision{Action: Park, Status: event.Retrying, Reason: event.LaneFull}},
		"full again": {(*laneTest).full, again, admit, Decision{Action: Park, Reason: event.LaneFull}},
		"full, and purged": {func(lt *laneTest) { lt.full(); lt.eligibility = ended }, nil, admit,
			Decision{Action: End, Status: event.Skipped, Reason: event.Purged}},
		"full, and paused": {func(lt *laneTest) { lt.full(); lt.eligibility = paused }, nil, admit,
			Decision{Action: Park, Status: event.Held, Reason: event.Manual}},
		"full, its owner left": {func(lt *laneTest) { lt.full(); lt.part.left = true }, nil, admit,
			Decision{Action: Dropped}},
		"sent": {nil, nil, next, Decision{Action: Send}},
		"at the worker: purged": {func(lt *laneTest) { lt.eligibility = ended }, nil, next,
			Decision{Action: End, Status: event.Skipped, Reason: event.Purged}},
		"at the worker: paused": {func(lt *laneTest) { lt.eligibility = paused }, nil, next,
			Decision{Action: Park, Status: event.Held, Reason: event.Manual}},
		"paused as before": {func(lt *laneTest) { lt.eligibility = paused }, func(x *Delivery) {
			x.Work.Parked = event.Manual
		},
			next,
			Decision{Action: Park, Reason: event.Manual}},
		"the configuration is unavailable": {
			func(lt *laneTest) { lt.err = errors.New("unavailable") }, nil, next,
			Decision{Action: Park, Status: event.Pending}},
		"no token": {func(lt *laneTest) {
			lt.wait, lt.eligibility.Destination.RateLimit = time.Minute, &config.RateLimit{PerSecond: 1}
		}, nil, next, Decision{Action: Stop}},
		"its owner left": {func(lt *laneTest) { lt.part.left = true }, nil, next, Decision{Action: Stop}},
	} {
		t.Run(name, func(t *testing.T) {
			lt := newLaneTest(t, 100_000)
			if c.prepare != nil {
				c.prepare(lt)
			}
			delivery := lt.delivery("d", "")
			if c.change != nil {
				c.change(delivery)
			}
			before := lt.part.active
			got := c.decide(lt, delivery)
			begins := got.Action == Park || got.Action == End || got.Action == Send
			if begun := lt.part.active - before; begins != (begun == 1) {
				t.Errorf("%d deliveries were begun", begun)
			}
			if got.Action == Park {
				if wait := got.Due.Sub(lt.now); wait < time.Second || wait > MinRecheck || !got.DecidedAt.Equal(lt.now) {
					t.Errorf("parked for %v", wait)
				}
				known := got.Err == nil && (got.Status == event.Pending || got.Status == event.Retrying)
				is.Equal(t, known, got.EarliestSend.Equal(got.Due),
					"due at %v, sent at %v at the earliest", got.Due, got.EarliestSend)
				parkedBy := lt.byDest["d"].parking.laneID
				if got.Err == nil && (got.ParkedBy != parkedBy || parkedBy == 0) || !errors.Is(got.Err, lt.err) {
					t.Errorf("parked by %d, error %v", got.ParkedBy, got.Err)
				}
			}
			ignore := cmpopts.IgnoreFields(
				Decision{}, "Delivery", "Eligibility", "DecidedAt", "Due", "EarliestSend", "ReportedNextAt",
				"ParkedBy", "Err")
			is.Same(t, got, c.want, ignore)
		})
	}
}

// A worker that reads the configuration while the node stops leaves its delivery to the next owner of the partition.
func TestStopLeavesDeliveries(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	lt.fill("d", 3)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	lt.err = stopped.Err()
	if got := lt.byDest["d"].Next(stopped, Result{}); got.Action != Stop {
		t.Errorf("%+v", got)
	}
	if held, _ := lt.InMemory(); held != 0 || lt.part.active != 0 {
		t.Errorf("%d deliveries are held, %d are begun", held, lt.part.active)
	}
}

// An outcome reports a parked delivery when parking starts, when the reason changes, and when the reported time has
// passed; not in between.
func TestParkedDeliveryIsReportedOnce(t *testing.T) {
	lt := newLaneTest(t, 100_000)
	delivery := lt.delivery("d", "")
	delivery.Work.Attempt = 2 // no early probe
	open := func(until time.Duration) {
		lt.laneOf(delivery, lt.now).breaker = breaker{openFor: until, openUntil: lt.now.Add(until)}
	}
	come := func(want event.Status) {
		t.Helper()
		decision := lt.Admit(delivery)
		if decision.Action != Park || decision.Status != want {
			t.Fatalf("%+v, want an outcome %q", decision, want)
		}
		work := delivery.Work
		work.Parked, work.ParkedBy, work.ReportedNextAt = decision.Reason, decision.ParkedBy, decision.ReportedNextAt
		lt.Release(delivery)
		lt.now = decision.Due
	}
	open(20 * time.Second)
	come(event.Held)
	for lt.now.Before(delivery.Work.ReportedNextAt) {
		come("")
	}
	open(time.Minute)
	come(event.Held) // after the reported time
	come("")
	lt.eligibility.Paused = true
	come(event.Held)
	come("") // no time is known
}

// While the configuration cannot be read, an outcome reports a first attempt once, and nothing else.
func TestUncheckedDeliveryIsReportedOnce(t *testing.T) {
	lt := newLaneTest(t, 100)
	reported := lt.now.Add(time.Minute)
	for name, c := range map[string]struct {
		work   event.Work
		status event.Status
		next   time.Time
	}{
		"first attempt": {event.Work{Attempt: 1}, event.Pending, lt.now.Add(MinRecheck)},
		"retry":         {event.Work{Attempt: 2}, "", time.Time{}},
		"replay":        {event.Work{Attempt: 1, Run: "run_1"}, "", time.Time{}},
		"parked":        {event.Work{Attempt: 1, Parked: event.LaneFull}, "", time.Time{}},
		"reported":      {event.Work{Attempt: 1, ReportedNextAt: reported}, "", reported},
	} {
		decision := lt.parkUnchecked(&Delivery{Work: &c.work}, lt.err)
		if decision.Status != c.status || !decision.ReportedNextAt.Equal(c.next) || decision.Reason != c.work.Parked ||
			!decision.Due.Equal(lt.now.Add(MinRecheck)) || decision.ParkedBy != 0 {
			t.Errorf("%s: %+v", name, decision)
		}
	}
}

// A destination that was disabled, or has a new URL, starts with a closed breaker.
func TestChangedDestinationClosesItsBreaker(t *testing.T) {
	for name, mend := range map[string]func(*laneTest){
		"disabled": func(lt *laneTest) {
			lt.eligibility.Status, lt.eligibility.Reason = event.Skipped, event.DestinationDisabled
		},
		"another URL": func(lt *laneTest) { lt.eligibility.Destination = &config.Destination{URL: "https://b"} },
	} {
		lt := newLaneTest(t, 100_000)
		l := lt.laneOf(lt.delivery("d", ""), lt.now)
		l.url, l.breaker = "https://a", breaker{openFor: time.Hour, openUntil: lt.now.Add(time.Hour)}
		lt.eligibility.Destination.URL = "https://a"
		if lt.Admit(lt.delivery("d", "")); !l.breaker.open() {
			t.Errorf("%s: closed before", name)
		}
		wanted := lt.eligibility
		lt.eligibility.Status, lt.eligibility.Reason = event.Skipped, event.Filtered
		if lt.Admit(lt.delivery("d", "")).Action != End || !l.breaker.open() {
			t.Errorf("%s: a delivery that ended for another reason has closed it", name)
		}
		lt.eligibility = wanted
		mend(lt)
		lt.Admit(lt.delivery("d", ""))
		is.Equal(t, lt.Admit(lt.delivery("d", "")).Action, Queued, "%s: still held", name)
	}
}
