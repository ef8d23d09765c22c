package dispatcher

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// The parking rule: all parked work of a node together comes by about hopBudget times a second, each piece
// at least every longestPark, and none more often than every shortestPark.
const (
	hopBudget    = 4000
	shortestPark = 5 * time.Second
	longestPark  = time.Hour
)

// parkReasons are the reasons for which work is parked.
var parkReasons = [...]event.Reason{event.LaneFull, event.Paced, event.BreakerOpen, event.Manual}

// parking is what a lane knows of its parked work. The records carry the lane's mark, so that one that comes
// back is told from one that an earlier owner parked: that one is new here, and counts when it is parked
// again. So a lane knows all of them after one step, and how many they are exactly from then on.
type parking struct {
	mark   uint32
	counts [len(parkReasons)]int
	total  int
}

// newParking makes a mark that is never 0, the mark of what was never parked.
func newParking() parking { return parking{mark: rand.Uint32() | 1} }

// of is the count of what is parked for the reason; one that is not known counts as the first.
func (p *parking) of(reason event.Reason) *int {
	return &p.counts[max(slices.Index(parkReasons[:], reason), 0)]
}

// stepOf is how long parked work waits until it comes by again, when this many pieces of a lane and this
// many lanes are parked. A wait that would take several hops is longer instead: the next one of a single
// hop, so that the budget holds in hops, too.
func stepOf(tiers []stream.Tier, parked, lanes int) time.Duration {
	wanted := float64(parked) * float64(lanes) / hopBudget
	step := max(shortestPark, time.Duration(min(wanted, longestPark.Seconds())*float64(time.Second)))
	for _, t := range tiers {
		if t.Delay >= step {
			if tierFor(tiers, step).Delay < step {
				return t.Delay
			}
			break
		}
	}
	return step
}

// stay is how a piece of work is parked.
type stay struct {
	due  time.Time // when it comes by
	next time.Time // when it will hardly be sent before; zero: nobody knows
	mark uint32
}

// park counts the work as parked by its lane. What is parked for the first time comes by somewhat earlier, at
// random: what came at once does not come back at once then.
func (ls *lanes) park(w *event.Work, reason event.Reason, index int32) stay {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.now()
	l := ls.lane(w, index, now)
	if l.parking.total == 0 {
		ls.parking++
	}
	*l.parking.of(reason)++
	l.parking.total++
	step := stepOf(ls.tiers, l.parking.total, ls.parking)
	if w.Parked == "" {
		step = step/5 + time.Duration(rand.Float64()*float64(step-step/5))
	}
	s := stay{due: now.Add(step), mark: l.parking.mark}
	switch reason {
	case event.BreakerOpen:
		s.next = later(s.due, l.breaker.until)
	case event.Paced:
		s.next = later(s.due, now.Add(l.rest.backlog(l.parking.total)))
	case event.LaneFull:
		s.next = s.due
	}
	return s
}

// comeBack notes that work that was parked is here again.
func (ls *lanes) comeBack(l *lane, w *event.Work) {
	if w.Parked == "" || w.ParkedBy != l.parking.mark {
		return
	}
	n := l.parking.of(w.Parked)
	if *n == 0 { // a second copy of it
		return
	}
	*n--
	if l.parking.total--; l.parking.total == 0 {
		ls.parking--
	}
}

// forgetParked begins to count anew: another owner may have had the work meanwhile.
func (ls *lanes) forgetParked(l *lane) {
	if l.parking.total > 0 {
		ls.parking--
	}
	l.parking = newParking()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// refuse ends or parks work that its lane did not take.
func (d *Dispatcher) refuse(j *job, reason event.Reason) {
	if d.hold(j) {
		d.putAside(j, reason, false)
	}
}

// shed ends or parks work that was taken out of its lane.
func (d *Dispatcher) shed(j *job) {
	if !j.slot.part.begin() {
		d.lanes.free(j)
		return
	}
	d.putAside(j, event.LaneFull, false)
}

// putAside ends work if it must end now, else parks it; readBody as in rule.
func (d *Dispatcher) putAside(j *job, reason event.Reason, readBody bool) {
	r := d.rule(j.work, readBody)
	switch {
	case r.end.status != "":
		d.ended(j, r.end)
		return
	case r.paused:
		reason = event.Manual
	case r.known && reason == event.BreakerOpen:
		d.lanes.moved(j.work.Dest, r.dest.URL) // mended by hand, perhaps: what comes by next is tried there
	}
	d.park(j, reason)
}

// park puts work that cannot run now into a tier. It is no attempt. An outcome tells of it when it begins,
// when the reason changes, and when the time it told is over.
func (d *Dispatcher) park(j *job, reason event.Reason) {
	w, now := j.work, d.now()
	s := d.lanes.park(w, reason, j.slot.part.id.Index)
	again := *w
	again.Parked, again.ParkedBy, again.Due = reason, s.mark, s.due
	if w.Parked == reason && (w.Told.IsZero() || now.Before(w.Told)) {
		d.follow(j, &again, now, nil)
		return
	}
	o := d.outcome(w, waiting(w, reason), reason)
	o.NextAt, again.Told = s.next, time.Time{}
	if reason != event.LaneFull { // of which nobody knows more than when it comes by
		again.Told = s.next
	}
	d.follow(j, &again, now, o)
}

// waiting is the status of work that is parked.
func waiting(w *event.Work, reason event.Reason) event.Status {
	switch {
	case reason == event.Manual || reason == event.BreakerOpen:
		return event.Held
	case w.Attempt > 1:
		return event.Retrying // it failed before, and waits for its next attempt
	}
	return event.Pending
}
