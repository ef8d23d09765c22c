package jobs

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// runs serves replay runs.
type runs struct {
	*area
}

func (a *runs) listRuns(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := frame.NewQuery(r, "replays "+frame.ScopeOf(key))
	endpoints, ofTenant := q.List("endpoint_id", "endpoint"), a.TenantFilter(q, key)
	states := frame.EnumFilter(q, "state", jobs.RunQueueing, jobs.RunQueued, jobs.RunInterrupted,
		jobs.RunCancelled)
	p, err := a.ConfigPage(r, q)
	if err != nil {
		return err
	}
	runs, more := a.Runs.ReplayRuns(key.Account, p.Before, p.Limit, func(run *jobs.Run) bool {
		asked := func(endpoint string) bool { return slices.Contains(endpoints, endpoint) }
		return a.sees(key, run) && (ofTenant("") || slices.ContainsFunc(run.Endpoints, ofTenant)) &&
			(len(states) == 0 || slices.Contains(states, run.ReportedState())) &&
			(len(endpoints) == 0 || slices.ContainsFunc(run.Endpoints, asked))
	})
	views, err := a.runViews(w, r, runs)
	if err != nil {
		return err
	}
	return frame.WriteConfigPage(w, p, runs, more, views)
}

// sees reports whether a key sees a run: that of a tenant those that replay events of its endpoints alone.
func (a *runs) sees(key *config.Key, run *jobs.Run) bool {
	foreign := func(name string) bool {
		e, presence := a.Config.Endpoint(name)
		return presence != entity.Present || !frame.Owns(key, e)
	}
	return run.Account == key.Account &&
		(key.Tenant == "" || len(run.Endpoints) > 0 && !slices.ContainsFunc(run.Endpoints, foreign))
}

// inPath returns the run that the path names, or the 404.
func (a *runs) inPath(r *http.Request, key *config.Key) (*jobs.Run, error) {
	run, err := frame.Find(r.Context(), a.Core, a.Runs.ReplayRun, web.InfoOf(r).Vars["run"])
	if err != nil {
		return nil, err
	}
	if run == nil || !a.sees(key, run) {
		return nil, web.Missing("there is no such run, or it is older than 30 days")
	}
	return run, nil
}

func (a *runs) readRun(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.CatchUp(r.Context())
	run, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	return a.answerRun(w, r, run)
}

// actOnRun cancels a run. Deliveries that were not sent end as skipped; those that are being sent go on. Without the
// store the cancellation is made, and the answer is 503 since it cannot count.
func (a *runs) actOnRun(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	run, err := a.inPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := &frame.Input{}
	o := in.NewObject("", body)
	var action string
	o.Enum("action", &action, actionCancel)
	o.RefuseUnknown()
	if action == "" {
		o.Fail("action", "is required: cancel")
	}
	if in.Err != nil {
		return in.Err
	}
	if run, err = a.Runs.CancelRun(r.Context(), run.ID); err != nil {
		return err
	}
	return a.answerRun(w, r, run)
}

// answerRun sends a run with the outcomes of its deliveries.
func (a *runs) answerRun(w http.ResponseWriter, r *http.Request, run *jobs.Run) error {
	views, err := a.runViews(w, r, []*jobs.Run{run})
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, views[0])
}

// runViews renders runs with the outcomes of their deliveries.
func (a *runs) runViews(w http.ResponseWriter, r *http.Request, runs []*jobs.Run) ([]*wire.ReplayRun, error) {
	views := make([]*wire.ReplayRun, len(runs))
	if len(runs) == 0 {
		return views, nil
	}
	names := make([]string, len(runs))
	for i, run := range runs {
		names[i] = run.ID
	}
	counts, asOf, err := a.Selection.RecoveryCounts(r.Context(), runs[0].Account, names...)
	if err != nil {
		return nil, err
	}
	frame.SetAsOf(w, asOf)
	for i, run := range runs {
		n := counts[run.ID]
		state := run.ReportedState()
		views[i] = &wire.ReplayRun{
			RunID: run.ID, Object: "replay_run", Filter: run.Filter, Since: web.Time(run.Since), Until: web.Time(run.Until),
			State: state, Ended: state != jobs.RunQueueing && n.Delivered+n.Failed+n.Skipped >= run.Queued,
			Events: run.Events, Queued: run.Queued, Delivered: n.Delivered, Failed: n.Failed, Skipped: n.Skipped,
			CreatedAt: web.Time(run.CreatedAt), CreatedBy: frame.OrNull(run.CreatedBy),
		}
	}
	return views, nil
}

