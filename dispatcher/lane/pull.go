package lane

import (
	"math"
	"time"

	"github.com/eventrelay/relay/pkg/event"
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

// lease reports whether a consumer waits for events of the lane's destination, which is one that is pulled, and may get
// the delivery.
func (l *Lane) lease(delivery *Delivery) bool {
	ls := l.lanes
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.openWindow()
	if !ls.pulled(l.dest) || !l.mayLease(delivery.Size) {
		return false
	}
	delivery.leased = delivery.Size
	l.countLease(1, delivery.leased)
	return true
}

// mayLease reports whether a consumer of the lane may get one more delivery. Consumers of all lanes get half of the
// memory and of the requests: they keep an event for up to ten minutes, in which no other destination would get any.
// Lanes share that half by the dynamic threshold.
func (l *Lane) mayLease(size int) bool {
	all := &l.lanes.leases
	return all.count == 0 || l.leases.count < min(l.lanes.maxDeliveries, l.lanes.maxSending)/2-all.count &&
		l.leases.bytes+size <= l.lanes.maxBytes/2-all.bytes
}

// leases are deliveries that consumers have.
type leases struct{ count, bytes int }

func (l *Lane) countLease(n, bytes int) {
	for _, of := range []*leases{&l.leases, &l.lanes.leases} {
		of.count += n
		of.bytes += bytes
	}
}

// endLease uncounts a delivery that lease has counted.
func (l *Lane) endLease(delivery *Delivery) {
	if delivery != nil && delivery.leased > 0 {
		l.countLease(-1, -delivery.leased)
		delivery.leased = 0
	}
}

// waitForPull makes the lane wait until WakePulled, or until it is time to see whether the destination is abandoned.
func (l *Lane) waitForPull(delivery *Delivery, now time.Time) {
	if l.lanes.pulled(l.dest) && l.mayLease(delivery.Size) { // since the worker has asked
		return
	}
	l.waitForToken(maxTokenWait, 0, now)
	l.token.maxQueued = math.MaxInt32 // hasRoom bounds them
}

// pullParks returns why a delivery that no consumer gets now is parked, and empty if it waits in the lane: for as long
// as others have memory. One that was parked waits for a consumer that has pulled, and not another time for the first.
func (l *Lane) pullParks(delivery *Delivery) event.Reason {
	ls := l.lanes
	ls.mu.Lock()
	defer ls.mu.Unlock()
	since := l.lastPull
	if delivery.Work.Parked != event.NotPulled {
		since = later(since, l.pace.busySince)
	}
	switch {
	case ls.now().Sub(since) <= abandonedAfter && !ls.memoryAbove(2):
		return ""
	case ls.pulled(l.dest):
		return event.LaneFull
	}
	return event.NotPulled
}
