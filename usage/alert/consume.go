package alert

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// How much of the log is read to rebuild the state of partitions that are new on this node: the outcomes of the last 24
// hours, at most 50,000 divided by the number of new partitions of both topics, but never limited to fewer than 1,000
// of a partition.
const (
	rebuildSpan       = 24 * time.Hour
	rebuildRecords    = 50_000 // outcomes of all new partitions together
	minRebuildRecords = 1000   // lower bound of the limit for one partition
	rebuildEvents     = 500    // events of one partition in rejectionWindow, for rejected signatures
	rebuildTimeout    = time.Minute
)

// maxOutcomeAge is the age from which on an outcome, or the end of a recovery job, is ignored.
const maxOutcomeAge = 24 * time.Hour

// consume reads outcomes and events, evaluates the rules and commits offsets until ctx ends. Only its goroutine uses
// a.partitions.
func (a *Alerts) consume(ctx context.Context) error {
	commits := map[stream.Partition]stream.Commit{}
	last := time.Now()
	for {
		batches, err := a.group.PollFor(ctx, tickEvery)
		if err != nil {
			return err
		}
		reassigned, err := a.applyAssignment(ctx, commits)
		if err != nil {
			return err
		}
		batches = slices.DeleteFunc(batches, func(b stream.Batch) bool { return reassigned[b.Partition] })
		for _, b := range batches {
			if err := a.processBatch(ctx, b, commits); err != nil {
				return err
			}
		}
		if time.Since(last) >= tickEvery {
			last = time.Now()
			if err := a.tick(ctx); err != nil {
				return err
			}
			a.commit(ctx, commits)
		}
		if slices.ContainsFunc(batches, func(b stream.Batch) bool { return a.group.Lag(b.Partition) > 0 }) {
			continue // the log has more
		}
		if err := wait.For(ctx, pollWait); err != nil { // let records accumulate
			return err
		}
	}
}

// applyAssignment drops the state of partitions that this node lost and rebuilds that of partitions it got, until the
// assignment no longer changes. reassigned are the partitions that were lost or assigned again meanwhile: records of
// them that were polled before must not be processed.
func (a *Alerts) applyAssignment(ctx context.Context, commits map[stream.Partition]stream.Commit) (
	reassigned map[stream.Partition]bool, err error) {
	reassigned = map[stream.Partition]bool{}
	for {
		if done, err := a.applyPending(ctx, commits, reassigned); done || err != nil {
			return reassigned, err
		}
	}
}

// applyPending applies the assignments and losses that are pending now. done is false if more assigned while the log
// could not be read.
func (a *Alerts) applyPending(
	ctx context.Context, commits map[stream.Partition]stream.Commit, reassigned map[stream.Partition]bool) (
	done bool, err error) {
	a.mu.Lock()
	assigned, lost := a.newlyAssigned, a.newlyLost
	a.newlyAssigned, a.newlyLost = map[stream.Partition]stream.Commit{}, map[stream.Partition]bool{}
	a.mu.Unlock()
	for p := range lost {
		delete(commits, p)
		if p.Topic == stream.Outcomes {
			delete(a.partitions, p.Index)
		}
	}
	if len(assigned) == 0 {
		a.ownsFirst.Store(a.partitions[0] != nil)
		return true, nil
	}
	for p := range assigned {
		delete(commits, p) // from an earlier assignment
		if a.partitions[p.Index] == nil || p.Topic == stream.Outcomes {
			a.partitions[p.Index] = a.newPartition(p.Index)
		}
	}
	for p, m := range assigned { // after the loop above: a new state has no offset of the partition's other topic
		a.partitions[p.Index].nextOffset[p.Topic] = max(m.Offset, 0)
	}
	a.ownsFirst.Store(a.partitions[0] != nil)
	unread := map[stream.Partition]*stream.Range{}
	for {
		err := a.rebuild(ctx, assigned, unread)
		if err == nil || ctx.Err() != nil {
			return true, ctx.Err()
		}
		a.log.LogAttrs(ctx, slog.LevelWarn, "cannot read past outcomes for alerts", slog.Any("error", err))
		if err := wait.For(ctx, retryEvery); err != nil {
			return true, err
		}
		if a.requeueAssigned(assigned, reassigned) {
			return false, nil
		}
	}
}

