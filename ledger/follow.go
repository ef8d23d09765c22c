package ledger

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// sightTrust is how long work that was seen in a retry topic is taken to be there, before it is looked for
// again: what is parked for hours is not read every minute.
const sightTrust = 5 * time.Minute

// follower reads one partition on from cut to cut. It keeps what has not ended; of what has, the counts by
// minute. A replay of an event that has ended, or was accepted before the follower began, is followed as a
// delivery of its own.
type follower struct {
	partition int32
	book      *book
	next      map[string]int64 // by topic: where to read on
	closed    map[int64]Counts // by minute
}

// followers are those of all partitions of this node.
type followers struct {
	cfg Config
	log log
	now func() time.Time

	all    map[int32]*follower
	last   time.Time // of the run before
	passed int       // records that were passed over
	found  func(Lost)
}

// look is what one run came to.
type look struct {
	Counts
	unproven int
	records  int
	// soon, if it is not 0, says that the log grows too fast to be read whole: everything up to now was passed
	// over, and what comes in this time is few enough to be read.
	soon time.Duration
}

// run reads on to a new cut and judges. Partitions that are new begin a window ago, those that are not wanted
// any more are dropped.
func (f *followers) run(ctx context.Context, wanted []int32) (look, error) {
	c, err := takeCut(ctx, f.log)
	if err != nil {
		return look{}, err
	}
	maps.DeleteFunc(f.all, func(p int32, _ *follower) bool { return !slices.Contains(wanted, p) })
	if err := f.begin(ctx, c, wanted); err != nil {
		return look{}, err
	}
	since, now := f.last, f.now()
	if since.IsZero() {
		since = now.Add(-f.cfg.Window)
	}
	f.last = now
	budget := f.cfg.budget()
	if n := f.backlog(c); n > budget {
		f.passed += n
		soon := time.Duration(float64(now.Sub(since)) * float64(budget) / float64(n) / 2)
		f.pass(c)
		return look{soon: min(max(soon, time.Second), f.cfg.Every)}, nil
	}
	l, err := f.look(ctx, c)
	if errors.Is(err, ErrTooMany) {
		f.passed += f.size()
		f.pass(c)
		return look{soon: time.Second}, nil
	}
	return l, err
}

// begin makes followers of partitions that have none.
func (f *followers) begin(ctx context.Context, c cut, wanted []int32) error {
	times := timeline{log: f.log}
	for _, partition := range wanted {
		if f.all[partition] != nil {
			continue
		}
		since, err := c.reach(ctx, f.log, partition, f.now().Add(-f.cfg.Window), f.now())
		if err != nil {
			return err
		}
		x := &follower{partition: partition, next: make(map[string]int64)}
		for _, topic := range append(asked(), said()...) {
			p, from := stream.Partition{Topic: topic, Index: partition}, since
			if slices.Contains(said(), topic) {
				from = since.Add(-clockSlack) // nothing that was said of what is asked for since may be missed
			}
			at, err := times.at(ctx, p, from)
			if err != nil {
				return err
			}
			x.next[topic] = min(max(at, c.starts[p]), c.ends[p])
		}
		x.reset(f.cfg)
		f.all[partition] = x
	}
	return nil
}

func (x *follower) reset(cfg Config) {
	x.book = x.newBook(cfg)
	x.closed = make(map[int64]Counts)
}

func (x *follower) newBook(cfg Config) *book {
	b := newBook(cfg.MaxOpen + 4*cfg.budget())
	b.adopt = true
	return b
}

// backlog is how many records must be read up to the cut, the retry topics not counted.
func (f *followers) backlog(c cut) (n int) {
	for _, x := range f.all {
		for topic, from := range x.next {
			n += int(max(c.ends[stream.Partition{Topic: topic, Index: x.partition}]-from, 0))
		}
	}
	return n
}

func (f *followers) size() (n int) {
	for _, x := range f.all {
		n += x.book.size()
	}
	return n
}

// pass forgets everything and goes on at the cut: whatever was said of what is asked for after it comes after
// it as well.
func (f *followers) pass(c cut) {
	for _, x := range f.all {
		x.reset(f.cfg)
		for topic := range x.next {
			x.next[topic] = c.ends[stream.Partition{Topic: topic, Index: x.partition}]
		}
	}
}

