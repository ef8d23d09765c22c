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

// log is the part of a *stream.Reader that audits and followers need.
type log interface {
	Commits(ctx context.Context, group string, topics ...string) (map[stream.Partition]stream.Commit, error)
	Starts(ctx context.Context, topics ...string) (map[stream.Partition]int64, error)
	Ends(ctx context.Context, topics ...string) (map[stream.Partition]int64, error)
	OffsetsForTime(ctx context.Context, topic string, t time.Time) (map[stream.Partition]int64, error)
	ReadRanges(ctx context.Context, ranges []stream.Range, each func(stream.Partition, []*stream.Record) error) error
}

// cut is a consistent cut of the log: first the dispatchers' commits are read, then the ends of the topics that hold
// outcomes, then the ends of the topics that hold work (the records that make or continue a delivery).
//
// Reading the commits first means that nothing is called lost by mistake while traffic flows.
// A chain is a sequence of records:
// each is durable before the one before it is committed, and the final outcome is durable before the last of them is
// committed. Suppose that an audit finds all these records committed. The first was covered by the commits that were
// read, so the second was in the log before all commits had been read, below the ends that were read later; the audit
// found it, committed too, and so on to the final outcome. That is then in the log as well, below the end of
// outcomes. So the chain has ended and the audit knows it. It does not matter which partition's commits are read
// first. If the ends were read before the commits, work that moves on in between would look lost: the next record lies
// above the ends, and the commit covers the one before it.
//
// A follower reads from cut to cut. It needs the ends of outcomes to be read before those of work: then whatever an
// outcome refers to lies before the cut too.
type cut struct {
	done         map[stream.Partition]stream.Completed
	starts, ends map[stream.Partition]int64
}

// outcomeTopics are the topics with results of work; sourceTopics are those with new work.
func outcomeTopics() []string { return []string{stream.Outcomes, stream.Dead} }
func sourceTopics() []string  { return []string{stream.Events, stream.Commands} }

// readCut reads the commits and then the ends.
func readCut(ctx context.Context, l log) (cut, error) {
	workTopics := append(tierTopics(), sourceTopics()...)
	commits, err := l.Commits(ctx, stream.DispatchGroup, workTopics...)
	if err != nil {
		return cut{}, err
	}
	c := cut{done: make(map[stream.Partition]stream.Completed, len(commits))}
	for p, m := range commits {
		c.done[p] = m.Completed()
	}
	if c.starts, err = l.Starts(ctx, append(workTopics, outcomeTopics()...)...); err != nil {
		return cut{}, err
	}
	if c.ends, err = l.Ends(ctx, outcomeTopics()...); err != nil {
		return cut{}, err
	}
	later, err := l.Ends(ctx, workTopics...)
	maps.Copy(c.ends, later)
	return c, err
}

func tierTopics() (topics []string) {
	for _, t := range stream.Tiers() {
		topics = append(topics, t.Topic)
	}
	return topics
}

// openRetryRanges returns the ranges of a partition's retry topics that hold uncommitted records.
func (c cut) openRetryRanges(partition int32) (ranges []stream.Range) {
	for _, topic := range tierTopics() {
		p := stream.Partition{Topic: topic, Index: partition}
		from := max(c.done[p].FirstIncomplete(), c.starts[p])
		if from < c.ends[p] {
			ranges = append(ranges, stream.Range{Partition: p, From: from, To: c.ends[p]})
		}
	}
	return ranges
}

// offsetCache caches offsets by time: the log answers for all partitions of a topic at once.
type offsetCache struct {
	log   log
	known map[topicTime]map[stream.Partition]int64
}

// topicTime is a time in a topic.
type topicTime struct {
	topic string
	at    time.Time
}

// offset returns the first offset whose record is not older than t.
func (x *offsetCache) offset(ctx context.Context, p stream.Partition, t time.Time) (int64, error) {
	where := topicTime{p.Topic, t}
	if x.known[where] == nil {
		offsets, err := x.log.OffsetsForTime(ctx, p.Topic, t)
		if err != nil {
			return 0, err
		}
		if x.known == nil {
			x.known = make(map[topicTime]map[stream.Partition]int64)
		}
		x.known[where] = offsets
	}
	return x.known[where][p], nil
}