// requeueAssigned reports whether the assignment has changed since, and adds the changed partitions to reassigned.
// Partitions of assigned that this node still has become pending again, so that they are rebuilt together with the new
// ones.
func (a *Alerts) requeueAssigned(
	assigned map[stream.Partition]stream.Commit, reassigned map[stream.Partition]bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.newlyAssigned) == 0 && len(a.newlyLost) == 0 {
		return false
	}
	for p := range a.newlyLost {
		reassigned[p] = true
	}
	for p := range a.newlyAssigned {
		reassigned[p] = true
	}
	for p, m := range assigned {
		if _, again := a.newlyAssigned[p]; !again && !a.newlyLost[p] {
			a.newlyAssigned[p] = m
		}
	}
	return true
}

// newPartition returns the state of a partition without records.
func (a *Alerts) newPartition(index int32) *partitionState {
	part := newPartitionState(index)
	if a.deps.Failures != nil {
		part.failures = a.deps.Failures(index)
	}
	return part
}

// rebuild rebuilds the state of partitions from the records before their committed offset, without evaluating them.
// unread holds the ranges that are left to read and is empty at first. After an error the next call continues there,
// so a slow log only delays the rebuild and no record counts twice.
func (a *Alerts) rebuild(
	ctx context.Context, assigned map[stream.Partition]stream.Commit, unread map[stream.Partition]*stream.Range) error {
	ctx, cancel := context.WithTimeout(ctx, rebuildTimeout)
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
	if len(unread) == 0 {
		if err := a.planRebuild(ctx, assigned, unread, now); err != nil {
			return err
		}
	}
	var ranges []stream.Range
	for p, left := range unread { // what is left to read of each partition
		left.To = min(left.To, ends[p]) // a log that was recreated, or lost its end, ends before the committed offset
		a.partitions[p.Index].endAtStart[p.Topic] = ends[p]
		a.partitions[p.Index].nextOffset[p.Topic] = max(a.partitions[p.Index].nextOffset[p.Topic], starts[p])
		// Records that retention deleted are unknown here, so the state is complete only from the first record that is
		// left.
		if part := a.partitions[p.Index]; p.Topic == stream.Outcomes && starts[p] > 0 && left.From <= starts[p] &&
			left.From < left.To {
			part.completeSince, part.pendingStart = now, true
		}
		left.From = max(left.From, starts[p])
		ranges = append(ranges, *left)
	}
	span := a.rateWindow()
	return a.reader.ReadRanges(ctx, ranges, func(p stream.Partition, records []*stream.Record) error {
		unread[p].From = records[len(records)-1].Offset + 1
		part := a.partitions[p.Index]
		if p.Topic == stream.Outcomes && part.pendingStart {
			part.completeSince, part.pendingStart = records[0].Timestamp, false
		}
		for _, r := range records {
			if stream.IsForOneGroup(r) {
				continue
			}
			var err error
			if p.Topic == stream.Outcomes {
				_, _, _, err = part.addOutcome(r, span)
			} else {
				err = part.addEvent(r, now)
			}
			a.skipUndecodable(r, err)
		}
		return nil
	})
}

