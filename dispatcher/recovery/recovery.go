// Package recovery runs recovery jobs: it prepares their selections, submits their deliveries page by page, and brings
// them to their end.
//
// In flow the headers of jobs in the configuration log, and what the store says of their items; out flow conditional
// changes of the headers, and records of commands (and of outcomes, for what a job passes by). A job is run by the node
// that owns the partition of its endpoint. Two that believe so do no harm: a page is reserved by a change of the header
// that only one can make, before anything of it is submitted, so that a node that has lost the partition repeats one
// page at most.
//
// The state of an item is the newest outcome of its delivery within the job, so nothing about a job is in memory that
// matters: a new owner waits until the store has caught up with the log, submits again what is reserved and was never
// heard of, and goes on. While the store is away, or behind, a job waits.
//
// Run owns every goroutine: one for each job that something is to be done for, a thousand at most for an account.
//
// Invariants, each with its test:
//   - every way from state to state (TestJobLifecycle and the tests after it);
//   - of an action and the runner, or of two runners, one wins (TestCancelRacesReservation, TestStaleOwner;
//     api.TestContinueRacesCancel);
//   - nothing is submitted before its page is reserved, and all that is reserved is submitted (TestTakeover);
//   - a failure stops the job, a deadline ends it in every state (TestFailureStopsJob, TestDeadlineEndsJob).
package recovery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
)

// Jobs are the headers, in the configuration log.
type Jobs interface {
	Recovery(id string) (*config.Recovery, config.Presence)
	// UnsettledRecoveries returns those that something is to be done for, and those of before that are to be forgotten.
	UnsettledRecoveries(before time.Time) (unsettled, old []*config.Recovery)
	// RecoveriesChanged returns a channel that is closed when one is made or changed.
	RecoveriesChanged() <-chan struct{}
	UpdateRecovery(ctx context.Context, id string, change func(*config.Recovery) error) (*config.Recovery, error)
	ForgetRecovery(ctx context.Context, id string) error
}

// Endpoints says where the endpoints are, and what their destinations are.
type Endpoints interface {
	Endpoint(id string) (*config.Endpoint, config.Presence)
}

// Items are the selections and what came of them, in the store. Its errors are event.ErrUnavailable, which passes, and
// others, which do not.
type Store interface {
	SelectRecovery(ctx context.Context, s event.Selection, name string) (event.SelectionTotals, error)
	CaughtUp(ctx context.Context) error
	RecoveryCounts(ctx context.Context, account string, jobs ...string) (map[string]event.RecoveryCounts, time.Time, error)
	RecoveryFailures(ctx context.Context, account, job string) (map[string]event.RecoveryFailures, error)
	OpenRecoveryItems(ctx context.Context, job event.RecoveryJob, from, to int,
		each func(*event.OpenRecoveryItem) error) error
}

// Log takes deliveries that are to be made, and what is said of those that are not, and returns when all of it is
// durable. After an error part of it may be.
type Submitter interface {
	Submit(ctx context.Context, work []*event.Work, said []*event.Outcome) error
}

// Deps are what a Runner works with.
type Deps struct {
	Log       *slog.Logger
	Jobs      Jobs
	Endpoints Endpoints
	Store     Store
	Submitter Submitter
	Now       func() time.Time
	// Name makes a name for a selection that was never used.
	NewName func() string
}

func (d Deps) validate() error {
	if d.Log == nil || d.Jobs == nil || d.Endpoints == nil || d.Store == nil || d.Submitter == nil || d.Now == nil ||
		d.NewName == nil {
		return errors.New("recovery: a dependency is missing")
	}
	return nil
}

// tend is how often the runner looks for jobs that came here without being changed, as with a moved endpoint.
const scanEvery = 5 * time.Second

// Runner runs the jobs of the endpoints in the partitions that this node owns.
type Runner struct {
	Deps
	wake chan struct{} // asks Run to look for jobs; holds one

	mu      sync.Mutex // guards what follows
	owned   map[int32]bool
	running map[string]bool // jobs that have a goroutine
}

// New validates and starts nothing.
func New(deps Deps) (*Runner, error) {
	if err := deps.validate(); err != nil {
		return nil, err
	}
	return &Runner{Deps: deps, wake: make(chan struct{}, 1), owned: map[int32]bool{}, running: map[string]bool{}}, nil
}

// Own says which partitions this node owns from now on.
func (r *Runner) SetOwned(partitions []int32) {
	owned := make(map[int32]bool, len(partitions))
	for _, p := range partitions {
		owned[p] = true
	}
	r.mu.Lock()
	r.owned = owned
	r.mu.Unlock()
	r.wakeUp()
}

func (r *Runner) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run follows the jobs until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	var followers sync.WaitGroup
	defer followers.Wait()
	tick := time.NewTicker(scanEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		changed := r.Jobs.RecoveriesChanged()
		unsettled, old := r.Jobs.UnsettledRecoveries(r.Now().Add(-config.RecoveryRetention))
		for _, job := range unsettled {
			if r.claim(job) {
				followers.Go(func() { r.runJob(ctx, job.ID) })
			}
		}
		r.deleteOld(ctx, old)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-r.wake:
		case <-tick.C:
		}
	}
	return nil
}

// begin reports whether the job is this node's and nobody follows it yet.
func (r *Runner) claim(job *config.Recovery) bool {
	if !r.owns(job) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[job.ID] {
		return false
	}
	r.running[job.ID] = true
	return true
}

// owns reports whether this node runs the job: it owns the partition that its endpoint is in now.
func (r *Runner) owns(job *config.Recovery) bool {
	partition := job.Partition
	if ep, presence := r.Endpoints.Endpoint(job.Endpoint); presence == config.Present {
		partition = ep.Partition
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owned[partition]
}

// forget removes jobs whose history is over.
func (r *Runner) deleteOld(ctx context.Context, old []*config.Recovery) {
	for _, job := range old {
		if !r.owns(job) {
			continue
		}
		if err := r.Jobs.ForgetRecovery(ctx, job.ID); err != nil {
			r.Log.LogAttrs(ctx, slog.LevelWarn, "forget recovery job", slog.String("job", job.ID), slog.Any("error", err))
			return
		}
	}
}
