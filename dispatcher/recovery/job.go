package recovery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// destinationCheck is how often the destinations of a job that waits for a user are checked.
	destinationCheck = time.Second
	// The pause between two checks of the results grows from minResultCheck to maxResultCheck while they do not
	// change.
	minResultCheck, maxResultCheck = 250 * time.Millisecond, 2 * time.Second
	// maxSettleCheck is the longest such pause of a job that has ended.
	maxSettleCheck = 30 * time.Second
	// maxSettleWait bounds how long a preparation waits for a job that has ended. A page of deliveries and their last
	// requests take less.
	maxSettleWait = 2 * time.Minute
	// maxStopFailures bounds the failures after which a job stops without the store: they take about a minute.
	maxStopFailures = 10
)

// failureBackoff is the pause after a failure. So a job may end as late as its longest pause, 9 s, after the deadline.
var failureBackoff = wait.Backoff{First: time.Second, Longest: 9 * time.Second}

// errJobChanged means that a user or another node changed the job first.
var errJobChanged = errors.New("the job has changed")

// jobRun is the state of the goroutine that runs one job.
type jobRun struct {
	runner          *Runner
	deps            Deps      // of the runner
	submitted       int       // items below this number were submitted
	lastDue         time.Time // when the last of them is due
	lastCounts      event.RecoveryCounts
	unchangedChecks int // checks since the results last changed
	failures        int // consecutive
}

// runJob takes a job from state to state until it is settled or belongs to another node.
func (r *Runner) runJob(ctx context.Context, id string) {
	defer r.wakeUp() // the job may belong to this node again
	defer func() {
		r.mu.Lock()
		delete(r.running, id)
		r.mu.Unlock()
	}()
	run := &jobRun{runner: r, deps: r.deps}
	for ctx.Err() == nil {
		job, presence := r.deps.Jobs.Recovery(id)
		if presence != entity.Present || job.State.Ended() && job.Settled || !r.owns(job) {
			return
		}
		pause, err := run.step(ctx, job)
		switch {
		case errors.Is(err, errJobChanged):
			pause = 0
		case err != nil:
			pause = run.failureDelay(ctx, job, err)
		default:
			run.failures = 0
		}
		run.await(ctx, id, pause)
	}
}

// failureDelay counts a failure, logs the first one of a series, and returns how long to wait.
func (run *jobRun) failureDelay(ctx context.Context, job *jobs.Recovery, err error) time.Duration {
	if run.failures++; run.failures == 1 && ctx.Err() == nil {
		run.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot continue recovery job, retrying", slog.String("job", job.ID),
			slog.String("state", string(job.State)), slog.Any("error", err))
	}
	return failureBackoff.After(run.failures - 1)
}

