package dispatcher

import (
	"context"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/stream"
)

// commitLoop commits CommitEvery after the last commit, and sooner on demand with a pause after each commit, until ctx
// ends.
func (d *Dispatcher) commitLoop(ctx context.Context) {
	tick := time.NewTicker(d.cfg.CommitEvery)
	defer tick.Stop()
	pause, commitNow := time.NewTimer(0), d.commitNow
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
			commitNow = d.commitNow
			continue
		case <-tick.C:
		case <-commitNow:
		}
		began := time.Now()
		d.commitPartitions(ctx, d.assignment())
		rest := min(commitPauseFactor*time.Since(began), maxCommitPause)
		commitNow = nil // until the pause ends
		pause.Reset(max(commitPause, rest))
		tick.Reset(max(d.cfg.CommitEvery, rest))
	}
}

// commitPartitions commits the partitions that have something new. commitTimeout bounds it, including the wait for a
// running commit. After a failure the next commit tries again; if the node dies before that, the next owner repeats
// deliveries.
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
	commits := make(map[stream.Partition]stream.Commit)
	holes, omitted := 0, int64(0)
	for _, p := range parts {
		if commit, n, left, ok := p.nextCommit(); ok {
			commits[p.id] = commit
			holes += n
			omitted += left
		}
	}
	if len(commits) == 0 {
		return
	}
	if err := d.group.Commit(ctx, commits); err != nil {
		for _, p := range parts {
			p.retryCommit()
		}
		d.reportCommitError(ctx, err)
		return
	}
	d.metrics.holes.Set(float64(holes))
	d.metrics.omittedRecords.Set(float64(omitted))
	crash.At(crashCommit)
}

func (d *Dispatcher) reportCommitError(ctx context.Context, err error) {
	d.metrics.commitErrors.Inc()
	d.log.LogAttrs(ctx, slog.LevelWarn, "cannot commit offsets", slog.Any("error", err))
}

// onMetadataRejected is called when brokers rejected the holes of these partitions as too large. Until a commit has
// room for them again, a crash would repeat the finished records above the committed offset.
func (d *Dispatcher) onMetadataRejected(ids []stream.Partition) {
	d.metrics.commitsWithoutHoles.Add(float64(len(ids)))
	d.log.LogAttrs(context.Background(), slog.LevelWarn,
		"brokers reject commit metadata as too large, committed without it",
		slog.Int("partitions", len(ids)), slog.String("topic", ids[0].Topic), slog.Int("partition", int(ids[0].Index)))
}
