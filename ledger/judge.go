package ledger

import (
	"cmp"
	"slices"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// judge says what became of the deliveries in a book.
type judge struct {
	book      *book
	partition int32
	// What was done of these topics when the cut was made.
	events, commands stream.Completed
	// now, in unix ms, makes it believe a last word that speaks of a later time without proof; 0 = believe
	// nothing.
	now int64
	// blind says that the retry topics were not searched: what may be there is in flight.
	blind bool
	// ended is told of every event that has ended, which is then forgotten; nil = keep them all.
	ended func(minute int64, its Counts)
	// found is told of what is lost, once each; may be nil.
	found func(Lost)

	counts   Counts // of all events, those that have ended included
	unproven int    // chains that were counted as in flight without proof
	lost     []Lost // at most maxLost
	scratch  []uint32
}

// run judges everything. An event has ended when nothing more is expected of any chain of it.
func (j *judge) run() {
	for event, e := range j.book.events {
		before := j.counts
		if j.event(event, e) && j.ended != nil {
			j.ended(e.minute, j.counts.minus(before))
			delete(j.book.events, event)
		}
	}
	for offset, p := range j.book.poison {
		before := j.counts
		if j.poison(offset, p) && j.ended != nil {
			j.ended(p.minute, j.counts.minus(before))
			delete(j.book.poison, offset)
		}
	}
}

func (j *judge) poison(offset int64, p *poison) (ended bool) {
	switch {
	case p.buried:
		j.counts.count(classDead)
		return true
	case !j.events.Contains(offset):
		j.counts.count(classInFlight)
	default:
		j.counts.count(classResidue)
		j.miss(Lost{Partition: j.partition, Offset: offset}, &p.told)
	}
	return false
}

func (j *judge) event(event id.ID, e entry) (ended bool) {
	if e.first == 0 {
		j.counts.count(e.class)
		return true
	}
	rows := j.scratch[:0]
	for i := e.first; i != 0; i = j.book.rows[i].next {
		rows = append(rows, i)
	}
	j.scratch = rows
	if len(rows) > 1 {
		slices.SortFunc(rows, func(a, b uint32) int { return cmp.Compare(j.book.rows[a].dest, j.book.rows[b].dest) })
	}
	ended = true
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && j.book.rows[rows[n]].dest == j.book.rows[rows[0]].dest {
			n++
		}
		class, over := j.delivery(event, rows[:n])
		j.counts.count(class)
		ended = ended && over
		rows = rows[n:]
	}
	return ended
}

// delivery judges one event and destination by its chains. Each chain must have ended, or its work must be
// in the log; the newest word says how the delivery stands.
func (j *judge) delivery(event id.ID, chains []uint32) (class, bool) {
	newest, lost, over := &j.book.rows[chains[0]], false, true
	for _, i := range chains {
		x := &j.book.rows[i]
		j.counts.Duplicates += int(x.again)
		if x.version.Compare(newest.version) > 0 {
			newest = x
		}
		switch {
		case x.status.ended():
		case j.proof(x):
			over = false
		case x.buried:
		case j.blind || j.now > 0 && x.promise > j.now:
			over = false
			j.unproven++
		default:
			over, lost = false, true
			j.miss(j.book.lost(event, j.partition, x), &x.told)
		}
	}
	switch {
	case lost:
		return classResidue, false
	case newest.status == delivered:
		return classDelivered, over
	case newest.status == failed:
		return classFailed, over
	case newest.status == skipped:
		return classSkipped, over
	case newest.status == undecodable || newest.buried && !j.proof(newest):
		return classDead, over
	}
	return classInFlight, over
}

// proof reports whether undone work of the chain stood in the log when the cut was made.
func (j *judge) proof(x *row) bool {
	switch {
	case x.proven:
		return true
	case x.from == inEvents:
		return !j.events.Contains(x.origin)
	case x.from == inCommands:
		return !j.commands.Contains(x.origin)
	}
	return false
}

// want marks the chains whose work must be looked for in the retry topics, and returns how many these are.
func (j *judge) want() (n int) {
	for i := range j.book.rows[1:] {
		x := &j.book.rows[i+1]
		x.proven = false
		x.wanted = !x.status.ended() && !j.proof(x) && (j.now == 0 || x.promise <= j.now)
		if x.wanted {
			n++
		}
	}
	return n
}

func (j *judge) miss(l Lost, told *bool) {
	if len(j.lost) < maxLost {
		j.lost = append(j.lost, l)
	}
	if j.found != nil && !*told {
		*told = true
		j.found(l)
	}
}

// lost describes a chain.
func (b *book) lost(of id.ID, partition int32, x *row) Lost {
	return Lost{
		Event: of, Dest: b.names.text[x.dest], Run: b.names.text[x.run], Status: x.status.word(),
		Reason:    event.Reason(b.names.text[x.reason]),
		Partition: partition, Offset: int64(x.version.Lo) - 1,
	}
}

// word is the status as others know it.
func (s status) word() event.Status {
	return [...]event.Status{
		silent: "", pending: event.Pending, retrying: event.Retrying, held: event.Held, delivered: event.Delivered,
		failed: event.Failed, skipped: event.Skipped, undecodable: event.Failed}[s]
}
