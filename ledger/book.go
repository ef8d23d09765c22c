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

// ErrTooMany means that a span holds more deliveries than an audit may keep in memory.
var ErrTooMany = errors.New("the span holds too many deliveries to keep in memory: audit a shorter one")

// book is what is known of the events of one partition. It holds sets, so that nothing that stands in the
// log twice counts twice, and no pointer into a record: a row takes some 100 bytes with all around it.
type book struct {
	limit int // of rows
	// adopt takes a replay for a delivery of its own when its event is not in the book.
	adopt bool

	events map[id.ID]entry
	rows   []row // 0 is not used: it means none
	runs   map[runKey]uint32
	again  map[success]struct{}
	poison map[int64]*poison // undecodable records of events that name no delivery, by offset
	names  names

	unreadable int // outcomes that cannot be decoded
	unnamed    int // buried records that do not say whose they are
}

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

func newBook(limit int) *book {
	return &book{
		limit: limit, events: make(map[id.ID]entry), rows: make([]row, 1), runs: make(map[runKey]uint32),
		again: make(map[success]struct{}), poison: make(map[int64]*poison), names: newNames(),
	}
}

// size is how many things it remembers.
func (b *book) size() int { return len(b.events) + len(b.rows) - 1 + len(b.again) + len(b.poison) }

// addEvent takes a record of the topic events.
func (b *book) addEvent(r *stream.Record) error {
	if b.size() >= b.limit {
		return ErrTooMany
	}
	h, err := event.DecodeHead(r)
	if err != nil {
		b.addPoison(r)
		return nil
	}
	e, known := b.events[h.ID]
	if !known {
		e = entry{class: classSkipped, minute: minuteOf(h.ID.Time())}
		if h.Verdict == event.VerdictRejected {
			e.class = classRejected
		}
		b.events[h.ID] = e
	}
	if h.Delivers() {
		h.EachDest(func(dest []byte) { b.began(b.chain(h.ID, dest, nil), inEvents, r.Offset) })
	}
	return nil
}

// addPoison takes a record of events that cannot be decoded. What it still names are deliveries, which get
// the last word from whoever buries it; else the record is counted itself.
func (b *book) addPoison(r *stream.Record) {
	remains, ok := event.Salvage(r)
	if !ok {
		b.poison[r.Offset] = &poison{minute: minuteOf(r.Timestamp)}
		return
	}
	if _, known := b.events[remains.Event]; !known {
		b.events[remains.Event] = entry{minute: minuteOf(remains.Event.Time())}
	}
	for _, dest := range remains.Dests {
		b.began(b.chain(remains.Event, []byte(dest), nil), inEvents, r.Offset)
	}
}

func (b *book) began(row uint32, from source, offset int64) {
	x := &b.rows[row]
	x.from, x.origin = from, offset
}

// addCommand takes a record of the topic commands: of a run, it makes the delivery pending again.
func (b *book) addCommand(r *stream.Record) error {
	c, err := event.DecodeChain(r)
	if err != nil {
		return nil // it will be buried, and its remains counted there
	}
	if _, known := b.events[c.Event]; !known {
		if !b.adopt {
			return nil
		}
		b.events[c.Event] = entry{minute: minuteOf(r.Timestamp)}
	}
	if b.size() >= b.limit {
		return ErrTooMany
	}
	row := b.chain(c.Event, []byte(c.Dest), []byte(c.Run))
	b.began(row, inCommands, r.Offset)
	if c.Run == "" {
		return nil
	}
	version, err := event.QueuedVersion(c.Run)
	if err != nil {
		return nil // the store refuses it as well: it is no word
	}
	if x := &b.rows[row]; x.status == silent {
		x.status, x.version = pending, version
		if !c.Due.IsZero() {
			x.promise = promised(c.Due, r.Timestamp).UnixMilli()
		}
	}
	return nil
}

// addOutcome takes a record of the topic outcomes.
func (b *book) addOutcome(r *stream.Record) error {
	w, err := event.DecodeWord(r)
	if err != nil {
		b.unreadable++
		return nil
	}
	if _, known := b.events[w.Event]; !known {
		return nil
	}
	if b.size() >= b.limit {
		return ErrTooMany
	}
	version, err := w.Version(r.Offset)
	if err != nil {
		b.unreadable++
		return nil
	}
	row := b.chain(w.Event, w.Dest, w.Run)
	x := &b.rows[row]
	if w.OK {
		b.succeeded(row, binary.BigEndian.Uint64(w.Attempt[8:]))
	}
	if version.Compare(x.version) <= 0 && x.status != silent {
		return nil
	}
	x.version, x.status, x.reason = version, statusOf(&w), b.names.number(w.Reason)
	x.promise = 0
	if !w.NextAt.IsZero() {
		x.promise = promised(w.NextAt, w.At).UnixMilli()
	}
	return nil
}

// succeeded notes a request that did. The outcome of one may stand in the log twice.
func (b *book) succeeded(row uint32, end uint64) {
	x := &b.rows[row]
	switch _, known := b.again[success{row, end}]; {
	case x.success == 0:
		x.success = end
	case x.success != end && !known:
		b.again[success{row, end}] = struct{}{}
		x.again++
	}
}

// What may lie between the moment for which a next attempt was promised and the next word about it: the
// attempt itself, a commit and a loaded node, and 5 % of a long wait (retry topics).
const promiseGrace = time.Minute

func promised(next, at time.Time) time.Time {
	return next.Add(promiseGrace + max(next.Sub(at), 0)/20)
}

func statusOf(w *event.Word) status {
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

// addDead takes a record of the topic dead that a dispatcher has buried. An event record that names nothing has
// come to its end there, and so has work that does not say which chain of its event it continued.
func (b *book) addDead(r *stream.Record) {
	var topic, group string
	var offset int64
	for _, h := range r.Headers {
		switch h.Key {
		case stream.DeadTopic:
			topic = string(h.Value)
		case stream.DeadGroup:
			group = string(h.Value)
		case stream.DeadOffset:
			offset, _ = strconv.ParseInt(string(h.Value), 10, 64)
		}
	}
	if group != stream.DispatchGroup {
		return
	}
	if topic == stream.Events {
		if p := b.poison[offset]; p != nil {
			p.buried = true
		}
		return
	}
	remains, _ := event.Salvage(r)
	switch {
	case remains.Event.IsZero():
		b.unnamed++
	case !remains.Exact: // else the chain got its last word
		for i := b.events[remains.Event].first; i != 0; i = b.rows[i].next {
			b.rows[i].buried = true
		}
	}
}

// chain is the row of a chain of an event that is in the book; it is made when there is none.
func (b *book) chain(event id.ID, dest, run []byte) uint32 {
	d, r := b.names.number(dest), b.names.number(run)
	if i := b.find(event, d, r); i != 0 {
		return i
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
	return i
}

// find returns 0 when there is no such row.
func (b *book) find(event id.ID, dest, run uint32) uint32 {
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

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }
