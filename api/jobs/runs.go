package jobs

import (
	"net/http"
	"slices"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/web"
)

// runs serves replay runs.
type runs struct {
	*frame.Core
	runs      Runs
	selection Selector
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
	runs, more := a.runs.ReplayRuns(key.Account, p.Before, p.Limit, func(run *jobs.Run) bool {
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
		e, presence := a.ConfigReader.Endpoint(name)
		return presence != entity.Present || !frame.Owns(key, e)
	}
	return run.Account == key.Account &&
		(key.Tenant == "" || len(run.Endpoints) > 0 && !slices.ContainsFunc(run.Endpoints, foreign))
}

// inPath returns the run that the path names, or the 404.
func (a *runs) inPath(r *http.Request, key *config.Key) (*jobs.Run, error) {
	run := frame.Find(r.Context(), a.Core, a.runs.ReplayRun, web.InfoOf(r).Vars["run"])
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
	if run, err = a.runs.CancelRun(r.Context(), run.ID); err != nil {
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
	web.WriteJSON(w, http.StatusOK, views[0])
	return nil
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
	counts, asOf, err := a.selection.RecoveryCounts(r.Context(), runs[0].Account, names...)
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
