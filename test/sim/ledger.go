package sim

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/claim"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// ledger reads the log while it is written and checks each record, commit and answer at once: what would lose a
// delivery only together with a crash is seen without one.
//
//   - An outcome that announces another attempt comes after the record that continues the delivery.
//   - A record is committed when each of its deliveries has ended, goes on in another record, or is a copy of one
//     that is not committed.
//   - What a client was told is in the log: its event, the commands of its replay, its acknowledgement.
type ledger struct {
	w *World

	mu        sync.Mutex // guards the fields below
	appends   int
	entries   map[stream.Partition][]*entry // by offset
	checked   map[stream.Partition]int64    // offsets below it are committed
	of        map[chain][]*entry
	ended     map[chain]bool // it has a final outcome: what comes later is a copy
	follows   map[chain]int  // records in retry topics
	delivered map[delivery]bool
	events    map[id.ID]time.Time // when the record was appended last
	commands  map[string]int      // by run
	highest   map[chain]int       // number of the last attempt that a record asks for
	recorded  map[chain]int       // outcomes of attempts
	missing   map[id.ID]bool      // events that a search has not found
}

// chain is a delivery within a run; empty: the automatic one.
type chain struct {
	delivery
	run string
}

// entry is a record that the dispatchers read.
type entry struct {
	appended int
	chains   []chain
	done     bool
}

func newLedger(w *World) *ledger {
	return &ledger{w: w, entries: make(map[stream.Partition][]*entry), checked: make(map[stream.Partition]int64),
		of: make(map[chain][]*entry), ended: make(map[chain]bool), follows: make(map[chain]int),
		delivered: make(map[delivery]bool), events: make(map[id.ID]time.Time), commands: make(map[string]int),
		highest: make(map[chain]int), recorded: make(map[chain]int), missing: make(map[id.ID]bool)}
}

// append is called for each record, in the order of the log.
func (l *ledger) append(at stream.Partition, r *stream.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.appends++
	switch {
	case at.Topic == stream.Events:
		e, err := event.Decode(r)
		x := &entry{}
		if err == nil && e.Verdict != event.VerdictRejected && e.DuplicateOf == "" {
			for _, dest := range e.Dests {
				x.chains = append(x.chains, chain{delivery{e.ID, dest}, ""})
			}
		}
		if err == nil {
			l.checkTwice(e.ID)
			l.events[e.ID] = time.Now()
		}
		l.add(at, x)
	case at.Topic == stream.Commands, stream.IsTier(at.Topic):
		work, err := event.DecodeWork(r)
		x := &entry{}
		if err == nil {
			c := chain{delivery{work.Event.ID, work.Dest}, work.Run}
			l.highest[c] = max(l.highest[c], work.Attempt)
			if x.chains = []chain{c}; at.Topic == stream.Commands {
				l.commands[work.Run]++
			} else {
				l.follows[c]++
			}
		}
		l.add(at, x)
	case at.Topic == stream.Outcomes:
		o, err := event.DecodeOutcome(r)
		if err != nil {
			return
		}
		c := chain{delivery{o.Event, o.Dest}, o.Run}
		if o.Attempt != nil {
			l.recorded[c]++
		}
		if o.Status.Terminal() {
			l.ended[c] = true
			l.delivered[c.delivery] = l.delivered[c.delivery] || o.Status == event.Delivered
		} else if l.follows[c] == 0 {
			l.w.oracle.unexpected("%v goes on (%s %s), but no record continues it", c, o.Status, o.Reason)
		}
	}
}

// notFound records that a search has not found an event.
func (l *ledger) notFound(e id.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missing[e] = true
}

// checkTwice checks that an event which is stored again was in doubt for long, and not found.
func (l *ledger) checkTwice(e id.ID) {
	if l.events[e].IsZero() {
		return
	}
	if !l.missing[e] {
		l.w.oracle.unexpected("evt_%v is stored again although no search has missed it", e)
	}
	if l.w.skewedSince(e.Time().Add(-time.Minute)) {
		return
	}
	if age := time.Since(e.Time()); age < claim.TakeOverAfter-time.Second {
		l.w.oracle.unexpected("evt_%v is stored again %v after it was accepted", e, age)
	}
}

func (l *ledger) add(at stream.Partition, x *entry) {
	x.appended = l.appends
	l.entries[at] = append(l.entries[at], x)
	for _, c := range x.chains {
		l.of[c] = append(l.of[c], x)
	}
}

// commit is called for each commit of the dispatchers.
func (l *ledger) commit(at stream.Partition, commit stream.Commit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, completed := l.entries[at], commit.Completed()
	var done []*entry
	for offset := l.checked[at]; offset < int64(len(all)); offset++ {
		if x := all[offset]; !x.done && completed.Contains(offset) {
			x.done = true
			done = append(done, x)
		}
	}
	l.checked[at] = max(l.checked[at], commit.Offset)
	for _, x := range done {
		for _, c := range x.chains {
			if !l.goesOn(x, c) {
				l.w.oracle.unexpected("a record of %v in %s is committed, but the delivery has not ended and nothing continues it",
					c, at.Topic)
			}
		}
	}
}

// check checks that each attempt before the last one has an outcome.
func (l *ledger) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c, n := range l.highest {
		if l.recorded[c] < n-1 && !l.w.oracle.mayRepeat(c.event.Time()) {
			l.w.oracle.unexpected("of %d attempts of %v, %d have an outcome", n-1, c, l.recorded[c])
		}
	}
}

// goesOn reports whether a delivery needs its record no more.
func (l *ledger) goesOn(x *entry, c chain) bool {
	if l.ended[c] {
		return true
	}
	for _, other := range l.of[c] {
		if other != x && (other.appended > x.appended || !other.done) {
			return true
		}
	}
	return false
}

func (c chain) String() string { return fmt.Sprintf("evt_%v at %s %s", c.event, c.dest, c.run) }

// hasEvent checks what a sender was told.
func (l *ledger) hasEvent(eventID string) {
	e, err := id.Parse(id.Event, eventID)
	l.mu.Lock()
	has := err == nil && !l.events[e].IsZero()
	l.mu.Unlock()
	if !has {
		l.w.oracle.unexpected("%s was acknowledged, but it is not in the log", eventID)
	}
}

// hasCommands checks the answer to a replay.
func (l *ledger) hasCommands(answer []byte) {
	var a struct {
		Run    string `json:"run_id"`
		Queued int    `json:"queued"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		panic(err)
	}
	l.mu.Lock()
	n := l.commands[a.Run]
	l.mu.Unlock()
	if n < a.Queued {
		l.w.oracle.unexpected("the replay %s has queued %d deliveries, the log has %d", a.Run, a.Queued, n)
	}
}

// hasDelivered checks what a consumer was told.
func (l *ledger) hasDelivered(eventID, dest string) {
	e, err := id.Parse(id.Event, eventID)
	l.mu.Lock()
	has := err == nil && l.delivered[delivery{e, dest}]
	l.mu.Unlock()
	if !has {
		l.w.oracle.unexpected("the acknowledgement of %s was answered, but the log does not have it", eventID)
	}
}
