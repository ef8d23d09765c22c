package lane

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// How often parked deliveries are re-checked: at most RecheckBudget times a second for all of a node together, and each
// of them every MinRecheck to MaxRecheck. Only the first interval may be shorter, down to a fifth.
const (
	RecheckBudget = 4000
	MinRecheck    = 5 * time.Second
	MaxRecheck    = time.Hour
)

// parkReasons are the reasons for which deliveries are parked.
var parkReasons = [...]event.Reason{event.LaneFull, event.Paced, event.BreakerOpen, event.Manual}

// parking counts the parked deliveries of a lane. Their records carry laneID. A record with another id was parked by
// an earlier owner and counts once it is parked again. So a new owner has counted all of them after one re-check
// interval.
type parking struct {
	laneID uint32
	counts [len(parkReasons)]int
	total  int
}

// newParking chooses a random laneID. It is never 0, which stands for a delivery that no lane has counted as parked.
func newParking() parking { return parking{laneID: rand.Uint32() | 1} }

// countOf is the counter of the reason; an unknown reason uses the first one.
func (p *parking) countOf(reason event.Reason) *int {
	return &p.counts[max(slices.Index(parkReasons[:], reason), 0)]
}

// RecheckInterval is how long a delivery waits for its next re-check in a lane with that many parked deliveries, while
// that many lanes have some: parked × lanes / RecheckBudget seconds, from MinRecheck to MaxRecheck. Where that takes
// several hops, the result is the next longer interval of a single hop, so that hops stay within the budget too.
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

// parkLocked counts the delivery as parked and decides when it is re-checked. The first interval is shortened at
// random, so that deliveries that were parked together do not return together. An outcome is recorded when parking
// starts, when the reason changes, and when the reported time has passed. ls.mu is held.
func (ls *Lanes) parkLocked(l *Lane, delivery *Delivery, reason event.Reason, now time.Time) Decision {
	work := delivery.Work
	if l.parking.total == 0 {
		ls.lanesParked++
	}
	*l.parking.countOf(reason)++
	l.parking.total++
	interval := RecheckInterval(ls.tiers, l.parking.total, ls.lanesParked)
	if work.Parked == "" {
		interval = interval/5 + time.Duration(rand.Float64()*float64(interval-interval/5))
	}
	decision := Decision{
		Action: Park, Delivery: delivery, DecidedAt: now, Reason: reason,
		Due: now.Add(interval), ReportedNextAt: work.ReportedNextAt, ParkedBy: l.parking.laneID,
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
	if reason != event.LaneFull { // its only known time is the next re-check
		decision.ReportedNextAt = decision.EarliestSend
	}
	return decision
}

// parkUnchecked parks a delivery whose configuration cannot be read, for MinRecheck. It is not counted as parked, and
// no outcome is recorded: nothing new is known.
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

// countReturned uncounts a parked delivery that has returned from its retry topic.
func (ls *Lanes) countReturned(l *Lane, work *event.Work) {
	if work.Parked == "" || work.ParkedBy != l.parking.laneID {
		return
	}
	n := l.parking.countOf(work.Parked)
	if *n == 0 { // a second copy of the record
		return
	}
	*n--
	if l.parking.total--; l.parking.total == 0 {
		ls.lanesParked--
	}
}

// resetParked starts the count of parked deliveries at 0 again: another owner may have had them meanwhile.
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
