package lane

// Census is a snapshot of all lanes, for metrics.
type Census struct {
	Deliveries int // queued, sent or being recorded
	Bytes      int
	Sending    int            // workers, at most MaxSending; each has at most one running request
	States     map[string]int // number of lanes by state
	Parked     map[string]int // number of deliveries by reason
	Ordered    int            // unfinished deliveries of ordered destinations
}

// Census counts the lanes by state and their parked deliveries by reason.
func (ls *Lanes) Census() Census {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	c := Census{
		Deliveries: ls.deliveries, Bytes: ls.bytes, Sending: min(ls.workers, ls.maxSending),
		States: map[string]int{"all": len(ls.byDest), "window_reduced": 0, "rate_limited": 0, "open": 0, "half_open": 0},
		Parked: make(map[string]int, len(parkReasons)), Ordered: ls.positions,
	}
	for _, reason := range parkReasons {
		c.Parked[string(reason)] = 0
	}
	for _, l := range ls.byDest {
		for i, n := range l.parking.counts {
			c.Parked[string(parkReasons[i])] += n
		}
		if l.window.failures > 0 && l.window.size < l.window.limit {
			c.States["window_reduced"]++
		}
		if l.token.waiting(now) {
			c.States["rate_limited"]++
		}
		switch {
		case l.breaker.probe != nil:
			c.States["half_open"]++
		case l.breaker.open():
			c.States["open"]++
		}
	}
	return c
}
