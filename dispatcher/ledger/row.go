package ledger

import (
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

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
