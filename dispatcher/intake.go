package dispatcher

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// recordOverhead is what a record holds in memory beside its bytes, roughly.
const recordOverhead = 512

// When a poll brings as many events as crowd or more, the next one waits for gather: a fetch costs the same for one
// record as for a hundred, and at such rates everything waits for a core, not for the fetch. Records of the tiers do
// not count: their crowd is no reason for an event to wait.
const (
	crowd  = 8
	gather = 2 * time.Millisecond
)

// intake reads until ctx ends. While the node holds all it may, it does not read.
func (d *Dispatcher) intake(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		for d.lanes.Full() {
			select {
			case <-ctx.Done():
				return nil
			case <-d.lanes.Freed():
			}
		}
		came := 0
		err := d.group.Poll(ctx, func(p stream.Partition, records []*stream.Record) {
			if p.Topic == stream.Events {
				came += len(records)
			}
			d.read(p, records)
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if came < crowd || came >= maxPoll {
			continue
		}
		pause.Reset(gather)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// read takes the records of one partition. It never waits: what cannot run is parked or held.
func (d *Dispatcher) read(id stream.Partition, records []*stream.Record) {
	p := d.partition(id)
	if p == nil {
		return
	}
	for _, r := range records {
		if s := p.add(r.Offset, r.LeaderEpoch); s != nil {
			d.readRecord(s, r)
		}
	}
}

func (d *Dispatcher) readRecord(s *slot, r *stream.Record) {
	if s.part.id.Topic == stream.Events {
		e, err := event.Decode(r)
		if err != nil {
			d.bury(s, r, err)
			return
		}
		if notOurs(e) {
			s.done()
			return
		}
		d.readEvent(s, e, sizeOf(r))
		return
	}
	w, err := event.DecodeWork(r)
	if err != nil {
		d.bury(s, r, err)
		return
	}
	if notOurs(w.Event) {
		s.done()
		return
	}
	keep(w.Event)
	j := &lane.Delivery{Slot: s, Work: w, Size: sizeOf(r)}
	now := d.now()
	switch {
	case s.part.delay > 0:
		j.Ready = lane.ReadyAt(w.Due, r.Timestamp, now, s.part.delay)
		s.part.wait(j)
	case w.Due.After(now):
		d.hop(j, now)
	default:
		d.run(j)
	}
}

// notOurs reports a record that was put back for another group: the dispatchers have had it.
func notOurs(e *event.Event) bool { return e.Only != "" && e.Only != stream.DispatchGroup }

// readEvent makes a job for each destination. An event that was rejected, is a duplicate or has no
// destination needs no delivery and no outcome: its own record says so.
func (d *Dispatcher) readEvent(s *slot, e *event.Event, size int) {
	if e.Verdict == event.VerdictRejected || e.DuplicateOf != "" || len(e.Dests) == 0 {
		s.done()
		return
	}
	keep(e)
	s.split(len(e.Dests))
	trigger := event.TriggerInitial
	if e.Source == event.SourceTest {
		trigger = event.TriggerTest
	}
	wanted := d.filters.evaluate(d.config, e)
	for _, dest := range e.Dests {
		w := &event.Work{Event: e, Dest: dest, Trigger: trigger, Attempt: 1}
		wanted.mark(w)
		d.run(&lane.Delivery{Slot: s, Work: w, Size: size})
	}
}

// keep copies the body out of the fetch response, of which it is a part: a delivery that hangs would
// otherwise hold the megabytes that came with it.
func keep(e *event.Event) { e.Body = bytes.Clone(e.Body) }

func sizeOf(r *stream.Record) int {
	n := recordOverhead + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// run gives due work to its lane, or parks it.
func (d *Dispatcher) run(j *lane.Delivery) {
	if reason := d.lanes.Admit(j); reason != "" {
		d.refuse(j, reason)
	}
}

// hop sends work that is not due into the next tier.
func (d *Dispatcher) hop(j *lane.Delivery, now time.Time) {
	if d.hold(j) {
		d.follow(j, j.Work, now, nil)
	}
}

// hold begins a job that is in no lane; false when its partition has left the node.
func (d *Dispatcher) hold(j *lane.Delivery) bool {
	if !slotOf(j).part.begin() {
		return false
	}
	d.lanes.Hold(j)
	return true
}

// finished is called when everything about a job is recorded.
func (d *Dispatcher) finished(j *lane.Delivery) {
	if slotOf(j).done() && d.completed.Add(1)%commitAfter == 0 {
		select {
		case d.commitNow <- struct{}{}:
		default:
		}
	}
	slotOf(j).part.end()
	d.lanes.Free(j)
}

// bury puts a record that cannot be decoded into the topic dead. If it tells which deliveries it
// stood for, their outcome is failed.
func (d *Dispatcher) bury(s *slot, r *stream.Record, cause error) {
	j := &lane.Delivery{Slot: s, Size: sizeOf(r)}
	if !d.hold(j) {
		return
	}
	d.metrics.dead.Inc()
	d.log.LogAttrs(context.Background(), slog.LevelError, "bury record that cannot be decoded", slog.String("topic", s.part.id.Topic),
		slog.Int("partition", int(s.part.id.Index)), slog.Int64("offset", r.Offset), slog.Any("error", cause))
	grave := d.stream.DeadRecord(r, stream.DispatchGroup, cause)
	grave.Key, grave.Value = bytes.Clone(grave.Key), bytes.Clone(grave.Value)
	steps := []step{{topic: stream.Dead, record: grave, crash: crashRetry}}
	for _, o := range epitaphs(r, d.now()) {
		d.metrics.outcome(o)
		steps = append(steps, outcomeStep(o))
	}
	d.finisher.finish(j, steps...)
}

// epitaphs are the outcomes of the deliveries that a poisoned record can still name. A work item whose
// destination is lost names all of its event's: they are told failed, which a person then looks at.
func epitaphs(r *stream.Record, now time.Time) []*event.Outcome {
	remains, ok := event.Salvage(r)
	if !ok {
		return nil
	}
	var all []*event.Outcome
	for _, dest := range remains.Dests {
		all = append(all, &event.Outcome{
			Event: remains.Event, Account: remains.Account, Endpoint: remains.Endpoint, Dest: dest, Type: remains.Type,
			Status: event.Failed, Reason: event.Undecodable, At: now, Run: remains.Run,
		})
	}
	return all
}
