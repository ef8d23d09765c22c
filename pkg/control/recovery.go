package control

import "time"

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

// Recovery is the header of a recovery job: its items are in the store. Its id is a time-ordered rec_….
type Recovery struct {
	Meta
	Endpoint      string        `json:"endpoint"`
	Destination   string        `json:"destination,omitempty"` // empty = all of the endpoint
	Since         time.Time     `json:"since"`
	Until         time.Time     `json:"until"` // fixed when preparation starts
	RatePerSecond int           `json:"rate_per_second"`
	State         RecoveryState `json:"state"`
	StopReason    string        `json:"stop_reason,omitempty"`
	Total         int           `json:"total"`
	Reserved      int           `json:"reserved"` // items below this number may have been submitted
	StartedAt     time.Time     `json:"started_at"`
	FinishedAt    time.Time     `json:"finished_at"`
	Deadline      time.Time     `json:"deadline"`
	CreatedBy     string        `json:"created_by"`
}
