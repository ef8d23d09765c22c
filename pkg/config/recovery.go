package config

import (
	"context"
	"errors"
	"time"

	"github.com/eventrelay/relay/pkg/event"
)

// recoveries reads and changes the recovery jobs.
type recoveries struct{ *core }

// RecoveryState is where a recovery job stands.
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
	RecoveryFailed           RecoveryState = "failed" // it could not be prepared
)

// RecoveryStates are all of them, in the order of a job's life.
func RecoveryStates() []RecoveryState {
	return []RecoveryState{
		RecoveryPreparing, RecoveryReady, RecoveryCanaryRunning, RecoveryAwaitingApproval, RecoveryRunning,
		RecoveryCompleted, RecoveryStopped, RecoveryCancelled, RecoveryExpired, RecoveryFailed,
	}
}

// Ended reports whether the job goes on to no other state. Deliveries that were submitted may still end.
func (s RecoveryState) Ended() bool {
	switch s {
	case RecoveryCompleted, RecoveryStopped, RecoveryCancelled, RecoveryExpired, RecoveryFailed:
		return true
	}
	return false
}

// Sends reports whether deliveries are being submitted.
func (s RecoveryState) Sending() bool { return s == RecoveryCanaryRunning || s == RecoveryRunning }

// Unsent is why the items that were not submitted never will be; empty while they may.
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

// Why a recovery job ended before its time.
const (
	StopDeliveryFailed         = "delivery_failed"
	StopDestinationUnavailable = "destination_unavailable"
	StopDeadline               = "deadline"
	StopCancelled              = "cancelled"
)

// Times of a recovery job.
const (
	// MaxRecoveryDuration is how long a job goes on: preparation, pauses and approval waits included.
	MaxRecoveryDuration = 24 * time.Hour
	// RecoveryRetention is how long a job can be read.
	RecoveryRetention = 30 * 24 * time.Hour
)

// MaxCanaryDeliveries is how many deliveries a canary tests at most.
const MaxCanaryDeliveries = 5

// maxOpenRecoveries bounds the jobs of an account that have not ended.
const maxOpenRecoveries = 1_000

// ErrTooManyOpenRecoveries means that so many jobs have not ended that no other one is made.
var ErrTooManyOpenRecoveries = errors.New("too many recovery jobs have not ended")

// Recovery is the header of a recovery job: its items are in the store. Its id is a time-ordered rec_….
type Recovery struct {
	Meta
	Endpoint string `json:"endpoint"`
	// of the endpoint when the job was made; that of a deleted one stays
	Partition     int32         `json:"partition"`
	Destination   string        `json:"destination,omitempty"` // empty = all of the endpoint
	Since         time.Time     `json:"since"`
	Until         time.Time     `json:"until"` // fixed when the job is made
	RatePerSecond int           `json:"rate_per_second"`
	State         RecoveryState `json:"state"`
	StopReason    string        `json:"stop_reason,omitempty"`
	StartedAt     time.Time     `json:"started_at,omitzero"` // of the canary
	FinishedAt    time.Time     `json:"finished_at,omitzero"`
	Deadline      time.Time     `json:"deadline"`
	CreatedBy     string        `json:"created_by"`

	Selection    string                `json:"selection,omitempty"` // names the items in the store; set with ready
	Total        int                   `json:"total"`
	Sendable     int                   `json:"sendable"` // the others are skipped from the beginning
	Reserved     int                   `json:"reserved"` // items below this number may have been submitted
	Destinations []RecoveryDestination `json:"destinations,omitempty"`
	Canary       CanaryResult          `json:"canary,omitzero"`

	// Settled says that the job has ended and nothing of it is queued: Delivered, Failed and Skipped are what became of
	// the items that were reserved.
	Settled   bool `json:"settled,omitempty"`
	Delivered int  `json:"delivered,omitempty"`
	Failed    int  `json:"failed,omitempty"`
	Skipped   int  `json:"skipped,omitempty"`
}

