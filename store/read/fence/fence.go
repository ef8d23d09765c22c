// Package fence has the read-your-writes fence of the store: it waits until ClickHouse holds what the log held when a
// read began (fence.go), and knows up to when all deliveries have an outcome there (unreported.go).
//
// It is given a reader of the log, and on a node with a writer that writer. Waits are bounded: a read that is not up to
// date afterwards says so. It never reads ClickHouse.
package fence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/ch"
)

// errBehind means that the writer did not store the awaited offset in time.
var errBehind = errors.New("the writer is behind")

// ErrNotCaughtUp means that the newest acknowledged records are not in the store yet.
var ErrNotCaughtUp = fmt.Errorf("%w: it is behind the log", event.ErrUnavailable)

// committedPoll is the pause between two queries of the offsets that the writers of other nodes have committed.
const committedPoll = 25 * time.Millisecond

// askAgain is how soon the writers of other nodes are asked again for the same offsets: a partition may have got a new
// owner.
const askAgain = 200 * time.Millisecond

// Fence is the read-your-writes fence: it waits until ClickHouse holds everything that the log held when the read
// began, or returns the rows that ClickHouse lacks.
type Fence struct {
	topic  *stream.Reader
	writer store.FlushRequester // nil on a node without one
	others *others
	limit  time.Duration // how long a read waits at most
	ends   *coalescer[map[stream.Partition]int64]

	mu sync.Mutex // guards lastPassed and unstored
	// lastPassed is the start of the last wait that ended in time, whatever its partitions: what that wait covered was
	// stored up to then.
	lastPassed time.Time
	// unstored is a wait that ended with rows in memory. When they are stored, it counts for lastPassed.
	unstored *endedWait
}

// endedWait is a wait that ended in time: when it began, and what it waited for.
type endedWait struct {
	began   time.Time
	targets map[stream.Partition]int64
}

// New returns a fence. askOthers asks the writers of other nodes to flush; nil: there are none. limit bounds a wait.
func New(topic *stream.Reader, writer store.FlushRequester,
	askOthers func(context.Context, map[stream.Partition]int64) error, limit time.Duration) *Fence {
	return &Fence{topic: topic, writer: writer, limit: limit,
		others: &others{send: askOthers, asked: make(map[stream.Partition]asked)},
		ends: newCoalescer(func(ctx context.Context) (map[stream.Partition]int64, error) {
			return topic.Ends(ctx, store.Topics()...)
		})}
}

// holdsEvents selects every partition of the topics that events need.
func holdsEvents(p stream.Partition) bool { return stream.FenceEvents.Has(p.Topic) }

// holdsEventsOf selects the partitions with one number. They hold everything about an event: all its topics use the
// partition in its id.
func holdsEventsOf(partition int32) func(stream.Partition) bool {
	return func(p stream.Partition) bool { return p.Index == partition && holdsEvents(p) }
}

// WaitAll waits for all events. It returns the zero time when the store is up to date, else a time: rows acknowledged
// after it may be missing.
func (f *Fence) WaitAll(ctx context.Context) (asOf time.Time, err error) {
	return f.waitMatching(ctx, holdsEvents)
}

// WaitPartition waits for what one partition has of events.
func (f *Fence) WaitPartition(ctx context.Context, partition int32) (asOf time.Time, err error) {
	return f.waitMatching(ctx, holdsEventsOf(partition))
}

// ReadPartition is WaitPartition without a flush, where the writer in this process owns the partitions: it returns the
// rows that are not stored yet. They are nil if it has waited for the store.
func (f *Fence) ReadPartition(ctx context.Context, partition int32) (*store.Unstored, time.Time, error) {
	return f.run(ctx, holdsEventsOf(partition), true)
}

// WaitAudit waits for the topics of the audit log.
func (f *Fence) WaitAudit(ctx context.Context) (asOf time.Time, err error) {
	return f.waitMatching(ctx, func(p stream.Partition) bool { return stream.FenceAudit.Has(p.Topic) })
}

// WaitFindings waits for the topics of findings, which nothing else waits for.
func (f *Fence) WaitFindings(ctx context.Context) (asOf time.Time, err error) {
	return f.waitMatching(ctx, func(p stream.Partition) bool { return stream.FenceFindings.Has(p.Topic) })
}

// WaitUsage waits for everything that is billed: events and findings.
func (f *Fence) WaitUsage(ctx context.Context) (asOf time.Time, err error) {
	return f.waitMatching(ctx, func(p stream.Partition) bool {
		return holdsEvents(p) || stream.FenceFindings.Has(p.Topic)
	})
}

