package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Counts say what became of what was accepted, per event and destination; an event that asks for no
// delivery counts once. Accepted is the sum of the seven below it.
type Counts struct {
	Accepted  int
	Delivered int
	Failed    int
	Skipped   int
	Rejected  int
	Dead      int // in the topic dead: nobody could read it
	InFlight  int // its work stands undone in the log
	Residue   int // neither ended nor on its way: lost

	Duplicates int // requests that succeeded after one of the same chain had
}

// class is what a delivery counts as.
type class uint8

const (
	classSkipped class = iota
	classDelivered
	classFailed
	classRejected
	classDead
	classInFlight
	classResidue
)

func (c *Counts) count(k class) {
	c.Accepted++
	*[...]*int{
		classSkipped: &c.Skipped, classDelivered: &c.Delivered, classFailed: &c.Failed, classRejected: &c.Rejected,
		classDead: &c.Dead, classInFlight: &c.InFlight, classResidue: &c.Residue,
	}[k]++
}

func (c *Counts) add(d Counts) {
	c.Accepted += d.Accepted
	c.Delivered += d.Delivered
	c.Failed += d.Failed
	c.Skipped += d.Skipped
	c.Rejected += d.Rejected
	c.Dead += d.Dead
	c.InFlight += d.InFlight
	c.Residue += d.Residue
	c.Duplicates += d.Duplicates
}

// minus is what was added since before.
func (c Counts) minus(before Counts) Counts {
	return Counts{
		Accepted: c.Accepted - before.Accepted, Delivered: c.Delivered - before.Delivered, Failed: c.Failed - before.Failed,
		Skipped: c.Skipped - before.Skipped, Rejected: c.Rejected - before.Rejected, Dead: c.Dead - before.Dead,
		InFlight: c.InFlight - before.InFlight, Residue: c.Residue - before.Residue,
		Duplicates: c.Duplicates - before.Duplicates,
	}
}

// String is the equation.
func (c Counts) String() string {
	return fmt.Sprintf("%d accepted = %d delivered + %d failed + %d skipped + %d rejected + %d dead + %d in flight, "+
		"residue %d, duplicates %d",
		c.Accepted, c.Delivered, c.Failed, c.Skipped, c.Rejected, c.Dead, c.InFlight, c.Residue, c.Duplicates)
}

// Lost is one delivery that is residue.
type Lost struct {
	Event     id.ID  // zero for a record of events that names none
	Dest, Run string // Run is empty for the automatic chain
	Status    event.Status
	Reason    event.Reason // of the last word; both are empty when there was none
	Partition int32
	Offset    int64 // of the last word in outcomes, of the record in events without an Event; -1 = none
}

// String is one line for people.
func (l Lost) String() string {
	if l.Event.IsZero() {
		return fmt.Sprintf("the record at offset %d of events, partition %d, cannot be decoded and was not buried", l.Offset,
			l.Partition)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "event %s to %s", l.Event.Text(id.Event), l.Dest)
	if l.Run != "" {
		fmt.Fprintf(&b, " in %s", l.Run)
	}
	if l.Status == "" {
		b.WriteString(": no word since it was accepted")
	} else {
		fmt.Fprintf(&b, ": last word %s", l.Status)
		if l.Reason != "" {
			fmt.Fprintf(&b, " (%s)", l.Reason)
		}
		if l.Offset >= 0 {
			fmt.Fprintf(&b, " at offset %d of outcomes", l.Offset)
		}
	}
	fmt.Fprintf(&b, ", partition %d", l.Partition)
	return b.String()
}

// maxLost is how many lost deliveries a report lists; Counts.Residue has them all.
const maxLost = 1000

// Report is the answer of an audit.
type Report struct {
	Counts
	// Since is where the audit began; later than asked for when the log no longer holds all about older
	// events.
	Since time.Time
	Lost  []Lost // by event, the first 1,000

	// Unreadable outcomes may hide the last word of what is residue, and Unnamed buried records its work.
	UndecodableOutcomes, UnidentifiedDead int
	Records                               int // that were read
}

func (r *Report) sort() {
	slices.SortFunc(r.Lost, func(a, b Lost) int { return slices.Compare(a.Event[:], b.Event[:]) })
}
