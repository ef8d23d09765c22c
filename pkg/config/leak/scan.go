package leak

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/conflog"
)

// Scan is one leak scan of a domain, with its report. The configuration has it while it runs too, so that another node
// goes on when its node ends.
type Scan struct {
	entity.Meta
	Domain   string `json:"domain"` // dom_…
	Hostname string `json:"hostname"`
	Trigger  string `json:"trigger"` // ScanManual or ScanWeekly
	Status   string `json:"status"`
	// Hash is set until the scan has ended: so a second one is refused meanwhile.
	Hash []byte `json:"hash,omitempty"`
	// Try counts how often it was begun. Only the node that has begun the newest try may change it. Another node may begin
	// it again after Until, and Node, after a restart, at once.
	Try   int       `json:"try,omitempty"`
	Node  string    `json:"node,omitempty"`
	Until time.Time `json:"until,omitzero"`

	Pages       int           `json:"pages"`
	Resources   int           `json:"resources"`
	Bytes       int64         `json:"bytes"`
	FindingsNew int           `json:"findings_new"`
	FindingsOld int           `json:"findings_seen"` // that were known before
	Skipped     []ScanSkipped `json:"skipped,omitempty"`
	SkippedMore int           `json:"skipped_more,omitempty"`
	ThirdParty  []string      `json:"third_party,omitempty"`
	CatchAll    bool          `json:"catch_all,omitempty"`
	Budget      string        `json:"budget,omitempty"` // the first that was exhausted
	Error       string        `json:"error,omitempty"`  // why the scan failed
	StartedAt   time.Time     `json:"started_at,omitzero"`
	FinishedAt  time.Time     `json:"finished_at,omitzero"`
	CreatedBy   string        `json:"created_by,omitempty"` // key_… or usr_…; empty: the service
}

// ScanSkipped is something that a scan has not looked at.
type ScanSkipped struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Triggers and statuses of scans.
const (
	ScanManual = "manual"
	ScanWeekly = "weekly"

	ScanQueued    = "queued"
	ScanRunning   = "running"
	ScanCompleted = "completed"
	ScanFailed    = "failed"
)

// Errors of scans that failed before anything was requested, or were given up.
const (
	ScanVerificationExpired = "verification_expired" // the proof of the domain is missing
	ScanInterrupted         = "interrupted"          // every node that began it has ended
)

const (
	// MaxScans is the number of scans that are kept.
	MaxScans = 100
	// MaxStoredScans is the number of scans that there may be until the oldest are removed.
	MaxStoredScans = MaxScans + 20
	// MaxScansPerDay bounds the scans that people start in 24 hours.
	MaxScansPerDay = 5
)

// Errors of scans.
var (
	// ErrScanRunning means that a scan has not ended yet.
	ErrScanRunning = errors.New("a scan is running")
	// ErrScanTaken means that another node has begun the scan, or that it has ended.
	ErrScanTaken = errors.New("another node has the scan")
)

func (*Scan) EntityKind() entity.Kind { return entity.KindScan }

func (s *Scan) Hashed() entity.HashedSecret { return entity.HashedSecret{Hash: &s.Hash} }

// Ended reports whether the scan has its report.
func (s *Scan) Ended() bool { return s.Status == ScanCompleted || s.Status == ScanFailed }

// Scan returns the scan with that id; nil unless it is Present.
func (c Findings) Scan(id string) (*Scan, entity.Presence) { return entity.Get[Scan](c, id) }

// Scans returns a page of the scans of an account and of domains, nil for all; see List.
func (c Findings) Scans(account string, domains []string, beforeSeq int64, limit int) ([]*Scan, bool) {
	return entity.List(c, account, beforeSeq, limit, func(s *Scan) bool {
		return len(domains) == 0 || slices.Contains(domains, s.Domain)
	})
}

// OpenScan returns the scan that has not ended; nil if there is none.
func (c Findings) OpenScan() *Scan {
	return entity.ByHash[Scan](c.Core, entity.HashOf(openScan))
}

// openScan is what Scan.Hash is the hash of.
const openScan = "open scan"

// CreateScan queues a scan. Of several at the same time one is created; the others get ErrScanRunning, or
// conflog.ErrConflict when the id exists.
func (c Findings) CreateScan(ctx context.Context, s *Scan) (*Scan, error) {
	filled := *s
	hash := entity.HashOf(openScan)
	filled.Status, filled.Hash = ScanQueued, hash[:]
	created, err := entity.Create(ctx, c, &filled)
	if _, presence := c.Scan(s.ID); errors.Is(err, conflog.ErrConflict) && presence == entity.Unknown {
		return nil, ErrScanRunning
	}
	return created, err
}

// BeginScan takes a scan over for a time, unless it has ended or another node has it. A node that has it begins it
// again: it has restarted.
func (c Findings) BeginScan(ctx context.Context, id, node string, lease time.Duration) (*Scan, error) {
	return entity.Update(ctx, c, id, func(s *Scan) error {
		now := c.Now().UTC()
		if s.Ended() || now.Before(s.Until) && s.Node != node {
			return ErrScanTaken
		}
		if s.StartedAt.IsZero() {
			s.StartedAt = now
		}
		s.Status, s.Node, s.Until = ScanRunning, node, now.Add(lease)
		s.Try++
		return nil
	})
}

// UpdateScan changes a scan that the caller has begun as that try, and keeps it for a time. It returns ErrScanTaken
// when another node has it, or it has ended.
func (c Findings) UpdateScan(ctx context.Context, id string, try int, lease time.Duration, change func(*Scan)) (
	*Scan, error) {
	return entity.Update(ctx, c, id, func(s *Scan) error {
		if s.Ended() || s.Try != try {
			return ErrScanTaken
		}
		now := c.Now().UTC()
		s.Until = now.Add(lease)
		change(s)
		if s.Ended() {
			s.Hash, s.Node, s.Until, s.FinishedAt = nil, "", time.Time{}, now
		}
		return nil
	})
}

// SweepScans removes the oldest scans beyond MaxScans.
func (c Findings) SweepScans(ctx context.Context) error {
	for oldest := range c.View().OldestFirst(entity.KindScan) {
		if c.View().Len(entity.KindScan) <= MaxScans || !c.Decoded(oldest).(*Scan).Ended() {
			return nil
		}
		if err := c.ForgetIfUnchanged(ctx, entity.KindScan, oldest.ID, oldest.Rev); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scan) Validate() error {
	return errors.Join(require.OneOf("status", s.Status, ScanQueued, ScanRunning, ScanCompleted, ScanFailed),
		require.OneOf("trigger", s.Trigger, ScanManual, ScanWeekly))
}