// WaitOffset waits until one partition of a topic is stored up to end, and returns errBehind when that takes too long.
func (f *Fence) WaitOffset(ctx context.Context, p stream.Partition, end int64) error {
	limited, cancel := context.WithTimeout(ctx, f.limit)
	defer cancel()
	if behind := f.waitStored(limited, map[stream.Partition]int64{p: end}); len(behind) > 0 {
		return errBehind
	}
	return nil
}

// CaughtUp returns ErrNotCaughtUp for a wait of the fence that ended before the store was up to date.
func CaughtUp(asOf time.Time, err error) error {
	switch {
	case err != nil:
		return err
	case !asOf.IsZero():
		return ErrNotCaughtUp
	}
	return nil
}

func (f *Fence) waitMatching(ctx context.Context, matters func(stream.Partition) bool) (time.Time, error) {
	_, asOf, err := f.run(ctx, matters, false)
	return asOf, err
}

// run waits for the partitions that matter. With fromMemory it does not wait for their rows to be stored if the writer
// in this process has all of them; it returns those then.
func (f *Fence) run(ctx context.Context, matters func(stream.Partition) bool, fromMemory bool) (
	rows *store.Unstored, asOf time.Time, err error) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, f.limit)
	defer cancel()
	ends, err := f.ends.get(limited)
	if err != nil {
		if ctx.Err() != nil {
			return nil, time.Time{}, ch.ClassifyError(ctx, ctx.Err())
		}
		return nil, f.LastPassedAt(), nil // the log is unavailable; the read serves what is stored
	}
	targets := make(map[stream.Partition]int64, len(ends))
	for p, end := range ends {
		if end > 0 && matters(p) {
			targets[p] = end
		}
	}
	if fromMemory {
		rows = f.waitRead(limited, targets)
	}
	if rows != nil {
		if f.others.send != nil {
			rows.FlushBegan = nil // another node may have taken the partitions over, and this one would not know yet
		}
		f.passed(endedWait{began, targets})
		return rows, time.Time{}, nil
	}
	behind := f.waitStored(limited, targets)
	if ctx.Err() != nil {
		return nil, time.Time{}, ch.ClassifyError(ctx, ctx.Err())
	}
	if len(behind) > 0 {
		return nil, f.asOf(behind), nil
	}
	f.passed(endedWait{began, nil})
	return nil, time.Time{}, nil
}

// waitRead waits until the writer in this process has read the log up to the targets, and returns the rows that it has
// not stored. They are nil when it does not own all partitions, when ClickHouse does not take its rows, or when ctx
// ends.
func (f *Fence) waitRead(ctx context.Context, targets map[stream.Partition]int64) *store.Unstored {
	if f.writer == nil {
		return nil
	}
	for {
		p := f.writer.Progress() // before Unstored, so that no change is missed
		if anyFailing(targets, p.Owned) {
			return nil
		}
		if rows, owned := f.writer.Unstored(targets); rows != nil || !owned {
			return rows
		}
		if !f.waitChange(ctx, p.Changed, false) {
			return nil
		}
	}
}

// passed records that a wait ended in time. Its targets may not be stored yet.
func (f *Fence) passed(w endedWait) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settleLocked()
	if w.isStored(f.writer) {
		f.advanceLocked(w.began)
	} else if f.unstored == nil || w.began.Sub(f.unstored.began) > maxUnsettled {
		f.unstored = &w
	}
}

// maxUnsettled is how long a wait is kept until its rows are stored. Rows wait for seconds, but its partitions may have
// got another owner.
const maxUnsettled = time.Minute

// isStored reports whether the writer has stored what was waited for.
func (w *endedWait) isStored(by store.FlushRequester) bool {
	if len(w.targets) == 0 {
		return true
	}
	targets := maps.Clone(w.targets)
	dropStored(targets, by.Progress().Owned)
	return len(targets) == 0
}

// settleLocked lets the wait that ended with rows in memory count if they are stored now.
func (f *Fence) settleLocked() {
	if f.unstored != nil && f.unstored.isStored(f.writer) {
		f.advanceLocked(f.unstored.began)
		f.unstored = nil
	}
}

func (f *Fence) advanceLocked(began time.Time) {
	if began.After(f.lastPassed) {
		f.lastPassed = began
	}
}

// waitStored waits until the targets are stored, ctx ends, or the writer reports that ClickHouse does not take their
// rows. It returns the targets that are not stored.
func (f *Fence) waitStored(ctx context.Context, targets map[stream.Partition]int64) map[stream.Partition]int64 {
	requested := make(map[stream.Partition]int64)
	for {
		p, changed := f.progress()
		remote := dropStored(targets, p.Owned)
		f.dropCommitted(ctx, targets, remote)
		if len(targets) == 0 || anyFailing(targets, p.Owned) {
			return targets
		}
		f.requestFlush(targets, requested, p.Owned)
		maps.DeleteFunc(remote, func(p stream.Partition, _ int64) bool { _, open := targets[p]; return !open })
		f.others.ask(ctx, remote)
		if !f.waitChange(ctx, changed, len(remote) > 0) {
			return targets
		}
	}
}

