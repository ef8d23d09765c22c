package drain

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/web"
)

// Requests that are being read at the same time. Each holds about 250 KB.
const (
	maxRunning        = 256 // of this node
	maxRunningOfDrain = 32
)

// slots bounds the requests that are being read, and how many of them are scanned at the same time: one of each drain,
// and as many of the node as it has cores for half of them. So no drain, and not all together, can take the node's
// CPU from events and deliveries. Requests wait in order; a drain has one in the node's line.
type slots struct {
	scans   chan struct{} // holds one element for each scan of this node
	mu      sync.Mutex    // guards what follows
	byDrain map[string]*drainSlots
	all     int
}

type drainSlots struct {
	n    int
	scan chan struct{} // holds one element while a request of the drain is scanned or waits for the node
}

func newSlots() *slots {
	return &slots{scans: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), byDrain: map[string]*drainSlots{}}
}

// slot is that of one request.
type slot struct {
	all   *slots
	drain string
	scans *drainSlots
}

// enter takes a slot, or returns the 429 of the drain or the 503 of the node.
func (s *slots) enter(drain string) (*slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.byDrain[drain]
	switch {
	case of != nil && of.n >= maxRunningOfDrain:
		return nil, rateLimited(time.Second, fmt.Sprintf(
			"takes at most %d requests at the same time; send more lines in each", maxRunningOfDrain))
	case s.all >= maxRunning:
		return nil, web.ServiceUnavailable(nil, "this node reads as many bodies as it can; send the lines again")
	case of == nil:
		of = &drainSlots{scan: make(chan struct{}, 1)}
		s.byDrain[drain] = of
	}
	s.all++
	of.n++
	return &slot{s, drain, of}, nil
}

func (s *slot) leave() {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	s.all.all--
	if s.scans.n--; s.scans.n == 0 {
		delete(s.all.byDrain, s.drain)
	}
}

// scan calls f when it is the request's turn. It returns errBusy if ctx ends before.
func (s *slot) scan(ctx context.Context, f func() error) error {
	select {
	case s.scans.scan <- struct{}{}:
		defer func() { <-s.scans.scan }()
	case <-ctx.Done():
		return errBusy
	}
	select {
	case s.all.scans <- struct{}{}:
		defer func() { <-s.all.scans }()
	case <-ctx.Done():
		return errBusy
	}
	return f()
}
