package leaks

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// maxFindingUpdates is the maximum number of findings that one call updates. Each is a record of the configuration
	// log, with an entry in the audit log.
	maxFindingUpdates = 100
	// parallelFindingUpdates is how many of them are written at the same time.
	parallelFindingUpdates = 8
)

// findingsUpdate is the body of POST /v1/findings/update: the findings, by their ids or by drain and rule, and what
// changes.
type findingsUpdate struct {
	ids         []string
	drain, rule string
	change      leak.FindingUpdate
}

// updateFindings changes the status of many findings. Sent again, it changes nothing more.
func (a *findings) updateFindings(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := &frame.Input{}
	u := a.readFindingsUpdate(in, body)
	if in.Err != nil {
		return in.Err
	}
	out := wire.FindingsUpdated{Object: "findings_update", Failed: []wire.FailedFinding{}}
	a.CatchUp(r.Context())
	if u.ids == nil {
		u.ids, out.More = a.selectFindings(u)
	}
	results := make([]error, len(u.ids))
	group, ctx := errgroup.WithContext(r.Context())
	group.SetLimit(parallelFindingUpdates)
	for i, name := range u.ids {
		group.Go(func() error {
			results[i] = a.updateOne(ctx, key, name, u.change)
			_, refused := errors.AsType[*web.Error](results[i])
			if refused || errors.Is(results[i], errFindingUnchanged) {
				return nil
			}
			return results[i]
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, err := range results {
		refused, ok := errors.AsType[*web.Error](err)
		switch {
		case err == nil:
			out.Updated++
		case !ok:
			out.Unchanged++
		default:
			out.Failed = append(out.Failed, wire.FailedFinding{ID: u.ids[i], Type: refused.Type, Message: refused.Message})
		}
	}
	web.WriteJSON(w, http.StatusOK, out)
	return nil
}

// errFindingUnchanged means that a finding was before as it should become.
var errFindingUnchanged = errors.New("the finding is not changed")

// updateOne changes one finding. It returns errFindingUnchanged, or a *web.Error if this finding cannot be changed.
func (a *findings) updateOne(ctx context.Context, key *config.Key, name string, change leak.FindingUpdate) error {
	before, presence := a.states.Finding(name)
	if presence != entity.Present || before.Account != key.Account {
		return errNoFinding()
	}
	after, err := a.states.UpdateFinding(ctx, name, change)
	switch {
	case errors.Is(err, config.ErrNotFound):
		return errNoFinding()
	case err == nil && after.Version == before.Version:
		return errFindingUnchanged
	}
	return updateError(err)
}

// selectFindings returns the findings of a drain and rule that can get the status, newest first, and whether there are
// more. Those of our own API keys are updated by their ids only: whoever makes up keys must not hide them.
func (a *findings) selectFindings(u *findingsUpdate) (ids []string, more bool) {
	filter := leak.FindingFilter{Sender: u.drain, Rule: u.rule}
	for _, s := range finding.Statuses {
		if s.MayBecome(*u.change.Status) {
			filter.Statuses = append(filter.Statuses, s)
		}
	}
	for _, name := range a.states.FindingIDs(filter) {
		if f, presence := a.states.Finding(name); presence != entity.Present || f.KeyID != "" {
			continue
		}
		if len(ids) == maxFindingUpdates {
			return ids, true
		}
		ids = append(ids, name)
	}
	return ids, false
}

// readFindingsUpdate reads the body of an update of many findings.
func (a *findings) readFindingsUpdate(in *frame.Input, body []byte) *findingsUpdate {
	o := in.NewObject("", body)
	u := &findingsUpdate{change: a.readChange(o)}
	for _, raw := range o.Array("ids", maxFindingUpdates) {
		var name string
		if err := json.Unmarshal(raw, &name); err != nil || !finding.Valid(name) {
			o.Fail("ids", "must be ids of findings, fnd_…")
			break
		}
		if !slices.Contains(u.ids, name) {
			u.ids = append(u.ids, name)
		}
	}
	u.change.Version = frame.Optional(o, "version", func(name string, dst *int) { o.Integer(name, 1, math.MaxInt32, dst) })
	u.change.Repeatable = true
	if u.change.Version != nil && len(u.ids) != 1 {
		o.Fail("version", "can be sent with one id only")
	}
	for name, dst := range map[string]*string{"drain_id": &u.drain, "rule": &u.rule} {
		if _, ok := o.Raw(name); ok && !o.IsNull(name) {
			o.Text(name, 1, frame.MaxIDText, dst)
		}
	}
	switch {
	case len(u.ids) > 0 && (u.drain != "" || u.rule != ""):
		o.Fail("ids", "must not be combined with drain_id and rule")
	case len(u.ids) == 0 && u.drain == "" && u.rule == "":
		o.Fail("ids", "must name findings, at most %d; or send drain_id and rule", maxFindingUpdates)
	case len(u.ids) == 0 && u.drain == "":
		o.Fail("drain_id", "is required together with rule")
	case len(u.ids) == 0 && u.rule == "":
		o.Fail("rule", "is required together with drain_id")
	}
	c := &u.change
	switch {
	case c.Status == nil:
		o.Fail("status", "is required")
	case *c.Status == finding.Resolved && c.Resolution == nil:
		o.Fail("resolution", "is required for the status resolved")
	case *c.Status == finding.Ignored && c.IgnoreReason == nil:
		o.Fail("ignore_reason", "is required for the status ignored")
	}
	o.RefuseUnknown()
	return u
}
