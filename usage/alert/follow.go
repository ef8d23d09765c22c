package alert

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// How much of the log is read again to build the picture of partitions that are new here: what the longest window of
// a rule holds, where there is little traffic more, so that slow failures in a row are counted too.
const (
	lookBack     = 24 * time.Hour
	lookRecords  = 50_000 // outcomes of all partitions together
	leastRecords = 1000   // of one partition
	lookEvents   = 500    // of one partition, for refused signatures
	lookTimeout  = time.Minute
)

// tooOld is the age from which on an outcome says nothing to anybody.
const tooOld = 24 * time.Hour

// stretch are records of one partition, in order.
type stretch struct {
	from    stream.Partition
	records []*stream.Record
}

// follow reads, judges and commits until ctx ends. It alone uses the books.
func (a *Alerts) follow(ctx context.Context) error {
	marks := map[stream.Partition]stream.Commit{}
	last := time.Now()
	for {
		var came []stretch
		polling, cancel := context.WithTimeout(ctx, beat)
		err := a.group.Poll(polling, func(p stream.Partition, records []*stream.Record) {
			came = append(came, stretch{p, records})
		})
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		anew, err := a.adopt(ctx, marks)
		if err != nil {
			return err
		}
		came = slices.DeleteFunc(came, func(s stretch) bool { return anew[s.from] })
		for _, s := range came {
			if err := a.take(ctx, s, marks); err != nil {
				return err
			}
		}
		if time.Since(last) >= beat {
			last = time.Now()
			if err := a.beat(ctx); err != nil {
				return err
			}
			a.commit(ctx, marks)
		}
		if slices.ContainsFunc(came, func(s stretch) bool { return a.group.Lag(s.from) > 0 }) {
			continue // there is more
		}
		if err := wait.For(ctx, pollWait); err != nil { // records gather meanwhile
			return err
		}
	}
}

// adopt forgets the partitions that went and builds the books of those that came, until there are none. anew are those
// that went, or came again, while others were built: what was read of them before belongs to nobody, or comes again.
func (a *Alerts) adopt(ctx context.Context, marks map[stream.Partition]stream.Commit) (
	anew map[stream.Partition]bool, err error) {
	anew = map[stream.Partition]bool{}
	for {
		if done, err := a.adoptPresent(ctx, marks, anew); done || err != nil {
			return anew, err
		}
	}
}

// adoptPresent is adopt for what came and went until now. It is not done when more did while the log could not be read.
func (a *Alerts) adoptPresent(
	ctx context.Context, marks map[stream.Partition]stream.Commit, anew map[stream.Partition]bool) (done bool, err error) {
	a.mu.Lock()
	arrived, left := a.arrived, a.left
	a.arrived, a.left = map[stream.Partition]stream.Commit{}, map[stream.Partition]bool{}
	a.mu.Unlock()
	for p := range left {
		delete(marks, p)
		if p.Topic == stream.Outcomes {
			delete(a.books, p.Index)
		}
	}
	if len(arrived) == 0 {
		a.first.Store(a.books[0] != nil)
		return true, nil
	}
	for p, m := range arrived {
		delete(marks, p) // of a time before
		if a.books[p.Index] == nil || p.Topic == stream.Outcomes {
			a.books[p.Index] = newBook(p.Index)
		}
		a.books[p.Index].at[p.Topic] = max(m.Offset, 0)
	}
	for p, m := range arrived { // a new book forgot what its other topic had
		a.books[p.Index].at[p.Topic] = max(m.Offset, 0)
	}
	a.first.Store(a.books[0] != nil)
	past := map[stream.Partition]*stream.Range{}
	for {
		err := a.lookBack(ctx, arrived, past)
		if err == nil || ctx.Err() != nil {
			return true, ctx.Err()
		}
		a.log.LogAttrs(ctx, slog.LevelWarn, "read the log again for alerts", slog.Any("error", err))
		if err := wait.For(ctx, retryEvery); err != nil {
			return true, err
		}
		if a.putBack(arrived, anew) {
			return false, nil
		}
	}
}

// putBack reports whether the assignment has changed meanwhile, and of what. What arrived and is still here then
// arrives with that.
func (a *Alerts) putBack(arrived map[stream.Partition]stream.Commit, anew map[stream.Partition]bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.arrived) == 0 && len(a.left) == 0 {
		return false
	}
	for p := range a.left {
		anew[p] = true
	}
	for p := range a.arrived {
		anew[p] = true
	}
	for p, m := range arrived {
		if _, again := a.arrived[p]; !again && !a.left[p] {
			a.arrived[p] = m
		}
	}
	return true
}

