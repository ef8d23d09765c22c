package dispatcher

import (
	"context"
	"time"
)

// readyBatch is how many deliveries of a tier partition are released before the next partition has its turn.
const readyBatch = 256

// maxSleep bounds how late the timer notices that the wall clock, by which deliveries are due, was set forward.
const maxSleep = 10 * time.Second

// wakeTimer makes the timer check lanes and tiers now.
func (d *Dispatcher) wakeTimer() {
	select {
	case d.timerWake <- struct{}{}:
	default:
	}
}

// timer releases waiting deliveries when they are ready, until ctx ends.
func (d *Dispatcher) timer(ctx context.Context) {
	t := time.NewTimer(maxSleep)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-d.timerWake:
		}
		t.Reset(d.releaseReady())
	}
}

// releaseReady releases what is ready and enforces the limits of the lanes. It returns how long to wait before the next
// call. A delivery that is ready but not due has spent its time in this tier and moves on to another one.
func (d *Dispatcher) releaseReady() time.Duration {
	shed, wait := d.lanes.EnforceLimits()
	for _, decision := range shed {
		d.carryOut(decision)
	}
	if wait == 0 {
		wait = maxSleep
	}
	wait = min(wait, d.recheckRecovered(), d.admitWanted())
	for _, p := range onlyTiers(d.assignment.all()) {
		now := d.now()
		ready, next := p.takeReady(now, readyBatch)
		for _, delivery := range ready {
			if delivery.Work.Due.After(now) && !d.rules.payloadGone(delivery.Work, now) {
				d.hopDelivery(delivery, now)
			} else {
				d.admit(delivery)
			}
		}
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(now), 0))
		}
	}
	return wait
}
