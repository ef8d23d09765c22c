package ledger

import (
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// ErrTooMany means that there are more events and deliveries than an audit, or a run of the ledger, may keep in memory.
var ErrTooMany = errors.New("the span holds too many deliveries to keep in memory: audit a shorter one")

// book holds the events of one partition and their deliveries. It consists of sets, so that a record that is in the
// log twice counts once, and holds no pointers into records: an event and a delivery take about 75 bytes each.
type book struct {
	limit int // of size
	// separateReplays is set for a Ledger, which removes events that have ended. Then a replay of an event that is not in
	// the book counts as a delivery of its own, and outcomes of chains that are not in the book are ignored.
	separateReplays bool

	events     map[id.ID]entry
	rows       []row // rows[0] is unused: index 0 means none
	runs       map[runKey]uint32
	duplicates map[success]struct{} // further successful requests of a chain
	poison     map[int64]*poison    // undecodable records of events that name no delivery, by offset
	names      names

	undecodable  int // outcomes that cannot be decoded
	unidentified int // dead letters that do not name their event
}

func newBook(limit int) *book {
	return &book{
		limit: limit, events: make(map[id.ID]entry), rows: make([]row, 1), runs: make(map[runKey]uint32),
		duplicates: make(map[success]struct{}), poison: make(map[int64]*poison), names: newNames(),
	}
}

// size returns the number of entries.
func (b *book) size() int { return len(b.events) + len(b.rows) - 1 + len(b.duplicates) + len(b.poison) }

// expects reports whether records of commands, outcomes or dead may concern the book.
func (b *book) expects() bool { return b.separateReplays || len(b.events)+len(b.poison) > 0 }

// addRecord adds a record of a topic. The topics must come in this order, because each refers to entries of those
// before it.
func (b *book) addRecord(topic string, r *stream.Record) error {
	switch topic {
	case stream.Events:
		return b.addEvent(r)
	case stream.Commands:
		return b.addCommand(r)
	case stream.Outcomes:
		return b.addOutcome(r)
	case stream.Dead:
		b.addDead(r)
	}
	return nil
}

// addEvent adds a record of the topic events.
func (b *book) addEvent(r *stream.Record) error {
	h, err := event.DecodeHead(r)
	if err != nil {
		return b.addPoison(r)
	}
	if h.Use {
		return nil
	}
	class := classSkipped
	if h.Verdict == event.VerdictRejected {
		class = classRejected
	}
	err = b.addEntry(h.ID, entry{class: class, minute: minuteOf(h.ID.Time())})
	if h.Delivers() {
		h.EachDest(func(dest []byte) {
			if err == nil {
				_, err = b.startChain(h.ID, dest, nil, inEvents, r.Offset)
			}
		})
	}
	return err
}

// addEntry adds an event if it is not known yet.
func (b *book) addEntry(event id.ID, e entry) error {
	if _, known := b.events[event]; known {
		return nil
	}
	if b.size() >= b.limit {
		return ErrTooMany
	}
	b.events[event] = e
	return nil
}

// addPoison adds an undecodable record of events. If it still names its deliveries, the dispatcher writes their final
// outcome when it moves the record to the dead letter topic; otherwise the record itself is counted.
func (b *book) addPoison(r *stream.Record) error {
	remains, ok := event.Salvage(r)
	if !ok {
		if b.size() >= b.limit {
			return ErrTooMany
		}
		b.poison[r.Offset] = &poison{minute: minuteOf(r.Timestamp)}
		return nil
	}
	err := b.addEntry(remains.Event, entry{minute: minuteOf(remains.Event.Time())})
	for _, dest := range remains.Dests {
		if err == nil {
			_, err = b.startChain(remains.Event, []byte(dest), nil, inEvents, r.Offset)
		}
	}
	return err
}

// startChain adds a chain of a known event if it is missing, sets where it began, and returns its row.
func (b *book) startChain(event id.ID, dest, run []byte, from source, offset int64) (uint32, error) {
	i, err := b.ensureChain(event, dest, run)
	if err == nil {
		b.rows[i].from, b.rows[i].origin = from, offset
	}
	return i, err
}

// addCommand adds a record of the topic commands. A replay makes its delivery pending again.
func (b *book) addCommand(r *stream.Record) error {
	c, err := event.DecodeWorkHead(r)
	if err != nil {
		return nil // the dispatcher moves it to the dead letter topic and it is counted there
	}
	if _, known := b.events[c.Event]; !known && !b.separateReplays {
		return nil
	}
	if err := b.addEntry(c.Event, entry{minute: minuteOf(r.Timestamp)}); err != nil {
		return err
	}
	i, err := b.startChain(c.Event, []byte(c.Dest), []byte(c.Run), inCommands, r.Offset)
	if err != nil || c.Run == "" {
		return err
	}
	version, err := event.QueuedVersion(c.Run)
	if err != nil {
		return nil // the store ignores such a run id too
	}
	if x := &b.rows[i]; x.status == noOutcome {
		x.status, x.version = pending, version
		if !c.Due.IsZero() {
			x.trustedUntil = trustUntil(c.Due, r.Timestamp).UnixMilli()
		}
	}
	return nil
}

// addOutcome adds a record of the topic outcomes.
func (b *book) addOutcome(r *stream.Record) error {
	w, err := event.DecodeOutcomeHead(r)
	if err != nil {
		b.undecodable++
		return nil
	}
	if _, known := b.events[w.Event]; !known {
		return nil
	}
	version, err := w.Version(r.Offset)
	if err != nil {
		b.undecodable++
		return nil
	}
	if b.separateReplays && b.findChain(w.Event, w.Dest, w.Run) == 0 {
		return nil
	}
	row, err := b.ensureChain(w.Event, w.Dest, w.Run)
	if err != nil {
		return err
	}
	x := &b.rows[row]
	if w.OK {
		b.addSuccess(row, binary.BigEndian.Uint64(w.Attempt[8:]))
	}
	if version.Compare(x.version) <= 0 && x.status != noOutcome {
		return nil
	}
	x.version, x.status, x.reason = version, statusOf(&w), b.names.number(w.Reason)
	x.trustedUntil = 0
	if !w.NextAt.IsZero() {
		x.trustedUntil = trustUntil(w.NextAt, w.At).UnixMilli()
	}
	return nil
}

// addSuccess adds a successful request. Its outcome may be in the log twice.
func (b *book) addSuccess(row uint32, attempt uint64) {
	x := &b.rows[row]
	switch _, known := b.duplicates[success{row, attempt}]; {
	case x.success == 0:
		x.success = attempt
	case x.success != attempt && !known:
		b.duplicates[success{row, attempt}] = struct{}{}
		x.duplicates++
	}
}

// addDead adds a dead letter of the dispatchers. It ends an event record that names no delivery, and it may be the work
// of any chain of its event if it does not name one.
func (b *book) addDead(r *stream.Record) {
	var topic, group string
	var offset int64
	for _, h := range r.Headers {
		switch h.Key {
		case stream.HeaderDeadTopic:
			topic = string(h.Value)
		case stream.HeaderDeadGroup:
			group = string(h.Value)
		case stream.HeaderDeadOffset:
			offset, _ = strconv.ParseInt(string(h.Value), 10, 64)
		}
	}
	if group != stream.DispatchGroup {
		return
	}
	if topic == stream.Events {
		if p := b.poison[offset]; p != nil {
			p.deadLettered = true
		}
		return
	}
	remains, _ := event.Salvage(r)
	switch {
	case remains.Event.IsZero():
		b.unidentified++
	case !remains.FromWork: // otherwise the chain has a final outcome
		for i := b.events[remains.Event].first; i != 0; i = b.rows[i].next {
			b.rows[i].deadLettered = true
		}
	}
}

// ensureChain returns the row of a chain of an event that is in the book, and adds one if there is none.
func (b *book) ensureChain(event id.ID, dest, run []byte) (uint32, error) {
	d, r := b.names.number(dest), b.names.number(run)
	if i := b.findRow(event, d, r); i != 0 {
		return i, nil
	}
	if b.size() >= b.limit {
		return 0, ErrTooMany
	}
	i := uint32(len(b.rows))
	b.rows = append(b.rows, row{dest: d, run: r})
	e := b.events[event]
	if e.first == 0 {
		e.first = i
	} else {
		b.rows[e.last].next = i
	}
	e.last = i
	b.events[event] = e
	if r != 0 {
		b.runs[runKey{event, d, r}] = i
	}
	return i, nil
}

// findChain returns the row of a chain, 0 if there is none.
func (b *book) findChain(event id.ID, dest, run []byte) uint32 {
	d, r := b.names.numbers[string(dest)], b.names.numbers[string(run)]
	if r == 0 && len(run) > 0 {
		return 0
	}
	return b.findRow(event, d, r)
}

// findRow returns the row of a chain by the numbers of its names, 0 if there is none.
func (b *book) findRow(event id.ID, dest, run uint32) uint32 {
	if dest == 0 {
		return 0
	}
	if run != 0 {
		return b.runs[runKey{event, dest, run}]
	}
	for i := b.events[event].first; i != 0; i = b.rows[i].next {
		if x := &b.rows[i]; x.dest == dest && x.run == 0 {
			return i
		}
	}
	return 0
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }
