package recovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// world is everything around a runner: the configuration, the store, the log and the destinations. Submitted
// deliveries get their result when they are due.
type world struct {
	*testing.T
	ids *id.Generator

	// Result is the result of a delivery, by the number of its item; nil: it is delivered.
	Result func(seq int) (event.Status, event.Reason)
	// Prior is the status of a delivery when it is submitted; nil: failed. Gone means that its payload has expired.
	Prior func(seq int) event.Status
	Gone  func(seq int) bool
	// Body is the body of every event.
	Body []byte

	mu        sync.Mutex // guards the fields below
	refuse    func(step string) error
	rev       int64
	jobs      map[string]*jobs.Recovery
	changed   chan struct{}
	ep        *config.Endpoint // nil: deleted
	failed    int              // deliveries of each destination that a job selects
	items     map[string]map[int]*item
	selection event.Selection // of the last preparation
	reserved  []int           // every change of Reserved
	forgotten []string
	mostBytes int // bodies in one submission
}

// item is one delivery of a job.
type item struct {
	dest    string
	status  event.Status
	skipped event.Reason
	works   []*event.Work
}

func newWorld(t *testing.T, failed int) *world {
	return &world{
		T: t, ids: id.NewGenerator(nil), jobs: map[string]*jobs.Recovery{}, changed: make(chan struct{}), failed: failed,
		items: map[string]map[int]*item{}, Body: make([]byte, 100),
		ep: &config.Endpoint{ID: "ep_1", Partition: 3, Destinations: []config.Destination{{ID: "dst_a",
			DestinationSettings: config.DestinationSettings{Enabled: true}}}},
	}
}

// runner runs a Runner until the returned function is called or the test ends.
func (w *world) runner() (stop func()) {
	_, stop = w.ownedRunner()
	return stop
}

// ownedRunner is runner, and returns the Runner.
func (w *world) ownedRunner() (r *Runner, stop func()) {
	w.Helper()
	r, err := New(Deps{
		Log: slog.New(slog.DiscardHandler), Jobs: w, Endpoints: w, Store: w, Submitter: w, Now: time.Now,
		NewName: func() string { return id.Random("") },
	})
	if err != nil {
		w.Fatal(err)
	}
	r.SetOwned([]int32{1, 3})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx); err != nil {
			w.Error(err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	w.Cleanup(stop)
	return r, stop
}

// add creates a job.
func (w *world) add(change ...func(*jobs.Recovery)) string {
	w.Helper()
	edited := &jobs.Recovery{
		Meta:      entity.Meta{ID: w.ids.NewUnbounded(0).Text(id.Recovery), Account: "acc_1", CreatedAt: time.Now()},
		Endpoint:  "ep_1",
		Partition: 3,
		Until:     time.Now(), RatePerSecond: 100, State: jobs.RecoveryPreparing,
		Deadline: time.Now().Add(jobs.MaxRecoveryDuration),
	}
	for _, f := range change {
		f(edited)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(edited)
	return edited.ID
}

// put stores the newest value of a job. w.mu is held.
func (w *world) put(edited *jobs.Recovery) {
	w.rev++
	edited.Rev = w.rev
	if before := w.jobs[edited.ID]; before != nil && edited.Reserved != before.Reserved {
		w.reserved = append(w.reserved, edited.Reserved)
	}
	w.jobs[edited.ID] = edited
	close(w.changed)
	w.changed = make(chan struct{})
}

// on sets what is called before each step of a runner and may refuse it: select, counts, work, submit, update, caught
// up.
func (w *world) on(refuse func(step string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = refuse
}

func (w *world) before(step string) error {
	w.mu.Lock()
	refuse := w.refuse
	w.mu.Unlock()
	if refuse != nil {
		return refuse(step)
	}
	return nil
}

func (w *world) Recovery(id string) (*jobs.Recovery, entity.Presence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if edited := w.jobs[id]; edited != nil {
		return edited, entity.Present
	}
	return nil, entity.Unknown
}

func (w *world) UnsettledRecoveries(before time.Time) (unsettled, old []*jobs.Recovery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.jobs)) {
		switch edited := w.jobs[name]; {
		case !edited.State.Ended() || !edited.Settled:
			unsettled = append(unsettled, edited)
		case edited.CreatedAt.Before(before):
			old = append(old, edited)
		}
	}
	return unsettled, old
}

func (w *world) RecoveriesChanged() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *world) UpdateRecovery(_ context.Context, id string, change func(*jobs.Recovery) error) (*jobs.Recovery,
	error) {
	if err := w.before("update"); err != nil {
		return nil, err
	}
	return w.write(id, change)
}

