package dispatcher

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/transform"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// quiet is a dispatcher without running goroutines: its lanes queue deliveries, and none is sent.
type quiet struct {
	*simLog
	*Dispatcher
	t        *testing.T
	lane     *lane.Lane // that a worker was started for last
	offset   int64
	produced map[string][]*stream.Record
}

func newQuiet(t *testing.T) *quiet {
	t.Helper()
	keyring, err := seal.NewKeyring(seal.GenerateKey("test"))
	must.Do(t, err)
	q := &quiet{simLog: newSimLog(), t: t, produced: map[string][]*stream.Record{}}
	view := newView(&config.Endpoint{ID: testEndpoint, Destinations: []config.Destination{
		{ID: "dst_1", DestinationSettings: config.NewDestinationSettings()},
		{ID: "dst_2", DestinationSettings: config.NewDestinationSettings()}}})
	q.Dispatcher, err = New(testConfig(), Deps{
		Log: testLog(), Stream: stream.Config{Brokers: []string{"none"}}, Producer: q.simLog, Config: view, Updater: view,
		Keyring: keyring, Transport: &sim{}, IDs: id.NewGenerator(nil), Now: time.Now, Metrics: prometheus.NewRegistry(),
	})
	must.Do(t, err)
	q.simLog.produced = func(topic string, record *stream.Record) time.Duration {
		q.produced[topic] = append(q.produced[topic], record)
		return 0
	}
	q.assign(stream.Partition{Topic: stream.Events}, stream.Partition{Topic: stream.Commands})
	return q
}

// assign assigns partitions to the dispatcher.
func (q *quiet) assign(ids ...stream.Partition) {
	commits := make(map[stream.Partition]stream.Commit)
	for _, id := range ids {
		commits[id] = stream.Commit{}
	}
	q.ownership.assign(&host{group: q.simLog, memory: q.memory, wake: q.timer.wake,
		startWorker: func(l *lane.Lane) { q.lane = l }}, commits)
}

// held returns how many deliveries are in memory.
func (q *quiet) held() int {
	n, _ := q.lanes.InMemory()
	return n
}

// next takes a delivery of the lane that a worker was started for last.
func (q *quiet) next() lane.Decision { return q.lane.Next(q.t.Context(), lane.Result{}) }

// read reads a record at the next offset.
func (q *quiet) read(topic string, record *stream.Record) *partition {
	p := stream.Partition{Topic: topic}
	record.Offset = q.offset
	q.offset++
	q.reader.readRecords(p, []*stream.Record{record})
	return q.assignment.partition(p)
}

// done reports whether all records that were read are done.
func (q *quiet) done(p *partition) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tracker.commitOffset == q.offset && p.unfinished == 0
}

func quietEvent() *event.Event {
	return &event.Event{ID: id.Lowest(time.Now()), Endpoint: testEndpoint, Source: event.SourceProvider,
		Verdict: event.VerdictVerified, Dests: []string{"dst_1"}, Body: []byte(`{"a":1}`)}
}

