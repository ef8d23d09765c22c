package api

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/web"
)

// runView is a replay run as it is shown.
type runView struct {
	RunID     string           `json:"run_id"`
	Object    string           `json:"object"`
	Filter    json.RawMessage  `json:"filter"`
	Since     web.Time         `json:"since"`
	Until     web.Time         `json:"until"`
	State     control.RunState `json:"state"`
	Events    int              `json:"events"`
	Queued    int              `json:"queued"`
	Delivered int              `json:"delivered"`
	Failed    int              `json:"failed"`
	Skipped   int              `json:"skipped"`
	CreatedAt web.Time         `json:"created_at"`
}

func (a *API) listRuns(w http.ResponseWriter, r *http.Request, key *control.Key) error {
	values, err := parseQuery(r)
	if err != nil {
		return err
	}
	q := &query{values: values, hash: newFilterHash("replays " + key.Account)}
	if err := unknownRunFilter(values); err != nil {
		return err
	}
	endpoints := q.list("endpoint_id", "endpoint")
	states := words(q, "state", q.list("state"), control.RunQueueing, control.RunQueued, control.RunInterrupted)
	if q.err != nil {
		return q.err
	}
	limit, last, err := pageOf(values, q.hash)
	if err != nil {
		return err
	}
	var before int64
	if last != nil {
		before = int64(binary.BigEndian.Uint64(last[8:]))
	}
	runs, more := a.deps.Runs.ReplayRuns(key.Account, before, limit, func(run *control.Run) bool {
		return (len(states) == 0 || slices.Contains(states, run.State)) &&
			(len(endpoints) == 0 || slices.ContainsFunc(run.Endpoints, func(e string) bool { return slices.Contains(endpoints, e) }))
	})
	out := list[*runView]{}
	if out.Data, err = a.runViews(w, r, runs); err != nil {
		return err
	}
	if more {
		var k [keyLen]byte
		binary.BigEndian.PutUint64(k[8:], uint64(runs[len(runs)-1].Seq))
		out.NextCursor = q.hash.cursor(k)
	}
	web.WriteJSON(w, http.StatusOK, out)
	return nil
}

func unknownRunFilter(values url.Values) error {
	known := []string{"endpoint_id", "state", "limit", "cursor"}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		base, array := strings.CutSuffix(name, "[]")
		if !slices.Contains(known, base) && base != "endpoint" || array && (base == "limit" || base == "cursor") {
			return web.Invalid(name, "is no filter of this list%s; the filters are %s", didYouMean(base, known), strings.Join(known, ", "))
		}
	}
	return nil
}

func (a *API) readRun(w http.ResponseWriter, r *http.Request, key *control.Key) error {
	name := web.InfoOf(r).Vars["run"]
	run, presence := a.deps.Runs.ReplayRun(name)
	if presence != control.Present || run.Account != key.Account {
		return web.Missing("there is no such run, or it is older than 30 days")
	}
	views, err := a.runViews(w, r, []*control.Run{run})
	if err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, views[0])
	return nil
}

// runViews shows runs with what became of their deliveries.
func (a *API) runViews(w http.ResponseWriter, r *http.Request, runs []*control.Run) ([]*runView, error) {
	views := make([]*runView, len(runs))
	if len(runs) == 0 {
		return views, nil
	}
	names := make([]string, len(runs))
	for i, run := range runs {
		names[i] = run.ID
	}
	counts, asOf, err := a.deps.Selection.RecoveryCounts(r.Context(), runs[0].Account, names...)
	if err != nil {
		return nil, err
	}
	setAsOf(w, asOf)
	for i, run := range runs {
		n := counts[run.ID]
		views[i] = &runView{
			RunID: run.ID, Object: "replay_run", Filter: run.Filter, Since: web.Time(run.Since), Until: web.Time(run.Until), State: run.State,
			Events: run.Events, Queued: run.Queued, Delivered: n.Delivered, Failed: n.Failed, Skipped: n.Skipped, CreatedAt: web.Time(run.CreatedAt),
		}
	}
	return views, nil
}
