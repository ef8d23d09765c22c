package lane

// How many requests may fly to one destination.
const (
	// InitialWindow is where a lane begins. It doubles with each round of answers, so that a fast destination
	// has its max_in_flight after four rounds, and one that hangs was sent no more than this.
	InitialWindow = 4
	// FailingWindow is the most that fly while none of the last failingAfter requests succeeded.
	FailingWindow = 2
	failingAfter  = 10
)

// window adapts how many requests may fly to what the destination takes: one more for each success, half
// after a timeout.
type window struct {
	size     int // what may fly now, from 1 to most
	limit    int // max_in_flight
	failures int // requests in a row that did not succeed
}

func newWindow(most int) window {
	w := window{limit: max(most, 1)}
	w.size = min(InitialWindow, w.limit)
	return w
}

// resize follows a change of max_in_flight.
func (w *window) resize(most int) {
	w.limit = max(most, 1)
	w.size = min(w.size, w.limit)
}

func (w *window) recordSuccess() {
	w.failures = 0
	w.size = min(w.size+1, w.limit)
}

func (w *window) recordFailure(timeout bool) {
	w.failures++
	if timeout {
		w.size = max(w.size/2, 1)
	}
	if w.failing() {
		w.size = min(w.size, FailingWindow)
	}
}

// failing reports whether the destination has not taken anything for long.
func (w *window) failing() bool { return w.failures >= failingAfter }
