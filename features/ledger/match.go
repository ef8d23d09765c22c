package ledger

import (
	"cmp"
	"slices"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// reconciler decides for each delivery of a book whether it has ended, is in flight, or is lost.
type reconciler struct {
	book      *book
	partition int32
	// Completed records of these topics at the time of the cut.
	eventsDone, commandsDone stream.Completed
	// now is in unix milliseconds. Chains with a later trustedUntil count as in flight without proof; 0: none does.
	now int64
	// retriesUnread says that the retry topics were not read: what may be there counts as in flight.
	retriesUnread bool
	// onEnded is called for every event, and every poison, that has ended, which is then removed; nil: all are kept.
	onEnded func(minute int64, counts Counts)
	// onLost is called once for each lost delivery; may be nil.
	onLost func(Lost)

	counts   Counts // of all events, those that have ended included
	unproven int    // chains that count as in flight without proof
	lost     []Lost // the first maxLost that were found
	scratch  []uint32
}

// reconcileAll counts every event. An event has ended when all its chains have.
func (r *reconciler) reconcileAll() {
	for event, e := range r.book.events {
		before := r.counts
		if r.countEvent(event, e) && r.onEnded != nil {
			r.onEnded(e.minute, r.counts.minus(before))
			delete(r.book.events, event)
		}
	}
	for offset, p := range r.book.poison {
		before := r.counts
		if r.countPoison(offset, p) && r.onEnded != nil {
			r.onEnded(p.minute, r.counts.minus(before))
			delete(r.book.poison, offset)
		}
	}
}

func (r *reconciler) countPoison(offset int64, p *poison) (ended bool) {
	switch {
	case p.deadLettered:
		r.counts.count(classDead)
		return true
	case !r.eventsDone.Contains(offset):
		r.counts.count(classInFlight)
	default:
		r.counts.count(classLost)
		r.reportLost(Lost{Partition: r.partition, Offset: offset}, &p.reported)
	}
	return false
}

func (r *reconciler) countEvent(event id.ID, e entry) (ended bool) {
	if e.first == 0 {
		r.counts.count(e.class)
		return true
	}
	rows := r.scratch[:0]
	for i := e.first; i != 0; i = r.book.rows[i].next {
		rows = append(rows, i)
	}
	r.scratch = rows
	if len(rows) > 1 {
		slices.SortFunc(rows, func(a, b uint32) int { return cmp.Compare(r.book.rows[a].dest, r.book.rows[b].dest) })
	}
	ended = true
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && r.book.rows[rows[n]].dest == r.book.rows[rows[0]].dest {
			n++
		}
		class, deliveryEnded := r.countDelivery(event, rows[:n])
		r.counts.count(class)
		ended = ended && deliveryEnded
		rows = rows[n:]
	}
	return ended
}

// countDelivery counts one event and destination by its chains. Each chain must have ended, or its work must be in
// the log; the latest outcome decides the class. It reports whether the delivery has ended.
func (r *reconciler) countDelivery(event id.ID, chains []uint32) (class, bool) {
	newest, lost, ended := &r.book.rows[chains[0]], false, true
	for _, i := range chains {
		x := &r.book.rows[i]
		r.counts.Duplicates += int(x.duplicates)
		if x.version.Compare(newest.version) > 0 {
			newest = x
		}
		switch {
		case x.status.ended():
		case r.hasOpenWork(x):
			ended = false
		case x.deadLettered:
		case r.retriesUnread || r.now > 0 && x.trustedUntil > r.now:
			ended = false
			r.unproven++
		default:
			ended, lost = false, true
			r.reportLost(r.book.describeLost(event, r.partition, x), &x.reported)
		}
	}
	switch {
	case lost:
		return classLost, false
	case newest.status == delivered:
		return classDelivered, ended
	case newest.status == failed:
		return classFailed, ended
	case newest.status == skipped:
		return classSkipped, ended
	case newest.status == undecodable || newest.deadLettered && !r.hasOpenWork(newest):
		return classDead, ended
	}
	return classInFlight, ended
}

// hasOpenWork reports whether the log had an uncommitted record of the chain at the time of the cut.
func (r *reconciler) hasOpenWork(x *row) bool {
	switch {
	case x.proven:
		return true
	case x.from == inEvents:
		return !r.eventsDone.Contains(x.origin)
	case x.from == inCommands:
		return !r.commandsDone.Contains(x.origin)
	}
	return false
}

// markWanted marks the chains whose work must be searched for in the retry topics, and returns their number.
func (r *reconciler) markWanted() (n int) {
	for i := range r.book.rows[1:] {
		x := &r.book.rows[i+1]
		x.proven = false
		x.wanted = !x.status.ended() && !r.hasOpenWork(x) && (r.now == 0 || x.trustedUntil <= r.now)
		if x.wanted {
			n++
		}
	}
	return n
}

func (r *reconciler) reportLost(l Lost, reported *bool) {
	if len(r.lost) < maxLost {
		r.lost = append(r.lost, l)
	}
	if r.onLost != nil && !*reported {
		*reported = true
		r.onLost(l)
	}
}

// describeLost describes a lost chain.
func (b *book) describeLost(of id.ID, partition int32, x *row) Lost {
	return Lost{
		Event: of, Dest: b.names.text[x.dest], Run: b.names.text[x.run], Status: x.status.eventStatus(),
		Reason:    event.Reason(b.names.text[x.reason]),
		Partition: partition, Offset: int64(x.version.Lo) - 1,
	}
}

// eventStatus returns the status as package event names it.
func (s status) eventStatus() event.Status {
	return [...]event.Status{
		noOutcome: "", pending: event.Pending, retrying: event.Retrying, held: event.Held, delivered: event.Delivered,
		failed: event.Failed, skipped: event.Skipped, undecodable: event.Failed}[s]
}
