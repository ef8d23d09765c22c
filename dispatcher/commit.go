package dispatcher

import (
	"context"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// committer commits until ctx ends.
func (d *Dispatcher) commitLoop(ctx context.Context) {
	tick := time.NewTicker(d.cfg.CommitEvery)
	defer tick.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			d.lanes.Sweep()
			continue
		case <-tick.C:
		case <-d.commitNow:
		}
		d.commitPartitions(ctx, d.assignment())
	}
}

// commit stores what is new of the partitions, within commitTimeout, its turn included. A failure is made
// good by the next commit, or costs duplicates.
func (d *Dispatcher) commitPartitions(ctx context.Context, parts []*partition) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	select {
	case d.commitLock <- struct{}{}:
		defer func() { <-d.commitLock }()
	case <-ctx.Done():
		d.reportCommitError(ctx, ctx.Err())
		return
	}
	marks := make(map[stream.Partition]stream.Commit)
	holes, leftOut := 0, int64(0)
	for _, p := range parts {
		if mark, n, left, ok := p.nextCommit(); ok {
			marks[p.id] = mark
			holes += n
			leftOut += left
		}
	}
	if len(marks) == 0 {
		return
	}
	if err := d.group.Commit(ctx, marks); err != nil {
		for _, p := range parts {
			p.retryCommit()
		}
		d.reportCommitError(ctx, err)
		return
	}
	d.metrics.holes.Set(float64(holes))
	d.metrics.omittedRecords.Set(float64(leftOut))
	d.faults.at(crashCommit)
}

func (d *Dispatcher) reportCommitError(ctx context.Context, err error) {
	d.metrics.commitErrors.Inc()
	d.log.LogAttrs(ctx, slog.LevelWarn, "commit failed", slog.Any("error", err))
}

// stripped hears that brokers did not take the holes of these partitions: until a commit has room for them
// again, what is done beyond the offset would be done twice after a crash.
func (d *Dispatcher) onMetadataRejected(ids []stream.Partition) {
	d.metrics.commitsWithoutHoles.Add(float64(len(ids)))
	d.log.LogAttrs(context.Background(), slog.LevelWarn,
		"brokers refuse the metadata of commits as too large, committing without",
		slog.Int("partitions", len(ids)), slog.String("topic", ids[0].Topic), slog.Int("partition", int(ids[0].Index)))
}
