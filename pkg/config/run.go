package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// runs reads and changes the replay runs.
type runs struct{ *core }

// RunState is how far a replay run is.
type RunState string

// States of a run.
const (
	RunQueueing    RunState = "queueing"    // its deliveries are being put into the log
	RunQueued      RunState = "queued"      // all of them are
	RunInterrupted RunState = "interrupted" // it ended half-way; what was queued stays queued
)

const (
	// RunProgressTimeout is how long a run that is queueing may make no progress before it counts as dead.
	RunProgressTimeout = 30 * time.Second
	// MaxRunDuration bounds the time that a run may queue.
	MaxRunDuration = time.Hour
	// runRetention is how long a run is remembered.
	runRetention = 30 * 24 * time.Hour
	// maxRuns bounds the runs that are remembered, about half a kilobyte each; the oldest are forgotten for new ones.
	maxRuns = 20_000
)

// ErrEndpointBusy means that another run is queueing deliveries of the same endpoint.
var ErrEndpointBusy = errors.New("another run is queueing for the endpoint")

// Run is one replay: of a selection, or of a single event. Its id is a time-ordered run_….
type Run struct {
	Meta
	Endpoints []string        `json:"endpoints,omitempty"` // that it is narrowed to; empty = all
	Single    bool            `json:"single,omitempty"`    // of one event: it shares its endpoint with other runs
	Filter    json.RawMessage `json:"filter"`              // as it was asked for
	Since     time.Time       `json:"since"`
	Until     time.Time       `json:"until"` // fixed when the request started
	State     RunState        `json:"state"`
	Events    int             `json:"events"` // that were selected
	Queued    int             `json:"queued"` // deliveries that the log has acknowledged
	// Reached is the id of the newest event whose deliveries are counted in Queued. Events are queued from the oldest on.
	LastQueuedEvent string `json:"reached,omitempty"`
}

// shares reports whether two runs queue for one endpoint.
func (r *Run) sharesEndpoint(other *Run) bool {
	if r.Single || other.Single {
		return false
	}
	return len(r.Endpoints) == 0 || len(other.Endpoints) == 0 ||
		slices.ContainsFunc(r.Endpoints, func(e string) bool { return slices.Contains(other.Endpoints, e) })
}

// AddRun writes a new run. ErrConflict means that there is one with this id; ErrEndpointBusy that another is queueing
// for one of its endpoints: of several that begin at once on several nodes the first in the log goes on.
func (c runs) AddRun(ctx context.Context, r *Run) (*Run, error) {
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	if c.busy(r, math.MaxInt64) {
		return nil, ErrEndpointBusy
	}
	if err := c.makeRoom(ctx); err != nil {
		return nil, err
	}
	v := *r
	v.Account, v.CreatedAt = c.Account().ID, c.now().UTC()
	v.UpdatedAt = v.CreatedAt
	res, err := c.create(ctx, kindRun, &v)
	if err != nil {
		return nil, err
	}
	added := c.value(res.Entity).(*Run)
	if c.busy(added, added.Seq) {
		if err := c.ForgetIfUnchanged(ctx, kindRun, added.ID, added.Rev); err != nil {
			return nil, err
		}
		return nil, ErrEndpointBusy
	}
	return added, nil
}

// busy reports whether a run that was created before the sequence is queueing, with progress, for an endpoint of r.
func (c runs) busy(r *Run, before int64) bool {
	return slices.ContainsFunc(c.QueueingRuns(c.now().Add(-2*MaxRunDuration)), func(other *Run) bool {
		return other.ID != r.ID && other.Seq < before && other.sharesEndpoint(r) &&
			c.now().Sub(other.UpdatedAt) < RunProgressTimeout
	})
}

// makeRoom forgets the oldest run when there are as many as may be.
func (c runs) makeRoom(ctx context.Context) error {
	v := c.View()
	if v.Len(kindRun) < maxRuns {
		return nil
	}
	for oldest := range v.OldestFirst(kindRun) {
		if err := c.Forget(ctx, kindRun, oldest.ID); err != nil {
			return fmt.Errorf("make room for a run: %w", err)
		}
		break
	}
	return nil
}

// ChangeRun changes a run; see update. While the run goes on queueing no other node is waited for.
func (c runs) ChangeRun(ctx context.Context, id string, alter func(*Run) error) (*Run, error) {
	r, told, err := updateWithoutWait(ctx, c.core, kindRun, id, alter)
	if err == nil && r.State != RunQueueing {
		told()
	}
	return r, err
}

// ReplayRun returns a run.
func (c runs) ReplayRun(id string) (*Run, Presence) { return findEntity[*Run](c.core, kindRun, id) }

// ReplayRuns returns at most limit runs of an account that keep agrees to; see list.
func (c runs) ReplayRuns(account string, beforeSeq int64, limit int, keep func(*Run) bool) (page []*Run, more bool) {
	return listEntities(c.core, kindRun, account, beforeSeq, limit, keep)
}

// QueueingRuns are those of every account that were created after a moment and are queueing, the newest first.
func (c runs) QueueingRuns(since time.Time) (all []*Run) {
	for e := range c.View().NewestFirst(kindRun, 0) {
		r := c.value(e).(*Run)
		if r.CreatedAt.Before(since) {
			break
		}
		if r.State == RunQueueing {
			all = append(all, r)
		}
	}
	return all
}
