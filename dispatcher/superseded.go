package dispatcher

import (
	"sync"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
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
