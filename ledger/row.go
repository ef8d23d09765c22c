package ledger

import (
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// entry is one event, and its rows as a list.
type entry struct {
	first, last uint32
	class       class // of an event that asks for no delivery
	minute      int64 // unix minutes in which it was accepted, or adopted
}

// row is one chain of a delivery: the automatic one, or that of a run.
type row struct {
	dest, run uint32 // names; run 0 is the automatic chain
	next      uint32 // row of the same event
	status    status // of the newest word
	from      source // of the record that began the chain
	wanted    bool   // its work is being looked for in the tiers
	proven    bool   // and was found
	buried    bool   // a record that may have been its work lies in the topic dead
	told      bool   // that it is lost
	reason    uint32 // of the newest word; a name
	version   event.Version
	origin    int64  // offset of the record that began the chain
	promise   int64  // unix ms until which its last word, or sight of its work, may be believed
	success   uint64 // end of the id of the first request that succeeded
	again     uint32 // other requests that did
}

type runKey struct {
	event     id.ID
	dest, run uint32
}

// success is a request that succeeded after another of the same chain had.
type success struct {
	row uint32
	end uint64 // of the id of the attempt
}

// poison is an undecodable record of the topic events.
type poison struct {
	buried bool
	minute int64
	told   bool
}

// source says in which topic a chain began.
type source uint8

const (
	nowhere source = iota // not in what was read
	inEvents
	inCommands
)

// status is a status in a byte.
type status uint8

const (
	silent status = iota // no outcome yet
	pending
	retrying
	held
	delivered
	failed
	skipped
	undecodable
)

func (s status) ended() bool { return s >= delivered }

// What may lie between the moment for which a next attempt was promised and the next word about it: the
// attempt itself, a commit and a loaded node, and 5 % of a long wait (retry topics).
const promiseGrace = time.Minute

func promised(next, at time.Time) time.Time {
	return next.Add(promiseGrace + max(next.Sub(at), 0)/20)
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

// names gives numbers to texts; 0 is the empty one.
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
