package dispatcher

import (
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/id"
)

// recheckTick is how often parked deliveries of recovered lanes are re-checked.
const recheckTick = 50 * time.Millisecond

// maxSleep bounds how late the timer notices that the wall clock, by which deliveries are due, was set forward.
const maxSleep = 10 * time.Second

// minRecheckSpan is how long re-checks go on at least. Twice the time that the parked deliveries need is added.
const minRecheckSpan = time.Minute

// What a lane parks just before it recovers is read later, and the broker may date it later: clocks that differ by up
// to 2 s are not corrected, retry topics are read up to half a second late, and producing takes time too. So what a
// recovered lane seems to have parked up to readLag after the recovery is re-checked, unless it returns within
// lane.MinRecheck by itself, as most does that is parked after it. While nothing else is left, it is searched for every
// lateTick.
const (
	readLag  = 3 * time.Second
	lateTick = 500 * time.Millisecond
)

// recheck re-checks what lanes have parked for long while they hung or were paused, once they have recovered and
// whenever it is due: at most RecoveredPace deliveries a second, each once. While a tier partition has records that
// were not read, what other lanes have parked there is re-checked too, to make room for them. Only the timer uses it.
type recheck struct {
	*deliveries
	assignment *assignment
	pass       pass
}

// pass is one pass over the deliveries that are re-checked; zero: there is none.
type pass struct {
	// dests are the destinations of the recovered lanes, each with the events whose deliveries were re-checked until
	// readLag after from: parked again, they look like what was being parked at the recovery.
	dests map[string]map[id.ID]bool
	all   bool      // all lanes: partitions were assigned, and only an earlier owner knew which lanes hung
	from  time.Time // deliveries that were parked later are not re-checked, but see readLag
	until time.Time
	last  time.Time     // when deliveries were re-checked last
	pause time.Duration // from last to the next time
}

// run re-checks as many as are due now and returns how long to wait before the next call.
func (c *recheck) run() time.Duration {
	r, now := &c.pass, c.now()
	dests, parked, again := c.lanes.Recovered()
	if again == 0 {
		again = maxSleep
	}
	r.extend(dests, c.assignment.added.Swap(false), parked, now)
	if r.from.IsZero() {
		return again
	}
	elapsed := now.Sub(r.last)
	switch {
	case elapsed < 0: // the clock was set back
		r.from, r.until = now, now.Add(minRecheckSpan)
	case elapsed < r.pause:
		return r.pause - elapsed
	}
	r.last = now
	taken, unread := c.admitParked(int(lane.RecoveredPace * min(max(elapsed, 0), 2*recheckTick) / time.Second))
	done := taken == 0 && !unread && !r.all
	switch {
	case now.After(r.until) || done && now.After(r.from.Add(readLag)):
		*r = pass{}
		return again
	case done:
		r.pause = lateTick
	case taken == 0:
		r.pause = 2 * recheckTick
	default:
		r.pause = recheckTick
	}
	return r.pause
}

// admitParked admits at most limit of the deliveries that are to be re-checked. unread means that a partition may have
// more of them that were not read.
func (c *recheck) admitParked(limit int) (taken int, unread bool) {
	r := &c.pass
	tiers, now := onlyTiers(c.assignment.all()), c.now()
	for _, share := range []int{limit/max(len(tiers), 1) + 1, limit} { // equal shares, then what is left of them
		for _, p := range tiers {
			more := p.hasUnread()
			unread = unread || more
			deliveries := p.takeParked(r.from.Add(readLag), min(share, limit-taken), func(delivery *lane.Delivery) bool {
				checked, recovered := r.dests[delivery.Work.Dest]
				if delivery.ParkedAt.After(r.from) {
					return recovered && !checked[delivery.Work.Event.ID] && delivery.Work.Due.After(now.Add(lane.MinRecheck))
				}
				return r.all || more || recovered
			})
			for _, delivery := range deliveries {
				if checked := r.dests[delivery.Work.Dest]; checked != nil && !now.After(r.from.Add(readLag)) {
					checked[delivery.Work.Event.ID] = true
				}
				c.admit(delivery)
			}
			taken += len(deliveries)
		}
	}
	return taken, unread
}

// extend adds recovered lanes. What was parked until now is re-checked again.
func (r *pass) extend(dests []string, all bool, parked int, now time.Time) {
	if len(dests) == 0 && !all {
		return
	}
	if r.from.IsZero() {
		*r = pass{dests: make(map[string]map[id.ID]bool), last: now.Add(-recheckTick)}
	}
	r.pause = recheckTick
	for _, checked := range r.dests {
		clear(checked)
	}
	for _, dest := range dests {
		if r.dests[dest] == nil {
			r.dests[dest] = make(map[id.ID]bool)
		}
	}
	r.all = r.all || all
	span := minRecheckSpan + 2*time.Duration(parked)*time.Second/lane.RecheckBudget
	r.from, r.until = now, lane.Earlier(now.Add(span), now.Add(lane.MaxRecheck))
}
