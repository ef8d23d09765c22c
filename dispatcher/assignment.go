package dispatcher

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/stream"
)

// assignment is which partitions this node has, and which it had until it lost them.
type assignment struct {
	mu         sync.RWMutex // guards the fields below
	partitions map[stream.Partition]*partition
	lost       map[stream.Partition]*partition // lost, and not assigned again since
}

func newAssignment() assignment {
	return assignment{
		partitions: make(map[stream.Partition]*partition), lost: make(map[stream.Partition]*partition),
	}
}

// add adds newly assigned partitions. Those that were lost before inherit what they knew.
func (a *assignment) add(parts []*partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range parts {
		if before := a.lost[p.id]; before != nil {
			p.inherit(before)
		}
		a.partitions[p.id] = p
	}
	clear(a.lost) // an assignment after a loss names all partitions of this node
}

// remove removes partitions, unless they were assigned again since.
func (a *assignment) remove(parts []*partition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range parts {
		if a.partitions[p.id] == p {
			delete(a.partitions, p.id)
		}
	}
}

// partition returns the partition if it is assigned, else nil.
func (a *assignment) partition(id stream.Partition) *partition {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.partitions[id]
}

// named returns the assigned partitions among ids.
func (a *assignment) named(ids []stream.Partition) []*partition {
	var parts []*partition
	for _, id := range ids {
		if p := a.partition(id); p != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

// all returns the partitions that are assigned now.
func (a *assignment) all() []*partition {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.AppendSeq(make([]*partition, 0, len(a.partitions)), maps.Values(a.partitions))
}

// onAssigned makes a partition object for each newly assigned partition.
func (d *Dispatcher) onAssigned(commits map[stream.Partition]stream.Commit) {
	delays := make(map[string]time.Duration, len(d.tiers))
	for _, t := range d.tiers {
		delays[t.Topic] = t.Delay
	}
	parts := make([]*partition, 0, len(commits))
	for id, commit := range commits {
		p, err := newPartition(id, delays[id.Topic], d.group, &d.tierMemory, d.wakeTimer, commit)
		if err != nil {
			d.log.LogAttrs(context.Background(), slog.LevelWarn, "cannot decode commit metadata, ignoring it",
				slog.String("topic", id.Topic),
				slog.Int("partition", int(id.Index)), slog.Any("error", err))
		}
		parts = append(parts, p)
	}
	d.assignment.add(parts)
	d.tiersAssigned.Store(true)
	d.wakeTimer()
	d.reportOwned()
}

// releasePartitions gives partitions up: no delivery begins any more, running ones may finish until timeout has passed,
// the offsets are committed, the partitions are dropped.
func (d *Dispatcher) releasePartitions(ctx context.Context, parts []*partition, timeout time.Duration) {
	leaving := make(map[int32]bool)
	for _, p := range parts {
		p.stop()
		leaving[p.id.Index] = true
	}
	d.pulls.Release(func(partition int32) bool { return leaving[partition] })
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for _, p := range parts {
		select {
		case <-p.drained:
			continue
		case <-deadline.C:
			d.log.LogAttrs(ctx, slog.LevelWarn, "requests are still running, releasing their partitions",
				slog.Duration("timeout", timeout))
		}
		break
	}
	d.committer.commit(ctx, parts)
	d.dropPartitions(parts)
}

// onLost drops partitions that another node may own already. It commits nothing.
func (d *Dispatcher) onLost(parts []*partition) {
	for _, p := range parts {
		p.stop()
	}
	d.committer.lock <- struct{}{} // a running commit must not end after this
	d.dropPartitions(parts)
	<-d.committer.lock
	d.assignment.rememberLost(parts)
}

// dropPartitions removes partitions, and their deliveries from the lanes.
func (d *Dispatcher) dropPartitions(parts []*partition) {
	d.assignment.remove(parts)
	partitions := make([]*lane.Partition, len(parts))
	for i, p := range parts {
		partitions[i] = &p.lanePartition
	}
	d.lanes.DropPartitions(partitions)
	d.reportOwned()
}

// reportOwned calls Deps.OnOwned with the partitions of events that this node has.
func (d *Dispatcher) reportOwned() {
	if d.onOwned == nil {
		return
	}
	var events []int32
	for _, p := range d.assignment.all() {
		if p.id.Topic == stream.Events {
			events = append(events, p.id.Index)
		}
	}
	slices.Sort(events)
	d.onOwned(events)
}

// When brokers are unreachable for longer than the session timeout, this node loses its membership. Then it cannot
// commit what it has done since the last commit. When the partitions return, the node still knows which records it has
// finished: their follow-ups and outcomes are acknowledged, so they need nothing more, whoever owned the partition
// meanwhile and whatever is committed. They are skipped, and the next commit covers them. A record is the same one only
// if its offset and its leader epoch are the same. A copy that has ended without an outcome is read again: the owner in
// between may have ended the other record as the copy.

// rememberLost keeps lost partitions. They still count deliveries that complete.
func (a *assignment) rememberLost(parts []*partition) {
	a.mu.Lock()
	for _, p := range parts {
		a.lost[p.id] = p
	}
	a.mu.Unlock()
}

// forgetLost forgets a lost partition whose log was truncated: other records have its offsets now.
func (a *assignment) forgetLost(id stream.Partition) {
	a.mu.Lock()
	delete(a.lost, id)
	a.mu.Unlock()
}

// inherit lets a newly assigned partition use what its predecessor knew when it was lost.
func (p *partition) inherit(predecessor *partition) {
	predecessor.mu.Lock()
	predecessor.predecessor = nil // only the last assignment is remembered
	predecessor.mu.Unlock()
	p.predecessor = predecessor
}

// doneBefore reports whether this node had finished the record before the partition was lost, and if so marks it as
// done. p.mu is held.
func (p *partition) doneBefore(offset int64, leaderEpoch int32) bool {
	if p.predecessor == nil {
		return false
	}
	p.predecessor.mu.Lock()
	known, last := p.predecessor.tracker.wasDone(offset, leaderEpoch), offset+1 >= p.predecessor.tracker.next
	p.predecessor.mu.Unlock()
	if last {
		p.predecessor = nil
	}
	if known {
		p.tracker.done(offset)
	}
	return known
}
