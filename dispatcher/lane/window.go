package lane

// How many requests may run to one destination.
const (
	// InitialWindow is the window of a new lane. It doubles with each round of successes, so a fast destination reaches
	// the default max_in_flight of 64 after four rounds. A destination that hangs has got only InitialWindow requests.
	InitialWindow = 4
	// FailingWindow is the most requests that run when none of the last failingAfter succeeded.
	FailingWindow = 2
	failingAfter  = 10
)

// window is the in-flight window of a lane. It grows by one with each success and halves with each time-out.
type window struct {
	size     int // requests that may run now, from 1 to limit
	limit    int // max_in_flight
	failures int // consecutive
}

func newWindow(limit int) window {
	w := window{limit: max(limit, 1)}
	w.size = min(InitialWindow, w.limit)
	return w
}

// resize applies a changed max_in_flight.
func (w *window) resize(limit int) {
	w.limit = max(limit, 1)
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

// failing reports whether the last failingAfter requests failed.
func (w *window) failing() bool { return w.failures >= failingAfter }
