package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// log is the log as an audit needs it; a *stream.Reader.
type log interface {
	Marks(ctx context.Context, group string, topics ...string) (map[stream.Partition]stream.Mark, error)
	Starts(ctx context.Context, topics ...string) (map[stream.Partition]int64, error)
	Ends(ctx context.Context, topics ...string) (map[stream.Partition]int64, error)
	At(ctx context.Context, topic string, t time.Time) (map[stream.Partition]int64, error)
	ReadRanges(ctx context.Context, ranges []stream.Range, each func(stream.Partition, []*stream.Record) error) error
}

// cut is a moment of the log: what the dispatchers had committed, and the ends of all topics a little later.
//
// The order makes false residue impossible while traffic flows. A chain of work is a row of records, each
// durable before the one before it is committed, and a last word that is durable before the last of them
// is committed. Suppose that an audit finds none of these records undone. Then the first was covered by
// the commit that was read, so the second stood in the log before the commits had all been read, below the
// end that was asked for afterwards; the audit looked at it and found it covered too, and so on to the
// last word, which then was in the log as well, below the end of outcomes. So the chain has ended, and the
// audit knows it. This holds whichever partition's commit is read first. The other order would lose work
// that moves from a topic that is yet to be read into one that has been.
type cut struct {
	done         map[stream.Partition]stream.Done
	starts, ends map[stream.Partition]int64
}

// takeCut asks for the commits, and then for the ends.
func takeCut(ctx context.Context, l log) (cut, error) {
	tiers := tierTopics()
	worked := append([]string{stream.Events, stream.Commands}, tiers...)
	marks, err := l.Marks(ctx, stream.DispatchGroup, worked...)
	if err != nil {
		return cut{}, err
	}
	c := cut{done: make(map[stream.Partition]stream.Done, len(marks))}
	for p, m := range marks {
		c.done[p] = m.Done()
	}
	topics := append(worked, stream.Outcomes, stream.Dead)
	if c.starts, err = l.Starts(ctx, topics...); err != nil {
		return cut{}, err
	}
	c.ends, err = l.Ends(ctx, topics...)
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
		from := max(c.done[p].From(), c.starts[p])
		if from < c.ends[p] {
			ranges = append(ranges, stream.Range{Partition: p, From: from, To: c.ends[p]})
		}
	}
	return ranges
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
	t := time.NewTimer(time.Duration(n) * time.Second / time.Duration(p.perSecond))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readInto reads ranges of events, commands, outcomes and dead into the books of their partitions. Events
// must be read before the rest: what speaks of an event that is not in the book is passed over.
func readInto(ctx context.Context, l log, p *pace, books map[int32]*book, ranges []stream.Range) error {
	return l.ReadRanges(ctx, ranges, func(from stream.Partition, records []*stream.Record) error {
		b := books[from.Index]
		for _, r := range records {
			var err error
			switch from.Topic {
			case stream.Events:
				err = b.addEvent(r)
			case stream.Commands:
				err = b.addCommand(r)
			case stream.Outcomes:
				err = b.addOutcome(r)
			case stream.Dead:
				b.addDead(r)
			}
			if err != nil {
				return fmt.Errorf("audit partition %d: %w", from.Index, err)
			}
		}
		return p.took(ctx, len(records))
	})
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
			if !done.Has(r.Offset) {
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
	if c, err := event.DecodeChain(r); err == nil {
		return b.addWork(c.Event, c.Dest, c.Run)
	}
	remains, _ := event.Salvage(r)
	if remains.Exact {
		return b.addWork(remains.Event, remains.Dests[0], remains.Run)
	}
	for i := b.events[remains.Event].first; i != 0; i = b.rows[i].next {
		found += b.rows[i].prove()
	}
	return found
}

// addWork notes that undone work of a chain stands in the log.
func (b *book) addWork(event id.ID, dest, run string) (found int) {
	d, r := b.names.numbers[dest], b.names.numbers[run]
	if r == 0 && run != "" {
		return 0
	}
	i := b.find(event, d, r)
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
