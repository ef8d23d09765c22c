package api

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/id"
)

const (
	// watchInterval is the pause between two looks at the runs that are queueing.
	watchInterval = 5 * time.Second
	// countTimeout bounds the count of what a dead run has queued.
	countTimeout = time.Minute
	// commandClockSkew is how much earlier than a run's last note the commands of the next page may have been produced,
	// by the clocks of node and broker.
	commandClockSkew = time.Minute
)

// run ends the runs whose node has died while it queued them, until ctx ends. Every node that serves the API watches,
// by its own clock alone: a run that has made no progress under its eyes for config.RunProgressTimeout is dead. What
// its last page came to is counted in the log, and one conditional record ends it, whoever writes it.
func (w runWatch) run(ctx context.Context) error {
	w.seen = map[string]observedRun{}
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		w.checkRuns(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// watch knows how long each queueing run has not changed.
type runWatch struct {
	*core
	runs      Runs
	selection Selector
	log       *slog.Logger

	since time.Time // no run that was created before it is queueing
	seen  map[string]observedRun
}

type observedRun struct {
	rev int64
	at  time.Time // when it was first seen at this revision; of the monotonic clock
}

func (w *runWatch) checkRuns(ctx context.Context) {
	now := time.Now()
	seen := map[string]observedRun{}
	oldest := w.now().Add(-config.MaxRunDuration)
	for _, run := range w.runs.QueueingRuns(w.since) {
		s, known := w.seen[run.ID]
		if !known || s.rev != run.Rev {
			s = observedRun{run.Rev, now}
		}
		seen[run.ID] = s
		if run.CreatedAt.Before(oldest) {
			oldest = run.CreatedAt
		}
		if now.Sub(s.at) < config.RunProgressTimeout {
			continue
		}
		if err := w.interruptRun(ctx, run); err != nil && ctx.Err() == nil {
			w.log.LogAttrs(ctx, slog.LevelWarn, "end a replay run without progress", slog.String("run", run.ID),
				slog.Any("error", err))
		}
	}
	w.since, w.seen = oldest, seen
}

// errRunChanged ends a change because the run has changed.
var errRunChanged = errors.New("the run has changed")

// interrupt ends a run with the true number of deliveries that it has queued: those that it noted, and those of its
// last page that the log has.
func (w *runWatch) interruptRun(ctx context.Context, run *config.Run) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	reached, err := id.Parse(id.Event, run.LastQueuedEvent)
	if err != nil {
		reached = id.ID{} // nothing was noted yet
	}
	counted, err := w.selection.CountCommands(ctx, run.ID, run.UpdatedAt.Add(-commandClockSkew), reached)
	if err != nil {
		return err
	}
	_, err = w.runs.ChangeRun(ctx, run.ID, func(r *config.Run) error {
		if r.Rev != run.Rev {
			return errRunChanged
		}
		r.State, r.Queued = config.RunInterrupted, r.Queued+counted
		return nil
	})
	if errors.Is(err, errRunChanged) || errors.Is(err, config.ErrNotFound) {
		return nil
	}
	if err == nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "replay run was interrupted", slog.String("run", run.ID),
			slog.Int("queued", run.Queued+counted))
	}
	return err
}
