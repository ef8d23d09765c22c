package api

import (
	"net/http"
	"slices"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// runs serves replay runs.
type runs struct {
	*core
	runs      Runs
	selection Selector
}

func (a *runs) listRuns(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := newQuery(r, "replays "+key.Account)
	endpoints := q.list("endpoint_id", "endpoint")
	states := enumFilter(q, "state", config.RunQueueing, config.RunQueued, config.RunInterrupted, config.RunCancelled)
	p, err := a.configPage(r, q)
	if err != nil {
		return err
	}
	runs, more := a.runs.ReplayRuns(key.Account, p.before, p.limit, func(run *config.Run) bool {
		asked := func(endpoint string) bool { return slices.Contains(endpoints, endpoint) }
		return (len(states) == 0 || slices.Contains(states, run.ReportedState())) &&
			(len(endpoints) == 0 || slices.ContainsFunc(run.Endpoints, asked))
	})
	views, err := a.runViews(w, r, runs)
	if err != nil {
		return err
	}
	return writeConfigPage(w, p, runs, more, views)
}

// inPath returns the run that the path names, or the 404.
func (a *runs) inPath(r *http.Request, key *config.Key) (*config.Run, error) {
	run := find(r.Context(), a.core, a.runs.ReplayRun, web.InfoOf(r).Vars["run"])
	if run == nil || run.Account != key.Account {
		return nil, web.Missing("there is no such run, or it is older than 30 days")
	}
	return run, nil
}

func (a *runs) readRun(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	a.catchUp(r.Context())
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
	body, err := a.body(r)
	if err != nil {
		return err
	}
	in := &input{}
	o := in.newObject("", body)
	var action string
	o.enum("action", &action, actionCancel)
	o.refuseUnknown()
	if action == "" {
		o.fail("action", "is required: cancel")
	}
	if in.err != nil {
		return in.err
	}
	if run, err = a.runs.CancelRun(r.Context(), run.ID); err != nil {
		return err
	}
	return a.answerRun(w, r, run)
}

// answerRun sends a run with the outcomes of its deliveries.
func (a *runs) answerRun(w http.ResponseWriter, r *http.Request, run *config.Run) error {
	views, err := a.runViews(w, r, []*config.Run{run})
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, views[0])
	return nil
}

// runViews renders runs with the outcomes of their deliveries.
func (a *runs) runViews(w http.ResponseWriter, r *http.Request, runs []*config.Run) ([]*wire.ReplayRun, error) {
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
	setAsOf(w, asOf)
	for i, run := range runs {
		n := counts[run.ID]
		state := run.ReportedState()
		views[i] = &wire.ReplayRun{
			RunID: run.ID, Object: "replay_run", Filter: run.Filter, Since: web.Time(run.Since), Until: web.Time(run.Until),
			State: state, Ended: state != config.RunQueueing && n.Delivered+n.Failed+n.Skipped >= run.Queued,
			Events: run.Events, Queued: run.Queued, Delivered: n.Delivered, Failed: n.Failed, Skipped: n.Skipped,
			CreatedAt: web.Time(run.CreatedAt), CreatedBy: orNull(run.CreatedBy),
		}
	}
	return views, nil
}
