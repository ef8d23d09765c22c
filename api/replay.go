package api

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// replayEvent queues the event again for each destination that is enabled now, or for the one that is named.
func (a *replays) replayEvent(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	if err := refuseLoop(r); err != nil {
		return err
	}
	d, err := a.events.detail(r, key)
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
	o.refuseUnknown()
	if in.err != nil {
		return in.err
	}
	if answered, err := a.answerEarlierRun(w, r, false); answered || err != nil {
		return err
	}
	ep, presence := a.config.Endpoint(d.Endpoint)
	if presence != config.Present {
		return web.State("", "the event's endpoint was deleted; there is nothing to deliver to")
	}
	if !a.erasures.ErasedAt(d.ID).IsZero() {
		return web.State("", "the event's payload was erased; there is nothing to deliver")
	}
	if only != "" && ep.Destination(only) == nil {
		return web.Invalid("destination_id", "is not a destination of the event's endpoint")
	}
	if err := a.replayable(ep, d.Event, in); err != nil {
		return err
	}
	d.Event = withCurrentVerdict(ep, d.Event)
	targets := ep.EnabledDestinations()
	if only != "" {
		targets = slices.DeleteFunc(targets, func(dest string) bool { return dest != only })
	}
	if len(targets) == 0 {
		in.warn("destination_id", "nothing was queued: the endpoint has no such enabled destination")
	}
	run, err := a.queueEvent(r, d, only, targets)
	if err != nil {
		return a.answerAfterConflict(w, r, err)
	}
	web.WriteJSON(w, http.StatusOK, replayResult{Events: 1, Queued: run.Queued, RunID: &run.ID, Warnings: in.warnings})
	return nil
}

// replayable lets a rejected event through only when the present secrets accept it; of an endpoint that verifies
// nothing any more with a warning, for it was asked for by its id.
func (a *replays) replayable(ep *config.Endpoint, e *event.Event, in *input) error {
	if e.Verdict != event.VerdictRejected {
		return nil
	}
	if ep.Verification == nil {
		in.warn("id", "the event was rejected and its endpoint verifies no signatures any more: it is delivered unchecked")
		return nil
	}
	reason, err := a.reverify(ep, e)
	if err != nil {
		return err
	}
	if reason != "" {
		return web.State("", "the event was rejected and its signature is still not accepted: %s", reasons[reason])
	}
	return nil
}

// accepted is an event as it is sent again: a rejected one gets the verdict of now, which destinations are told.
func withCurrentVerdict(ep *config.Endpoint, e *event.Event) *event.Event {
	if e.Verdict != event.VerdictRejected {
		return e
	}
	current := *e
	current.Verdict = event.VerdictVerified
	if ep.Verification == nil {
		current.Verdict = event.VerdictUnverified
	}
	return &current
}

// queueEvent is a run of one event: its commands are one page.
func (a *replays) queueEvent(r *http.Request, d *event.Detail, only string, targets []string) (*config.Run, error) {
	name, err := a.runID(r)
	if err != nil {
		return nil, err
	}
	at := d.Event.ID.Text(id.Event)
	run := &config.Run{
		Meta: config.Meta{ID: name, Account: d.Event.Account}, Endpoints: []string{d.Event.Endpoint}, Single: true,
		Filter: filterText(struct {
			Event       string `json:"event_id"`
			Destination string `json:"destination_id,omitempty"`
		}{at, only}),
		Since: d.Event.ReceivedAt(), Until: d.Event.ReceivedAt().Add(time.Millisecond), State: config.RunQueueing, Events: 1,
	}
	q := a.newQueuer(run)
	switch _, err = a.runs.AddRun(r.Context(), run); {
	case errors.Is(err, config.ErrLevel): // an upgrade is not at its end; the event can be replayed all the same
		q.unrecorded = true
	case err != nil:
		return nil, err
	}
	var works []*event.Work
	for _, dest := range targets {
		works = append(works, commandOf(d.Event, d.Deliveries, dest, run.ID, q.startedAt))
	}
	return q.queueOnlyPage(r.Context(), works)
}
