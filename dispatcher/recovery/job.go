package recovery

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// watch is how often the destinations of a job that waits for somebody are looked at.
	destinationCheck = time.Second
	// The pause between two looks at the results grows from soonest to latest while they do not change.
	minResultCheck, maxResultCheck = 250 * time.Millisecond, 2 * time.Second
	// settling is the longest such pause of a job that has ended.
	maxSettleCheck = 30 * time.Second
)

// pauses follow a failure. So late as the longest may a job be ended after its deadline.
var failureBackoff = wait.Backoff{First: time.Second, Longest: 9 * time.Second}

// errJobChanged means that somebody else changed the job first.
var errJobChanged = errors.New("the job has changed")

// follower is what one goroutine remembers of the job that it follows.
type jobRun struct {
	*Runner
	submitted       int       // items below this number were submitted, or are known to have been
	due             time.Time // when the last of them is due
	lastCounts      event.RecoveryCounts
	unchangedChecks int // at results that did not change
	failures        int // in a row
}

// follow takes a job from state to state until it is settled, or this node's no longer.
func (r *Runner) runJob(ctx context.Context, id string) {
	defer r.wakeUp() // it may be this node's again
	defer func() {
		r.mu.Lock()
		delete(r.running, id)
		r.mu.Unlock()
	}()
	f := &jobRun{Runner: r}
	for ctx.Err() == nil {
		job, presence := r.Jobs.Recovery(id)
		if presence != config.Present || job.State.Ended() && job.Settled || !r.owns(job) {
			return
		}
		wait, err := f.step(ctx, job)
		switch {
		case errors.Is(err, errJobChanged):
			wait = 0
		case err != nil:
			wait = f.failureDelay(ctx, job, err)
		default:
			f.failures = 0
		}
		f.await(ctx, id, wait)
	}
}

// failed logs the first failure of a row and returns how long to wait.
func (f *jobRun) failureDelay(ctx context.Context, job *config.Recovery, err error) time.Duration {
	if f.failures++; f.failures == 1 && ctx.Err() == nil {
		f.Log.LogAttrs(ctx, slog.LevelWarn, "recovery job waits", slog.String("job", job.ID),
			slog.String("state", string(job.State)), slog.Any("error", err))
	}
	return failureBackoff.After(f.failures - 1)
}

// await waits, or until the job is changed by somebody else.
func (f *jobRun) await(ctx context.Context, id string, wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	rev := f.rev(id)
	for {
		changed := f.Jobs.RecoveriesChanged()
		if f.rev(id) != rev {
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

func (f *jobRun) rev(id string) int64 {
	if job, presence := f.Jobs.Recovery(id); presence == config.Present {
		return job.Rev
	}
	return 0
}

// step does what is to be done for the job as it stands, and says how long nothing is.
func (f *jobRun) step(ctx context.Context, job *config.Recovery) (time.Duration, error) {
	now := f.Now()
	switch {
	case job.State.Ended():
		return f.settle(ctx, job)
	case !now.Before(job.Deadline):
		return 0, f.end(ctx, job, config.RecoveryExpired, config.StopDeadline)
	case job.State == config.RecoveryPreparing:
		return 0, f.prepare(ctx, job)
	case f.unavailable(job):
		return 0, f.end(ctx, job, config.RecoveryStopped, config.StopDestinationUnavailable)
	case job.State.Sending():
		wait, err := f.advance(ctx, job)
		return min(wait, job.Deadline.Sub(now)), err
	}
	return min(destinationCheck, job.Deadline.Sub(now)), nil
}

// move changes the job if nobody else has.
func (f *jobRun) update(
	ctx context.Context, job *config.Recovery, change func(*config.Recovery),
) (*config.Recovery, error) {
	if !f.owns(job) {
		return nil, errJobChanged
	}
	after, err := f.Jobs.UpdateRecovery(ctx, job.ID, func(j *config.Recovery) error {
		if j.Rev != job.Rev {
			return errJobChanged
		}
		change(j)
		return nil
	})
	switch {
	case errors.Is(err, config.ErrNotFound):
		return nil, errJobChanged
	case err != nil:
		return nil, err
	}
	if after.State != job.State {
		f.Log.LogAttrs(ctx, slog.LevelInfo, "recovery job", slog.String("job", job.ID),
			slog.String("state", string(after.State)), slog.String("was", string(job.State)),
			slog.String("reason", after.StopReason), slog.Int("total", after.Total), slog.Int("reserved", after.Reserved))
	}
	return after, nil
}

func (f *jobRun) end(ctx context.Context, job *config.Recovery, state config.RecoveryState, reason string) error {
	_, err := f.update(ctx, job, func(j *config.Recovery) { j.End(state, reason, f.Now()) })
	return err
}

// unavailable reports whether a destination that the job sends to is disabled or gone.
func (f *jobRun) unavailable(job *config.Recovery) bool {
	ep, presence := f.Endpoints.Endpoint(job.Endpoint)
	if presence != config.Present {
		return presence == config.Deleted && job.Sendable > 0
	}
	for _, d := range job.Destinations {
		if dest := ep.Destination(d.ID); d.Sendable > 0 && (dest == nil || !dest.Enabled) {
			return true
		}
	}
	return false
}

// prepare selects the items. An error that does not pass ends the job.
func (f *jobRun) prepare(ctx context.Context, job *config.Recovery) error {
	ep, _ := f.Endpoints.Endpoint(job.Endpoint)
	name := f.NewName()
	selected, err := f.Store.SelectRecovery(ctx, event.Selection{
		Account: job.Account, Endpoint: job.Endpoint, Since: job.Since, Until: job.Until, Groups: selectionGroups(job, ep),
	}, name)
	if err != nil {
		if errors.Is(err, event.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		f.Log.LogAttrs(ctx, slog.LevelError, "prepare recovery job", slog.String("job", job.ID), slog.Any("error", err))
		return f.end(ctx, job, config.RecoveryFailed, "")
	}
	_, err = f.update(ctx, job, func(j *config.Recovery) {
		j.State, j.Selection, j.Total, j.Sendable = config.RecoveryReady, name, selected.Total, selected.Sendable
		for _, d := range namedDestinations(selected.Destinations) {
			j.Destinations = append(j.Destinations, config.RecoveryDestination{ID: d.ID, Total: d.Total, Sendable: d.Sendable})
		}
	})
	return err
}

// maxDestinations bounds the destinations that a header names. An endpoint has 50 at most; the others were deleted.
const maxDestinations = 100

// largest are the destinations that something is sent to, and the largest of the others, as many as a header names.
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

// selectionGroups says what becomes of the deliveries to each destination of the endpoint, which is nil when it was
// deleted.
func selectionGroups(job *config.Recovery, ep *config.Endpoint) []event.SelectionGroup {
	var enabled, disabled, known []string
	gone := event.EndpointDeleted
	if ep != nil {
		gone = event.DestinationDeleted
		for i := range ep.Destinations {
			d := &ep.Destinations[i]
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
	rest := event.SelectionGroup{Dests: known, Except: true, SkipReason: gone}
	if job.Destination != "" {
		rest = event.SelectionGroup{SkipReason: gone}
		if len(enabled)+len(disabled) == 0 {
			rest.Dests = []string{job.Destination}
		}
	}
	return []event.SelectionGroup{{Dests: enabled}, {Dests: disabled, SkipReason: event.DestinationDisabled}, rest}
}