const (
	// watchInterval is the pause between two checks of the queueing runs.
	watchInterval = 5 * time.Second
	// countTimeout bounds the count of the deliveries that a dead run has queued.
	countTimeout = time.Minute
	// commandClockSkew is how much earlier than a run's last progress record the commands of its next page may be
	// dated, because the clocks of node and broker differ.
	commandClockSkew = time.Minute
)

// runWatch interrupts the runs that make no progress.
type runWatch struct {
	*area
	timeout time.Duration // of a run that makes no progress
}

// observed is what a check has seen of the queueing runs.
type observed struct {
	since time.Time // no run created before it is still queueing
	runs  map[string]observedRun
}

// observedRun is the newest revision of a run that this node has seen.
type observedRun struct {
	rev int64
	at  time.Time // when this revision was first seen, by the monotonic clock
}

// run interrupts replay runs whose node died while it queued them, until ctx ends. Every node that serves the API
// watches, and uses only its own clock: a run without progress for its timeout is dead. The commands of its
// last page are counted in the log. A conditional record ends the run, so it does not matter which node writes it.
func (w *runWatch) run(ctx context.Context) error {
	var last observed
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		last = w.checkRuns(ctx, last)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// checkRuns compares the queueing runs with those of the last check and interrupts the silent ones.
func (w *runWatch) checkRuns(ctx context.Context, last observed) observed {
	now := time.Now()
	next := observed{w.Now().Add(-jobs.MaxRunDuration), map[string]observedRun{}}
	for _, run := range w.Runs.QueueingRuns(last.since) {
		s, known := last.runs[run.ID]
		if !known || s.rev != run.Rev {
			s = observedRun{run.Rev, now}
		}
		next.runs[run.ID] = s
		if run.CreatedAt.Before(next.since) {
			next.since = run.CreatedAt
		}
		if now.Sub(s.at) < w.timeout {
			continue
		}
		if err := w.interruptRun(ctx, run); err != nil && ctx.Err() == nil {
			w.Log.LogAttrs(ctx, slog.LevelWarn, "cannot interrupt a replay run without progress", slog.String("run", run.ID),
				slog.Any("error", err))
		}
	}
	return next
}

// errRunChanged abandons a change because the run has made progress.
var errRunChanged = errors.New("the run has changed")

// interruptRun ends a run with the exact number of queued deliveries: those it recorded, and those of its last page
// that are in the log.
func (w *runWatch) interruptRun(ctx context.Context, run *jobs.Run) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	reached, err := id.Parse(id.Event, run.LastQueuedEvent)
	if err != nil {
		reached = id.ID{} // no page was recorded yet
	}
	counted, err := w.Selection.CountCommands(ctx, run.ID, run.UpdatedAt.Add(-commandClockSkew), reached)
	if err != nil {
		return err
	}
	_, err = w.Runs.ChangeRun(ctx, run.ID, func(r *jobs.Run) error {
		if r.Rev != run.Rev {
			return errRunChanged
		}
		r.Queued += counted
		r.Finish(jobs.RunInterrupted)
		return nil
	})
	if errors.Is(err, errRunChanged) || errors.Is(err, config.ErrNotFound) {
		return nil
	}
	if err == nil {
		w.Log.LogAttrs(ctx, slog.LevelWarn, "interrupted a replay run whose node made no progress",
			slog.String("run", run.ID),
			slog.Int("queued", run.Queued+counted))
	}
	return err
}