// Of the records that are read, those that need no delivery are done at once.
func TestReadRecords(t *testing.T) {
	onlyFor := func(group string) func(*stream.Record) {
		return func(r *stream.Record) {
			r.Headers = append(r.Headers, stream.Header{Key: stream.HeaderOnlyGroup, Value: []byte(group)})
		}
	}
	for name, c := range map[string]struct {
		change  func(*event.Event)
		spoil   func(*stream.Record)
		want    int
		trigger event.Trigger
	}{
		"event":           {nil, nil, 1, event.TriggerInitial},
		"test":            {func(e *event.Event) { e.Source = event.SourceTest }, nil, 1, event.TriggerTest},
		"rejected":        {func(e *event.Event) { e.Verdict = event.VerdictRejected }, nil, 0, ""},
		"duplicate":       {func(e *event.Event) { e.DuplicateOf = "evt_x" }, nil, 0, ""},
		"no destination":  {func(e *event.Event) { e.Dests = nil }, nil, 0, ""},
		"for the store":   {nil, onlyFor("store"), 0, ""},
		"for this group":  {nil, onlyFor(stream.DispatchGroup), 1, event.TriggerInitial},
		"two of a kind":   {func(e *event.Event) { e.Dests = []string{"dst_1", "dst_2"} }, nil, 2, event.TriggerInitial},
		"use, not for us": {func(e *event.Event) { e.Source = event.SourceTripwire }, nil, 0, ""},
	} {
		q, e := newQuiet(t), quietEvent()
		if c.change != nil {
			c.change(e)
		}
		r := e.Record()
		if c.spoil != nil {
			c.spoil(r)
		}
		p := q.read(stream.Events, r)
		if q.held() != c.want || q.done(p) != (c.want == 0) {
			t.Errorf("%s: %d deliveries, done: %t", name, q.held(), q.done(p))
		}
		if c.want == 0 {
			continue
		}
		clear(r.Value) // the fetch response, which must not stay in memory
		if work := q.next().Delivery.Work; work.Trigger != c.trigger || string(work.Event.Body) != `{"a":1}` {
			t.Errorf("%s: trigger %s, body %q", name, work.Trigger, work.Event.Body)
		}
	}
	for _, group := range []string{"store", stream.DispatchGroup} {
		q := newQuiet(t)
		r := must.Get((&event.Work{Event: quietEvent(), Dest: "dst_1", Attempt: 2}).Record())(t)
		onlyFor(group)(r)
		p := q.read(stream.Commands, r)
		if other := group == "store"; q.held() == 0 != other || q.done(p) != other {
			t.Errorf("work item for %s: %d deliveries, done: %t", group, q.held(), q.done(p))
		}
		if clear(r.Value); group != "store" && string(q.next().Delivery.Work.Event.Body) != `{"a":1}` {
			t.Error("the body is not a copy")
		}
	}
	q := newQuiet(t)
	q.reader.readRecords(stream.Partition{Topic: stream.Events, Index: 9}, []*stream.Record{quietEvent().Record()})
	is.Equal(t, q.held(), 0, "a record of a partition that has left the node is delivered")
	record := quietEvent().Record()
	if p := q.read(stream.Events, record); record.Timestamp.IsZero() || !p.lastRead.Equal(record.Timestamp) {
		t.Errorf("the metric of the backlog counts from %v", p.lastRead)
	}
}

// Uses of tripwires and broken records are left to the next owner when this node is losing their partition.
func TestLeavingPartitionProducesNothing(t *testing.T) {
	q := newQuiet(t)
	p := q.assignment.partition(stream.Partition{Topic: stream.Events})
	slot := p.beginRecord(0, 0)
	p.stop()
	q.reader.deadLetter(slot, quietEvent().Record(), errors.New("broken"))
	q.reader.readUse(slot, quietEvent().Record(), quietEvent())
	if q.held() != 0 || len(q.produced) != 0 || q.done(p) {
		t.Errorf("%d are held, produced %v", q.held(), q.produced)
	}
	select {
	case <-p.drained:
	default:
		t.Error("the partition waits for deliveries that have not begun")
	}
}

// A worker waits for earlier writes of other nodes only if it does not know the endpoint.
func TestKnownEndpointsNeedNoSync(t *testing.T) {
	q, synced := newQuiet(t), 0
	q.rules.config.(*view).onSync = func() error { synced++; return nil }
	for _, endpoint := range []string{testEndpoint, "ep_unknown"} {
		e := quietEvent()
		e.Endpoint = endpoint
		eligibility, err := q.rules.CheckLatest(t.Context(), &event.Work{Event: e, Dest: "dst_1", Attempt: 1})
		if unknown := endpoint != testEndpoint; err != nil || unknown != (synced == 1) ||
			unknown != (eligibility.Status == event.Skipped) {
			t.Errorf("%s: %+v, %v; %d waits", endpoint, eligibility, err, synced)
		}
	}
}

