package dispatcher

import (
	"context"
	"time"
)

// readyBatch is how many deliveries of a tier are released before the next tier has its turn.
const readyBatch = 256

// maxSleep bounds how long the timer trusts that the wall clock, by which work is due, goes on as it
// did: after a step forward what is due is noticed so late at most.
const maxSleep = 10 * time.Second

// wake makes the timer re-check lanes and tiers.
func (d *Dispatcher) wakeTimer() {
	select {
	case d.timerWake <- struct{}{}:
	default:
	}
}

// timer releases waiting work when it is ready, until ctx ends.
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

// releaseReady runs what is ready and returns the time until it must be called again. Work that is ready
// but not due has spent its time in this tier and hops to the next.
func (d *Dispatcher) releaseReady() time.Duration {
	refused, wait := d.lanes.EnforceLimits()
	for _, decision := range refused {
		d.carryOut(decision)
	}
	if wait == 0 {
		wait = maxSleep
	}
	for _, p := range d.assignment() {
		if p.delay == 0 {
			continue
		}
		now := d.now()
		ripe, next := p.takeReady(now, readyBatch)
		for _, delivery := range ripe {
			if delivery.Work.Due.After(now) {
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
