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

// proofLifetime is how long work that was seen in a retry topic counts as proven before it is searched for again, so
// that deliveries that are parked for hours are not read every minute.
const proofLifetime = 5 * time.Minute

// follower reads one partition from cut to cut. It keeps what has not ended, and counts per minute of what has. A
// replay of an event that has ended, or that was accepted before the follower began, is followed as a delivery of its
// own.
type follower struct {
	partition   int32
	book        *book
	next        map[string]int64 // by topic: the offset to read next
	endedCounts map[int64]Counts // of what has ended, by the minute in which it was accepted
}

// followers are the followers of all partitions of this node.
type followers struct {
	cfg Config
	log log
	now func() time.Time

	all       map[int32]*follower
	lastRun   time.Time
	unaudited int // records, events and deliveries that were skipped
	onLost    func(Lost)
}

// runResult is the result of one run.
type runResult struct {
	Counts
	unproven int
	records  int
	// retryAfter is not 0 if there was too much to read or to keep: everything up to now was skipped. After this pause the
	// new records are few enough for a run.
	retryAfter time.Duration
}

// run reads on to a new cut and reconciles. New partitions begin Config.Window ago; partitions that are no longer
// wanted are dropped.
func (f *followers) run(ctx context.Context, wanted []int32) (runResult, error) {
	c, err := readCut(ctx, f.log)
	if err != nil {
		return runResult{}, err
	}
	maps.DeleteFunc(f.all, func(p int32, _ *follower) bool { return !slices.Contains(wanted, p) })
	if err := f.addMissing(ctx, c, wanted); err != nil {
		return runResult{}, err
	}
	since, now := f.lastRun, f.now()
	if since.IsZero() {
		since = now.Add(-f.cfg.Window)
	}
	f.lastRun = now
	budget := f.cfg.budget()
	if n := f.backlog(c); n > budget {
		f.unaudited += n
		retryAfter := time.Duration(float64(now.Sub(since)) * float64(budget) / float64(n) / 2)
		f.skipTo(c)
		return runResult{retryAfter: min(max(retryAfter, time.Second), f.cfg.Every)}, nil
	}
	result, err := f.reconcile(ctx, c)
	if errors.Is(err, ErrTooMany) {
		f.unaudited += f.size()
		f.skipTo(c)
		return runResult{retryAfter: time.Second}, nil
	}
	return result, err
}