func (w *world) write(id string, change func(*jobs.Recovery) error) (*jobs.Recovery, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[id] == nil {
		return nil, config.ErrNotFound
	}
	j := *w.jobs[id]
	j.Destinations = slices.Clone(j.Destinations)
	if err := change(&j); err != nil {
		return nil, err
	}
	w.put(&j)
	return &j, nil
}

func (w *world) ForgetRecovery(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.jobs, id)
	w.forgotten = append(w.forgotten, id)
	return nil
}

func (w *world) Endpoint(string) (*config.Endpoint, entity.Presence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ep == nil {
		return nil, entity.Deleted
	}
	return w.ep, entity.Present
}

// change changes the endpoint.
func (w *world) change(f func(*config.Endpoint)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ep := *w.ep
	ep.Destinations = slices.Clone(ep.Destinations)
	f(&ep)
	w.ep = &ep
}

func (w *world) CaughtUp(context.Context) error { return w.before("caught") }

func (w *world) SelectRecovery(_ context.Context, s event.Selection, name string) (event.SelectionTotals, error) {
	if err := w.before("select"); err != nil {
		return event.SelectionTotals{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.selection = s
	var out event.SelectionTotals
	items := map[int]*item{}
	for _, g := range s.Groups {
		if g.Except {
			continue
		}
		for _, dest := range g.Dests {
			d := event.DestinationTotals{ID: dest, Total: w.failed}
			if g.SkipReason == "" {
				d.Sendable = w.failed
				for range w.failed {
					items[len(items)] = &item{dest: dest}
				}
			}
			out.Total += d.Total
			out.Sendable += d.Sendable
			out.Destinations = append(out.Destinations, d)
		}
	}
	w.items[name] = items
	return out, nil
}

func (w *world) RecoveryCounts(_ context.Context, _ string, jobs ...string) (map[string]event.RecoveryCounts, time.Time,
	error) {
	if err := w.before("counts"); err != nil {
		return nil, time.Time{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var counts event.RecoveryCounts
	for _, x := range w.items[w.jobs[jobs[0]].Selection] {
		if x.status != "" {
			counts.Add(x.status, x.skipped, 1)
		}
	}
	return map[string]event.RecoveryCounts{jobs[0]: counts}, time.Time{}, nil
}

func (w *world) RecoveryFailures(context.Context, string, string) (map[string]event.RecoveryFailures, error) {
	return map[string]event.RecoveryFailures{"dst_a": {Failed: 1, TopError: "timeout"}}, nil
}

func (w *world) OpenRecoveryItems(_ context.Context, job event.RecoveryJob, from, to int,
	each func(*event.OpenRecoveryItem) error) error {
	if err := w.before("work"); err != nil {
		return err
	}
	for seq := from; seq < to; seq++ {
		w.mu.Lock()
		x := *w.items[job.Selection][seq]
		w.mu.Unlock()
		if x.status != "" {
			continue
		}
		work := &event.OpenRecoveryItem{RecoveryItem: event.RecoveryItem{Seq: seq, Event: numbered(seq), Destination: x.dest},
			StoredEvent: &event.Event{ID: numbered(seq), Endpoint: "ep_1", Body: w.Body},
			Prior:       event.Delivery{Status: event.Failed, Reason: event.AttemptsExhausted}}
		if w.Prior != nil {
			work.Prior.Status = w.Prior(seq)
		}
		if w.Gone != nil && w.Gone(seq) {
			work.StoredEvent = nil
		}
		if err := each(work); err != nil {
			return err
		}
	}
	return nil
}

// numbered is the id of the event of an item.
func numbered(seq int) id.ID { return id.ID{14: byte(seq >> 8), 15: byte(seq)} }

func numberOf(d id.ID) int { return int(d[14])<<8 | int(d[15]) }

func (w *world) Submit(_ context.Context, deliveries []*event.Work, outcomes []*event.Outcome) error {
	if err := w.before("submit"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	bytes := 0
	for _, work := range deliveries {
		bytes += len(work.Event.Body)
		w.mostBytes = max(w.mostBytes, bytes)
		edited := w.jobs[work.Run]
		seq := numberOf(work.Event.ID)
		if seq >= edited.Reserved {
			w.Errorf("item %d is submitted, and %d are reserved", seq, edited.Reserved)
		}
		it := w.items[edited.Selection][seq]
		it.works = append(it.works, work)
		it.status = event.Pending
		time.AfterFunc(max(time.Until(work.Due), 0)+time.Millisecond, func() { w.end(it, seq, work.Run) })
	}
	for _, outcome := range outcomes {
		it := w.items[w.jobs[outcome.Run].Selection][numberOf(outcome.Event)]
		it.status, it.skipped = outcome.Status, outcome.SkipReason
	}
	return nil
}

// end sets the result of a delivery that is due. A delivery of an ended job is skipped.
func (w *world) end(it *item, seq int, job string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if state := w.jobs[job].State; state.Ended() {
		it.status, it.skipped = event.Failed, state.UnsentReason()
		return
	}
	it.status = event.Delivered
	if w.Result != nil {
		it.status, it.skipped = w.Result(seq)
	}
}

// act is an action of a client.
func (w *world) act(job string, change func(*jobs.Recovery)) {
	w.Helper()
	if _, err := w.write(job, func(edited *jobs.Recovery) error { change(edited); return nil }); err != nil {
		w.Error(err)
	}
}

func canary(edited *jobs.Recovery) { edited.StartCanary(time.Now()) }
func goOn(edited *jobs.Recovery)   { edited.State = jobs.RecoveryRunning }
func cancel(edited *jobs.Recovery) {
	edited.End(jobs.RecoveryCancelled, jobs.StopCancelled, time.Now())
}

// waitForState waits until the job has the state, and, if it has ended, until its results are settled.
func (w *world) waitForState(job string, state jobs.RecoveryState, within time.Duration) *jobs.Recovery {
	w.Helper()
	deadline := time.Now().Add(within)
	for {
		synctest.Wait()
		edited, _ := w.Recovery(job)
		if edited.State == state && (!state.Ended() || edited.Settled) {
			return edited
		}
		if !time.Now().Before(deadline) {
			w.Fatalf("the job is %s after %v, want %s: %+v", edited.State, within, state, edited)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// submitted counts how often items were submitted.
func (w *world) submitted(job string) (items, times int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.items[w.jobs[job].Selection] {
		if times += len(x.works); len(x.works) > 0 {
			items++
		}
	}
	return items, times
}

// maxSubmissions is the highest number of submissions of one item of the job.
func (w *world) maxSubmissions(job string) (times int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.items[w.jobs[job].Selection] {
		times = max(times, len(x.works))
	}
	return times
}

// ready creates a job and waits until it is ready.
func (w *world) ready(change ...func(*jobs.Recovery)) string {
	w.Helper()
	job := w.add(change...)
	w.waitForState(job, jobs.RecoveryReady, time.Second)
	return job
}

var errAway = fmt.Errorf("%w: away", event.ErrUnavailable)

var errWrong = errors.New("wrong")
