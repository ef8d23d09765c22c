package dispatcher

import (
	"context"
	"time"
)

// ripeBatch is how many jobs of a tier are released before the next tier has its turn.
const ripeBatch = 256

// never is a wait that something else ends.
const never = 24 * time.Hour

// wake makes the timer look at the tiers.
func (d *Dispatcher) wake() {
	select {
	case d.due <- struct{}{}:
	default:
	}
}

// timer releases waiting work when it is ready, until ctx ends.
func (d *Dispatcher) timer(ctx context.Context) {
	t := time.NewTimer(never)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-d.due:
		}
		t.Reset(d.releaseRipe())
	}
}

// releaseRipe runs what is ready and returns the time until it must be called again. Work that is ready
// but not due has spent its time in this tier and hops to the next.
func (d *Dispatcher) releaseRipe() time.Duration {
	wait := never
	if d.lanes.recheck() {
		wait = movingWindow
	}
	for _, p := range d.assignment() {
		if p.delay == 0 {
			continue
		}
		now := d.now()
		jobs, next := p.ripe(now, ripeBatch)
		for _, j := range jobs {
			if j.work.Due.After(now) {
				d.hop(j, now)
			} else {
				d.run(j)
			}
		}
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(now), 0))
		}
	}
	return wait
}
