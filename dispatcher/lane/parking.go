package lane

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// How often parked deliveries are re-checked: at most RecheckBudget times a second for all of a node together, and each
// of them every MinRecheck to MaxRecheck. Only the first interval may be shorter, down to a fifth.
//
// Deliveries of lanes that hang or are paused share HungRecheckBudget: re-checks are in vain until a request gets an
// answer or the endpoint changes. Then the lane has recovered (Recovered), and the dispatcher re-checks what it has
// parked, at most RecoveredPace a second.
const (
	RecheckBudget     = 4000
	HungRecheckBudget = 500
	RecoveredPace     = 6000
	MinRecheck        = 5 * time.Second
	MaxRecheck        = time.Hour
)

// changeInterval is how often the configuration of lanes that hang or are paused is read.
const changeInterval = time.Second

// hungAfter is after how long without an answer a busy lane hangs. It is the default time-out of a request.
const hungAfter = 15 * time.Second

// parkReasons are the reasons for which deliveries are parked.
var parkReasons = [...]event.Reason{event.LaneFull, event.Paced, event.BreakerOpen, event.Manual, event.Behind,
	event.NotPulled}

// parking counts the parked deliveries of a lane. Their records carry laneID. A record with another id was parked by
// an earlier owner and counts once it is parked again. So a new owner has counted all of them after one re-check
// interval.
type parking struct {
	laneID uint32
	counts [len(parkReasons)]int
	total  int
	// hungUntil is until when deliveries wait that were parked for longer than RecheckBudget asks for, because the lane
	// hung or was paused; zero: none does.
	hungUntil time.Time
	hung      *hungDelivery // one of those, to notice changes of the configuration
	// behindUntil is until when deliveries wait that were parked because it was not their turn; hung is also one of these.
	behindUntil time.Time
}

// hungDelivery is a delivery that was parked because its lane hung or was paused, with what Rules.Check needs of its
// event: the texts of an event share the memory of all its headers.
type hungDelivery struct {
	work   event.Work
	paused bool
	rev    int64 // of the endpoint; 0: not read yet
}

// newParking chooses a random laneID. It is never 0, which stands for a delivery that no lane has counted as parked.
func newParking() parking { return parking{laneID: rand.Uint32() | 1} }

// countOf is the counter of the reason; an unknown reason uses the first one.
func (p *parking) countOf(reason event.Reason) *int {
	return &p.counts[max(slices.Index(parkReasons[:], reason), 0)]
}

