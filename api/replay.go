package api

import (
	"errors"
	"net/http"
	"slices"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// replayResult is the answer to a replay, whatever it selected.
type replayResult struct {
	Events    int       `json:"events"`
	Queued    int       `json:"queued"`
	RunID     string    `json:"run_id"`
	Truncated bool      `json:"truncated"`
	Warnings  []warning `json:"warnings,omitempty"`
}

// replayEvent queues the event again for each destination that is enabled now, or for the one that is named.
func (a *API) replayEvent(w http.ResponseWriter, r *http.Request, key *control.Key) error {
	d, err := a.detail(r, key)
	if err != nil {
		return err
	}
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	in := &input{}
	o := in.newObject("", body)
	var only string
	o.text("destination_id", 1, maxHeaderName, &only)
	o.closed()
	if in.err != nil {
		return in.err
	}
	ep, presence := a.deps.Config.Endpoint(d.Endpoint)
	if presence != control.Present {
		return web.State("", "the event's endpoint was deleted; there is nothing to deliver to")
	}
	if only != "" && ep.Destination(only) == nil {
		return web.Invalid("destination_id", "is not a destination of the event's endpoint")
	}
	if err := a.replayable(ep, d.Event); err != nil {
		return err
	}
	targets := ep.EnabledDestinations()
	if only != "" {
		targets = slices.DeleteFunc(targets, func(dest string) bool { return dest != only })
	}
	if len(targets) == 0 {
		in.warn("destination_id", "nothing was queued: the endpoint has no such enabled destination")
	}
	run, err := a.deps.IDs.New(ep.Partition)
	if err != nil {
		return err
	}
	result := replayResult{Events: 1, RunID: run.Text(id.Run), Warnings: in.warnings}
	if err := a.queue(r, d, ep, targets, &result); err != nil {
		return err
	}
	web.WriteJSON(w, http.StatusOK, result)
	return nil
}

// replayable lets a rejected event through only when the present secrets accept it.
func (a *API) replayable(ep *control.Endpoint, e *event.Event) error {
	if e.Verdict != event.VerdictRejected {
		return nil
	}
	reason, err := a.deps.Reverify(ep, e)
	if err != nil {
		return err
	}
	if reason != "" {
		return web.State("", "the event was rejected and its signature is still not accepted: %s", reasons[reason])
	}
	return nil
}

// queue appends one command per target. After an error half-way the answer says how far it came.
func (a *API) queue(r *http.Request, d *event.Detail, ep *control.Endpoint, targets []string, result *replayResult) error {
	for _, dest := range targets {
		work := &event.Work{Event: d.Event, Dest: dest, Trigger: event.TriggerReplay, Attempt: 1, Due: a.now(), Run: result.RunID}
		work.Prior, work.PriorReason = prior(d, dest)
		if err := a.deps.Commands.Command(r.Context(), work); err != nil {
			var e *web.Error
			if !errors.As(fault(err), &e) {
				e = web.From(err)
			}
			partial := *e
			partial.Run, partial.Queued = result.RunID, result.Queued
			return &partial
		}
		result.Queued++
	}
	return nil
}

// prior is what a skip of the replay restores; empty for a delivery that is new or not at its end.
func prior(d *event.Detail, dest string) (event.Status, event.Reason) {
	for i := range d.Deliveries {
		if x := &d.Deliveries[i]; x.Destination == dest && x.Status.Terminal() {
			return x.Status, x.Reason
		}
	}
	return "", ""
}
