package ledger

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// log is the log as an audit needs it; a *stream.Reader.
type log interface {
	Commits(ctx context.Context, group string, topics ...string) (map[stream.Partition]stream.Commit, error)
	Starts(ctx context.Context, topics ...string) (map[stream.Partition]int64, error)
	Ends(ctx context.Context, topics ...string) (map[stream.Partition]int64, error)
	OffsetsForTime(ctx context.Context, topic string, t time.Time) (map[stream.Partition]int64, error)
	ReadRanges(ctx context.Context, ranges []stream.Range, each func(stream.Partition, []*stream.Record) error) error
}

// cut is a moment of the log: what the dispatchers had committed, a little later the ends of the topics that
// tell what came of work, and after these the ends of the topics that hold work.
//
// The first order makes false residue impossible while traffic flows. A chain of work is a row of records, each
// durable before the one before it is committed, and a last word that is durable before the last of them
// is committed. Suppose that an audit finds none of these records undone. Then the first was covered by
// the commit that was read, so the second stood in the log before the commits had all been read, below the
// end that was asked for afterwards; the audit looked at it and found it covered too, and so on to the
// last word, which then was in the log as well, below the end of outcomes. So the chain has ended, and the
// audit knows it. This holds whichever partition's commit is read first. The other order would lose work
// that moves from a topic that is yet to be read into one that has been.
//
// The second order serves who reads on from cut to cut: whatever an outcome speaks of lies before the cut as
// well, so it is never read too early.
type cut struct {
	done         map[stream.Partition]stream.Completed
	starts, ends map[stream.Partition]int64
}

// said are the topics that tell what came of work, asked those that bring new work.
func said() []string  { return []string{stream.Outcomes, stream.Dead} }
func asked() []string { return []string{stream.Events, stream.Commands} }

// takeCut asks for the commits, and then for the ends.
func takeCut(ctx context.Context, l log) (cut, error) {
	worked := append(tierTopics(), asked()...)
	marks, err := l.Commits(ctx, stream.DispatchGroup, worked...)
	if err != nil {
		return cut{}, err
	}
	c := cut{done: make(map[stream.Partition]stream.Completed, len(marks))}
	for p, m := range marks {
		c.done[p] = m.Completed()
	}
	if c.starts, err = l.Starts(ctx, append(worked, said()...)...); err != nil {
		return cut{}, err
	}
	if c.ends, err = l.Ends(ctx, said()...); err != nil {
		return cut{}, err
	}
	later, err := l.Ends(ctx, worked...)
	maps.Copy(c.ends, later)
	return c, err
}

func tierTopics() (topics []string) {
	for _, t := range stream.Tiers() {
		topics = append(topics, t.Topic)
	}
	return topics
}

// undone are the stretches of a partition's retry topics that hold what was not done.
func (c cut) undone(partition int32) (ranges []stream.Range) {
	for _, topic := range tierTopics() {
		p := stream.Partition{Topic: topic, Index: partition}
		from := max(c.done[p].FirstIncomplete(), c.starts[p])
		if from < c.ends[p] {
			ranges = append(ranges, stream.Range{Partition: p, From: from, To: c.ends[p]})
		}
	}
	return ranges
}

// timeline knows offsets by time. The log answers for all partitions of a topic at once.
type timeline struct {
	log   log
	known map[place]map[stream.Partition]int64
}

// place is a time in a topic.
type place struct {
	topic string
	at    time.Time
}

// at is the first offset that is not older than t.
func (x *timeline) at(ctx context.Context, p stream.Partition, t time.Time) (int64, error) {
	where := place{p.Topic, t}
	if x.known[where] == nil {
		offsets, err := x.log.OffsetsForTime(ctx, p.Topic, t)
		if err != nil {
			return 0, err
		}
		if x.known == nil {
			x.known = make(map[place]map[stream.Partition]int64)
		}
		x.known[where] = offsets
	}
	return x.known[where][p], nil
}

