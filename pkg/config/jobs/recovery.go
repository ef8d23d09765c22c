package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/event"
)

// RecoveryState is the state of a recovery job.
type RecoveryState string

// States of a recovery job.
const (
	RecoveryPreparing        RecoveryState = "preparing"
	RecoveryReady            RecoveryState = "ready"
	RecoveryCanaryRunning    RecoveryState = "canary_running"
	RecoveryAwaitingApproval RecoveryState = "awaiting_approval"
	RecoveryRunning          RecoveryState = "running"
	RecoveryCompleted        RecoveryState = "completed"
	RecoveryStopped          RecoveryState = "stopped"
	RecoveryCancelled        RecoveryState = "cancelled"
	RecoveryExpired          RecoveryState = "expired"
	RecoveryFailed           RecoveryState = "failed" // the preparation failed
)

// RecoveryStates returns all states, in the order in which a job passes through them.
func RecoveryStates() []RecoveryState {
	return []RecoveryState{
		RecoveryPreparing, RecoveryReady, RecoveryCanaryRunning, RecoveryAwaitingApproval, RecoveryRunning,
		RecoveryCompleted, RecoveryStopped, RecoveryCancelled, RecoveryExpired, RecoveryFailed,
	}
}

// Ended reports whether the state is final. Open deliveries of the job may still finish.
func (s RecoveryState) Ended() bool {
	switch s {
	case RecoveryCompleted, RecoveryStopped, RecoveryCancelled, RecoveryExpired, RecoveryFailed:
		return true
	}
	return false
}

// Sending reports whether deliveries are being submitted.
func (s RecoveryState) Sending() bool { return s == RecoveryCanaryRunning || s == RecoveryRunning }

// UnsentReason returns why items that were not submitted will never be; empty while they may be.
func (s RecoveryState) UnsentReason() event.Reason {
	switch s {
	case RecoveryStopped, RecoveryFailed:
		return event.JobStopped
	case RecoveryCancelled:
		return event.JobCancelled
	case RecoveryExpired:
		return event.Deadline
	}
	return ""
}

// Values of Recovery.StopReason: why a job ended early.
const (
	StopDeliveryFailed         = "delivery_failed"
	StopDestinationUnavailable = "destination_unavailable"
	StopDeadline               = "deadline"
	StopCancelled              = "cancelled"
)

// Durations of a recovery job.
const (
	// MaxRecoveryDuration is the maximum duration of a job, including preparation and waits for approval.
	MaxRecoveryDuration = 24 * time.Hour
	// RecoveryRetention is how long a job can be read.
	RecoveryRetention = 30 * 24 * time.Hour
)

// MaxCanaryDeliveries is the maximum number of deliveries of a canary.
const MaxCanaryDeliveries = 5

// MaxOpenRecoveries is the maximum number of jobs of an account that have not ended.
const MaxOpenRecoveries = 1_000

// ErrTooManyOpenRecoveries means that MaxOpenRecoveries jobs have not ended.
var ErrTooManyOpenRecoveries = errors.New("too many recovery jobs are open")

// Recovery is the header of a recovery job; its items are in the store. Its id is a time-ordered rec_….
type Recovery struct {
	entity.Meta
	Endpoint string `json:"endpoint"`
	// that of the endpoint when the job was created; kept if the endpoint is deleted
	Partition     int32         `json:"partition"`
	Destination   string        `json:"destination,omitempty"` // empty = all destinations of the endpoint
	Since         time.Time     `json:"since"`
	Until         time.Time     `json:"until"` // fixed when the job is created
	RatePerSecond int           `json:"rate_per_second"`
	State         RecoveryState `json:"state"`
	StopReason    string        `json:"stop_reason,omitempty"`
	StartedAt     time.Time     `json:"started_at,omitzero"` // start of the canary
	FinishedAt    time.Time     `json:"finished_at,omitzero"`
	Deadline      time.Time     `json:"deadline"`
	CreatedBy     string        `json:"created_by"`
	// ActedBy is the call with an Idempotency-Key that acted on the job last, so that its repeat does not.
	ActedBy string `json:"acted_by,omitempty"`

	// identifies the items in the store; set when the job becomes ready
	Selection    string                `json:"selection,omitempty"`
	Total        int                   `json:"total"`
	Sendable     int                   `json:"sendable"` // the other items are skipped
	Reserved     int                   `json:"reserved"` // items with a lower number may have been submitted
	Destinations []RecoveryDestination `json:"destinations,omitempty"`
	Canary       CanaryResult          `json:"canary,omitzero"`

	// Settled means that the job has ended and none of its deliveries is open. Delivered, Failed and Skipped are then
	// the results of the reserved items.
	Settled   bool `json:"settled,omitempty"`
	Delivered int  `json:"delivered,omitempty"`
	Failed    int  `json:"failed,omitempty"`
	Skipped   int  `json:"skipped,omitempty"`
}

// RecoveryDestination is the part of a job for one destination.
type RecoveryDestination struct {
	ID       string `json:"id"`
	Total    int    `json:"total"`
	Sendable int    `json:"sendable"`
	Failed   int    `json:"failed,omitempty"` // set together with Settled
	TopError string `json:"top_error,omitempty"`
}

// CanaryResult holds the size of a job's canary and, at its end, the results.
type CanaryResult struct {
	// From is the number of its first item. It is 0 unless those before it were skipped: a canary that sent nothing
	// shows nothing.
	From      int `json:"from,omitempty"`
	Total     int `json:"total"`
	Delivered int `json:"delivered"`
	Failed    int `json:"failed"`
}

