package lane

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// The parking rule: all parked deliveries of a node together come by about RecheckBudget times a second, each of them
// at least every MaxRecheck, and none more often than every MinRecheck.
const (
	RecheckBudget = 4000
	MinRecheck    = 5 * time.Second
	MaxRecheck    = time.Hour
)

// parkReasons are the reasons for which deliveries are parked.
var parkReasons = [...]event.Reason{event.LaneFull, event.Paced, event.BreakerOpen, event.Manual}

// parking is what a lane knows of its parked deliveries. The records carry the lane's mark: one with another mark was
// parked by an earlier owner and counts when it is parked again. So a lane knows all of them after one step, and how
// many they are exactly from then on.
type parking struct {
	laneID uint32
	counts [len(parkReasons)]int
	total  int
}

// newParking makes a mark that is never 0, the mark of what was never parked.
func newParking() parking { return parking{laneID: rand.Uint32() | 1} }

// of is the count of what is parked for the reason; one that is not known counts as the first.
func (p *parking) countOf(reason event.Reason) *int {
	return &p.counts[max(slices.Index(parkReasons[:], reason), 0)]
}

// RecheckInterval is how long a parked delivery waits until it comes by again, when this many of a lane and this many
// lanes are parked. A wait that would take several hops is longer instead: the next one of a single hop, so that the
// budget holds in hops, too.
func RecheckInterval(tiers []stream.Tier, parked, lanes int) time.Duration {
	wanted := float64(parked) * float64(lanes) / RecheckBudget
	step := max(MinRecheck, time.Duration(min(wanted, MaxRecheck.Seconds())*float64(time.Second)))
	for _, t := range tiers {
		if t.Delay >= step {
			if TierFor(tiers, step).Delay < step {
				return t.Delay
			}
			break
		}
	}
	return step
}

// park counts the delivery as parked by its lane. The first time it comes by somewhat earlier, at random: what came at
// once does not come back at once then. An outcome speaks of it when it begins, when the reason changes, and when the
// time that was told is over. ls.mu is held.
func (ls *Lanes) parkLocked(l *Lane, delivery *Delivery, reason event.Reason, now time.Time) Decision {
	work := delivery.Work
	if l.parking.total == 0 {
		ls.lanesParked++
	}
	*l.parking.countOf(reason)++
	l.parking.total++
	step := RecheckInterval(ls.tiers, l.parking.total, ls.lanesParked)
	if work.Parked == "" {
		step = step/5 + time.Duration(rand.Float64()*float64(step-step/5))
	}
	decision := Decision{
		Action: Park, Delivery: delivery, DecidedAt: now, Reason: reason,
		Due: now.Add(step), ReportedNextAt: work.ReportedNextAt, ParkedBy: l.parking.laneID,
	}
	if work.Parked == reason && (work.ReportedNextAt.IsZero() || now.Before(work.ReportedNextAt)) {
		return decision
	}
	switch reason {
	case event.BreakerOpen:
		decision.EarliestSend = later(decision.Due, l.breaker.openUntil)
	case event.Paced:
		decision.EarliestSend = later(decision.Due, now.Add(l.token.backlog(l.parking.total)))
	case event.LaneFull:
		decision.EarliestSend = decision.Due
	}
	decision.Status, decision.ReportedNextAt = parkedStatus(work, reason), time.Time{}
	if reason != event.LaneFull { // of which nobody knows more than when it comes by
		decision.ReportedNextAt = decision.EarliestSend
	}
	return decision
}

// undecided parks a delivery whose configuration cannot be read. No outcome speaks of it: nothing is known of it.
func (ls *Lanes) parkUnchecked(delivery *Delivery, err error) Decision {
	now, work := ls.now(), delivery.Work
	return Decision{
		Action: Park, Delivery: delivery, DecidedAt: now, Reason: work.Parked, Due: now.Add(MinRecheck),
		ReportedNextAt: work.ReportedNextAt, Err: err,
	}
}

// parkedStatus is the status of a parked delivery.
func parkedStatus(work *event.Work, reason event.Reason) event.Status {
	switch {
	case reason == event.Manual || reason == event.BreakerOpen:
		return event.Held
	case work.Attempt > 1:
		return event.Retrying // it failed before, and waits for its next attempt
	}
	return event.Pending
}

// countReturned counts a parked delivery that is here again.
func (ls *Lanes) countReturned(l *Lane, work *event.Work) {
	if work.Parked == "" || work.ParkedBy != l.parking.laneID {
		return
	}
	n := l.parking.countOf(work.Parked)
	if *n == 0 { // a second copy of it
		return
	}
	*n--
	if l.parking.total--; l.parking.total == 0 {
		ls.lanesParked--
	}
}

// resetParked begins to count anew: another owner may have had the deliveries meanwhile.
func (ls *Lanes) resetParked(l *Lane) {
	if l.parking.total > 0 {
		ls.lanesParked--
	}
	l.parking = newParking()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
