package dispatcher

import (
	"sync"

	"github.com/eventrelay/relay/pkg/id"
)

// maxSuperseded bounds the deliveries that are remembered, about 10 MB. The oldest are forgotten first:
// their automatic retries are made after all, a duplicate that the destination can tell by its id.
const maxSuperseded = 100_000

// superseded remembers what was delivered while work for the same delivery may still wait, which then ends: an
// automatic retry beside a replay, or a copy of work that waited when a node died or partitions moved. Between the
// record that continues work and the commit of what it continues a fault makes two of one, and a fault while
// both wait makes four. It is memory of this node and best effort: the status of the delivery does not depend
// on it. Deliveries of a recovery job are remembered by the job as well: it sends again what was delivered before.
type superseded struct {
	mu    sync.Mutex // guards the rest
	known map[deliveryKey]struct{}
	order []deliveryKey // a ring once it is full
	next  int
}

// deliveryKey names one event at one destination, and the recovery job that delivered it; empty: whoever did.
type deliveryKey struct {
	event id.ID
	dest  string
	job   string
}

func (s *superseded) add(key deliveryKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.known[key]; ok {
		return
	}
	if s.known == nil {
		s.known = make(map[deliveryKey]struct{})
	}
	if len(s.order) < maxSuperseded {
		s.order = append(s.order, key)
	} else {
		delete(s.known, s.order[s.next])
		s.order[s.next] = key
		s.next = (s.next + 1) % maxSuperseded
	}
	s.known[key] = struct{}{}
}

func (s *superseded) has(key deliveryKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.known[key]
	return ok
}
