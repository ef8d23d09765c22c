package api

import (
	"context"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Replays are the dependencies of replays and of the Idempotency-Key.
type Replays struct {
	Selection Selector
	Runs      Runs
	Answers   frame.Answers
}

// Commander writes delivery commands to the partitions of their events. It returns when all are durable or ctx ends,
// with the number that was acknowledged by then. stream.ErrBufferFull means that the others were not written; after
// any other error they may still become durable.
type Commander interface {
	Commands(ctx context.Context, works []*event.Work) (acknowledged int, err error)
}

// Selector reads from the store and the log what a replay selects and sends. It changes nothing.
type Selector interface {
	// Select passes every event that matches a query to page, newest first. It returns event.ErrUnavailable if the
	// store does not hold everything that was acknowledged before the call.
	Select(ctx context.Context, q event.Query, page func([]event.Match) error) error
	// Stored returns complete events in the order of the ids, without those that are erased or no longer stored.
	Stored(ctx context.Context, account string, ids []id.ID) ([]event.Stored, error)
	// RecoveryCounts returns the numbers of ended deliveries by run, for runs that have any, and the time up to which
	// they are complete.
	RecoveryCounts(ctx context.Context, account string, runs ...string) (map[string]event.RecoveryCounts, time.Time, error)
	// CountCommands counts the deliveries of a run whose commands are in the log since a time, of events with an id
	// above newer.
	CountCommands(ctx context.Context, run string, since time.Time, newer id.ID) (int, error)
}

// Runs stores replay runs in the configuration log.
type Runs interface {
	// AddRun returns config.ErrConflict when the id exists, and config.ErrEndpointBusy when another run is queueing for
	// one of the endpoints.
	AddRun(ctx context.Context, r *config.Run) (*config.Run, error)
	ChangeRun(ctx context.Context, id string, alter func(*config.Run) error) (*config.Run, error)
	// CancelRun returns when every node has applied the cancellation.
	CancelRun(ctx context.Context, id string) (*config.Run, error)
	ReplayRun(id string) (*config.Run, config.Presence)
	ReplayRuns(account string, beforeSeq int64, limit int, keep func(*config.Run) bool) ([]*config.Run, bool)
	// QueueingRuns returns the runs of all accounts that were created at since or later and are queueing.
	QueueingRuns(since time.Time) []*config.Run
}