// RecoveryDestination is the share of one destination in a job.
type RecoveryDestination struct {
	ID       string `json:"id"`
	Total    int    `json:"total"`
	Sendable int    `json:"sendable"`
	Failed   int    `json:"failed,omitempty"` // with Settled
	TopError string `json:"top_error,omitempty"`
}

// CanaryResult is how the canary of a job went. The results are those at its end.
type CanaryResult struct {
	Total     int `json:"total"`
	Delivered int `json:"delivered"`
	Failed    int `json:"failed"`
}

// isPending reports whether something is still to be done for a value: of recovery jobs, which are asked for so often
// that those which are not settled have an index.
func isPending(v value) bool {
	j, ok := v.(*Recovery)
	return ok && (!j.State.Ended() || !j.Settled)
}

// End brings the job to an end; one that has ended stays as it is.
func (j *Recovery) End(state RecoveryState, reason string, at time.Time) {
	if !j.State.Ended() {
		j.State, j.StopReason, j.FinishedAt = state, reason, at.UTC()
		j.Settled = j.Reserved == 0
	}
}

// StartCanary starts the test of a job that is ready. One without anything to send is completed by it.
func (j *Recovery) StartCanary(at time.Time) {
	j.State, j.StartedAt = RecoveryCanaryRunning, at.UTC()
	j.Canary.Total = min(MaxCanaryDeliveries, j.Sendable)
	if j.Sendable == 0 {
		j.End(RecoveryCompleted, "", at)
	}
}

// Overlaps reports whether two jobs may send to the same destination.
func (j *Recovery) Overlaps(other *Recovery) bool {
	return j.Endpoint == other.Endpoint &&
		(j.Destination == "" || other.Destination == "" || j.Destination == other.Destination)
}

// Recovery returns the recovery job with that id; nil unless it is Present.
func (c recoveries) Recovery(id string) (*Recovery, Presence) {
	return findEntity[*Recovery](c.core, kindRecovery, id)
}

// Recoveries returns at most limit recovery jobs of an account that keep agrees to and that were created before the
// one with beforeSeq (0 = from the newest), the newest first, and whether there are more.
func (c recoveries) Recoveries(account string, beforeSeq int64, limit int, keep func(*Recovery) bool) (
	[]*Recovery, bool) {
	return listEntities(c.core, kindRecovery, account, beforeSeq, limit, keep)
}

// AddRecovery writes a new recovery job.
func (c recoveries) AddRecovery(ctx context.Context, j *Recovery) (*Recovery, error) {
	open := 0
	for e := range c.View().Pending(kindRecovery) {
		if x := c.value(e).(*Recovery); x.Account == j.Account && !x.State.Ended() {
			open++
		}
	}
	if open >= maxOpenRecoveries {
		return nil, ErrTooManyOpenRecoveries
	}
	return addEntity(ctx, c.core, kindRecovery, j)
}

// UpdateRecovery changes a recovery job as change does to a copy of it; see update.
func (c recoveries) UpdateRecovery(ctx context.Context, id string, change func(*Recovery) error) (*Recovery, error) {
	return updateEntity(ctx, c.core, kindRecovery, id, change)
}

// ForgetRecovery removes a recovery job whose history is over.
func (c recoveries) ForgetRecovery(ctx context.Context, id string) error {
	return c.Forget(ctx, kindRecovery, id)
}

// UnsettledRecoveries returns the recovery jobs that something is still to be done for, and those that are to be
// forgotten because they were made before.
func (c recoveries) UnsettledRecoveries(before time.Time) (unsettled, old []*Recovery) {
	v := c.View()
	for e := range v.Pending(kindRecovery) {
		unsettled = append(unsettled, c.value(e).(*Recovery))
	}
	for e := range v.OldestFirst(kindRecovery) {
		j := c.value(e).(*Recovery)
		if !j.CreatedAt.Before(before) { // nor are those that were made after it
			break
		}
		if !e.Pending {
			old = append(old, j)
		}
	}
	return unsettled, old
}

// RecoveriesChanged returns a channel that is closed when a recovery job is made or changed after the call.
func (c recoveries) RecoveriesChanged() <-chan struct{} { return c.Changed(kindRecovery) }
