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

// assigned makes the trackers of a new assignment.
func (d *Dispatcher) onAssigned(marks map[stream.Partition]stream.Commit) {
	delays := make(map[string]time.Duration, len(d.tiers))
	for _, t := range d.tiers {
		delays[t.Topic] = t.Delay
	}
	d.mu.Lock()
	for id, mark := range marks {
		p, err := newPartition(id, delays[id.Topic], d.group, &d.tierMemory, d.wakeTimer, mark)
		if err != nil {
			d.log.LogAttrs(context.Background(), slog.LevelWarn, "ignore metadata of commit", slog.String("topic", id.Topic),
				slog.Int("partition", int(id.Index)), slog.Any("error", err))
		}
		if before := d.lost[id]; before != nil {
			p.inherit(before)
		}
		d.partitions[id] = p
	}
	clear(d.lost) // an assignment names all partitions: the others have gone elsewhere
	d.mu.Unlock()
	d.reportOwned()
}

// release gives partitions up: nothing begins any more, what is in flight finishes within limit, the
// offsets are committed, the partitions are dropped.
func (d *Dispatcher) releasePartitions(ctx context.Context, parts []*partition, limit time.Duration) {
	for _, p := range parts {
		p.stop()
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	for _, p := range parts {
		select {
		case <-p.drained:
			continue
		case <-late.C:
			d.log.LogAttrs(ctx, slog.LevelWarn, "give up partitions with requests in flight", slog.Duration("after", limit))
		}
		break
	}
	d.commitPartitions(ctx, parts)
	d.dropPartitions(parts)
}

// lost drops partitions that another node may own already: nothing is committed.
func (d *Dispatcher) onLost(parts []*partition) {
	for _, p := range parts {
		p.stop()
	}
	d.commitLock <- struct{}{} // a commit on its way must not end after this
	d.dropPartitions(parts)
	<-d.commitLock
	d.rememberLost(parts)
}

// named are those of the partitions that are here.
func (d *Dispatcher) partitionsNamed(ids []stream.Partition) []*partition {
	var parts []*partition
	for _, id := range ids {
		if p := d.partition(id); p != nil {
			parts = append(parts, p)
		}
	}
	return parts
}

// drop forgets partitions, unless they were assigned anew since.
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

// changed tells who asked which partitions of events are here.
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

// assignment are the partitions that are here now.
func (d *Dispatcher) assignment() []*partition {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.AppendSeq(make([]*partition, 0, len(d.partitions)), maps.Values(d.partitions))
}
