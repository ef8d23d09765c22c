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

// What the reader fetches.
const (
	// maxPollRecords bounds what one poll adds to the memory of a partition that is about to pause.
	maxPollRecords = 256
	// maxFetchBytes bounds one fetch, of one partition and of all. When a partition pauses, the client discards what it
	// has fetched of it, and an event that arrives during a fetch waits for the whole fetch.
	maxFetchBytes = 256 << 10
	// maxFetchWait bounds how late a resumed partition is fetched. So it limits the throughput of a deep tier to its share
	// of the memory per maxFetchWait.
	maxFetchWait = 100 * time.Millisecond
)

// When a poll returns busyPoll events or more, but fewer than maxPollRecords, the next one waits for gatherPause, so
// that it returns more. A fetch costs the same for one record as for a hundred, and at such rates everything waits for
// a core, not for the fetch. Records of retry topics do not count: they must not delay events.
const (
	busyPoll    = 8
	gatherPause = 2 * time.Millisecond
)

// member is one member of the consumer group: a stream.Group.
type member interface {
	consumer
	Poll(ctx context.Context, each func(stream.Partition, []*stream.Record)) error
	Close()
}

// reader reads records and begins their deliveries.
type reader struct {
	*deliveries
	assignment *assignment
	rules      *rules
	stream     stream.Config
	useHit     func(context.Context, *event.Event) (int32, *stream.Record, error) // see Deps
}

// run reads until ctx ends. While the memory for deliveries is full (lane.Lanes.Full), it does not read.
func (r *reader) run(ctx context.Context, group member) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		for r.lanes.Full() {
			select {
			case <-ctx.Done():
				return nil
			case <-r.lanes.Freed():
			}
		}
		events := 0
		err := group.Poll(ctx, func(p stream.Partition, records []*stream.Record) {
			if p.Topic == stream.Events {
				events += len(records)
			}
			r.readRecords(p, records)
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
func (r *reader) readRecords(id stream.Partition, records []*stream.Record) {
	p := r.assignment.partition(id)
	if p == nil {
		return
	}
	p.setLastRead(records[len(records)-1].Timestamp)
	r.assignment.placing.Lock()
	defer r.assignment.placing.Unlock()
	for _, record := range records {
		if slot := p.beginRecord(record.Offset, record.LeaderEpoch); slot != nil {
			r.readRecord(slot, record)
		}
	}
	if id.Topic == stream.Events {
		r.lanes.EventsRead(id.Index, records[len(records)-1].Offset+1)
	}
}

func (r *reader) readRecord(slot *slot, record *stream.Record) {
	if slot.partition.id.Topic == stream.Events {
		ev, err := event.Decode(record)
		if err != nil {
			r.deadLetter(slot, record, err)
			return
		}
		if forOtherGroup(ev) {
			slot.deliveryDone()
			return
		}
		if ev.Source.IsUse() {
			r.readUse(slot, record, ev)
			return
		}
		r.readEvent(slot, ev, sizeOf(record))
		return
	}
	work, err := event.DecodeWork(record)
	if err != nil {
		r.deadLetter(slot, record, err)
		return
	}
	if forOtherGroup(work.Event) {
		slot.deliveryDone()
		return
	}
	cloneBody(work.Event)
	delivery := &lane.Delivery{Slot: slot, Work: work, Size: sizeOf(record)}
	if work.Place.Position > 0 {
		r.lanes.AddPlace(delivery)
	}
	now := r.now()
	if r.rules.isCancelled(work) {
		work.Due = now // it ends now: its run may be paced over hours
	}
	switch {
	case slot.partition.delay > 0:
		r.lanes.RestoreBreaker(delivery)
		delivery.ParkedAt = record.Timestamp
		delivery.ReadyAt = lane.ReadyAt(work.Due, record.Timestamp, now, slot.partition.delay)
		slot.partition.addWaiting(delivery)
	case work.Due.After(now):
		r.hop(delivery, now)
	default:
		r.admit(delivery)
	}
}

// forOtherGroup reports whether a dead letter was produced again for another consumer group only. The dispatchers have
// processed it before.
func forOtherGroup(ev *event.Event) bool {
	return ev.OnlyGroup != "" && ev.OnlyGroup != stream.DispatchGroup
}

// readEvent begins one delivery for each destination. An event that was rejected, is a duplicate or has no destination
// needs no delivery and no outcome: its own record says so.
func (r *reader) readEvent(slot *slot, ev *event.Event, size int) {
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
	matches, now := r.rules.matches(ev), r.now()
	for _, dest := range ev.Dests {
		work := &event.Work{Event: ev, Dest: dest, Trigger: trigger, Attempt: 1}
		matches.setFiltered(work)
		delivery := &lane.Delivery{Slot: slot, Work: work, Size: size}
		if ev.DeliverAt.After(now) {
			r.schedule(delivery, now)
			continue
		}
		work.Place = matches.place(work, slot.offset)
		r.admit(delivery)
	}
}

// readUse makes the hit of a tripwire's use at once, as an event's deliveries are made, and stores it later: so the
// use takes as little CPU from the next requests as an event without a destination.
func (r *reader) readUse(slot *slot, record *stream.Record, use *event.Event) {
	delivery := &lane.Delivery{Slot: slot, Size: recordOverhead}
	if !r.lanes.Begin(delivery) {
		return
	}
	var partition int32
	var hit *stream.Record
	if r.useHit != nil {
		var err error
		if partition, hit, err = r.useHit(context.Background(), use); err != nil {
			r.lanes.Release(delivery)
			r.deadLetter(slot, record, fmt.Errorf("make the hit of a tripwire: %w", err))
			return
		}
	}
	if hit == nil {
		r.finisher.complete(delivery)
		return
	}
	r.finisher.completeLater(delivery, step{topic: stream.Findings, partition: partition, record: hit})
}

// cloneBody copies the body out of the fetch response. Otherwise a hanging delivery would keep the whole response,
// megabytes, in memory.
func cloneBody(ev *event.Event) { ev.Body = bytes.Clone(ev.Body) }

// deadLetter writes a record that cannot be decoded to the dead letter topic. If the record still names its deliveries,
// a failed outcome is recorded for each.
func (r *reader) deadLetter(slot *slot, record *stream.Record, cause error) {
	delivery := &lane.Delivery{Slot: slot, Size: sizeOf(record)}
	if !r.lanes.Begin(delivery) {
		return
	}
	r.metrics.deadLetters.Inc()
	r.log.LogAttrs(context.Background(), slog.LevelError, "cannot decode record, writing it to the dead letter topic",
		slog.String("topic", slot.partition.id.Topic), slog.Int("partition", int(slot.partition.id.Index)),
		slog.Int64("offset", record.Offset), slog.Any("error", cause))
	dead := r.stream.DeadLetterRecord(record, stream.DispatchGroup, cause)
	dead.Key, dead.Value = bytes.Clone(dead.Key), bytes.Clone(dead.Value)
	steps := []step{{topic: stream.Dead, record: dead}}
	for _, outcome := range undecodableOutcomes(record, r.now()) {
		r.metrics.outcome(outcome)
		steps = append(steps, outcomeStep(outcome))
	}
	r.finisher.complete(delivery, steps...)
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
