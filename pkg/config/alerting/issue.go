package alerting

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/require"
	"github.com/eventrelay/relay/pkg/conflog"
)

// Issue is what failed at one destination for one cause. It is removed when nothing has failed for IssueLife.
type Issue struct {
	entity.Meta
	Endpoint    string    `json:"endpoint"`
	Destination string    `json:"destination"`
	Cause       string    `json:"cause"` // http_503, an error code, or the reason of a delivery that made no request
	FirstAt     time.Time `json:"first_at"`
	LastAt      time.Time `json:"last_at"`
	OldestAt    time.Time `json:"oldest_at,omitzero"` // when the oldest event that failed was received; zero: not known
	Count       int       `json:"count"`              // requests, and deliveries that failed without one
	Events      []string  `json:"events,omitempty"`   // the newest ones, newest first
	Status      string    `json:"status"`
	WorksAt     time.Time `json:"works_at,omitzero"`  // when a request succeeded after LastAt; zero: none has
	Reopened    int       `json:"reopened,omitempty"` // how often
	ResolvedAt  time.Time `json:"resolved_at,omitzero"`
	Assignee    string    `json:"assignee,omitempty"`
	Note        string    `json:"note,omitempty"`
	// Outcomes of the partition before the position are counted.
	Partition int32 `json:"partition,omitempty"`
	Position  int64 `json:"position,omitempty"`
}

// Statuses of an issue.
const (
	IssueOpen         = "open"
	IssueAcknowledged = "acknowledged"
	IssueResolved     = "resolved"
)

// Bounds of issues.
const (
	MaxIssues      = 2000
	MaxIssueEvents = 10
	MaxAssignee    = 100 // characters
	MaxIssueNote   = 2000
	IssueLife      = 30 * 24 * time.Hour
)

// ErrTooManyIssues means that MaxIssues is reached.
var ErrTooManyIssues = entity.TooMany(MaxIssues, "issues")

func (*Issue) EntityKind() entity.Kind { return entity.KindIssue }

func (x *Issue) EndsAt(*entity.Core) time.Time { return x.LastAt.Add(IssueLife) }

// Since returns when the oldest event that failed was received; an hour before the first failure if that is not known.
func (x *Issue) Since() time.Time {
	if x.OldestAt.IsZero() {
		return x.FirstAt.Add(-time.Hour)
	}
	return x.OldestAt
}

// Restricts: no node acts on an issue.
func (x *Issue) Restricts(entity.Value) bool { return false }

// Validate validates an issue of an import.
func (x *Issue) Validate() error {
	return errors.Join(require.OneOf("status", x.Status, IssueOpen, IssueAcknowledged, IssueResolved),
		require.Range("count", x.Count, 0, 1<<53), require.Range("events", len(x.Events), 0, MaxIssueEvents),
		require.Text("assignee", x.Assignee, 0, MaxAssignee), require.Text("note", x.Note, 0, MaxIssueNote))
}

// Add adds failures, events newest first; oldest is when the oldest of all these events was received. An issue that was
// resolved before the last of them opens again.
func (x *Issue) Add(count int, first, last, oldest time.Time, events []string) {
	if x.OldestAt.IsZero() || oldest.Before(x.OldestAt) {
		x.OldestAt = oldest
	}
	switch {
	case x.Status == "":
		x.Status, x.FirstAt = IssueOpen, first
	case x.Status == IssueResolved && last.After(x.ResolvedAt):
		x.Status, x.ResolvedAt = IssueOpen, time.Time{}
		x.Reopened++
	}
	x.Count += count
	if last.After(x.LastAt) {
		x.LastAt = last
	}
	if !x.WorksAt.After(x.LastAt) {
		x.WorksAt = time.Time{}
	}
	for _, e := range x.Events {
		if !slices.Contains(events, e) && len(events) < MaxIssueEvents {
			events = append(events, e)
		}
	}
	x.Events = events
}

// SetStatus changes the status.
func (x *Issue) SetStatus(status string, now time.Time) {
	if x.Status != status {
		x.Status, x.ResolvedAt = status, time.Time{}
	}
	if status == IssueResolved && x.ResolvedAt.IsZero() {
		x.ResolvedAt = now
	}
}

// Issue returns the issue with an id, or nil.
func (c Store) Issue(id string) *Issue {
	x, _ := entity.Get[Issue](c, id)
	return x
}

// Issues returns the issues for which keep returns true.
func (c Store) Issues(keep func(*Issue) bool) []*Issue {
	all, _ := entity.List(c, c.Account().ID, 0, entity.Unlimited, keep)
	return all
}

// ChangeIssue changes or creates an issue; alter may be called several times. It does not wait for other nodes. If
// there is no room, the oldest resolved issue goes.
func (c Store) ChangeIssue(ctx context.Context, id string, alter func(*Issue) error) error {
	for {
		_, _, err := entity.UpdateOrCreate(ctx, c.Core, func() *Issue {
			return &Issue{Meta: entity.Meta{ID: id, Account: c.Account().ID, CreatedAt: c.Clock().UTC()}}
		}, alter)
		if !errors.Is(err, ErrTooManyIssues) {
			return err
		}
		resolved := c.Issues(func(x *Issue) bool { return x.Status == IssueResolved })
		if len(resolved) == 0 {
			return err
		}
		oldest := slices.MinFunc(resolved, func(a, b *Issue) int { return a.LastAt.Compare(b.LastAt) })
		_, err = c.Delete(ctx, entity.KindIssue, oldest.ID, oldest.Rev) // unless it has opened again
		if err != nil && !errors.Is(err, conflog.ErrConflict) && !errors.Is(err, conflog.ErrNotFound) {
			return err
		}
	}
}