// reach returns where to begin in a partition: at since, or later if the log no longer holds all outcomes of
// the events since then.
func (c cut) reach(ctx context.Context, l log, partition int32, since, now time.Time) (time.Time, error) {
	p := stream.Partition{Topic: stream.Outcomes, Index: partition}
	start := c.starts[p]
	if start == 0 {
		return since, nil
	}
	whole := now // none is left: nothing that was accepted before can be judged
	if start < c.ends[p] {
		first := []stream.Range{{Partition: p, From: start, To: start + 1}}
		err := l.ReadRanges(ctx, first, func(_ stream.Partition, records []*stream.Record) error {
			whole = records[0].Timestamp.Add(clockSlack)
			return nil
		})
		if err != nil {
			return since, err
		}
	}
	if whole.After(since) {
		return whole, nil
	}
	return since, nil
}

// pace slows reading down, so that an audit does not take the processor and the brokers from the traffic.
type pace struct {
	perSecond int // records; 0 = as fast as it goes
	read      int // so far
}

// took notes records that were read, and waits as long as they should have taken.
func (p *pace) took(ctx context.Context, n int) error {
	p.read += n
	if p.perSecond == 0 {
		return nil
	}
	return wait.For(ctx, time.Duration(n)*time.Second/time.Duration(p.perSecond))
}

// readInto reads ranges of events, commands, outcomes and dead into the books of their partitions, one topic
// after the other: what speaks of something that is not in the book is passed over.
func readInto(ctx context.Context, l log, p *pace, books map[int32]*book, ranges []stream.Range) error {
	for _, topic := range append(asked(), said()...) {
		var of []stream.Range
		for _, r := range ranges {
			if r.Topic == topic && (topic == stream.Events || books[r.Index].expects()) {
				of = append(of, r)
			}
		}
		err := l.ReadRanges(ctx, of, func(from stream.Partition, records []*stream.Record) error {
			for _, r := range records {
				if err := books[from.Index].add(topic, r); err != nil {
					return fmt.Errorf("partition %d: %w", from.Index, err)
				}
			}
			return p.took(ctx, len(records))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// seek reads the retry topics until the work of so many chains that the books want has been seen, or to the end of
// the cut.
func seek(ctx context.Context, l log, p *pace, books map[int32]*book, c cut, wanted int) error {
	if wanted == 0 {
		return nil
	}
	var ranges []stream.Range
	for partition := range books {
		ranges = append(ranges, c.undone(partition)...)
	}
	return l.ReadRanges(ctx, ranges, func(from stream.Partition, records []*stream.Record) error {
		b, done := books[from.Index], c.done[from]
		for _, r := range records {
			if !done.Contains(r.Offset) {
				wanted -= b.addUndone(r)
			}
		}
		if wanted == 0 {
			return stream.ErrStop
		}
		return p.took(ctx, len(records))
	})
}

// addUndone takes an undone record of a retry topic and returns of how many chains that were looked for it is
// the work: several when it cannot be decoded, and may be any of them.
func (b *book) addUndone(r *stream.Record) (found int) {
	if c, err := event.DecodeWorkHead(r); err == nil {
		return b.addWork(c.Event, c.Dest, c.Run)
	}
	remains, _ := event.Salvage(r)
	if remains.FromWork {
		return b.addWork(remains.Event, remains.Dests[0], remains.Run)
	}
	for i := b.events[remains.Event].first; i != 0; i = b.rows[i].next {
		found += b.rows[i].prove()
	}
	return found
}

// addWork notes that undone work of a chain stands in the log.
func (b *book) addWork(event id.ID, dest, run string) (found int) {
	i := b.known(event, []byte(dest), []byte(run))
	if i == 0 {
		return 0
	}
	return b.rows[i].prove()
}

// prove returns 1 when the work was looked for and not found before.
func (x *row) prove() int {
	first := x.wanted && !x.proven
	x.proven = true
	if first {
		return 1
	}
	return 0
}
