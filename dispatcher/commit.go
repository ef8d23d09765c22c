package dispatcher

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// commitAfterRecords is after how many finished records a commit is made before CommitEvery has passed. The embedded
	// broker syncs the outcomes of each partition first: 32 partitions take some 2 ms of CPU.
	commitAfterRecords = 32
	// commitPause is the shortest pause after a commit, commitPauseFactor how much longer than the commit the pause is, up
	// to maxCommitPause: on a slow disk, commits take at most a tenth of the time.
	commitPause       = 250 * time.Millisecond
	commitPauseFactor = 10
	maxCommitPause    = time.Second
	// commitTimeout bounds one commit, and the wait for one that is running.
	commitTimeout = 5 * time.Second
)

// committer commits how far the records of the assigned partitions are finished.
type committer struct {
	every      time.Duration // Config.CommitEvery
	log        *slog.Logger
	metrics    *metrics
	assignment *assignment

	finished  atomic.Int64  // records
	commitNow chan struct{} // asks for a commit before its time; capacity 1
	// lock can be waited for with a timeout: it is full while taken. It is held from reading offsets until they are
	// committed, at most commitTimeout, so that no older offset is committed after a newer one.
	lock chan struct{}
}

func newCommitter(every time.Duration, log *slog.Logger, m *metrics, a *assignment) *committer {
	return &committer{
		every: every, log: log, metrics: m, assignment: a,
		commitNow: make(chan struct{}, 1), lock: make(chan struct{}, 1),
	}
}

// countRecord counts a finished record, and asks for a commit after commitAfterRecords of them.
func (c *committer) countRecord() {
	if c.finished.Add(1)%commitAfterRecords == 0 {
		wait.Wake(c.commitNow)
	}
}

// run commits CommitEvery after the last commit, and sooner on demand with a pause after each commit, until ctx ends.
func (c *committer) run(ctx context.Context) {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	pause, commitNow := time.NewTimer(0), c.commitNow
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
			commitNow = c.commitNow
			continue
		case <-tick.C:
		case <-commitNow:
		}
		began := time.Now()
		c.commit(ctx, c.assignment.all())
		rest := min(commitPauseFactor*time.Since(began), maxCommitPause)
		commitNow = nil // until the pause ends
		pause.Reset(max(commitPause, rest))
		tick.Reset(max(c.every, rest))
	}
}

// commit commits the partitions that have something new. commitTimeout bounds it, including the wait for a running
// commit. After a failure the next commit tries again; if the node dies before that, the next owner repeats deliveries.
func (c *committer) commit(ctx context.Context, parts []*partition) {
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	select {
	case c.lock <- struct{}{}:
		defer func() { <-c.lock }()
	case <-ctx.Done():
		c.reportError(ctx, ctx.Err())
		return
	}
	commits := make(map[stream.Partition]stream.Commit)
	gaps, omitted := 0, int64(0)
	for _, p := range parts {
		if c.assignment.partition(p.id) != p {
			continue // it has left the node during the wait
		}
		if commit, n, left, ok := p.nextCommit(); ok {
			commits[p.id] = commit
			gaps += n
			omitted += left
		}
	}
	if len(commits) == 0 {
		return
	}
	err := parts[0].group.Commit(ctx, commits)
	for _, p := range parts {
		if commit, ok := commits[p.id]; ok {
			p.addCommit(commit, err == nil)
		}
	}
	if err != nil {
		for _, p := range parts {
			p.retryCommit()
		}
		c.reportError(ctx, err)
		return
	}
	c.metrics.gaps.Set(float64(gaps))
	c.metrics.omittedRecords.Set(float64(omitted))
}

func (c *committer) reportError(ctx context.Context, err error) {
	c.metrics.commitErrors.Inc()
	c.log.LogAttrs(ctx, slog.LevelWarn, "cannot commit offsets", slog.Any("error", err))
}

// onMetadataRejected is called when brokers rejected the gaps of these partitions as too large. Until a commit has
// room for them again, a crash would repeat the finished records above the committed offset.
func (c *committer) onMetadataRejected(ids []stream.Partition) {
	c.metrics.commitsWithoutGaps.Add(float64(len(ids)))
	c.log.LogAttrs(context.Background(), slog.LevelWarn,
		"brokers reject commit metadata as too large, committed without it",
		slog.Int("partitions", len(ids)), slog.String("topic", ids[0].Topic), slog.Int("partition", int(ids[0].Index)))
}
