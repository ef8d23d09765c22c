package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Counts say what became of what was accepted, per event and destination; an event without a delivery counts once.
// Accepted is the sum of the seven fields below it.
type Counts struct {
	Accepted  int
	Delivered int
	Failed    int
	Skipped   int
	Rejected  int
	Dead      int // in the dead letter topic
	InFlight  int // an uncommitted record continues it
	Lost      int // neither ended nor in flight: lost

	Duplicates int // successful requests after the first one of a chain
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
	classLost
)

func (c *Counts) count(k class) {
	c.Accepted++
	*[...]*int{
		classSkipped: &c.Skipped, classDelivered: &c.Delivered, classFailed: &c.Failed, classRejected: &c.Rejected,
		classDead: &c.Dead, classInFlight: &c.InFlight, classLost: &c.Lost,
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
	c.Lost += d.Lost
	c.Duplicates += d.Duplicates
}

// minus returns what was added since before.
func (c Counts) minus(before Counts) Counts {
	return Counts{
		Accepted: c.Accepted - before.Accepted, Delivered: c.Delivered - before.Delivered, Failed: c.Failed - before.Failed,
		Skipped: c.Skipped - before.Skipped, Rejected: c.Rejected - before.Rejected, Dead: c.Dead - before.Dead,
		InFlight: c.InFlight - before.InFlight, Lost: c.Lost - before.Lost,
		Duplicates: c.Duplicates - before.Duplicates,
	}
}

// String returns the equation of the counts in one line.
func (c Counts) String() string {
	return fmt.Sprintf("%d accepted = %d delivered + %d failed + %d skipped + %d rejected + %d dead + %d in flight, "+
		"lost %d, duplicates %d",
		c.Accepted, c.Delivered, c.Failed, c.Skipped, c.Rejected, c.Dead, c.InFlight, c.Lost, c.Duplicates)
}

// Lost describes one lost delivery.
type Lost struct {
	Event     id.ID  // zero for an event record that names none
	Dest, Run string // Run is empty for the automatic chain
	Status    event.Status
	Reason    event.Reason // Status and Reason are of the last outcome, empty if there was none
	Partition int32
	Offset    int64 // of the last outcome, or of an event record without an Event; -1 = none
}

// String returns one line for people.
func (l Lost) String() string {
	if l.Event.IsZero() {
		return fmt.Sprintf("the record at offset %d of events, partition %d, cannot be decoded and is not in the dead "+
			"letter topic", l.Offset,
			l.Partition)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "event %s to %s", l.Event.Text(id.Event), l.Dest)
	if l.Run != "" {
		fmt.Fprintf(&b, " in %s", l.Run)
	}
	if l.Status == "" {
		b.WriteString(": no outcome since it was accepted")
	} else {
		fmt.Fprintf(&b, ": last outcome %s", l.Status)
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

// maxLost bounds the lost deliveries that a report lists; Counts.Lost counts all.
const maxLost = 1000

// Report is the result of an audit.
type Report struct {
	Counts
	// Since is where the audit began: later than requested if retention has deleted outcomes of older events.
	Since  time.Time
	Losses []Lost // 1,000 of them at most, sorted by event id

	// Outcomes that cannot be decoded, and dead letters that do not name their event, may explain lost ones: the ledger
	// cannot tell to which delivery they belong.
	UndecodableOutcomes, UnidentifiedDead int
	Records                               int // records that were read
}

func (r *Report) sort() {
	slices.SortFunc(r.Losses, func(a, b Lost) int { return a.Event.Compare(b.Event) })
}