// look reads up to the cut and judges.
func (f *followers) look(ctx context.Context, c cut) (look, error) {
	books := make(map[int32]*book, len(f.all))
	var ranges []stream.Range
	for _, x := range f.all {
		books[x.partition] = x.book
		for topic, from := range x.next {
			p := stream.Partition{Topic: topic, Index: x.partition}
			ranges = append(ranges, stream.Range{Partition: p, From: from, To: c.ends[p]})
		}
	}
	pace := &pace{perSecond: f.cfg.PerSecond}
	err := readInto(ctx, f.log, pace, books, ranges)
	if err != nil {
		if !errors.Is(err, ErrTooMany) {
			clear(f.all) // their books hold a part of what lies before the cut: begin anew
		}
		return look{}, err
	}
	for _, x := range f.all {
		for topic := range x.next {
			p := stream.Partition{Topic: topic, Index: x.partition}
			x.next[topic] = max(c.ends[p], x.next[topic])
		}
	}
	return f.judge(ctx, c, books, pace)
}

func (f *followers) judge(ctx context.Context, c cut, books map[int32]*book, pace *pace) (look, error) {
	now := f.now()
	wanted, search := 0, 0
	judges := make(map[int32]*judge, len(f.all))
	for _, x := range f.all {
		j := c.judge(x.book, x.partition)
		j.now, j.found = now.UnixMilli(), f.found
		if n := j.want(); n > 0 {
			wanted += n
			for _, r := range c.undone(x.partition) {
				search += int(r.To - r.From)
			}
		}
		judges[x.partition] = j
	}
	blind := search > f.cfg.MaxSearch
	if !blind {
		if err := seek(ctx, f.log, pace, books, c, wanted); err != nil {
			return look{}, err
		}
	}
	l := look{records: pace.read}
	cutoff := minuteOf(now.Add(-f.cfg.Window))
	for _, x := range f.all {
		j := judges[x.partition]
		j.blind = blind
		var ended Counts
		j.ended = func(minute int64, its Counts) {
			ended.add(its)
			n := x.closed[minute]
			n.add(its)
			x.closed[minute] = n
		}
		j.run()
		l.add(j.counts.minus(ended))
		l.unproven += j.unproven
		maps.DeleteFunc(x.closed, func(minute int64, _ Counts) bool { return minute < cutoff })
		for _, n := range x.closed {
			l.add(n)
		}
		x.keep(f.cfg, now)
	}
	f.letGo()
	return l, nil
}

// keep makes a new book of what has not ended, so that the rows of what has are given back.
func (x *follower) keep(cfg Config, now time.Time) {
	old, b := x.book, x.newBook(cfg)
	trusted := now.Add(sightTrust).UnixMilli()
	for event, e := range old.events {
		b.events[event] = entry{class: e.class, minute: e.minute}
		for i := e.first; i != 0; i = old.rows[i].next {
			from := &old.rows[i]
			at, err := b.chain(event, []byte(old.names.text[from.dest]), []byte(old.names.text[from.run]))
			if err != nil {
				panic("BUG: " + err.Error()) // a copy is not larger
			}
			to := &b.rows[at]
			next, dest, run := to.next, to.dest, to.run
			*to = *from
			to.next, to.dest, to.run, to.reason = next, dest, run, b.names.number([]byte(old.names.text[from.reason]))
			if from.proven {
				to.promise = max(to.promise, trusted)
			}
			to.again, to.success = 0, 0 // only audits count duplicates
			to.wanted, to.proven = false, false
		}
	}
	b.poison = old.poison
	x.book = b
}

// letGo forgets the oldest of what has not ended beyond the limit.
func (f *followers) letGo() {
	over := f.size() - f.cfg.MaxOpen
	if over <= 0 {
		return
	}
	type old struct {
		x      *follower
		event  id.ID
		minute int64
	}
	var all []old
	for _, x := range f.all {
		for event, e := range x.book.events {
			all = append(all, old{x, event, e.minute})
		}
	}
	slices.SortFunc(all, func(a, b old) int { return cmp.Compare(a.minute, b.minute) })
	for _, o := range all {
		if over <= 0 {
			break
		}
		b := o.x.book
		n := 1
		for i := b.events[o.event].first; i != 0; i = b.rows[i].next {
			n++
		}
		delete(b.events, o.event)
		over -= n
		f.passed += n
	}
	for _, x := range f.all {
		x.keep(f.cfg, f.now())
	}
}
