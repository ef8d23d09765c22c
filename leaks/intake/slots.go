package intake

import "sync"

// Slots bounds the requests that run at the same time, by what they belong to: the node, a sender, an address.
type Slots struct {
	mu sync.Mutex // guards what follows
	of map[any]*share
}

// share is what the requests that belong to something have together.
type share struct {
	n    int
	turn chan struct{}
}

// Bound is how many requests may run that belong to something. Full is the error of one more.
type Bound struct {
	Of   any
	Most int
	Full error
}

// Enter takes a slot, or returns the error of the first bound that is reached. Call leave once. turn has room for one
// element, and is the same for all requests that belong to the same as this one by its first bound.
func (s *Slots) Enter(bounds ...Bound) (turn chan struct{}, leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[any]*share{}
	}
	for _, b := range bounds {
		if of := s.of[b.Of]; of != nil && of.n >= b.Most {
			return nil, nil, b.Full
		}
	}
	for _, b := range bounds {
		if s.of[b.Of] == nil {
			s.of[b.Of] = &share{turn: make(chan struct{}, 1)}
		}
		s.of[b.Of].n++
	}
	return s.of[bounds[0].Of].turn, func() { s.leave(bounds) }, nil
}

func (s *Slots) leave(bounds []Bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range bounds {
		if s.of[b.Of].n--; s.of[b.Of].n == 0 {
			delete(s.of, b.Of)
		}
	}
}
