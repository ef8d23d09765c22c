package dispatcher

import (
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/event"
)

// refuse ends or parks work that its lane did not take.
func (d *Dispatcher) refuse(j *lane.Delivery, reason event.Reason) {
	if d.hold(j) {
		d.putAside(j, reason, false)
	}
}

// shed ends or parks work that was taken out of its lane.
func (d *Dispatcher) shed(j *lane.Delivery) {
	if !slotOf(j).part.begin() {
		d.lanes.Free(j)
		return
	}
	d.putAside(j, event.LaneFull, false)
}

// putAside ends work if it must end now, else parks it; readBody as in rule.
func (d *Dispatcher) putAside(j *lane.Delivery, reason event.Reason, readBody bool) {
	r := d.rule(j.Work, readBody)
	switch {
	case r.end.status != "":
		d.ended(j, r.end)
		return
	case r.paused:
		reason = event.Manual
	case r.known && reason == event.BreakerOpen:
		d.lanes.Moved(j.Work.Dest, r.dest.URL) // mended by hand, perhaps: what comes by next is tried there
	}
	d.park(j, reason)
}

// park puts work that cannot run now into a tier. It is no attempt. An outcome tells of it when it begins,
// when the reason changes, and when the time it told is over.
func (d *Dispatcher) park(j *lane.Delivery, reason event.Reason) {
	w, now := j.Work, d.now()
	s := d.lanes.Park(w, reason, slotOf(j).part.id.Index)
	again := *w
	again.Parked, again.ParkedBy, again.Due = reason, s.Mark, s.Due
	if w.Parked == reason && (w.Told.IsZero() || now.Before(w.Told)) {
		d.follow(j, &again, now, nil)
		return
	}
	o := d.outcome(w, waiting(w, reason), reason)
	o.NextAt, again.Told = s.Next, time.Time{}
	if reason != event.LaneFull { // of which nobody knows more than when it comes by
		again.Told = s.Next
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