// completeFrom returns the time to begin at in a partition: since, or the time from which on all outcomes are still in
// the log, if retention has deleted later ones than since.
func (c cut) completeFrom(ctx context.Context, l log, partition int32, since, now time.Time) (time.Time, error) {
	p := stream.Partition{Topic: stream.Outcomes, Index: partition}
	start := c.starts[p]
	if start == 0 {
		return since, nil
	}
	complete := now // no outcome is left, so no earlier event can be reconciled
	if start < c.ends[p] {
		first := []stream.Range{{Partition: p, From: start, To: start + 1}}
		err := l.ReadRanges(ctx, first, func(_ stream.Partition, records []*stream.Record) error {
			complete = records[0].Timestamp.Add(clockSlack)
			return nil
		})
		if err != nil {
			return since, err
		}
	}
	if complete.After(since) {
		return complete, nil
	}
	return since, nil
}

// throttle slows reading down, so that an audit takes little CPU and broker time from the traffic.
type throttle struct {
	perSecond int // records; 0: no limit
	read      int // records so far
}

// wait counts n records that were read, and waits as long as they may take.
func (t *throttle) wait(ctx context.Context, n int) error {
	t.read += n
	if t.perSecond == 0 {
		return nil
	}
	return wait.For(ctx, time.Duration(n)*time.Second/time.Duration(t.perSecond))
}

// fillBooks reads ranges of events, commands, outcomes and dead into the books of their partitions, one topic after
// the other. Records that refer to nothing in the books are skipped.
func fillBooks(ctx context.Context, l log, pace *throttle, books map[int32]*book, ranges []stream.Range) error {
	for _, topic := range append(sourceTopics(), outcomeTopics()...) {
		var of []stream.Range
		for _, r := range ranges {
			if r.Topic == topic && (topic == stream.Events || books[r.Index].expects()) {
				of = append(of, r)
			}
		}
		err := l.ReadRanges(ctx, of, func(from stream.Partition, records []*stream.Record) error {
			for _, r := range records {
				if err := books[from.Index].addRecord(topic, r); err != nil {
					return fmt.Errorf("partition %d: %w", from.Index, err)
				}
			}
			return pace.wait(ctx, len(records))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// searchRetryTopics reads the retry topics until the work of all wanted chains was found, or to the end of the cut.
func searchRetryTopics(ctx context.Context, l log, pace *throttle, books map[int32]*book, c cut, wanted int) error {
	if wanted == 0 {
		return nil
	}
	var ranges []stream.Range
	for partition := range books {
		ranges = append(ranges, c.openRetryRanges(partition)...)
	}
	return l.ReadRanges(ctx, ranges, func(from stream.Partition, records []*stream.Record) error {
		b, done := books[from.Index], c.done[from]
		for _, r := range records {
			if !done.Contains(r.Offset) {
				wanted -= b.addOpenRecord(r)
			}
		}
		if wanted == 0 {
			return stream.ErrStop
		}
		return pace.wait(ctx, len(records))
	})
}

// addOpenRecord adds an uncommitted record of a retry topic and returns how many wanted chains it proves to be in
// flight: several if it cannot be decoded, because it may belong to any chain of its event.
func (b *book) addOpenRecord(r *stream.Record) (found int) {
	if c, err := event.DecodeWorkHead(r); err == nil {
		return b.markFound(c.Event, c.Dest, c.Run)
	}
	remains, _ := event.Salvage(r)
	if remains.FromWork {
		return b.markFound(remains.Event, remains.Dests[0], remains.Run)
	}
	for i := b.events[remains.Event].first; i != 0; i = b.rows[i].next {
		found += b.rows[i].markProven()
	}
	return found
}

// markFound marks a chain whose work is in the log. It returns 1 if the chain was wanted and not proven before.
func (b *book) markFound(event id.ID, dest, run string) (found int) {
	i := b.findChain(event, []byte(dest), []byte(run))
	if i == 0 {
		return 0
	}
	return b.rows[i].markProven()
}

// markProven marks a chain as proven. It returns 1 if the chain was wanted and not proven before.
func (x *row) markProven() int {
	first := x.wanted && !x.proven
	x.proven = true
	if first {
		return 1
	}
	return 0
}
