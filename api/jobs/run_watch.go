package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/id"
)

const (
	// watchInterval is the pause between two checks of the queueing runs.
	watchInterval = 5 * time.Second
	// countTimeout bounds the count of the deliveries that a dead run has queued.
	countTimeout = time.Minute
	// commandClockSkew is how much earlier than a run's last progress record the commands of its next page may be
	// dated, because the clocks of node and broker differ.
	commandClockSkew = time.Minute
)

// runWatch interrupts the runs that make no progress.
type runWatch struct {
	*frame.Core
	runs      Runs
	selection Selector
	log       *slog.Logger
	timeout   time.Duration // of a run that makes no progress
}

// observed is what a check has seen of the queueing runs.
type observed struct {
	since time.Time // no run created before it is still queueing
	runs  map[string]observedRun
}

// observedRun is the newest revision of a run that this node has seen.
type observedRun struct {
	rev int64
	at  time.Time // when this revision was first seen, by the monotonic clock
}

// run interrupts replay runs whose node died while it queued them, until ctx ends. Every node that serves the API
// watches, and uses only its own clock: a run without progress for its timeout is dead. The commands of its
// last page are counted in the log. A conditional record ends the run, so it does not matter which node writes it.
func (w *runWatch) run(ctx context.Context) error {
	var last observed
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		last = w.checkRuns(ctx, last)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// checkRuns compares the queueing runs with those of the last check and interrupts the silent ones.
func (w *runWatch) checkRuns(ctx context.Context, last observed) observed {
	now := time.Now()
	next := observed{w.Now().Add(-jobs.MaxRunDuration), map[string]observedRun{}}
	for _, run := range w.runs.QueueingRuns(last.since) {
		s, known := last.runs[run.ID]
		if !known || s.rev != run.Rev {
			s = observedRun{run.Rev, now}
		}
		next.runs[run.ID] = s
		if run.CreatedAt.Before(next.since) {
			next.since = run.CreatedAt
		}
		if now.Sub(s.at) < w.timeout {
			continue
		}
		if err := w.interruptRun(ctx, run); err != nil && ctx.Err() == nil {
			w.log.LogAttrs(ctx, slog.LevelWarn, "cannot interrupt a replay run without progress", slog.String("run", run.ID),
				slog.Any("error", err))
		}
	}
	return next
}

// errRunChanged abandons a change because the run has made progress.
var errRunChanged = errors.New("the run has changed")

// interruptRun ends a run with the exact number of queued deliveries: those it recorded, and those of its last page
// that are in the log.
func (w *runWatch) interruptRun(ctx context.Context, run *jobs.Run) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	reached, err := id.Parse(id.Event, run.LastQueuedEvent)
	if err != nil {
		reached = id.ID{} // no page was recorded yet
	}
	counted, err := w.selection.CountCommands(ctx, run.ID, run.UpdatedAt.Add(-commandClockSkew), reached)
	if err != nil {
		return err
	}
	_, err = w.runs.ChangeRun(ctx, run.ID, func(r *jobs.Run) error {
		if r.Rev != run.Rev {
			return errRunChanged
		}
		r.Queued += counted
		r.Finish(jobs.RunInterrupted)
		return nil
	})
	if errors.Is(err, errRunChanged) || errors.Is(err, config.ErrNotFound) {
		return nil
	}
	if err == nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "interrupted a replay run whose node made no progress",
			slog.String("run", run.ID),
			slog.Int("queued", run.Queued+counted))
	}
	return err
}
