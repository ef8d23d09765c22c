// Package recovery runs recovery jobs: it prepares their selection of items, submits their deliveries page by page,
// and settles their results.
//
// It reads the headers of jobs from the configuration log and the state of their items from the store. It writes
// conditional changes of the headers, records of the topic commands, and outcomes of items that are not sent. Start
// reading at Runner.Run, then job.go (the states of one job) and submit.go (its pages).
//
// The node that owns the partition of the endpoint runs the job. Two nodes that both believe to own it do no harm: each
// page is reserved by a change of the header before anything of it is submitted, and only one of them can make that
// change. So a node that has lost the partition repeats at most one page.
//
// The state of an item is the newest outcome of its delivery within the job, so no job depends on memory. A new owner
// waits until the store has caught up with the log, submits reserved items without an outcome again, and continues.
// While the store is unavailable or behind, the job waits.
//
// Run owns every goroutine: one for each job that is not settled. An account has at most a thousand jobs that have not
// ended; those that have ended settle when all their results are in.
//
// Invariants, each with its test:
//   - every state transition (TestJobLifecycle and the tests after it);
//   - of a user's action and the runner, or of two runners, one wins (TestCancelRacesReservation, TestStaleOwner;
//     api.TestContinueRacesCancel);
//   - nothing is submitted before its page is reserved, and everything that is reserved is submitted (TestTakeover);
//   - a failure stops the job, and the deadline ends it in every state (TestFailureStopsJob, TestDeadlineEndsJob).
package recovery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/wait"
)

// Jobs are the headers of the recovery jobs, in the configuration log.
type Jobs interface {
	Recovery(id string) (*jobs.Recovery, entity.Presence)
	// UnsettledRecoveries returns the jobs that are not settled, and settled ones that were created before the given time.
	UnsettledRecoveries(before time.Time) (unsettled, old []*jobs.Recovery)
	// RecoveriesChanged returns a channel that is closed when a job is created or changed.
	RecoveriesChanged() <-chan struct{}
	UpdateRecovery(ctx context.Context, id string, change func(*jobs.Recovery) error) (*jobs.Recovery, error)
	ForgetRecovery(ctx context.Context, id string) error
}

// Endpoints returns endpoints with their partition and destinations.
type Endpoints interface {
	Endpoint(id string) (*config.Endpoint, entity.Presence)
}

// Store has the selected items and their results. An error is event.ErrUnavailable if a later try may succeed. Any
// other error of SelectRecovery ends the job as failed; those of the other methods are retried too.
type Store interface {
	SelectRecovery(ctx context.Context, s event.Selection, name string) (event.SelectionTotals, error)
	CaughtUp(ctx context.Context) error
	RecoveryCounts(ctx context.Context, account string, jobs ...string) (map[string]event.RecoveryCounts, time.Time, error)
	RecoveryFailures(ctx context.Context, account, job string) (map[string]event.RecoveryFailures, error)
	OpenRecoveryItems(ctx context.Context, job event.RecoveryJob, from, to int,
		each func(*event.OpenRecoveryItem) error) error
}

// Submitter writes deliveries to make, and outcomes of items that are not sent, and returns when all are durable. After
// an error some of them may be durable.
type Submitter interface {
	Submit(ctx context.Context, deliveries []*event.Work, outcomes []*event.Outcome) error
}

// Deps are the dependencies of a Runner.
type Deps struct {
	Log       *slog.Logger
	Jobs      Jobs
	Endpoints Endpoints
	Store     Store
	Submitter Submitter
	Now       func() time.Time
	// NewName returns a name for a selection, never the same twice.
	NewName func() string
}

func (d Deps) validate() error {
	if d.Log == nil || d.Jobs == nil || d.Endpoints == nil || d.Store == nil || d.Submitter == nil || d.Now == nil ||
		d.NewName == nil {
		return errors.New("recovery: a dependency is missing")
	}
	return nil
}

// scanEvery is how often the runner checks for jobs that became its own without a change of the job, as when an
// endpoint moves.
const scanEvery = 5 * time.Second

// Runner runs the jobs of the endpoints in the partitions that this node owns.
type Runner struct {
	deps Deps
	wake chan struct{} // asks Run to check for jobs; capacity 1

	mu      sync.Mutex // guards the fields below
	owned   map[int32]bool
	running map[string]bool // jobs that have a goroutine
}

// New validates its arguments and starts nothing.
func New(deps Deps) (*Runner, error) {
	if err := deps.validate(); err != nil {
		return nil, err
	}
	return &Runner{deps: deps, wake: make(chan struct{}, 1), owned: map[int32]bool{}, running: map[string]bool{}}, nil
}

// SetOwned sets the partitions that this node owns from now on.
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

func (r *Runner) wakeUp() { wait.Wake(r.wake) }

// Run runs the jobs until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	var goroutines sync.WaitGroup
	defer goroutines.Wait()
	tick := time.NewTicker(scanEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		changed := r.deps.Jobs.RecoveriesChanged()
		unsettled, old := r.deps.Jobs.UnsettledRecoveries(r.deps.Now().Add(-jobs.RecoveryRetention))
		for _, job := range unsettled {
			if r.claim(job) {
				goroutines.Go(func() { r.runJob(ctx, job.ID) })
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

// claim reports whether the job belongs to this node and has no goroutine yet, and marks it as running.
func (r *Runner) claim(job *jobs.Recovery) bool {
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

// owns reports whether this node runs the job: it owns the current partition of the endpoint.
func (r *Runner) owns(job *jobs.Recovery) bool {
	partition := job.Partition
	if endpoint, presence := r.deps.Endpoints.Endpoint(job.Endpoint); presence == entity.Present {
		partition = endpoint.Partition
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owned[partition]
}

// deleteOld deletes settled jobs that are older than jobs.RecoveryRetention.
func (r *Runner) deleteOld(ctx context.Context, old []*jobs.Recovery) {
	for _, job := range old {
		if !r.owns(job) {
			continue
		}
		if err := r.deps.Jobs.ForgetRecovery(ctx, job.ID); err != nil {
			r.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot delete old recovery job", slog.String("job", job.ID),
				slog.Any("error", err))
			return
		}
	}
}
