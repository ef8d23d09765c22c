// Package jobs has the replay runs (run.go) and recovery jobs (recovery.go) in the configuration: their states,
// progress and approval. config.Control embeds Jobs. Which deliveries they make is written to the log of commands, not
// here.
//
// Only creating, approving and cancelling are audited. Cancelling returns when no node begins a delivery of the job.
package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/conflog"
)

// RunState is the state of a replay run.
type RunState string

// States of a run.
const (
	RunQueueing    RunState = "queueing"    // its deliveries are being written to the log
	RunQueued      RunState = "queued"      // all deliveries are in the log
	RunInterrupted RunState = "interrupted" // it ended early; deliveries in the log stay there
	RunCancelled   RunState = "cancelled"   // somebody has cancelled it; deliveries that were not sent are skipped
)

const (
	// DefaultRunProgressTimeout is Config.RunProgressTimeout of every node.
	DefaultRunProgressTimeout = 30 * time.Second
	// MaxRunDuration is the maximum time that a run may queue.
	MaxRunDuration = time.Hour
	// RunRetention is how long a run can be read.
	RunRetention = 30 * 24 * time.Hour
	// MaxAccountRuns is how many runs are kept of the account's own keys and people, about 500 bytes each. The oldest are
	// removed for new ones of the same, see makeRoom.
	MaxAccountRuns = 15_000
	// MaxTenantsRuns is how many are kept of all tenants.
	MaxTenantsRuns = 5_000
	// MaxTenantRuns is how many are kept of each tenant.
	MaxTenantRuns = 200
	// maxRemoved is how many runs are removed for a new one: more than one, since calls at the same time may choose the
	// same.
	maxRemoved = 10
)

// ErrTooManyRuns means that none of the runs that could make room may be removed.
var ErrTooManyRuns = errors.New("too many runs are queueing or were cancelled")

// ErrEndpointBusy means that another run is queueing deliveries of the same endpoint.
var ErrEndpointBusy = errors.New("another run is queueing for the endpoint")

// Jobs are the replay runs and recovery jobs in the configuration.
type Jobs struct {
	*entity.Core
	progressTimeout time.Duration
}

// New returns the jobs in the configuration. A queueing run without progress for progressTimeout counts as
// interrupted; 0 = DefaultRunProgressTimeout.
func New(c *entity.Core, progressTimeout time.Duration) Jobs { return Jobs{c, progressTimeout} }

// Run is one replay, of a selection of events or of a single event. Its id is a time-ordered run_….
type Run struct {
	entity.Meta
	Endpoints []string        `json:"endpoints,omitempty"` // endpoints to replay; empty = all
	Single    bool            `json:"single,omitempty"`    // replays one event; it may run at the same time as other runs
	Filter    json.RawMessage `json:"filter"`              // the filter of the request
	Since     time.Time       `json:"since"`
	Until     time.Time       `json:"until"`                // fixed when the request started
	CreatedBy string          `json:"created_by,omitempty"` // API key or person
	Tenant    string          `json:"tenant,omitempty"`     // whose key or session made it; empty: the account's
	State     RunState        `json:"state"`
	// CancelledAt is set by a cancellation. A run that is still queueing stays so until the node that queues it, or the
	// one that ends it for lack of progress, has recorded how much was queued.
	CancelledAt time.Time `json:"cancelled_at,omitzero"`
	Events      int       `json:"events"` // number of selected events
	Queued      int       `json:"queued"` // number of deliveries that the log has acknowledged
	// LastQueuedEvent is the id of the newest event whose deliveries are counted in Queued. Events are queued oldest
	// first.
	LastQueuedEvent string `json:"reached,omitempty"`
}

func (*Run) EntityKind() entity.Kind { return entity.KindRun }

// Attributes let the runs of tenants be counted without decoding them.
func (r *Run) Attributes() uint64 { return entity.TenantAttribute(r.Tenant) }

// Cancelled reports whether the run was cancelled: deliveries that were not sent are not sent any more.
func (r *Run) Cancelled() bool { return !r.CancelledAt.IsZero() }

// ReportedState is the state that users see: cancelled from the cancellation on.
func (r *Run) ReportedState() RunState {
	if r.Cancelled() {
		return RunCancelled
	}
	return r.State
}

// OnlyRestricts: the run was cancelled.
func (r *Run) OnlyRestricts(next entity.Value) bool { return !r.Cancelled() && next.(*Run).Cancelled() }
func (r *Run) EndsAt(*entity.Core) time.Time        { return r.CreatedAt.Add(RunRetention) }

// Finish ends the queueing in a state, or as cancelled if the run was cancelled meanwhile.
func (r *Run) Finish(state RunState) {
	if r.State = state; r.Cancelled() {
		r.State = RunCancelled
	}
}

func (r *Run) sharesEndpoint(other *Run) bool {
	if r.Single || other.Single {
		return false
	}
	return len(r.Endpoints) == 0 || len(other.Endpoints) == 0 ||
		slices.ContainsFunc(r.Endpoints, func(e string) bool { return slices.Contains(other.Endpoints, e) })
}