// RecheckInterval is how long a delivery waits for its next re-check in a lane with that many parked deliveries, while
// that many lanes have some: parked × lanes / budget seconds, from MinRecheck to MaxRecheck. Where that takes several
// retry passes, the result is the next longer interval of a single one, so that passes stay within the budget too.
func RecheckInterval(tiers []stream.Tier, parked, lanes, budget int) time.Duration {
	wanted := float64(parked) * float64(lanes) / float64(budget)
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
// starts, when the reason changes, and when the reported time has passed. Lanes.mu is held.
func (l *Lane) parkLocked(delivery *Delivery, reason event.Reason, now time.Time) Decision {
	work := delivery.Work
	if l.parking.total == 0 {
		l.lanes.lanesParked++
	}
	*l.parking.countOf(reason)++
	l.parking.total++
	wait, earliest := l.parkFor(delivery, reason, now)
	decision := Decision{
		Action: Park, Delivery: delivery, DecidedAt: now, Reason: reason,
		Due: now.Add(wait), ReportedNextAt: work.ReportedNextAt, ParkedBy: l.parking.laneID,
	}
	if reason == event.BreakerOpen {
		decision.OpenFor, decision.OpenUntil = l.breaker.openFor, l.breaker.openUntil
	}
	if reason == event.Behind && !delivery.behind.IsZero() {
		decision.Behind = delivery.behind.Text(id.Event)
	}
	reported := decision.Behind == "" || decision.Behind == work.Behind
	if work.Parked == reason && reported && (work.ReportedNextAt.IsZero() || now.Before(work.ReportedNextAt)) {
		return decision
	}
	switch reason {
	case event.BreakerOpen:
		decision.EarliestSend = later(now.Add(earliest), l.breaker.openUntil)
	case event.Paced:
		decision.EarliestSend = later(decision.Due, now.Add(l.token.backlog(l.parking.total)))
	case event.LaneFull:
		decision.EarliestSend = now.Add(earliest)
	}
	decision.Status, decision.ReportedNextAt = parkedStatus(work, reason), time.Time{}
	if reason != event.LaneFull { // its only known time is the next re-check
		decision.ReportedNextAt = decision.EarliestSend
	}
	return decision
}

// parkFor returns how long the delivery is parked, and how soon it is re-checked if the lane recovers meanwhile. What a
// user asked for never waits longer because the lane hangs: its job may be cancelled.
func (l *Lane) parkFor(delivery *Delivery, reason event.Reason, now time.Time) (wait, earliest time.Duration) {
	ls, work := l.lanes, delivery.Work
	earliest = RecheckInterval(ls.tiers, l.parking.total, ls.lanesParked, RecheckBudget)
	if reason == event.Behind {
		wait = max(RecheckInterval(ls.tiers, l.parking.total, ls.lanesParked, HungRecheckBudget), behindRecheck)
		l.parking.behindUntil = later(l.parking.behindUntil, now.Add(wait))
		l.watch(delivery, reason)
		return wait, wait // all the same, so that they come back in their order
	}
	wait = earliest
	hangs := !isRequested(work) && l.hangs(reason, now)
	if hangs {
		wait = RecheckInterval(ls.tiers, l.parking.total, ls.lanesParked, HungRecheckBudget)
	}
	if work.Parked == "" {
		share := 0.2 + 0.8*rand.Float64()
		wait, earliest = time.Duration(share*float64(wait)), time.Duration(share*float64(earliest))
	}
	long := hangs && wait > earliest
	if open := l.breaker.openUntil.Sub(now); hangs && reason == event.BreakerOpen && open > 0 {
		inTime := max(open, MinRecheck) // not RecheckInterval: all others would wait for it that long
		if !long {
			inTime = min(inTime, wait)
		}
		if l.breaker.offer(work, inTime, now) {
			wait, earliest = inTime, min(earliest, inTime)
		}
	}
	if !long {
		return wait, earliest
	}
	l.parking.hungUntil = later(l.parking.hungUntil, now.Add(wait))
	l.watch(delivery, reason)
	return wait, earliest
}

// watch keeps one delivery that was parked for long, to notice changes of the configuration.
func (l *Lane) watch(delivery *Delivery, reason event.Reason) {
	if l.parking.hung == nil {
		l.parking.hung, l.lanes.anyHung = newHungDelivery(delivery.Work, reason), true
		l.parking.hung.rev = delivery.rev
		l.lanes.wakeTimer()
	}
}

func newHungDelivery(work *event.Work, reason event.Reason) *hungDelivery {
	h := &hungDelivery{work: *work, paused: reason == event.Manual}
	h.work.Dest = strings.Clone(work.Dest)
	if ev := work.Event; ev != nil {
		h.work.Event = &event.Event{ID: ev.ID, Endpoint: ev.Endpoint, Type: strings.Clone(ev.Type),
			ExpiresAt: ev.ExpiresAt}
	}
	return h
}

// hangs reports whether re-checks of what is parked for that reason are in vain until a request gets an answer or the
// endpoint changes.
func (l *Lane) hangs(reason event.Reason, now time.Time) bool {
	switch reason {
	case event.BreakerOpen, event.Manual, event.NotPulled:
		return true
	case event.LaneFull:
		return now.Sub(later(l.pace.busySince, l.pace.lastAnswer)) > hungAfter
	}
	return false
}

// recordRecovery is called when a lane cannot hang any more: a request got an answer, its circuit breaker closed, or
// its endpoint changed. If it hung, the next call of Recovered returns its destination.
func (l *Lane) recordRecovery(now time.Time) {
	l.pace.lastAnswer = now
	if now.Before(l.parking.hungUntil) {
		l.lanes.recovered = append(l.lanes.recovered, l.dest)
		l.lanes.wakeTimer()
	}
	if l.parking.hungUntil = (time.Time{}); !now.Before(l.parking.behindUntil) {
		l.parking.hung = nil
	}
}

// Recovered returns the destinations of lanes that hung or were paused and have recovered since the last call, and how
// many deliveries all lanes have parked. again is how long to wait before the next call; 0: until Deps.Wake is called.
func (ls *Lanes) Recovered() (destinations []string, parked int, again time.Duration) {
	for l, delivery := range ls.hungLanes() {
		if delivery.changed(ls.rules) {
			ls.mu.Lock()
			l.parking.hungUntil, l.parking.behindUntil = later(l.parking.hungUntil, l.parking.behindUntil), time.Time{}
			l.recordRecovery(ls.now())
			ls.mu.Unlock()
		}
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.anyHung {
		again = changeInterval
	}
	if len(ls.recovered) == 0 {
		return nil, 0, again
	}
	for _, l := range ls.byDest {
		parked += l.parking.total
	}
	destinations, ls.recovered = ls.recovered, nil
	return destinations, parked, again
}

// hungLanes returns the lanes that hang or are paused, at most once per changeInterval.
func (ls *Lanes) hungLanes() map[*Lane]*hungDelivery {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	if passed := now.Sub(ls.changesRead); passed >= 0 && passed < changeInterval {
		return nil
	}
	ls.changesRead, ls.anyHung = now, false
	hung := make(map[*Lane]*hungDelivery)
	for _, l := range ls.byDest {
		if now.After(l.parking.hungUntil) && now.After(l.parking.behindUntil) {
			l.parking.hung = nil
		}
		if l.parking.hung != nil {
			hung[l], ls.anyHung = l.parking.hung, true
		}
	}
	return hung
}

// changed reports whether a re-check may decide otherwise than before, because the endpoint has changed or the delivery
// ends. Only the caller of Recovered uses h.rev.
func (h *hungDelivery) changed(rules Rules) bool {
	eligibility := rules.Check(&h.work, false)
	switch {
	case !eligibility.Known:
		return false
	case eligibility.Status != "" || eligibility.Endpoint == nil || h.paused && !eligibility.Paused:
		return true
	case h.rev == 0:
		h.rev = eligibility.Endpoint.Rev
	}
	return h.rev != eligibility.Endpoint.Rev
}

// ParkUnsent parks a delivery that cannot be sent now, by no fault of its destination, for MinRecheck.
func (ls *Lanes) ParkUnsent(delivery *Delivery, err error) Decision {
	return ls.parkUnchecked(delivery, err)
}

// parkUnchecked parks a delivery whose configuration cannot be read, for MinRecheck, and does not count it as parked.
// It records an outcome only of a first attempt that has none yet: lists of pending events miss a delivery without one
// as soon as its event is committed. Later re-checks say nothing new.
func (ls *Lanes) parkUnchecked(delivery *Delivery, err error) Decision {
	now, work := ls.now(), delivery.Work
	decision := Decision{
		Action: Park, Delivery: delivery, DecidedAt: now, Reason: work.Parked, Due: now.Add(MinRecheck),
		ReportedNextAt: work.ReportedNextAt, Err: err,
	}
	if work.Run == "" && work.Attempt == 1 && !work.WasParked() {
		// Without EarliestSend: the time of the attempt is unknown while the configuration cannot be read.
		decision.Status, decision.ReportedNextAt = event.Pending, decision.Due
	}
	return decision
}

// parkedStatus is the status of a parked delivery.
func parkedStatus(work *event.Work, reason event.Reason) event.Status {
	switch {
	case reason == event.Manual, reason == event.BreakerOpen, reason == event.Behind, reason == event.NotPulled:
		return event.Held
	case work.Attempt > 1:
		return event.Retrying // it failed before, and waits for its next attempt
	}
	return event.Pending
}

// countReturned uncounts a parked delivery that has returned from its retry topic.
func (l *Lane) countReturned(work *event.Work) {
	if work.Parked == "" || work.ParkedBy != l.parking.laneID {
		return
	}
	n := l.parking.countOf(work.Parked)
	if *n == 0 { // a second copy of the record
		return
	}
	*n--
	if l.parking.total--; l.parking.total == 0 {
		l.lanes.lanesParked--
	}
}

// resetParked starts the count of parked deliveries at 0 again: another owner may have had them meanwhile.
func (l *Lane) resetParked() {
	if l.parking.total > 0 {
		l.lanes.lanesParked--
	}
	l.parking = newParking()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// minTierTime is the least time that a record spends in a tier when the clocks of broker and node disagree. It bounds
// the retry passes of one record to two a second.
const minTierTime = 500 * time.Millisecond

// Slack is how much later than due a delivery may run: max(1 s, 5 %) of its wait.
func Slack(wait time.Duration) time.Duration { return max(time.Second, wait/20) }

// TierFor chooses the retry topic for a delivery that is due after wait: the shortest delay that covers wait within
// Slack, else the longest that does not exceed it, from where the delivery moves on, else the shortest of all.
func TierFor(tiers []stream.Tier, wait time.Duration) stream.Tier {
	longest := tiers[0]
	for _, t := range tiers {
		if t.Delay >= wait && t.Delay-wait <= Slack(wait) {
			return t
		}
		if t.Delay <= wait {
			longest = t
		}
	}
	return longest
}

// ReadyAt is when a record leaves its tier: when it is due, if that is within this tier, else when its time in the
// tier is over and it moves on to the next one.
//
// A node holds a bounded number of records of a tier and releases them in order of ReadyAt. A later record is read when
// there is room. All records before it leave at the latest when its own time in the tier is over, so it is late by no
// more than the slack of its tier. The append time may come from another clock. It can shorten the wait to minTierTime
// after the record was first seen, and never lengthen it beyond the delay of the tier.
func ReadyAt(due, appended, seen time.Time, delay time.Duration) time.Time {
	tierEnd := appended.Add(delay)
	if due.After(tierEnd) {
		if first := seen.Add(min(minTierTime, delay)); tierEnd.Before(first) {
			tierEnd = first
		}
		due = Earlier(due, tierEnd)
	}
	return Earlier(due, seen.Add(delay))
}

// Earlier is the earlier of two times.
func Earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