// requestFlush asks the writer in this process once to store each of the targets. The writer ignores those that it does
// not own, so they are asked for when they have been assigned to it.
func (f *Fence) requestFlush(
	targets, requested map[stream.Partition]int64, owned map[stream.Partition]store.Position,
) {
	due := make(map[stream.Partition]int64)
	for p, end := range targets {
		_, own := owned[p]
		if _, had := requested[p]; own && !had {
			due[p] = end
		}
	}
	if len(due) > 0 {
		maps.Copy(requested, due)
		f.writer.RequestFlush(due)
	}
}

// others asks the writers of other nodes to flush. Readers that wait for the same records share a request.
type others struct {
	send func(context.Context, map[stream.Partition]int64) error // nil: there are none

	mu    sync.Mutex // guards asked
	asked map[stream.Partition]asked
}

// asked is the last request for a partition.
type asked struct {
	end int64
	at  time.Time
}

// ask sends one request for all targets that were not asked for lately. It ignores an error: the fence asks again.
func (o *others) ask(ctx context.Context, targets map[stream.Partition]int64) {
	if o.send == nil {
		return
	}
	due, now := make(map[stream.Partition]int64), time.Now()
	o.mu.Lock()
	for p, end := range targets {
		if last := o.asked[p]; end > last.end || now.Sub(last.at) >= askAgain {
			o.asked[p], due[p] = asked{end, now}, end
		}
	}
	o.mu.Unlock()
	if len(due) > 0 {
		_ = o.send(ctx, due)
	}
}

// dropCommitted deletes the targets that another node's writer has committed. It ignores an error, for example during a
// rebalance of the group: the fence asks again until its time is up.
func (f *Fence) dropCommitted(ctx context.Context, targets, remote map[stream.Partition]int64) {
	if len(remote) == 0 {
		return
	}
	for _, group := range store.Groups() {
		topics := stream.ReadBy(group)
		of := func(p stream.Partition) bool { return slices.Contains(topics, p.Topic) }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(remote)), of) {
			continue
		}
		committed, err := f.topic.Committed(ctx, group, topics...)
		if err != nil {
			continue
		}
		for p, end := range remote {
			if of(p) && committed[p] >= end {
				delete(targets, p)
			}
		}
	}
}

// anyFailing reports whether the writer in this process cannot store one of the targets.
func anyFailing(targets map[stream.Partition]int64, owned map[stream.Partition]store.Position) bool {
	for p := range targets {
		if owned[p].Failing {
			return true
		}
	}
	return false
}

// dropStored deletes the targets that are stored. It returns those of partitions that the writer in this process does
// not own.
func dropStored(targets map[stream.Partition]int64,
	owned map[stream.Partition]store.Position) map[stream.Partition]int64 {
	remote := make(map[stream.Partition]int64)
	for p, end := range targets {
		at, ok := owned[p]
		switch {
		case !ok:
			remote[p] = end
		case at.Offset >= end:
			delete(targets, p)
		}
	}
	return remote
}

func (f *Fence) progress() (store.Progress, <-chan struct{}) {
	if f.writer == nil {
		return store.Progress{}, nil
	}
	p := f.writer.Progress()
	return p, p.Changed
}

// waitChange waits until the writer's progress changes or, with poll, for committedPoll. It returns false when ctx
// ends.
func (f *Fence) waitChange(ctx context.Context, changed <-chan struct{}, poll bool) bool {
	var tick <-chan time.Time
	if poll {
		t := time.NewTimer(committedPoll)
		defer t.Stop()
		tick = t.C
	}
	select {
	case <-changed:
	case <-tick:
	case <-ctx.Done():
		return false
	}
	return true
}

// asOf returns the time up to which the store is complete while these partitions are behind.
func (f *Fence) asOf(behind map[stream.Partition]int64) time.Time {
	p, _ := f.progress()
	met := f.LastPassedAt()
	var oldest time.Time
	for part := range behind {
		at := met
		if own, ok := p.Owned[part]; ok && own.RecordTime.After(met) {
			at = own.RecordTime
		}
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}

// LastPassedAt returns the start of the last wait that ended in time; the Unix epoch when none did.
func (f *Fence) LastPassedAt() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settleLocked()
	if f.lastPassed.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return f.lastPassed
}