// End returns the number of the first item after the canary.
func (c CanaryResult) End() int { return c.From + c.Total }

// Contains reports whether an item is one of the canary.
func (c CanaryResult) Contains(seq int) bool { return c.From <= seq && seq < c.End() }

func (*Recovery) EntityKind() entity.Kind { return entity.KindRecovery }

// IsPending: it is not settled.
func (j *Recovery) IsPending() bool { return !j.State.Ended() || !j.Settled }

func (j *Recovery) Validate() error {
	if !slices.Contains(RecoveryStates(), j.State) {
		return fmt.Errorf("state %.100q is unknown", j.State)
	}
	return errors.Join(require.Range("rate_per_second", j.RatePerSecond, 1, 100),
		require.Range("destinations", len(j.Destinations), 0, require.MaxDestinations))
}

// End sets a final state; a job that has ended stays as it is.
func (j *Recovery) End(state RecoveryState, reason string, at time.Time) {
	if !j.State.Ended() {
		j.State, j.StopReason, j.FinishedAt = state, reason, at.UTC()
		j.Settled = j.Reserved == 0
	}
}

// StartCanary starts the canary of a job that is ready. A job without anything to send is completed by it.
func (j *Recovery) StartCanary(at time.Time) {
	j.State, j.StartedAt = RecoveryCanaryRunning, at.UTC()
	j.Canary.Total = min(MaxCanaryDeliveries, j.Sendable)
	if j.Sendable == 0 {
		j.End(RecoveryCompleted, "", at)
	}
}

// NextCanary makes the items from a number on the canary and reserves them and those before, after all items of the
// present canary were skipped.
func (j *Recovery) NextCanary(from int) {
	j.Canary = CanaryResult{From: from, Total: min(MaxCanaryDeliveries, j.Sendable-from)}
	j.Reserved = j.Canary.End()
}

// Overlaps reports whether two jobs may send to the same destination.
func (j *Recovery) Overlaps(other *Recovery) bool {
	return j.Endpoint == other.Endpoint &&
		(j.Destination == "" || other.Destination == "" || j.Destination == other.Destination)
}

// Recovery returns the recovery job with that id; nil unless it is Present.
func (c Jobs) Recovery(id string) (*Recovery, entity.Presence) { return entity.Get[Recovery](c, id) }

// Recoveries returns a page of the recovery jobs of an account for which keep returns true; see List.
func (c Jobs) Recoveries(account string, beforeSeq int64, limit int, keep func(*Recovery) bool) ([]*Recovery, bool) {
	return entity.List(c, account, beforeSeq, limit, keep)
}

// AddRecovery creates a recovery job.
func (c Jobs) AddRecovery(ctx context.Context, j *Recovery) (*Recovery, error) {
	open := entity.ValuesOf(c.Core, c.View().Pending(entity.KindRecovery), func(x *Recovery) bool {
		return x.Account == j.Account && !x.State.Ended()
	})
	if len(open) >= MaxOpenRecoveries {
		return nil, ErrTooManyOpenRecoveries
	}
	return entity.Create(ctx, c, j)
}

// AwaitingApproval returns the number of recovery jobs that wait for approval.
func (c Jobs) AwaitingApproval(account string) int {
	return len(entity.ValuesOf(c.Core, c.View().Pending(entity.KindRecovery), func(j *Recovery) bool {
		return j.Account == account && j.State == RecoveryAwaitingApproval
	}))
}

// UpdateRecovery changes a recovery job; see Update.
func (c Jobs) UpdateRecovery(ctx context.Context, id string, change func(*Recovery) error) (*Recovery, error) {
	return entity.Update(ctx, c, id, change)
}

// ForgetRecovery removes a recovery job after RecoveryRetention.
func (c Jobs) ForgetRecovery(ctx context.Context, id string) error {
	return c.Forget(ctx, entity.KindRecovery, id)
}

// UnsettledRecoveries returns the recovery jobs with unfinished work, newest first, and the settled ones that were
// created before a time, oldest first: these can be removed.
func (c Jobs) UnsettledRecoveries(before time.Time) (unsettled, old []*Recovery) {
	v := c.View()
	unsettled = entity.ValuesOf[Recovery](c.Core, v.Pending(entity.KindRecovery), nil)
	for e := range v.OldestFirst(entity.KindRecovery) {
		j := c.Decoded(e).(*Recovery)
		if !j.CreatedAt.Before(before) { // the later ones are newer
			break
		}
		if !e.Pending {
			old = append(old, j)
		}
	}
	return unsettled, old
}

// RecoveriesChanged returns a channel that is closed when a recovery job is created or changed after the call.
func (c Jobs) RecoveriesChanged() <-chan struct{} { return c.Changed(entity.KindRecovery) }

// EndedRecoveries returns the recovery jobs that ended after since and were not cancelled by a request, newest first.
func (c Jobs) EndedRecoveries(since time.Time) []*Recovery {
	page, _ := entity.List(c, c.Account().ID, 0, entity.Unlimited, func(r *Recovery) bool {
		switch r.State {
		case RecoveryCompleted, RecoveryStopped, RecoveryExpired, RecoveryFailed:
			return r.FinishedAt.After(since)
		}
		return false
	})
	return page
}
