package dispatcher

import (
	"context"
	"time"
)

// readyBatch is how many deliveries of a tier partition are released before the next partition has its turn.
const readyBatch = 256

// timer releases what waits in the retry topics.
type timer struct {
	*deliveries
	assignment *assignment
	rules      *rules
	recheck    *recheck
	wanted     *wanted
	wake       chan struct{} // a tier partition has a new head, or lanes want attention; capacity 1
}

// run releases waiting deliveries when they are ready, until ctx ends.
func (t *timer) run(ctx context.Context) {
	sleep := time.NewTimer(maxSleep)
	defer sleep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sleep.C:
		case <-t.wake:
		}
		sleep.Reset(t.releaseReady())
	}
}

// releaseReady releases what is ready and enforces the limits of the lanes. It returns how long to wait before the next
// call. A delivery that is ready but not due has spent its time in this tier and moves on to another one.
func (t *timer) releaseReady() time.Duration {
	shed, wait := t.lanes.EnforceLimits()
	for _, decision := range shed {
		t.carryOut(decision)
	}
	if wait == 0 {
		wait = maxSleep
	}
	wait = min(wait, t.recheck.run(), t.wanted.run())
	for _, p := range onlyTiers(t.assignment.all()) {
		now := t.now()
		ready, next := p.takeReady(now, readyBatch)
		for _, delivery := range ready {
			if delivery.Work.Due.After(now) && !t.rules.payloadGone(delivery.Work, now) {
				t.hop(delivery, now)
			} else {
				t.admit(delivery)
			}
		}
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(now), 0))
		}
	}
	return wait
}
