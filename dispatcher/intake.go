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

// When a poll brings manyEvents or more, the next one waits for gather: a fetch costs the same for one record as for a
// hundred, and at such rates everything waits for a core, not for the fetch. Records of the tiers do not count: their
// number is no reason for an event to wait.
const (
	manyEvents = 8
	gather     = 2 * time.Millisecond
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
		if came < manyEvents || came >= maxPoll {
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
			d.deadLetter(s, r, err)
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
		d.deadLetter(s, r, err)
		return
	}
	if notOurs(w.Event) {
		s.done()
		return
	}
	keep(w.Event)
	delivery := &lane.Delivery{Slot: s, Work: w, Size: sizeOf(r)}
	now := d.now()
	switch {
	case s.part.delay > 0:
		delivery.ReadyAt = lane.ReadyAt(w.Due, r.Timestamp, now, s.part.delay)
		s.part.wait(delivery)
	case w.Due.After(now):
		d.hop(delivery, now)
	default:
		d.admit(delivery)
	}
}

// notOurs reports a record that was put back for another group: the dispatchers have had it.
func notOurs(e *event.Event) bool { return e.OnlyGroup != "" && e.OnlyGroup != stream.DispatchGroup }

// readEvent makes a delivery for each destination. An event that was rejected, is a duplicate or has no
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
		d.admit(&lane.Delivery{Slot: s, Work: w, Size: size})
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

// recorded is called when everything about a delivery is recorded.
func (d *Dispatcher) recorded(delivery *lane.Delivery) {
	if slotOf(delivery).done() && d.completed.Add(1)%commitAfter == 0 {
		select {
		case d.commitNow <- struct{}{}:
		default:
		}
	}
	d.lanes.Release(delivery)
}

// deadLetter puts a record that cannot be decoded into the topic dead. If it tells which deliveries it
// stood for, their outcome is failed.
func (d *Dispatcher) deadLetter(s *slot, r *stream.Record, cause error) {
	delivery := &lane.Delivery{Slot: s, Size: sizeOf(r)}
	if !d.lanes.Begin(delivery) {
		return
	}
	d.metrics.dead.Inc()
	d.log.LogAttrs(context.Background(), slog.LevelError, "record cannot be decoded, put into the dead letter topic",
		slog.String("topic", s.part.id.Topic), slog.Int("partition", int(s.part.id.Index)),
		slog.Int64("offset", r.Offset), slog.Any("error", cause))
	dead := d.stream.DeadLetterRecord(r, stream.DispatchGroup, cause)
	dead.Key, dead.Value = bytes.Clone(dead.Key), bytes.Clone(dead.Value)
	steps := []step{{topic: stream.Dead, record: dead, crash: crashRetry}}
	for _, o := range undecodable(r, d.now()) {
		d.metrics.outcome(o)
		steps = append(steps, outcomeStep(o))
	}
	d.finisher.complete(delivery, steps...)
}

// undecodable are the outcomes of the deliveries that a record that cannot be decoded still names. One whose
// destination is lost names all of its event's: they are failed, for a person to decide.
func undecodable(r *stream.Record, now time.Time) []*event.Outcome {
	left, ok := event.Salvage(r)
	if !ok {
		return nil
	}
	var all []*event.Outcome
	for _, dest := range left.Dests {
		all = append(all, &event.Outcome{
			Event: left.Event, Account: left.Account, Endpoint: left.Endpoint, Dest: dest, Type: left.Type,
			Status: event.Failed, Reason: event.Undecodable, At: now, Run: left.Run,
		})
	}
	return all
}
