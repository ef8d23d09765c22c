package dispatcher

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination/pull"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// revokeTimeout is how long a rebalance waits for running requests. The group gives a member 30 s; up to 2 s pass until
// a heartbeat reports the rebalance, and up to commitTimeout for the commit.
const revokeTimeout = 20 * time.Second

// ownership takes partitions over when the group assigns them, and gives them up.
type ownership struct {
	log        *slog.Logger
	assignment *assignment
	committer  *committer
	lanes      *lane.Lanes
	pulls      *pull.Kind
	superseded *superseded
	recalled   map[int32]bool // the numbers of the partitions of the last assignment; used by recall only

	onOwned   func([]int32)                                                            // see Deps
	delivered func(context.Context, int, func(string, id.ID, string, time.Time)) error // see Deps
}

// assign makes a partition object for each newly assigned partition.
func (o *ownership) assign(h *host, commits map[stream.Partition]stream.Commit) {
	delays := make(map[string]time.Duration)
	for _, t := range stream.Tiers() {
		delays[t.Topic] = t.Delay
	}
	parts := make([]*partition, 0, len(commits))
	for id, commit := range commits {
		p, err := newPartition(h, id, delays[id.Topic], commit)
		if err != nil {
			o.log.LogAttrs(context.Background(), slog.LevelWarn, "cannot decode commit metadata, ignoring it",
				slog.String("topic", id.Topic),
				slog.Int("partition", int(id.Index)), slog.Any("error", err))
		}
		parts = append(parts, p)
	}
	o.assignment.add(parts)
	wait.Wake(h.wake)
	o.reportOwned()
}

// release gives partitions up: no delivery begins any more, running ones may finish until timeout has passed,
// the offsets are committed, the partitions are dropped.
func (o *ownership) release(ctx context.Context, parts []*partition, timeout time.Duration) {
	leaving := make(map[int32]bool)
	for _, p := range parts {
		p.stop()
		leaving[p.id.Index] = true
	}
	o.pulls.Release(func(partition int32) bool { return leaving[partition] })
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	for _, p := range parts {
		select {
		case <-p.drained:
			continue
		case <-deadline.C:
			o.log.LogAttrs(ctx, slog.LevelWarn, "requests are still running, releasing their partitions",
				slog.Duration("timeout", timeout))
		}
		break
	}
	o.committer.commit(ctx, parts)
	o.drop(parts)
}

// lose drops partitions that another node may own already. It commits nothing.
func (o *ownership) lose(parts []*partition) {
	for _, p := range parts {
		p.stop()
	}
	o.committer.lock <- struct{}{} // a running commit must not end after this
	o.drop(parts)
	<-o.committer.lock
	o.assignment.rememberLost(parts)
}

// drop removes partitions, and their deliveries from the lanes.
func (o *ownership) drop(parts []*partition) {
	o.assignment.remove(parts)
	partitions := make([]*lane.Partition, len(parts))
	for i, p := range parts {
		partitions[i] = &p.lanePartition
	}
	o.lanes.DropPartitions(partitions)
	o.reportOwned()
}

// reportOwned calls Deps.OnOwned with the partitions of events that this node has.
func (o *ownership) reportOwned() {
	if o.onOwned == nil {
		return
	}
	var events []int32
	for _, p := range o.assignment.all() {
		if p.id.Topic == stream.Events {
			events = append(events, p.id.Index)
		}
	}
	slices.Sort(events)
	o.onOwned(events)
}

const (
	// maxRecalled bounds what is read from the store: each delivery of a run takes two entries.
	maxRecalled = maxSuperseded / 2
	// recallTimeout bounds how long an assignment waits for the store. Delivery does not depend on it.
	recallTimeout = 5 * time.Second
	// maxAttempt is longer than any attempt: a lease of a pulled destination has ten minutes. The store has when an
	// attempt ended, and hasSince asks when it began.
	maxAttempt = 15 * time.Minute
)

// recall reads what replays and recovery jobs have delivered of the events in newly assigned partitions, unless this
// node had all of them in the assignment before. If the store does not answer, waiting deliveries are sent although a
// replay has delivered their events.
func (o *ownership) recall(ctx context.Context, partitions map[stream.Partition]stream.Commit) {
	assigned, fresh := make(map[int32]bool), false
	for p := range partitions {
		assigned[p.Index] = true
		fresh = fresh || !o.recalled[p.Index]
	}
	o.recalled = assigned
	if o.delivered == nil || !fresh {
		return
	}
	limited, cancel := context.WithTimeout(ctx, recallTimeout)
	defer cancel()
	err := o.delivered(limited, maxRecalled, func(run string, event id.ID, dest string, ended time.Time) {
		if !assigned[event.Partition()] {
			return
		}
		began := ended.Add(-maxAttempt)
		o.superseded.add(lane.DeliveryKey{Event: event, Dest: dest}, began)
		o.superseded.add(lane.DeliveryKey{Event: event, Dest: dest, Run: run}, began)
	})
	if err != nil && ctx.Err() == nil { // else the node stops
		o.log.LogAttrs(ctx, slog.LevelWarn,
			"cannot read what replays have delivered; waiting retries of the same events are sent", slog.Any("error", err))
	}
}
