package lane

import "time"

// Census counts the lanes by state and their parked work by reason.
func (ls *Lanes) Census() (states map[string]int, parked [len(ParkReasons)]int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	states = map[string]int{"all": len(ls.byDest), "limited": 0, "resting": 0, "open": 0, "half_open": 0}
	for _, l := range ls.byDest {
		for i, n := range l.parking.counts {
			parked[i] += n
		}
		if l.window.fails > 0 && l.window.size < l.window.most {
			states["limited"]++
		}
		if l.rest.resting(now) {
			states["resting"]++
		}
		switch {
		case l.breaker.probing:
			states["half_open"]++
		case l.breaker.open():
			states["open"]++
		}
	}
	return states, parked
}

// State is what one lane knows of its destination.
type State struct {
	Open        bool      // the circuit breaker is open
	OpenUntil   time.Time // the next probe is sent then
	Parked      int
	ParkedLanes int // lanes of the node that have parked work
}

// State is that of the destination's lane.
func (ls *Lanes) State(dest string) State {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	s := State{ParkedLanes: ls.parking}
	if l := ls.byDest[dest]; l != nil {
		s.Open, s.OpenUntil, s.Parked = l.breaker.open(), l.breaker.until, l.parking.total
	}
	return s
}