// addMissing creates followers of partitions that have none.
func (f *followers) addMissing(ctx context.Context, c cut, wanted []int32) error {
	times := offsetCache{log: f.log}
	for _, partition := range wanted {
		if f.all[partition] != nil {
			continue
		}
		since, err := c.completeFrom(ctx, f.log, partition, f.now().Add(-f.cfg.Window), f.now())
		if err != nil {
			return err
		}
		x := &follower{partition: partition, next: make(map[string]int64)}
		for _, topic := range append(sourceTopics(), outcomeTopics()...) {
			p, from := stream.Partition{Topic: topic, Index: partition}, since
			if slices.Contains(outcomeTopics(), topic) {
				from = since.Add(-clockSlack) // no outcome of a later event may be missed
			}
			at, err := times.offset(ctx, p, from)
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
	x.endedCounts = make(map[int64]Counts)
}

func (x *follower) newBook(cfg Config) *book {
	b := newBook(cfg.MaxOpen + 4*cfg.budget())
	b.separateReplays = true
	return b
}

// backlog returns how many records are left to read up to the cut, without the retry topics.
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

// skipTo forgets everything and continues at the cut. Outcomes of events after the cut lie after it too, so none is
// missed.
func (f *followers) skipTo(c cut) {
	for _, x := range f.all {
		x.reset(f.cfg)
		for topic := range x.next {
			x.next[topic] = c.ends[stream.Partition{Topic: topic, Index: x.partition}]
		}
	}
}

// reconcile reads up to the cut and reconciles the books.
func (f *followers) reconcile(ctx context.Context, c cut) (runResult, error) {
	books := make(map[int32]*book, len(f.all))
	var ranges []stream.Range
	for _, x := range f.all {
		books[x.partition] = x.book
		for topic, from := range x.next {
			p := stream.Partition{Topic: topic, Index: x.partition}
			ranges = append(ranges, stream.Range{Partition: p, From: from, To: c.ends[p]})
		}
	}
	pace := &throttle{perSecond: f.cfg.PerSecond}
	err := fillBooks(ctx, f.log, pace, books, ranges)
	if err != nil {
		if !errors.Is(err, ErrTooMany) {
			clear(f.all) // their books are incomplete: begin again
		}
		return runResult{}, err
	}
	for _, x := range f.all {
		for topic := range x.next {
			p := stream.Partition{Topic: topic, Index: x.partition}
			x.next[topic] = max(c.ends[p], x.next[topic])
		}
	}
	return f.reconcileBooks(ctx, c, books, pace)
}

func (f *followers) reconcileBooks(ctx context.Context, c cut, books map[int32]*book, pace *throttle) (
	runResult, error) {
	now := f.now()
	wanted, search := 0, 0
	reconcilers := make(map[int32]*reconciler, len(f.all))
	for _, x := range f.all {
		r := c.newReconciler(x.book, x.partition)
		r.now, r.onLost = now.UnixMilli(), f.onLost
		if n := r.markWanted(); n > 0 {
			wanted += n
			for _, unread := range c.openRetryRanges(x.partition) {
				search += int(unread.To - unread.From)
			}
		}
		reconcilers[x.partition] = r
	}
	retriesUnread := search > f.cfg.MaxSearch
	if !retriesUnread {
		if err := searchRetryTopics(ctx, f.log, pace, books, c, wanted); err != nil {
			return runResult{}, err
		}
	}
	result := runResult{records: pace.read}
	cutoff := minuteOf(now.Add(-f.cfg.Window))
	for _, x := range f.all {
		r := reconcilers[x.partition]
		r.retriesUnread = retriesUnread
		var ended Counts
		r.onEnded = func(minute int64, counts Counts) {
			ended.add(counts)
			n := x.endedCounts[minute]
			n.add(counts)
			x.endedCounts[minute] = n
		}
		r.reconcileAll()
		result.add(r.counts.minus(ended))
		result.unproven += r.unproven
		maps.DeleteFunc(x.endedCounts, func(minute int64, _ Counts) bool { return minute < cutoff })
		for _, n := range x.endedCounts {
			result.add(n)
		}
		x.compact(f.cfg, now)
	}
	f.dropOldest()
	return result, nil
}

// compact replaces the book by a new one with what has not ended, which frees the rows of what has.
func (x *follower) compact(cfg Config, now time.Time) {
	old, b := x.book, x.newBook(cfg)
	trusted := now.Add(proofLifetime).UnixMilli()
	for event, e := range old.events {
		b.events[event] = entry{class: e.class, minute: e.minute}
		for i := e.first; i != 0; i = old.rows[i].next {
			from := &old.rows[i]
			at, err := b.ensureChain(event, []byte(old.names.text[from.dest]), []byte(old.names.text[from.run]))
			if err != nil {
				panic("BUG: " + err.Error()) // a copy is not larger
			}
			to := &b.rows[at]
			next, dest, run := to.next, to.dest, to.run
			*to = *from
			to.next, to.dest, to.run, to.reason = next, dest, run, b.names.number([]byte(old.names.text[from.reason]))
			if from.proven {
				to.trustedUntil = max(to.trustedUntil, trusted)
			}
			to.duplicates, to.success = 0, 0 // only audits count duplicates
			to.wanted, to.proven = false, false
		}
	}
	b.poison = old.poison
	x.book = b
}

// dropOldest drops the oldest events beyond the limit MaxOpen.
func (f *followers) dropOldest() {
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
		f.unaudited += n
	}
	for _, x := range f.all {
		x.compact(f.cfg, f.now())
	}
}
