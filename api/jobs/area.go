// Package jobs serves what sends stored events again: replays, their runs, and recovery jobs. A run or job is in the
// configuration log before the first delivery is queued, and deliveries go through the topic `commands`. Run ends runs
// whose node died.
package jobs

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Deps are what only this area asks.
type Deps struct {
	Runs      Runs
	Selection Selector
	Commands  Commander
	// Reverify checks the signature of a rejected event again.
	Reverify Reverifier
	Recovery RecoveryReader
}

// area is what all handlers of the area have.
type area struct {
	*frame.Core
	Deps
}

// Area serves replays, runs and recovery jobs.
type Area struct {
	replays    *replays
	runs       *runs
	recoveries *recoveries
	watch      runWatch
}

// New builds the area. A run without progress is interrupted after runTimeout.
func New(c *frame.Core, d Deps, runTimeout time.Duration) *Area {
	all := &area{c, d}
	return &Area{replays: &replays{area: all, planner: &planner{all}}, runs: &runs{all}, recoveries: &recoveries{all},
		watch: runWatch{all, runTimeout}}
}

// Routes returns the routes of the area.
func (a *Area) Routes() []frame.Route {
	event := func(r *http.Request, key *config.Key) error {
		_, err := a.replays.EventInPath(r, key)
		return err
	}
	return []frame.Route{
		// the id of its run derives from the claim, and the run is written first
		{Path: "/v1/events/{event}/replay", Methods: frame.Methods{"POST": a.replays.replayEvent},
			InPath: event, BodySelects: true, Resumable: true},
		{Path: "/v1/replays", Methods: frame.Methods{"GET": a.runs.listRuns, "POST": a.replays.replayEvents},
			BodySelects: true, Resumable: true},
		{Path: "/v1/replays/{run}", Methods: frame.Methods{"GET": a.runs.readRun, "POST": a.runs.actOnRun},
			InPath: frame.Finds(a.runs.inPath), BodySelects: true, Resumable: true},
		{Path: "/v1/recoveries", Methods: frame.Methods{"GET": a.recoveries.listRecoveries,
			"POST": a.recoveries.createRecovery}, BodySelects: true, Resumable: true},
		// an action that is in effect already changes nothing
		{Path: "/v1/recoveries/{recovery}", Methods: frame.Methods{"GET": a.recoveries.readRecovery,
			"POST": a.recoveries.actOnRecovery},
			InPath: frame.Finds(a.recoveries.recoveryInPath), BodySelects: true, Resumable: true},
		{Path: "/v1/recoveries/{recovery}/items", Methods: frame.Methods{"GET": a.recoveries.listRecoveryItems}},
	}
}

// Run marks replay runs as interrupted when their node died while it queued them. It returns when ctx ends.
func (a *Area) Run(ctx context.Context) error { return a.watch.run(ctx) }

// AddNeeds adds the jobs that wait for an approval to what needs a person.
func (a *Area) AddNeeds(_ context.Context, to *wire.OverviewNeeds, account string) {
	a.recoveries.addNeeds(to, account)
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
	// AddRun returns config.ErrConflict when the id exists, jobs.ErrEndpointBusy when another run is queueing for one of
	// the endpoints, and jobs.ErrTooManyRuns.
	AddRun(ctx context.Context, r *jobs.Run) (*jobs.Run, error)
	ChangeRun(ctx context.Context, id string, alter func(*jobs.Run) error) (*jobs.Run, error)
	// CancelRun returns when every node has applied the cancellation.
	CancelRun(ctx context.Context, id string) (*jobs.Run, error)
	ReplayRun(id string) (*jobs.Run, entity.Presence)
	ReplayRuns(account string, beforeSeq int64, limit int, keep func(*jobs.Run) bool) ([]*jobs.Run, bool)
	// QueueingRuns returns the runs of all accounts that were created at since or later and are queueing.
	QueueingRuns(since time.Time) []*jobs.Run
}

// RecoveryReader reads the items of recovery jobs from the store.
type RecoveryReader interface {
	RecoveryCounts(ctx context.Context, account string, jobs ...string) (map[string]event.RecoveryCounts, time.Time, error)
	RecoveryFailures(ctx context.Context, account, job string) (map[string]event.RecoveryFailures, error)
	RecoveryItems(ctx context.Context, job event.RecoveryJob, before, limit int, states []event.Status,
	) (event.RecoveryItemPage, error)
}

// Reverifier checks the signature of a rejected event again, with the current secrets and regardless of its age. An
// empty reason means that the signature is valid now; then signed is a hash of the signed content.
type Reverifier = func(ep *config.Endpoint, e *event.Event) (signed [sha256.Size]byte, reason event.Reason, err error)
