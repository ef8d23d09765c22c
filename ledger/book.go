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
// log twice counts twice, and no pointer into a record: an event and a delivery take some 75 bytes each.
type book struct {
	limit int // of size
	// adopt takes a replay for a delivery of its own when its event is not in the book, as it may have been
	// there and have ended. Then an outcome of a chain that is not in the book is of one that has ended too.
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

func newBook(limit int) *book {
	return &book{
		limit: limit, events: make(map[id.ID]entry), rows: make([]row, 1), runs: make(map[runKey]uint32),
		again: make(map[success]struct{}), poison: make(map[int64]*poison), names: newNames(),
	}
}

// size is how many things it remembers.
func (b *book) size() int { return len(b.events) + len(b.rows) - 1 + len(b.again) + len(b.poison) }

// expects reports whether anything that commands, outcomes and dead say may concern the book.
func (b *book) expects() bool { return b.adopt || len(b.events)+len(b.poison) > 0 }

// add takes a record of a topic. The topics come in this order: each speaks of what those before it brought.
func (b *book) add(topic string, r *stream.Record) error {
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

// addEvent takes a record of the topic events.
func (b *book) addEvent(r *stream.Record) error {
	h, err := event.DecodeHead(r)
	if err != nil {
		return b.addPoison(r)
	}
	class := classSkipped
	if h.Verdict == event.VerdictRejected {
		class = classRejected
	}
	err = b.know(h.ID, entry{class: class, minute: minuteOf(h.ID.Time())})
	if h.Delivers() {
		h.EachDest(func(dest []byte) {
			if err == nil {
				_, err = b.began(h.ID, dest, nil, inEvents, r.Offset)
			}
		})
	}
	return err
}

// know adds an event that is not known yet.
func (b *book) know(event id.ID, e entry) error {
	if _, known := b.events[event]; known {
		return nil
	}
	if b.size() >= b.limit {
		return ErrTooMany
	}
	b.events[event] = e
	return nil
}

// addPoison takes a record of events that cannot be decoded. What it still names are deliveries, which get
// the last word from whoever buries it; else the record is counted itself.
func (b *book) addPoison(r *stream.Record) error {
	remains, ok := event.Salvage(r)
	if !ok {
		if b.size() >= b.limit {
			return ErrTooMany
		}
		b.poison[r.Offset] = &poison{minute: minuteOf(r.Timestamp)}
		return nil
	}
	err := b.know(remains.Event, entry{minute: minuteOf(remains.Event.Time())})
	for _, dest := range remains.Dests {
		if err == nil {
			_, err = b.began(remains.Event, []byte(dest), nil, inEvents, r.Offset)
		}
	}
	return err
}

// began notes where a chain of a known event began, and returns its row.
func (b *book) began(event id.ID, dest, run []byte, from source, offset int64) (uint32, error) {
	i, err := b.chain(event, dest, run)
	if err == nil {
		b.rows[i].from, b.rows[i].origin = from, offset
	}
	return i, err
}

// addCommand takes a record of the topic commands: of a run, it makes the delivery pending again.
func (b *book) addCommand(r *stream.Record) error {
	c, err := event.DecodeWorkHead(r)
	if err != nil {
		return nil // it will be buried, and its remains counted there
	}
	if _, known := b.events[c.Event]; !known && !b.adopt {
		return nil
	}
	if err := b.know(c.Event, entry{minute: minuteOf(r.Timestamp)}); err != nil {
		return err
	}
	i, err := b.began(c.Event, []byte(c.Dest), []byte(c.Run), inCommands, r.Offset)
	if err != nil || c.Run == "" {
		return err
	}
	version, err := event.QueuedVersion(c.Run)
	if err != nil {
		return nil // the store refuses it as well: it is no word
	}
	if x := &b.rows[i]; x.status == silent {
		x.status, x.version = pending, version
		if !c.Due.IsZero() {
			x.promise = promised(c.Due, r.Timestamp).UnixMilli()
		}
	}
	return nil
}

// addOutcome takes a record of the topic outcomes.
func (b *book) addOutcome(r *stream.Record) error {
	w, err := event.DecodeOutcomeHead(r)
	if err != nil {
		b.unreadable++
		return nil
	}
	if _, known := b.events[w.Event]; !known {
		return nil
	}
	version, err := w.Version(r.Offset)
	if err != nil {
		b.unreadable++
		return nil
	}
	if b.adopt && b.known(w.Event, w.Dest, w.Run) == 0 {
		return nil
	}
	row, err := b.chain(w.Event, w.Dest, w.Run)
	if err != nil {
		return err
	}
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

// addDead takes a record of the topic dead that a dispatcher has buried. An event record that names nothing has
// come to its end there, and so has work that does not say which chain of its event it continued.
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
			p.buried = true
		}
		return
	}
	remains, _ := event.Salvage(r)
	switch {
	case remains.Event.IsZero():
		b.unnamed++
	case !remains.FromWork: // else the chain got its last word
		for i := b.events[remains.Event].first; i != 0; i = b.rows[i].next {
			b.rows[i].buried = true
		}
	}
}

// chain is the row of a chain of an event that is in the book; it is made when there is none.
func (b *book) chain(event id.ID, dest, run []byte) (uint32, error) {
	d, r := b.names.number(dest), b.names.number(run)
	if i := b.find(event, d, r); i != 0 {
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

// known is the row of a chain, 0 when there is none.
func (b *book) known(event id.ID, dest, run []byte) uint32 {
	d, r := b.names.numbers[string(dest)], b.names.numbers[string(run)]
	if r == 0 && len(run) > 0 {
		return 0
	}
	return b.find(event, d, r)
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

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }
