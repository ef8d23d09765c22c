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

// When a poll brings busyPoll or more, the next one waits for gather: a fetch costs the same for one record as for a
// hundred, and at such rates everything waits for a core, not for the fetch. Records of the tiers do not count: their
// number is no reason for an event to wait.
const (
	busyPoll    = 8
	gatherPause = 2 * time.Millisecond
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
			d.readRecords(p, records)
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if came < busyPoll || came >= maxPollRecords {
			continue
		}
		pause.Reset(gatherPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// read takes the records of one partition. It never waits: what cannot run is parked or held.
func (d *Dispatcher) readRecords(id stream.Partition, records []*stream.Record) {
	p := d.partition(id)
	if p == nil {
		return
	}
	for _, record := range records {
		if slot := p.beginRecord(record.Offset, record.LeaderEpoch); slot != nil {
			d.readRecord(slot, record)
		}
	}
}

func (d *Dispatcher) readRecord(slot *slot, record *stream.Record) {
	if slot.part.id.Topic == stream.Events {
		ev, err := event.Decode(record)
		if err != nil {
			d.deadLetter(slot, record, err)
			return
		}
		if forOtherGroup(ev) {
			slot.deliveryDone()
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
	now := d.now()
	switch {
	case slot.part.delay > 0:
		delivery.ReadyAt = lane.ReadyAt(work.Due, record.Timestamp, now, slot.part.delay)
		slot.part.addWaiting(delivery)
	case work.Due.After(now):
		d.hopDelivery(delivery, now)
	default:
		d.admit(delivery)
	}
}

// forOtherGroup reports a record that was put back for another group: the dispatchers have had it.
func forOtherGroup(ev *event.Event) bool {
	return ev.OnlyGroup != "" && ev.OnlyGroup != stream.DispatchGroup
}

// readEvent makes a delivery for each destination. An event that was rejected, is a duplicate or has no
// destination needs no delivery and no outcome: its own record says so.
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
	wanted := d.filters.evaluate(d.config, ev)
	for _, dest := range ev.Dests {
		work := &event.Work{Event: ev, Dest: dest, Trigger: trigger, Attempt: 1}
		wanted.setFiltered(work)
		d.admit(&lane.Delivery{Slot: slot, Work: work, Size: size})
	}
}

// keep copies the body out of the fetch response, of which it is a part: a delivery that hangs would
// otherwise hold the megabytes that came with it.
func cloneBody(ev *event.Event) { ev.Body = bytes.Clone(ev.Body) }

func sizeOf(record *stream.Record) int {
	n := recordOverhead + len(record.Key) + len(record.Value)
	for _, h := range record.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// recorded is called when everything about a delivery is recorded.
func (d *Dispatcher) deliveryRecorded(delivery *lane.Delivery) {
	if slotOf(delivery).deliveryDone() && d.completed.Add(1)%commitAfterRecords == 0 {
		select {
		case d.commitNow <- struct{}{}:
		default:
		}
	}
	d.lanes.Release(delivery)
}

// deadLetter puts a record that cannot be decoded into the topic dead. If it tells which deliveries it
// stood for, their outcome is failed.
func (d *Dispatcher) deadLetter(slot *slot, record *stream.Record, cause error) {
	delivery := &lane.Delivery{Slot: slot, Size: sizeOf(record)}
	if !d.lanes.Begin(delivery) {
		return
	}
	d.metrics.deadLetters.Inc()
	d.log.LogAttrs(context.Background(), slog.LevelError, "record cannot be decoded, put into the dead letter topic",
		slog.String("topic", slot.part.id.Topic), slog.Int("partition", int(slot.part.id.Index)),
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

// undecodable are the outcomes of the deliveries that a record that cannot be decoded still names. One whose
// destination is lost names all of its event's: they are failed, for a person to decide.
func undecodableOutcomes(record *stream.Record, now time.Time) []*event.Outcome {
	left, ok := event.Salvage(record)
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