// planRebuild puts the range to read of each partition into unread. It ends at the committed offset.
func (a *Alerts) planRebuild(ctx context.Context, assigned map[stream.Partition]stream.Commit,
	unread map[stream.Partition]*stream.Range, now time.Time) error {
	since := map[string]map[stream.Partition]int64{}
	for topic, span := range map[string]time.Duration{stream.Outcomes: rebuildSpan, stream.Events: rejectionWindow} {
		var err error
		if since[topic], err = a.reader.OffsetsForTime(ctx, topic, now.Add(-span)); err != nil {
			return err
		}
	}
	budget := max(int64(rebuildRecords/len(assigned)), minRebuildRecords)
	for p, m := range assigned {
		limit := budget
		if p.Topic == stream.Events {
			limit = rebuildEvents
		}
		from := max(0, min(since[p.Topic][p], m.Offset), m.Offset-limit)
		unread[p] = &stream.Range{Partition: p, From: from, To: m.Offset}
		if p.Topic == stream.Outcomes && from > since[p.Topic][p] && from < m.Offset {
			a.partitions[p.Index].completeSince, a.partitions[p.Index].pendingStart = now, true
		}
	}
	return nil
}

// rateWindow returns the window of the failure rate.
func (a *Alerts) rateWindow() time.Duration {
	return time.Duration(a.deps.Config.AlertSettings().Rules.FailureRate.WindowSeconds) * time.Second
}

// skipUndecodable counts and logs a record that cannot be decoded. The store writer copies it to the dead letter
// topic.
func (a *Alerts) skipUndecodable(r *stream.Record, err error) {
	if err == nil {
		return
	}
	a.metrics.undecodable.Inc()
	a.log.LogAttrs(context.Background(), slog.LevelWarn, "alerts skip a record that cannot be decoded",
		slog.String("topic", r.Topic),
		slog.Int("partition", int(r.Partition)), slog.Int64("offset", r.Offset), slog.Any("error", err))
}

// processBatch adds records to the state of their partition and evaluates the rules that they may have changed.
func (a *Alerts) processBatch(ctx context.Context, b stream.Batch, commits map[stream.Partition]stream.Commit) error {
	part := a.partitions[b.Partition.Index]
	if part == nil {
		return nil // the partition was lost meanwhile
	}
	span, now := a.rateWindow(), a.now()
	for _, r := range b.Records {
		if stream.IsForOneGroup(r) {
			continue
		}
		if b.Partition.Topic == stream.Events {
			a.skipUndecodable(r, part.addEvent(r, now))
			continue
		}
		if now.Sub(r.Timestamp) >= maxOutcomeAge {
			continue
		}
		destID, dest, changed, err := part.addOutcome(r, span)
		a.skipUndecodable(r, err)
		part.nextOffset[b.Partition.Topic] = r.Offset + 1
		if err == nil && changed {
			// Evaluate at the time of the outcome: a later one that resolves it may be in the log and not read yet.
			if err := a.evaluateDestination(ctx, part, destID, dest, earlier(now, part.latest[stream.Outcomes])); err != nil {
				return err
			}
		}
	}
	done := b.Done()
	part.nextOffset[b.Partition.Topic] = done.Offset
	commits[b.Partition] = done
	return nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// knownUntil returns the time up to which a topic of the partition is known: now if the log is read to its end, else
// the time of the latest record. It is zero if nothing was read yet.
func (a *Alerts) knownUntil(part *partitionState, topic string, now time.Time) time.Time {
	if part.nextOffset[topic] >= part.endAtStart[topic] &&
		(a.group == nil || a.group.Lag(stream.Partition{Topic: topic, Index: part.partition}) == 0) {
		return now
	}
	return earlier(now, part.latest[topic])
}

// commit sends commits to the group coordinator. If it fails, the next one includes them; records that are read twice
// change nothing.
func (a *Alerts) commit(ctx context.Context, commits map[stream.Partition]stream.Commit) {
	// Holding mu delays onLost, so no partition is revoked during a commit, and offsets of lost partitions are never
	// committed: brokers accept an offset of any member of the group, also for a partition it does not own.
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range a.newlyLost {
		delete(commits, p)
	}
	for p := range a.newlyAssigned {
		delete(commits, p)
	}
	if err := a.group.CommitAll(ctx, commits); err != nil && ctx.Err() == nil {
		a.log.LogAttrs(ctx, slog.LevelWarn, "cannot commit offsets of the consumer group alerts", slog.Any("error", err))
	}
}