// A node that is cut off from the configuration log sends nothing: a destination may have been paused meanwhile. Its
// partitions leave it without waiting for that.
func TestANodeWithoutTheLeaseSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuiet(t)
		p := q.read(stream.Events, quietEvent().Record())
		v := q.rules.config.(*view)
		v.cutOff = make(chan struct{})
		work := &event.Work{Event: quietEvent(), Dest: "dst_1", Attempt: 1}
		is.Equal(t, (&sender{rules: q.rules}).isCurrent(work, q.rules.Check(work, true)), false, "sent by a kind that waits")
		var next *lane.Decision
		go func() { d := q.next(); next = &d }()
		synctest.Wait()
		must.Equal(t, next == nil, true, "a delivery begins while the node is cut off")
		p.stop()
		select {
		case <-p.drained:
		default:
			t.Error("the partition waits for a delivery that waits for the lease")
		}
		close(v.cutOff)
		synctest.Wait()
		is.Equal(t, next != nil && next.Action == lane.Stop, true, "the delivery of the next owner begins: %+v", next)
	})
}

// An event that waits in its kind, as in a batch, is not sent once its endpoint is paused.
func TestAGatheredEventOfAPausedEndpointIsNotSent(t *testing.T) {
	q := newQuiet(t)
	work := &event.Work{Event: quietEvent(), Dest: "dst_1", Attempt: 1}
	before := q.rules.Check(work, true)
	q.rules.config.(*view).change(testEndpoint, func(ep *config.Endpoint) { ep.Paused = true })
	is.Equal(t, (&sender{rules: q.rules}).isCurrent(work, before), false, "paused")
}

// A record is done with the last of its deliveries. Until then a crash repeats it.
func TestRecordIsDoneWithItsLastDelivery(t *testing.T) {
	q, e := newQuiet(t), quietEvent()
	e.Dests = []string{"dst_1", "dst_2"}
	p := q.read(stream.Events, e.Record())
	first := q.next()
	q.finisher.onDone(first.Delivery)
	if commit, _, _, ok := p.nextCommit(); ok || q.done(p) {
		t.Errorf("with one of two deliveries %+v is committed", commit)
	}
	if slot := slotOf(first.Delivery); !slot.deliveryDone() || !q.done(p) {
		t.Error("the record is not done with both")
	}
	if commit, _, _, ok := p.nextCommit(); !ok || commit.Offset != 1 {
		t.Errorf("with both deliveries %+v is committed", commit)
	}
}

// When a partition is lost, its queued deliveries are dropped: none begins, and nothing is committed.
func TestLostPartitionLeavesNothing(t *testing.T) {
	q := newQuiet(t)
	p := q.read(stream.Events, quietEvent().Record())
	q.ownership.lose([]*partition{p})
	if q.held() != 0 || p.beginDelivery() || q.assignment.partition(p.id) != nil || q.assignment.lost[p.id] != p {
		t.Errorf("%d deliveries are held", q.held())
	}
	q.assignment.added.Store(false)
	q.assign(p.id)
	if again := q.assignment.partition(p.id); again.predecessor != p || len(q.assignment.lost) != 0 {
		t.Error("the node does not know what it has completed")
	}
	if !q.assignment.added.Load() {
		t.Error("deliveries that an earlier owner has parked are not re-checked")
	}
}

