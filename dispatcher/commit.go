package dispatcher

import (
	"context"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// committer commits until ctx ends.
func (d *Dispatcher) committer(ctx context.Context) {
	tick := time.NewTicker(d.cfg.CommitEvery)
	defer tick.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			d.lanes.sweep()
			continue
		case <-tick.C:
		case <-d.commitNow:
		}
		d.commitMu.Lock()
		d.commit(ctx, d.assignment())
		d.commitMu.Unlock()
	}
}

// commit stores what is new of the partitions. A failure is made good by the next commit, or costs
// duplicates. commitMu is held.
func (d *Dispatcher) commit(ctx context.Context, parts []*partition) {
	marks := make(map[stream.Partition]stream.Mark)
	holes := 0
	for _, p := range parts {
		if mark, n, ok := p.take(); ok {
			marks[p.id] = mark
			holes += n
		}
	}
	if len(marks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := d.group.Commit(ctx, marks); err != nil {
		for _, p := range parts {
			p.putBack()
		}
		d.metrics.commitErrors.Inc()
		d.log.LogAttrs(ctx, slog.LevelWarn, "commit failed", slog.Any("error", err))
		return
	}
	d.metrics.holes.Set(float64(holes))
	d.faults.at(crashCommit)
}
