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

// entry is one event with the list of its rows.
type entry struct {
	first, last uint32
	class       class // of an event without a delivery
	minute      int64 // unix minute in which it was accepted, or first seen
}

// row is one chain of a delivery: the automatic one, or that of a replay run.
type row struct {
	dest, run    uint32 // numbers of names; run 0 is the automatic chain
	next         uint32 // next row of the same event
	status       status // of the latest outcome
	from         source // topic of the record that began the chain
	wanted       bool   // its work (the record that continues it) is searched for in the retry topics
	proven       bool   // its work was found there
	deadLettered bool   // a dead letter may have been its work
	reported     bool   // reported as lost
	reason       uint32 // of the latest outcome; number of a name
	version      event.Version
	origin       int64  // offset of the record that began the chain
	trustedUntil int64  // unix ms until which it counts as in flight by its last outcome or by work found before; 0: none
	success      uint64 // last 8 bytes of the id of the first successful request
	duplicates   uint32 // further successful requests
}

type runKey struct {
	event     id.ID
	dest, run uint32
}

// success identifies a successful request after the first one of its chain.
type success struct {
	row     uint32
	attempt uint64 // last 8 bytes of its id
}

// poison is an undecodable record of the topic events that names no delivery.
type poison struct {
	deadLettered bool
	minute       int64
	reported     bool
}

// source is the topic in which a chain began.
type source uint8

const (
	unknownSource source = iota // not in the records that were read
	inEvents
	inCommands
)

// status is an event status in one byte.
type status uint8

const (
	noOutcome status = iota // no outcome yet
	pending
	retrying
	held
	delivered
	failed
	skipped
	undecodable
)

func (s status) ended() bool { return s >= delivered }

// trustGrace is how much later than announced the next outcome may come: the attempt itself, a commit and a loaded
// node take time. trustUntil adds 5 % of the wait, by which retry topics may be late.
const trustGrace = time.Minute

// trustUntil is until when a chain counts as in flight that announced at a time that it continues at next.
func trustUntil(next, at time.Time) time.Time {
	return next.Add(trustGrace + max(next.Sub(at), 0)/20)
}

func statusOf(w *event.OutcomeHead) status {
	switch w.Status {
	case event.Delivered:
		return delivered
	case event.Failed:
		if string(w.Reason) == string(event.Undecodable) {
			return undecodable
		}
		return failed
	case event.Skipped:
		return skipped
	case event.Retrying:
		return retrying
	case event.Held:
		return held
	}
	return pending
}

// names gives each text a number, from 1 on; 0 is the empty text.
type names struct {
	numbers map[string]uint32
	text    []string
}

func newNames() names { return names{numbers: map[string]uint32{"": 0}, text: []string{""}} }

func (n *names) number(text []byte) uint32 {
	if i, ok := n.numbers[string(text)]; ok {
		return i
	}
	i := uint32(len(n.text))
	n.text = append(n.text, string(text))
	n.numbers[n.text[i]] = i
	return i
}
