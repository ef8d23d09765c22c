package dispatcher

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/stream"
)

// onAssigned makes a partition object for each newly assigned partition.
func (d *Dispatcher) onAssigned(commits map[stream.Partition]stream.Commit) {
	delays := make(map[string]time.Duration, len(d.tiers))
	for _, t := range d.tiers {
		delays[t.Topic] = t.Delay
	}
	d.mu.Lock()
	for id, commit := range commits {
		p, err := newPartition(id, delays[id.Topic], d.group, &d.tierMemory, d.wakeTimer, commit)
		if err != nil {
			d.log.LogAttrs(context.Background(), slog.LevelWarn, "cannot decode commit metadata, ignoring it",
				slog.String("topic", id.Topic),
				slog.Int("partition", int(id.Index)), slog.Any("error", err))
		}
		if before := d.lost[id]; before != nil {
			p.inherit(before)
		}
		d.partitions[id] = p
	}
	clear(d.lost) // an assignment after a loss names all partitions of this node
	d.mu.Unlock()
	d.tiersAssigned.Store(true)
	d.wakeTimer()
	d.reportOwned()
}

// releasePartitions gives partitions up: no delivery begins any more, running ones may finish until timeout has passed,
// the offsets are committed, the partitions are dropped.
func (d *Dispatcher) releasePartitions(ctx context.Context, parts []*partition, timeout time.Duration) {
	for _, p := range parts {
		p.stop()
	}
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
	d.commitPartitions(ctx, parts)
	d.dropPartitions(parts)
}

// onLost drops partitions that another node may own already. It commits nothing.
func (d *Dispatcher) onLost(parts []*partition) {
	for _, p := range parts {
		p.stop()
	}
	d.commitLock <- struct{}{} // a running commit must not end after this
	d.dropPartitions(parts)
	<-d.commitLock
	d.rememberLost(parts)
}

// partitionsNamed returns the assigned partitions among ids.
func (d *Dispatcher) partitionsNamed(ids []stream.Partition) []*partition {
	var parts []*partition
	for _, id := range ids {
		if p := d.partition(id); p != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

// dropPartitions removes partitions, unless they were assigned again since.
func (d *Dispatcher) dropPartitions(parts []*partition) {
	d.mu.Lock()
	for _, p := range parts {
		if d.partitions[p.id] == p {
			delete(d.partitions, p.id)
		}
	}
	d.mu.Unlock()
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
	for _, p := range d.assignment() {
		if p.id.Topic == stream.Events {
			events = append(events, p.id.Index)
		}
	}
	slices.Sort(events)
	d.onOwned(events)
}

func (d *Dispatcher) partition(id stream.Partition) *partition {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.partitions[id]
}

// assignment returns the partitions that are assigned now.
func (d *Dispatcher) assignment() []*partition {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.AppendSeq(make([]*partition, 0, len(d.partitions)), maps.Values(d.partitions))
}