// AddRun creates a run. It returns conflog.ErrConflict when the id exists, ErrEndpointBusy when another run is queueing
// for one of its endpoints, and ErrTooManyRuns. If several nodes start runs at the same time, the first one in the log
// continues.
func (c Jobs) AddRun(ctx context.Context, r *Run) (*Run, error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	if c.busy(r, math.MaxInt64) {
		return nil, ErrEndpointBusy
	}
	if err := c.makeRoom(ctx, r); err != nil {
		return nil, err
	}
	v := *r
	v.CreatedBy = conflog.OriginOf(ctx).Actor
	added, _, err := entity.CreateUnawaited(ctx, c.Core, &v)
	if err != nil {
		return nil, err
	}
	if c.busy(added, added.Seq) {
		if err := c.ForgetIfUnchanged(entity.WithoutOrigin(ctx), entity.KindRun, added.ID, added.Rev); err != nil {
			return nil, err
		}
		return nil, ErrEndpointBusy
	}
	return added, nil
}

// busy reports whether a run that was created before the sequence is queueing, with recent progress, for an endpoint of
// r.
func (c Jobs) busy(r *Run, before int64) bool {
	return slices.ContainsFunc(c.QueueingRuns(c.Clock().Add(-2*MaxRunDuration)), func(other *Run) bool {
		return other.ID != r.ID && other.Seq < before && other.sharesEndpoint(r) &&
			c.Clock().Sub(other.UpdatedAt) < cmp.Or(c.progressTimeout, DefaultRunProgressTimeout)
	})
}

// makeRoom removes the oldest runs for a new one: of its tenant once that has MaxTenantRuns, else of any tenant, and
// for one of the account those of the account. So a tenant cannot make the runs of others unknown by making many.
//
// A run that queues is not removed, nor one that was cancelled before its retention has ended: deliveries of an unknown
// run are sent.
func (c Jobs) makeRoom(ctx context.Context, r *Run) error {
	v, tenant := c.View(), r.Attributes()
	own, all := 0, v.Len(entity.KindRun) // of the tenant; of all tenants, or of the account
	for e := range v.OldestFirst(entity.KindRun) {
		switch {
		case e.Attributes == tenant:
			own++
		case e.Attributes == 0 || tenant == 0:
			all--
		}
	}
	excess, among := own+1-MaxTenantRuns, func(e *conflog.Entity) bool { return e.Attributes == tenant }
	switch {
	case tenant == 0:
		excess = all + 1 - MaxAccountRuns
	case excess <= 0:
		excess, among = all+1-MaxTenantsRuns, func(e *conflog.Entity) bool { return e.Attributes != 0 }
	}
	if excess <= 0 {
		return nil
	}
	removed := 0
	for e := range v.OldestFirst(entity.KindRun) {
		if removed == min(excess, maxRemoved) {
			break
		}
		if !among(e) {
			continue
		}
		x := c.Peek(e).(*Run)
		if (x.State == RunQueueing || x.Cancelled()) && c.Clock().Before(x.EndsAt(c.Core)) {
			continue
		}
		if err := c.ForgetIfUnchanged(entity.WithoutOrigin(ctx), entity.KindRun, e.ID, e.Rev); err != nil {
			return fmt.Errorf("make room for a run: %w", err)
		}
		removed++
	}
	if removed == 0 {
		return ErrTooManyRuns
	}
	return nil
}

// CancelRun cancels a run; cancelling it again changes nothing. When it returns nil, every living node has applied it,
// so that none begins to send one of its deliveries. A node whose lease has ended may still do so: dispatchers need no
// lease. A repeated call waits in the same way.
func (c Jobs) CancelRun(ctx context.Context, id string) (*Run, error) {
	return entity.UpdateEverywhere(ctx, c, id, func(r *Run) error {
		if r.Cancelled() {
			return nil
		}
		r.CancelledAt = c.Clock().UTC()
		if r.State != RunQueueing {
			r.State = RunCancelled
		}
		return nil
	})
}

// ChangeRun records the progress of a run; see Update. While the run is queueing it does not wait for other
// nodes.
func (c Jobs) ChangeRun(ctx context.Context, id string, alter func(*Run) error) (*Run, error) {
	r, w, err := entity.UpdateUnawaited(entity.WithoutOrigin(ctx), c.Core, id, alter)
	if err == nil && r.State != RunQueueing && w.Changed() {
		c.WaitForPeers(ctx, w.WriteResult)
	}
	return r, err
}

// ReplayRun returns a run.
func (c Jobs) ReplayRun(id string) (*Run, entity.Presence) { return entity.Get[Run](c, id) }

// ReplayRuns returns at most limit runs of an account for which keep returns true; see List.
func (c Jobs) ReplayRuns(account string, beforeSeq int64, limit int, keep func(*Run) bool) (page []*Run, more bool) {
	return entity.List(c, account, beforeSeq, limit, keep)
}

// QueueingRuns returns the runs of all accounts that were created after since and are queueing, newest first.
func (c Jobs) QueueingRuns(since time.Time) (all []*Run) {
	for e := range c.View().NewestFirst(entity.KindRun, 0) {
		r := c.Decoded(e).(*Run)
		if r.CreatedAt.Before(since) {
			break
		}
		if r.State == RunQueueing {
			all = append(all, r)
		}
	}
	return all
}