// await waits until the pause is over or the job has changed.
func (run *jobRun) await(ctx context.Context, id string, pause time.Duration) {
	if pause <= 0 {
		return
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	rev := run.rev(id)
	for {
		changed := run.deps.Jobs.RecoveriesChanged()
		if run.rev(id) != rev {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (run *jobRun) rev(id string) int64 {
	if job, presence := run.deps.Jobs.Recovery(id); presence == entity.Present {
		return job.Rev
	}
	return 0
}

// step does what the state of the job asks for, and returns how long to wait until the next step.
func (run *jobRun) step(ctx context.Context, job *jobs.Recovery) (time.Duration, error) {
	now := run.deps.Now()
	switch {
	case job.State.Ended():
		return run.settle(ctx, job)
	case !now.Before(job.Deadline):
		return 0, run.end(ctx, job, jobs.RecoveryExpired, jobs.StopDeadline)
	case job.State == jobs.RecoveryPreparing && run.othersSettle(job, now):
		return minResultCheck, nil
	case job.State == jobs.RecoveryPreparing:
		return 0, run.prepare(ctx, job)
	case run.unavailable(job):
		return 0, run.stopUnavailable(ctx, job)
	case job.State.Sending():
		pause, err := run.advance(ctx, job)
		return min(pause, job.Deadline.Sub(now)), err
	}
	return min(destinationCheck, job.Deadline.Sub(now)), nil
}

// update changes the job unless a user or another node has changed it first.
func (run *jobRun) update(
	ctx context.Context, job *jobs.Recovery, change func(*jobs.Recovery),
) (*jobs.Recovery, error) {
	if !run.runner.owns(job) {
		return nil, errJobChanged
	}
	after, err := run.deps.Jobs.UpdateRecovery(ctx, job.ID, func(edited *jobs.Recovery) error {
		if edited.Rev != job.Rev {
			return errJobChanged
		}
		change(edited)
		return nil
	})
	switch {
	case errors.Is(err, config.ErrNotFound):
		return nil, errJobChanged
	case err != nil:
		return nil, err
	}
	if after.State != job.State {
		run.deps.Log.LogAttrs(ctx, slog.LevelInfo, "recovery job changed state", slog.String("job", job.ID),
			slog.String("state", string(after.State)), slog.String("previous_state", string(job.State)),
			slog.String("reason", after.StopReason), slog.Int("total", after.Total), slog.Int("reserved", after.Reserved))
	}
	return after, nil
}

func (run *jobRun) end(ctx context.Context, job *jobs.Recovery, state jobs.RecoveryState, reason string) error {
	_, err := run.update(ctx, job, func(edited *jobs.Recovery) { edited.End(state, reason, run.deps.Now()) })
	return err
}

// unavailable reports whether a destination that the job sends to is disabled or deleted.
func (run *jobRun) unavailable(job *jobs.Recovery) bool {
	endpoint, presence := run.deps.Endpoints.Endpoint(job.Endpoint)
	if presence != entity.Present {
		return presence == entity.Deleted && job.Sendable > 0
	}
	for _, d := range job.Destinations {
		if dest := endpoint.Destination(d.ID); d.Sendable > 0 && (dest == nil || !dest.Enabled) {
			return true
		}
	}
	return false
}

// stopUnavailable stops a job whose destination is disabled or deleted. Items that have failed come first: it was
// available when they were sent, and their answers may have disabled it (410). A store that is away for a minute does
// not keep the job running: it would go on if the destination were enabled again.
func (run *jobRun) stopUnavailable(ctx context.Context, job *jobs.Recovery) error {
	reason := jobs.StopDestinationUnavailable
	if job.State.Sending() && job.Reserved > 0 {
		failed, err := run.hasFailedItem(ctx, job)
		if err != nil && run.failures < maxStopFailures {
			return err
		}
		if failed {
			reason = jobs.StopDeliveryFailed
		}
	}
	return run.end(ctx, job, jobs.RecoveryStopped, reason)
}

// hasFailedItem reports whether an item has failed. The store must have what the log has, since the configuration
// arrives sooner than an outcome.
func (run *jobRun) hasFailedItem(ctx context.Context, job *jobs.Recovery) (bool, error) {
	if err := run.deps.Store.CaughtUp(ctx); err != nil {
		return false, err
	}
	counts, err := run.counts(ctx, job)
	return counts.Failed > 0, err
}

// othersSettle reports whether a job that has ended still has deliveries queued or in flight to the same destination.
// They are pending, so a selection made now would leave them out, although some are about to be skipped or to fail.
func (run *jobRun) othersSettle(job *jobs.Recovery, now time.Time) bool {
	unsettled, _ := run.deps.Jobs.UnsettledRecoveries(time.Time{})
	return slices.ContainsFunc(unsettled, func(other *jobs.Recovery) bool {
		return other.State.Ended() && other.Overlaps(job) && now.Sub(other.FinishedAt) < maxSettleWait &&
			now.Sub(job.CreatedAt) < maxSettleWait
	})
}

// prepare selects the items. A permanent error ends the job as failed.
func (run *jobRun) prepare(ctx context.Context, job *jobs.Recovery) error {
	endpoint, _ := run.deps.Endpoints.Endpoint(job.Endpoint)
	name := run.deps.NewName()
	selected, err := run.deps.Store.SelectRecovery(ctx, event.Selection{
		Account: job.Account, Endpoint: job.Endpoint, Since: job.Since, Until: job.Until,
		Groups: selectionGroups(job, endpoint),
	}, name)
	if err != nil {
		if errors.Is(err, event.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		run.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot prepare recovery job", slog.String("job", job.ID),
			slog.Any("error", err))
		return run.end(ctx, job, jobs.RecoveryFailed, "")
	}
	_, err = run.update(ctx, job, func(edited *jobs.Recovery) {
		edited.State, edited.Selection, edited.Total, edited.Sendable = jobs.RecoveryReady, name, selected.Total,
			selected.Sendable
		for _, d := range namedDestinations(selected.Destinations) {
			edited.Destinations = append(
				edited.Destinations, jobs.RecoveryDestination{ID: d.ID, Total: d.Total, Sendable: d.Sendable})
		}
	})
	return err
}

// maxDestinations bounds the destinations in a job header. An endpoint has at most 50; the others were deleted.
const maxDestinations = 100

// namedDestinations returns the destinations that the header lists: those that something is sent to, then the largest
// others, maxDestinations in all.
func namedDestinations(all []event.DestinationTotals) []event.DestinationTotals {
	if len(all) <= maxDestinations {
		return all
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b event.DestinationTotals) int {
		return cmp.Or(cmp.Compare(b.Sendable, a.Sendable), cmp.Compare(b.Total, a.Total))
	})
	return sorted[:maxDestinations]
}

// selectionGroups says for each destination whether its items are sent, or the reason to skip them. endpoint is nil
// when it was deleted.
func selectionGroups(job *jobs.Recovery, endpoint *config.Endpoint) []event.SelectionGroup {
	var enabled, disabled, known []string
	deletedReason := event.EndpointDeleted
	if endpoint != nil {
		deletedReason = event.DestinationDeleted
		for i := range endpoint.Destinations {
			d := &endpoint.Destinations[i]
			known = append(known, d.ID)
			switch {
			case job.Destination != "" && job.Destination != d.ID:
			case d.Enabled:
				enabled = append(enabled, d.ID)
			default:
				disabled = append(disabled, d.ID)
			}
		}
	}
	others := event.SelectionGroup{Dests: known, Except: true, SkipReason: deletedReason}
	if job.Destination != "" {
		others = event.SelectionGroup{SkipReason: deletedReason}
		if len(enabled)+len(disabled) == 0 {
			others.Dests = []string{job.Destination}
		}
	}
	return []event.SelectionGroup{{Dests: enabled}, {Dests: disabled, SkipReason: event.DestinationDisabled}, others}
}
