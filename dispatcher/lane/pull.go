package lane

import (
	"math"
	"time"
)

// abandonedAfter is how long deliveries wait in the lane of a destination that nobody pulls. Then they are parked, so
// that their offsets can be committed.
const abandonedAfter = 30 * time.Second

// recallInterval is how often pulls call back what their lane has parked. A full queue lasts as long at 4,000 a second.
const recallInterval = 250 * time.Millisecond

// WakePulled is called when a consumer begins to pull up to n events of a destination, which Deps.Pulled knows already.
// If there are fewer deliveries in the lane, those that it has parked come back.
func (ls *Lanes) WakePulled(dest string, n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, now := ls.byDest[dest], ls.now()
	if l == nil {
		return
	}
	l.lastPull, l.token.until = now, time.Time{}
	if l.parking.total > 0 && l.queued() < min(n, l.window.limit) && now.Sub(l.recalled) > recallInterval {
		l.recalled = now
		ls.recovered = append(ls.recovered, dest)
		ls.wakeTimer()
	}
	l.openWindow()
	l.startWorkers(n)
}

// openWindow makes the in-flight window as large as it may be: consumers limit themselves.
func (l *Lane) openWindow() {
	if l.window.size < l.window.limit {
		l.window.size = l.window.limit
		l.startWorkers(l.queued())
	}
}

// isPulled reports whether a consumer waits for events of the lane's destination, which is one that is pulled.
func (l *Lane) isPulled() bool {
	l.lanes.mu.Lock()
	defer l.lanes.mu.Unlock()
	l.openWindow()
	return l.lanes.pulled(l.dest)
}

// waitForPull makes the lane wait until WakePulled, or until it is time to see whether the destination is abandoned.
func (l *Lane) waitForPull(now time.Time) {
	if l.lanes.pulled(l.dest) { // since the worker has asked
		return
	}
	l.waitForToken(maxTokenWait, 0, now)
	l.token.maxQueued = math.MaxInt32 // hasRoom bounds them
}

// isAbandoned reports whether nobody has pulled the destination for long.
func (l *Lane) isAbandoned() bool {
	l.lanes.mu.Lock()
	defer l.lanes.mu.Unlock()
	return l.lanes.now().Sub(later(l.lastPull, l.pace.busySince)) > abandonedAfter
}
