package dispatcher

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// recordOverhead is about what a record costs in memory besides its bytes.
const recordOverhead = 512

// When a poll returns busyPoll events or more, but fewer than maxPollRecords, the next one waits for gatherPause, so
// that it returns more. A fetch costs the same for one record as for a hundred, and at such rates everything waits for
// a core, not for the fetch. Records of retry topics do not count: they must not delay events.
const (
	busyPoll    = 8
	gatherPause = 2 * time.Millisecond
)

// intake reads until ctx ends. While the memory for deliveries is full (lane.Lanes.Full), it does not read.
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
		events := 0
		err := d.group.Poll(ctx, func(p stream.Partition, records []*stream.Record) {
			if p.Topic == stream.Events {
				events += len(records)
			}
			d.readRecords(p, records)
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if events < busyPoll || events >= maxPollRecords {
			continue
		}
		pause.Reset(gatherPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// readRecords begins the deliveries of the records of one partition. It never waits: what cannot be sent now is parked
// or held until due.
func (d *Dispatcher) readRecords(id stream.Partition, records []*stream.Record) {
	p := d.assignment.partition(id)
	if p == nil {
		return
	}
	p.setLastRead(records[len(records)-1].Timestamp)
	d.placing.Lock()
	defer d.placing.Unlock()
	for _, record := range records {
		if slot := p.beginRecord(record.Offset, record.LeaderEpoch); slot != nil {
			d.readRecord(slot, record)
		}
	}
	if id.Topic == stream.Events {
		d.lanes.EventsRead(id.Index, records[len(records)-1].Offset+1)
	}
}

func (d *Dispatcher) readRecord(slot *slot, record *stream.Record) {
	if slot.partition.id.Topic == stream.Events {
		ev, err := event.Decode(record)
		if err != nil {
			d.deadLetter(slot, record, err)
			return
		}
		if forOtherGroup(ev) {
			slot.deliveryDone()
			return
		}
		if ev.Source.IsUse() {
			d.readUse(slot, record, ev)
			return
		}
		d.readEvent(slot, ev, sizeOf(record))
		return
	}
	work, err := event.DecodeWork(record)
	if err != nil {
		d.deadLetter(slot, record, err)
		return
	}
	if forOtherGroup(work.Event) {
		slot.deliveryDone()
		return
	}
	cloneBody(work.Event)
	delivery := &lane.Delivery{Slot: slot, Work: work, Size: sizeOf(record)}
	if work.Place.Position > 0 {
		d.lanes.AddPlace(delivery)
	}
	now := d.now()
	if d.rules.isCancelled(work) {
		work.Due = now // it ends now: its run may be paced over hours
	}
	switch {
	case slot.partition.delay > 0:
		d.lanes.RestoreBreaker(delivery)
		delivery.ParkedAt = record.Timestamp
		delivery.ReadyAt = lane.ReadyAt(work.Due, record.Timestamp, now, slot.partition.delay)
		slot.partition.addWaiting(delivery)
	case work.Due.After(now):
		d.hopDelivery(delivery, now)
	default:
		d.admit(delivery)
	}
}

// forOtherGroup reports whether a dead letter was produced again for another consumer group only. The dispatchers have
// processed it before.
func forOtherGroup(ev *event.Event) bool {
	return ev.OnlyGroup != "" && ev.OnlyGroup != stream.DispatchGroup
}

// readEvent begins one delivery for each destination. An event that was rejected, is a duplicate or has no destination
// needs no delivery and no outcome: its own record says so.
func (d *Dispatcher) readEvent(slot *slot, ev *event.Event, size int) {
	if ev.Verdict == event.VerdictRejected || ev.DuplicateOf != "" || len(ev.Dests) == 0 {
		slot.deliveryDone()
		return
	}
	cloneBody(ev)
	slot.setDeliveries(len(ev.Dests))
	trigger := event.TriggerInitial
	if ev.Source == event.SourceTest {
		trigger = event.TriggerTest
	}
	matches, now := d.filters.evaluate(d.config, ev), d.now()
	for _, dest := range ev.Dests {
		work := &event.Work{Event: ev, Dest: dest, Trigger: trigger, Attempt: 1}
		matches.setFiltered(work)
		delivery := &lane.Delivery{Slot: slot, Work: work, Size: size}
		if ev.DeliverAt.After(now) {
			d.scheduleDelivery(delivery, now)
			continue
		}
		work.Place = matches.place(work, slot.offset)
		d.admit(delivery)
	}
}

// readUse makes the hit of a tripwire's use at once, as an event's deliveries are made, and stores it later: so the
// use takes as little CPU from the next requests as an event without a destination.
func (d *Dispatcher) readUse(slot *slot, record *stream.Record, use *event.Event) {
	delivery := &lane.Delivery{Slot: slot, Size: recordOverhead}
	if !d.lanes.Begin(delivery) {
		return
	}
	var partition int32
	var hit *stream.Record
	if d.useHit != nil {
		var err error
		if partition, hit, err = d.useHit(context.Background(), use); err != nil {
			d.lanes.Release(delivery)
			d.deadLetter(slot, record, fmt.Errorf("make the hit of a tripwire: %w", err))
			return
		}
	}
	if hit == nil {
		d.finisher.complete(delivery)
		return
	}
	d.finisher.completeLater(delivery, step{topic: stream.Findings, partition: partition, record: hit})
}

// cloneBody copies the body out of the fetch response. Otherwise a hanging delivery would keep the whole response,
// megabytes, in memory.
func cloneBody(ev *event.Event) { ev.Body = bytes.Clone(ev.Body) }

func sizeOf(record *stream.Record) int {
	n := recordOverhead + len(record.Key) + len(record.Value)
	for _, h := range record.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// deliveryRecorded is called when everything about a delivery is recorded.
func (d *Dispatcher) deliveryRecorded(delivery *lane.Delivery) {
	if slotOf(delivery).deliveryDone() {
		d.committer.countRecord()
	}
	d.lanes.Release(delivery)
	if delivery.Recorded != nil {
		delivery.Recorded()
	}
}

// deadLetter writes a record that cannot be decoded to the dead letter topic. If the record still names its deliveries,
// a failed outcome is recorded for each.
func (d *Dispatcher) deadLetter(slot *slot, record *stream.Record, cause error) {
	delivery := &lane.Delivery{Slot: slot, Size: sizeOf(record)}
	if !d.lanes.Begin(delivery) {
		return
	}
	d.metrics.deadLetters.Inc()
	d.log.LogAttrs(context.Background(), slog.LevelError, "cannot decode record, writing it to the dead letter topic",
		slog.String("topic", slot.partition.id.Topic), slog.Int("partition", int(slot.partition.id.Index)),
		slog.Int64("offset", record.Offset), slog.Any("error", cause))
	dead := d.stream.DeadLetterRecord(record, stream.DispatchGroup, cause)
	dead.Key, dead.Value = bytes.Clone(dead.Key), bytes.Clone(dead.Value)
	steps := []step{{topic: stream.Dead, record: dead, crash: crashRetry}}
	for _, outcome := range undecodableOutcomes(record, d.now()) {
		d.metrics.outcome(outcome)
		steps = append(steps, outcomeStep(outcome))
	}
	d.finisher.complete(delivery, steps...)
}

// undecodableOutcomes are the failed outcomes of the deliveries that an undecodable record still names. If it was one
// delivery and does not say to which destination, all deliveries of its event count as failed, and a user may replay
// those that were not delivered.
func undecodableOutcomes(record *stream.Record, now time.Time) []*event.Outcome {
	remains, ok := event.Salvage(record)
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
