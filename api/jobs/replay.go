package jobs

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// replayEvent queues an event again for each enabled destination of its endpoint, or for those in the request.
func (a *replays) replayEvent(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	if err := frame.RefuseLoop(r); err != nil {
		return err
	}
	asked, err := a.EventInPath(r, key)
	if err != nil {
		return err
	}
	d, err := a.events.Event(r.Context(), key.Account, asked)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := &frame.Input{}
	o := in.NewObject("", body)
	var only []string
	if raw, ok := o.Raw("destination_id"); ok {
		if only = oneOrMore(o, "destination_id", raw); in.Err == nil && len(only) == 0 {
			o.Fail("destination_id", "must not be empty; leave it out for every destination")
		}
	}
	undelivered := false
	o.Boolean(onlyUndelivered, &undelivered)
	o.RefuseUnknown()
	if in.Err != nil {
		return in.Err
	}
	if answered, err := a.answerEarlierRun(w, r, false); answered || err != nil {
		return err
	}
	ep, presence := a.ConfigReader.Endpoint(d.Endpoint)
	if presence != entity.Present {
		return web.WrongState("", "the event's endpoint was deleted, so there is no destination to deliver to")
	}
	if !a.erasures.ErasedAt(d.ID).IsZero() {
		return web.WrongState("", "the event's payload was erased, so there is nothing to deliver")
	}
	for _, dest := range only {
		if ep.Destination(dest) == nil {
			return web.Invalid("destination_id", "is not a destination of the event's endpoint")
		}
	}
	if err := a.replayable(ep, d.Event, in); err != nil {
		return err
	}
	d.Event = withCurrentVerdict(ep, d.Event)
	targets := ep.EnabledDestinations()
	if len(only) > 0 {
		targets = slices.DeleteFunc(targets, func(dest string) bool { return !slices.Contains(only, dest) })
	}
	enabled := len(targets)
	if undelivered {
		targets = slices.DeleteFunc(targets, func(dest string) bool { return hasOrAwaits(d.Deliveries, dest) })
	}
	switch {
	case enabled == 0:
		in.Warn("destination_id", "nothing was queued: no such destination is enabled; enable one and replay again")
	case len(targets) == 0:
		in.Warn(onlyUndelivered, "nothing was queued: every such destination has the event, or it is on its way there")
	}
	warnOfFilters(in, ep, d.Event, targets)
	run, err := a.queueEvent(r, d, filterOfRun(d, only, undelivered), targets)
	if err != nil {
		return a.answerAfterConflict(w, r, err)
	}
	web.WriteJSON(w, http.StatusOK, wire.ReplayResult{Events: 1, Queued: run.Queued, RunID: &run.ID,
		Warnings: in.Warnings})
	return nil
}

// warnOfFilters names the destinations whose filters leave the event out: their deliveries are queued, which records
// why nothing is sent.
func warnOfFilters(in *frame.Input, ep *config.Endpoint, e *event.Event, targets []string) {
	takes := filterOf(ep, e)
	for i := range ep.Destinations {
		if d := &ep.Destinations[i]; slices.Contains(targets, d.ID) && !takes(i) {
			in.Warn("destination_id", "the filter of "+d.ID+" leaves this event out: its delivery ends as skipped (filtered); "+
				"change the filter and replay again to deliver it")
		}
	}
}

// replayable accepts a rejected event only if its signature is valid with the current secrets. If its endpoint no
// longer verifies signatures, the event is accepted with a warning, because the request names it by its id.
func (a *replays) replayable(ep *config.Endpoint, e *event.Event, in *frame.Input) error {
	if e.Verdict != event.VerdictRejected {
		return nil
	}
	if ep.Verification == nil {
		in.Warn("id", "the event was rejected for its signature, and its endpoint no longer verifies signatures: "+
			"the event is delivered unchecked")
		return nil
	}
	_, reason, err := a.reverify(ep, e)
	if err != nil {
		return err
	}
	if reason != "" {
		return web.WrongState("", "the event was rejected for its signature, which is still not accepted: %s",
			wire.Reasons[reason])
	}
	return nil
}

// withCurrentVerdict returns the event as it is sent again. A rejected event gets its current verdict, which
// deliveries carry in relay-verification.
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

// filterOfRun returns the filter of the run of one event, as it is shown: one destination, or a list.
func filterOfRun(d *event.Detail, only []string, undelivered bool) json.RawMessage {
	shown := struct {
		Event       string `json:"event_id"`
		Destination any    `json:"destination_id,omitempty"`
		Undelivered bool   `json:"only_undelivered,omitempty"`
	}{Event: d.Event.ID.Text(id.Event), Undelivered: undelivered}
	switch len(only) {
	case 0:
	case 1:
		shown.Destination = only[0]
	default:
		shown.Destination = only
	}
	return filterText(shown)
}

// queueEvent queues a run of one event; its commands are a single page.
func (a *replays) queueEvent(r *http.Request, d *event.Detail, filter json.RawMessage, targets []string) (
	*jobs.Run, error) {
	name, err := a.runID(r)
	if err != nil {
		return nil, err
	}
	run := &jobs.Run{
		Meta: entity.Meta{ID: name, Account: d.Event.Account}, Endpoints: []string{d.Event.Endpoint}, Single: true,
		Filter: filter, Since: d.Event.ReceivedAt(), Until: d.Event.ReceivedAt().Add(time.Millisecond),
		State: jobs.RunQueueing, Events: 1,
	}
	q := a.newQueuer(run)
	switch _, err = a.runs.AddRun(r.Context(), run); {
	case errors.Is(err, config.ErrLevel): // an upgrade is not finished: the event is replayed without a run
		q.unrecorded = true
	case err != nil:
		return nil, err
	}
	var works []*event.Work
	for _, dest := range targets {
		works = append(works, commandOf(d.Event, d.Deliveries, dest, run.ID, q.startedAt))
	}
	if err := a.reauthenticate(r.Context(), r); err != nil {
		return nil, q.interrupt(r.Context(), err)
	}
	return q.queueOnlyPage(r.Context(), works)
}