// lookBack builds the books of partitions up to where they were judged. past is what is left to read, and is empty at
// first: after an error the next call goes on where this one came to, so it ends however slow the log is, and nothing
// counts twice.
func (a *Alerts) lookBack(
	ctx context.Context, arrived map[stream.Partition]stream.Commit, past map[stream.Partition]*stream.Range) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	starts, err := a.reader.Starts(ctx, stream.Outcomes, stream.Events)
	if err != nil {
		return err
	}
	ends, err := a.reader.Ends(ctx, stream.Outcomes, stream.Events)
	if err != nil {
		return err
	}
	now := a.now()
	if len(past) == 0 {
		if err := a.choosePast(ctx, arrived, past, now); err != nil {
			return err
		}
	}
	var ranges []stream.Range
	for p, g := range past {
		g.To = min(g.To, ends[p]) // a log that was made anew, or lost its end, ends before what was judged
		a.books[p.Index].end[p.Topic] = ends[p]
		a.books[p.Index].at[p.Topic] = max(a.books[p.Index].at[p.Topic], starts[p])
		// What the log has deleted was done long ago, but not seen here.
		if b := a.books[p.Index]; p.Topic == stream.Outcomes && starts[p] > 0 && g.From <= starts[p] && g.From < g.To {
			b.whole, b.begins = now, true
		}
		g.From = max(g.From, starts[p])
		ranges = append(ranges, *g)
	}
	span := a.span()
	return a.reader.ReadRanges(ctx, ranges, func(p stream.Partition, records []*stream.Record) error {
		past[p].From = records[len(records)-1].Offset + 1
		b := a.books[p.Index]
		if p.Topic == stream.Outcomes && b.begins {
			b.whole, b.begins = records[0].Timestamp, false
		}
		for _, r := range records {
			if isCopy(r) {
				continue
			}
			var err error
			if p.Topic == stream.Outcomes {
				_, _, _, err = b.outcome(r, span)
			} else {
				err = b.event(r, now)
			}
			a.passOver(r, err)
		}
		return nil
	})
}

// choosePast puts into past what is worth reading of each partition before it was judged.
func (a *Alerts) choosePast(ctx context.Context, arrived map[stream.Partition]stream.Commit,
	past map[stream.Partition]*stream.Range, now time.Time) error {
	since := map[string]map[stream.Partition]int64{}
	for topic, span := range map[string]time.Duration{stream.Outcomes: lookBack, stream.Events: rejectionWindow} {
		var err error
		if since[topic], err = a.reader.OffsetsForTime(ctx, topic, now.Add(-span)); err != nil {
			return err
		}
	}
	budget := max(int64(lookRecords/len(arrived)), leastRecords)
	for p, m := range arrived {
		limit := budget
		if p.Topic == stream.Events {
			limit = lookEvents
		}
		from := max(0, min(since[p.Topic][p], m.Offset), m.Offset-limit)
		past[p] = &stream.Range{Partition: p, From: from, To: m.Offset}
		if p.Topic == stream.Outcomes && from > since[p.Topic][p] && from < m.Offset {
			a.books[p.Index].whole, a.books[p.Index].begins = now, true
		}
	}
	return nil
}

func (a *Alerts) span() time.Duration {
	return time.Duration(a.deps.Config.AlertSettings().Rules.FailureRate.WindowSeconds) * time.Second
}

// passOver notes a record that cannot be read: whoever stores it buries it, and it says nothing to anybody.
func (a *Alerts) passOver(r *stream.Record, err error) {
	if err == nil {
		return
	}
	a.metrics.unreadable.Inc()
	a.log.LogAttrs(context.Background(), slog.LevelWarn, "alerts pass over a record", slog.String("topic", r.Topic),
		slog.Int("partition", int(r.Partition)), slog.Int64("offset", r.Offset), slog.Any("error", err))
}

// take brings records into their book and judges what they may have changed.
func (a *Alerts) take(ctx context.Context, s stretch, marks map[stream.Partition]stream.Commit) error {
	b := a.books[s.from.Index]
	if b == nil {
		return nil // it went meanwhile
	}
	span, now := a.span(), a.now()
	for _, r := range s.records {
		if isCopy(r) {
			continue
		}
		if s.from.Topic == stream.Events {
			a.passOver(r, b.event(r, now))
			continue
		}
		if now.Sub(r.Timestamp) >= tooOld {
			continue
		}
		dest, k, told, err := b.outcome(r, span)
		a.passOver(r, err)
		b.at[s.from.Topic] = r.Offset + 1
		if err == nil && told {
			// As of then: what came of it since may be in the log, where it is not read yet.
			if err := a.judgeTrack(ctx, b, dest, k, earlier(now, b.time[stream.Outcomes])); err != nil {
				return err
			}
		}
	}
	last := s.records[len(s.records)-1]
	b.at[s.from.Topic] = last.Offset + 1
	marks[s.from] = stream.Commit{Offset: last.Offset + 1, LeaderEpoch: last.LeaderEpoch}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// known is up to when the book knows what a topic says: now, unless there is more in the log. It is zero when nothing
// of that was read yet.
func (a *Alerts) known(b *book, topic string, now time.Time) time.Time {
	if b.at[topic] >= b.end[topic] &&
		(a.group == nil || a.group.Lag(stream.Partition{Topic: topic, Index: b.partition}) == 0) {
		return now
	}
	return earlier(now, b.time[topic])
}

// isCopy reports whether a record was put back for a group that could not read it: it was seen before.
func isCopy(r *stream.Record) bool {
	return slices.ContainsFunc(r.Headers, func(h stream.Header) bool { return h.Key == stream.HeaderOnlyGroup })
}

// commit tells the group how far was judged. One that fails is made again with the next; what is then read twice
// changes nothing.
func (a *Alerts) commit(ctx context.Context, marks map[stream.Partition]stream.Commit) {
	// A partition is not given away while this goes on, for lost waits, and nothing is committed for one that is: brokers
	// take what a member of the group says, its own partitions or not.
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.left {
		delete(marks, p)
	}
	for p := range a.arrived {
		delete(marks, p)
	}
	if len(marks) == 0 {
		return
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := a.group.Commit(limited, maps.Clone(marks)); err != nil {
		if ctx.Err() == nil {
			a.log.LogAttrs(ctx, slog.LevelWarn, "commit what alerts have judged", slog.Any("error", err))
		}
		return
	}
	clear(marks)
}