// The work item of a retry says nothing about parking, and has the trace of the previous attempt.
func TestFollowUpOfAnAttempt(t *testing.T) {
	q, now := newQuiet(t), time.Now().Truncate(time.Millisecond).UTC()
	p := q.assignment.partition(stream.Partition{Topic: stream.Events})
	for run, trigger := range map[string]event.Trigger{"": event.TriggerRetry, "run_1": event.TriggerReplay} {
		for _, trace := range []string{"", "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"} {
			work := &event.Work{Event: quietEvent(), Dest: "dst_1", Trigger: event.TriggerReplay, Attempt: 2, Run: run,
				Parked: event.LaneFull, ParkedBy: 7, ReportedNextAt: now, Trace: "before"}
			delivery := &lane.Delivery{Slot: p.beginRecord(q.offset, 0), Work: work}
			q.offset++
			q.lanes.Begin(delivery)
			next := nextStep{status: event.Retrying, due: now.Add(time.Second), deadline: now.Add(time.Hour)}
			clear(q.produced)
			q.sender.recordAttempt(delivery, &event.Attempt{StartedAt: now, Trace: trace}, next, now)
			q.continueAll()
			if len(q.produced[stream.Outcomes]) != 1 || len(q.produced["retry.1s"]) != 1 {
				t.Fatalf("produced: %v", q.produced)
			}
			got, err := event.DecodeWork(q.produced["retry.1s"][0])
			must.Do(t, err)
			want := *work
			want.Trigger, want.Attempt, want.Due, want.Deadline = trigger, 3, next.due, next.deadline
			want.Parked, want.ParkedBy, want.ReportedNextAt, want.Event, got.Event = "", 0, time.Time{}, nil, nil
			if trace != "" {
				want.Trace = trace
			}
			is.Same(t, got, &want)
			outcome, err := event.DecodeOutcome(q.produced[stream.Outcomes][0])
			if err != nil || !outcome.WasParked || outcome.Status != event.Retrying || !outcome.NextAt.Equal(next.due) {
				t.Errorf("%+v, %v", outcome, err)
			}
		}
	}
}

// continueAll produces the records that completions wait for.
func (q *quiet) continueAll() {
	for _, b := range []*backlog{&q.finisher.ready, &q.finisher.retries, &q.finisher.hits} {
		list := b.list
		b.list = nil
		for _, completion := range list {
			q.finisher.produce(completion)
		}
	}
}

// The size that a record counts in memory includes its headers.
func TestSizeOfARecord(t *testing.T) {
	r := &stream.Record{Key: []byte("12"), Value: []byte("345"), Headers: []stream.Header{{Key: "6", Value: []byte("78")},
		{Key: "9"}}}
	is.Equal(t, sizeOf(r)-recordOverhead, 9, "bytes")
}

// A record without the id of its event has no outcomes, because an outcome names its event.
func TestUndecodableOutcomes(t *testing.T) {
	r := quietEvent().Record()
	r.Headers[0].Value = []byte("2")
	if got := undecodableOutcomes(r, time.Now()); len(got) != 1 || got[0].Dest != "dst_1" ||
		got[0].Status != event.Failed || got[0].Reason != event.Undecodable || got[0].Endpoint != testEndpoint {
		t.Errorf("%+v", got)
	}
	r.Headers = slices.DeleteFunc(r.Headers, func(h stream.Header) bool { return h.Key == "relay-id" })
	if got := undecodableOutcomes(r, time.Now()); len(got) != 0 {
		t.Errorf("%d outcomes without an event", len(got))
	}
}

// A node that stops while an operation waits for memory leaves the delivery to the next owner: it has not failed.
func TestStopDuringATransformation(t *testing.T) {
	q := newQuiet(t)
	view := q.rules.config.(*view)
	view.change(testEndpoint, func(e *config.Endpoint) {
		e.SetTransformation([]transform.Op{{Op: transform.Add, Path: "/b", Value: []byte("1")}}, time.Now(), "key_1", "")
	})
	p := q.read(stream.Events, quietEvent().Record())
	decision := q.next()
	must.Equal(t, decision.Action, lane.Send, "%+v", decision)
	must.Do(t, q.sender.transformations.memory.Acquire(t.Context(), transformMemory))
	stopped, stop := context.WithCancel(t.Context())
	stop()
	result := q.sender.send(stopped, q.lane, decision)
	if result.Delivery != decision.Delivery || q.held() != 0 || q.done(p) || len(q.produced) != 0 {
		t.Errorf("%+v, %d are held, produced %v", result, q.held(), q.produced)
	}
}
