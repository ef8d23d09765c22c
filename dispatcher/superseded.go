package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// maxSuperseded bounds the deliveries that are remembered, about 10 MB. The oldest are forgotten first: their
// automatic retries are sent after all, duplicates that the destination can recognise by their id.
const maxSuperseded = 100_000

// superseded remembers deliveries that have succeeded while a record for the same delivery may still wait: an automatic
// retry or that of an earlier replay beside a replay, or a copy that a fault left behind. A crash between producing a
// follow-up and committing the record before it makes two copies of one record, a crash while both wait makes four.
// When a record of a remembered delivery is due, it ends without an attempt. The memory is best effort; the status of a
// delivery does not depend on it.
//
// A key without Run stands for whatever has delivered the event to the destination. Deliveries of replays and recovery
// jobs are also remembered under the id of the run or job. A job sends an event again that was delivered outside of the
// job. Copies of a replay's record have the same run. Package lane ends a copy while the first record is not recorded
// (lane/copies.go).
//
// What replays and recovery jobs delivered before a restart, or on the node that had the partition, is read from the
// store when partitions are assigned.
type superseded struct {
	mu    sync.Mutex                     // guards the fields below
	known map[lane.DeliveryKey]time.Time // when its last successful attempt began
	order []lane.DeliveryKey             // a ring once it is full
	next  int
}

func (s *superseded) add(key lane.DeliveryKey, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.known[key]; ok {
		if at.After(last) {
			s.known[key] = at
		}
		return
	}
	if s.known == nil {
		s.known = make(map[lane.DeliveryKey]time.Time)
	}
	if len(s.order) < maxSuperseded {
		s.order = append(s.order, key)
	} else {
		delete(s.known, s.order[s.next])
		s.order[s.next] = key
		s.next = (s.next + 1) % maxSuperseded
	}
	s.known[key] = at
}

// hasSince reports whether an attempt that began at a time or later has delivered.
func (s *superseded) hasSince(key lane.DeliveryKey, t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.known[key]
	return ok && !at.Before(t)
}

const (
	// maxRecalled bounds what is read from the store: each delivery of a run takes two entries.
	maxRecalled = maxSuperseded / 2
	// recallTimeout bounds how long an assignment waits for the store. Delivery does not depend on it.
	recallTimeout = 5 * time.Second
	// maxAttempt is longer than any attempt: a lease of a pulled destination has ten minutes. The store has when an
	// attempt ended, and hasSince asks when it began.
	maxAttempt = 15 * time.Minute
)

// recall reads what replays and recovery jobs have delivered of the events in newly assigned partitions, unless this
// node had all of them in the assignment before. If the store does not answer, waiting deliveries are sent although a
// replay has delivered their events.
func (d *Dispatcher) recall(ctx context.Context, partitions map[stream.Partition]stream.Commit) {
	assigned, fresh := make(map[int32]bool), false
	for p := range partitions {
		assigned[p.Index] = true
		fresh = fresh || !d.recalled[p.Index]
	}
	d.recalled = assigned
	if d.delivered == nil || !fresh {
		return
	}
	limited, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	err := d.delivered(limited, maxRecalled, func(run string, event id.ID, dest string, ended time.Time) {
		if !assigned[event.Partition()] {
			return
		}
		began := ended.Add(-maxAttempt)
		d.rules.superseded.add(lane.DeliveryKey{Event: event, Dest: dest}, began)
		d.rules.superseded.add(lane.DeliveryKey{Event: event, Dest: dest, Run: run}, began)
	})
	if err != nil && ctx.Err() == nil { // else the node stops
		d.log.LogAttrs(ctx, slog.LevelWarn,
			"cannot read what replays have delivered; waiting retries of the same events are sent", slog.Any("error", err))
	}
}
