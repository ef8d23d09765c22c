package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/web"
)

const (
	// pageTimeout bounds the wait for a page to be durable, readTimeout the read of its events. Together they are
	// less than config.DefaultRunProgressTimeout, after which a run counts as dead.
	pageTimeout, readTimeout = 15 * time.Second, 10 * time.Second
)

// replays delivers stored events again.
type replays struct {
	*area
	planner *planner
	scopes  activeScopes
}

// replayEvents replays a selection in three steps: it counts the selection behind a read-your-writes fence, writes
// the run to the configuration log, and queues the deliveries page by page.
func (a *replays) replayEvents(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	if err := frame.RefuseLoop(r); err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	s, in := a.planner.newSelection(body, key)
	if in.Err != nil {
		return in.Err
	}
	if err := a.planner.resolveDestinations(r.Context(), s, in); err != nil {
		return err
	}
	if answered, err := a.answerEarlierRun(w, r, s.dryRun); answered || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), jobs.MaxRunDuration)
	defer cancel()
	release, err := a.acquireScope(ctx, s.query.Endpoints)
	if err != nil {
		return err
	}
	defer release()
	p, err := a.planWithinLimit(ctx, s)
	if err != nil {
		return err
	}
	warnOfPlan(in, s, p)
	result := wire.ReplayResult{Events: p.events, Queued: p.deliveries, Warnings: in.Warnings}
	if s.dryRun {
		return web.Answer(w, http.StatusOK, result)
	}
	run, err := a.createRun(ctx, r, s, p)
	if err != nil {
		return a.answerAfterConflict(w, r, err)
	}
	if run, err = a.queuePlan(ctx, r, s, p, run); err != nil {
		return err
	}
	result.Queued, result.RunID = run.Queued, &run.ID
	return web.Answer(w, http.StatusOK, result)
}

// warnOfPlan says what of a selection a caller may not expect.
func warnOfPlan(in *selectionInput, s *selection, p *plan) {
	if p.events > 0 && p.deliveries == 0 {
		in.Warn(in.Param("destination_id"), "none of the enabled destinations takes any of these events")
	}
	if p.unverified > 0 {
		in.Warn(in.Param("status"), fmt.Sprintf("%d of these events were rejected for their signatures, and their "+
			"endpoints no longer verify signatures: they are delivered unchecked", p.unverified))
	}
	if p.tooOld > 0 {
		in.Warn(in.Param("status"), fmt.Sprintf("%d events are left out because they were refused for their age; the "+
			"status rejected selects them if their signatures are valid", p.tooOld))
	}
	if p.copies > 0 {
		in.Warn(in.Param("status"), fmt.Sprintf("%d rejected events are left out because they are copies of one that is "+
			"selected: the same content with the same signature", p.copies))
	}
	if p.reverified > 0 && len(s.query.Statuses) == 0 {
		in.Warn(in.Param("status"), fmt.Sprintf("%d of these events were rejected for their signatures; they are "+
			"selected because the current secrets accept them, and are delivered as verified. A status that "+
			"does not contain rejected leaves them out", p.reverified))
	}
}

// createRun writes the run of a plan. It waits while a run of another node is queueing for one of the endpoints.
func (a *replays) createRun(ctx context.Context, r *http.Request, s *selection, p *plan) (*jobs.Run, error) {
	name, err := a.runID(r)
	if err != nil {
		return nil, err
	}
	run := &jobs.Run{
		Meta: entity.Meta{ID: name, Account: s.query.Account}, Endpoints: s.query.Endpoints, Filter: s.filter,
		Since: s.query.Since, Until: s.query.Until, State: jobs.RunQueueing, Events: p.events, Tenant: s.tenant,
	}
	var added *jobs.Run
	err = a.RetryUntilDone(ctx, func() (bool, error) {
		added, err = a.Runs.AddRun(ctx, run)
		return !errors.Is(err, jobs.ErrEndpointBusy), err
	})
	return added, err
}

// runQueuer writes the deliveries of one run to the log.
type runQueuer struct {
	replays      *replays
	selection    *selection
	run          *jobs.Run // own copy; Queued counts the acknowledged deliveries
	startedAt    time.Time
	commandCount int // deliveries so far, for pacing
	// unrecorded is true when the configuration log has no such run, during an upgrade.
	unrecorded bool
}

func (a *replays) newQueuer(run *jobs.Run) *runQueuer {
	own := *run
	return &runQueuer{replays: a, run: &own, startedAt: a.Now()}
}

// queuePlan queues all pages. After an error the answer says how many deliveries were queued, and so does the run once
// it is interrupted. Queueing may take up to jobs.MaxRunDuration, so the API key is checked again before each page.
func (a *replays) queuePlan(ctx context.Context, r *http.Request, s *selection, p *plan, run *jobs.Run) (
	*jobs.Run, error) {
	q := a.newQueuer(run)
	q.selection = s
	for rest := p.selected; len(rest) > 0; {
		var page []selectedEvent
		page, rest = nextPage(rest)
		if err := a.reauthenticate(ctx, r); err != nil {
			return nil, q.interrupt(ctx, err)
		}
		if err := q.queuePage(ctx, page); err != nil {
			return nil, err
		}
	}
	return q.recordProgress(ctx, func(r *jobs.Run) { r.Finish(jobs.RunQueued) })
}

// reauthenticate checks the API key or the session of a long request again. It waits up to 5 s while this node cannot
// confirm it.
func (a *replays) reauthenticate(ctx context.Context, r *http.Request) error {
	return a.RetryUntilDone(ctx, func() (bool, error) {
		key, err := frame.CurrentKey(a.Config, r)
		if err != nil {
			return !errors.Is(err, config.ErrLease), err
		}
		return true, frame.AuthorizeChange(key)
	})
}

// queuePage writes one page and records the progress. A client that leaves ends the run between two pages, never
// within one.
func (q *runQueuer) queuePage(ctx context.Context, page []selectedEvent) error {
	works, err := q.commandsOf(ctx, page)
	if err != nil {
		return q.interrupt(ctx, err)
	}
	if err := q.produce(ctx, works); err != nil {
		return err
	}
	reached := page[len(page)-1].id.Text(id.Event)
	_, err = q.recordProgress(ctx, func(r *jobs.Run) {
		if r.LastQueuedEvent = reached; r.Cancelled() {
			r.Finish(jobs.RunCancelled)
		}
	})
	return err
}

// queueOnlyPage writes the single page of a run and completes it.
func (q *runQueuer) queueOnlyPage(ctx context.Context, works []*event.Work) (*jobs.Run, error) {
	if err := q.produce(ctx, works); err != nil {
		return nil, err
	}
	return q.recordProgress(ctx, func(r *jobs.Run) { r.Finish(jobs.RunQueued) })
}

// produce writes commands to the log and counts the acknowledged ones.
func (q *runQueuer) produce(ctx context.Context, works []*event.Work) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout)
	defer cancel()
	n, err := q.replays.Commands.Commands(ctx, works)
	q.run.Queued += n
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stream.ErrBufferFull): // the others were not written at all
		return q.interrupt(ctx, err)
	default:
		// Others may still become durable. The run stays as it is; the node that interrupts it counts them.
		return errPartialRun(q.run, err)
	}
}

// commandsOf reads the events of a page and returns their commands.
func (q *runQueuer) commandsOf(ctx context.Context, page []selectedEvent) ([]*event.Work, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	stored, err := q.replays.Selection.Stored(ctx, q.selection.query.Account, idsOf(page))
	if err != nil {
		return nil, err
	}
	var works []*event.Work
	for i := range stored {
		e := &stored[i]
		ep := q.replays.PresentEndpoint(e.Endpoint, q.selection.query.Account)
		if ep == nil { // deleted after it was counted
			continue
		}
		e.Event = withCurrentVerdict(ep, e.Event)
		for _, dest := range q.selection.targets(ep, e) {
			due := q.startedAt.Add(time.Duration(q.commandCount) * time.Second / time.Duration(q.selection.rate))
			works = append(works, commandOf(e.Event, e.Deliveries, dest, q.run.ID, due))
			q.commandCount++
		}
	}
	return works, nil
}

// errEndedByOtherNode means that another node marked the run as interrupted.
var errEndedByOtherNode = errors.New("the run made no progress for too long and was ended by another node")

// recordProgress writes the progress of the run, even if the client has left; alter makes further changes. An error
// is already the answer to the client.
func (q *runQueuer) recordProgress(ctx context.Context, alter func(*jobs.Run)) (*jobs.Run, error) {
	if q.unrecorded {
		return q.run, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout)
	defer cancel()
	ended := false
	run, err := q.replays.Runs.ChangeRun(ctx, q.run.ID, func(r *jobs.Run) error {
		r.Queued = q.run.Queued // the node that marked the run interrupted did not count these
		if ended = r.State != jobs.RunQueueing; !ended {
			alter(r)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, errPartialRun(q.run, err)
	case run.State == jobs.RunCancelled:
		return nil, errCancelledRun(run)
	case ended:
		return nil, errPartialRun(q.run, errEndedByOtherNode)
	}
	return run, nil
}

// interrupt marks the run as interrupted and returns the error for the client.
func (q *runQueuer) interrupt(ctx context.Context, cause error) error {
	if _, err := q.recordProgress(ctx, func(r *jobs.Run) { r.Finish(jobs.RunInterrupted) }); err != nil {
		cause = errors.Join(cause, err) // another node will interrupt it for lack of progress
	}
	return errPartialRun(q.run, cause)
}

// errCancelledRun is the answer to a replay that was cancelled while it queued its deliveries.
func errCancelledRun(run *jobs.Run) error {
	e := web.WrongState("", "the run was cancelled while its deliveries were queued: those that were not sent are skipped")
	e.Run, e.Queued = run.ID, run.Queued
	return e
}

// errPartialRun is the error of a replay that stopped half-way.
func errPartialRun(run *jobs.Run, cause error) error {
	var e *web.Error
	if !errors.As(frame.ToWebError(cause), &e) {
		e = web.FromError(cause)
	}
	partial := *e
	partial.Run, partial.Queued = run.ID, run.Queued
	partial.Message = "the replay stopped half-way: what it had queued will be delivered; read the run before you " +
		"replay again"
	return &partial
}

// commandOf returns the command for one delivery of an event that may have been delivered before.
func commandOf(e *event.Event, deliveries []event.Delivery, dest, run string, due time.Time) *event.Work {
	w := &event.Work{Event: e, Dest: dest, Trigger: event.TriggerReplay, Attempt: 1, Due: due, Run: run}
	w.Prior, w.PriorReason = priorOutcome(deliveries, dest)
	return w
}

// priorOutcome returns the earlier outcome that applies again if the replay is skipped; empty if the delivery is new
// or still open.
func priorOutcome(deliveries []event.Delivery, dest string) (event.Status, event.Reason) {
	for i := range deliveries {
		if x := &deliveries[i]; x.Destination == dest && x.Status.Terminal() {
			return x.Status, x.Reason
		}
	}
	return "", ""
}

// answerEarlierRun answers a repeat whose first call has started a run, so that nothing is queued twice. A dry run
// has no run.
func (a *replays) answerEarlierRun(w http.ResponseWriter, r *http.Request, dry bool) (answered bool, err error) {
	c := frame.CallOf(r)
	if c == nil || !c.TakenOver || dry {
		return false, nil
	}
	err = a.RetryUntilDone(r.Context(), func() (bool, error) {
		run, _ := a.Runs.ReplayRun(c.Subject.Text(id.Run))
		switch {
		case run == nil:
			return true, nil // creating the run is conditional: of two concurrent calls one succeeds
		case run.State == jobs.RunQueueing:
			return false, frame.ErrStillRunning()
		}
		answered = true
		return true, answerRun(w, run)
	})
	return answered, err
}

// answerRun sends the result of the call that started the run.
func answerRun(w http.ResponseWriter, run *jobs.Run) error {
	switch run.State {
	case jobs.RunQueueing:
		return frame.ErrStillRunning()
	case jobs.RunCancelled:
		return errCancelledRun(run)
	case jobs.RunInterrupted:
		return errPartialRun(run, web.ServiceUnavailable(nil, ""))
	}
	return web.Answer(w, http.StatusOK, wire.ReplayResult{Events: run.Events, Queued: run.Queued, RunID: &run.ID})
}

// answerAfterConflict answers when the run could not be created. If another call with the same Idempotency-Key has
// created it, the answer is that of the run; any other error is returned.
func (a *replays) answerAfterConflict(w http.ResponseWriter, r *http.Request, err error) error {
	c := frame.CallOf(r)
	if c == nil || !errors.Is(err, config.ErrConflict) {
		return err
	}
	if run, _ := a.Runs.ReplayRun(c.Subject.Text(id.Run)); run != nil {
		return answerRun(w, run)
	}
	return err
}

// runID is frame.NewID for a replay run.
func (a *replays) runID(r *http.Request) (string, error) {
	if c := frame.CallOf(r); c != nil {
		return c.Subject.Text(id.Run), nil
	}
	d, err := a.IDs.New(0)
	return d.Text(id.Run), err
}

// replayEvent queues an event again for each enabled destination of its endpoint, or for those in the request.
func (a *replays) replayEvent(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	if err := frame.RefuseLoop(r); err != nil {
		return err
	}
	asked, err := a.EventInPath(r, key)
	if err != nil {
		return err
	}
	d, err := a.Events.Event(r.Context(), key.Account, asked)
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
	ep, presence := a.Config.Endpoint(d.Endpoint)
	if presence != entity.Present {
		return web.WrongState("", "the event's endpoint was deleted, so there is no destination to deliver to")
	}
	if !a.Erasures.ErasedAt(d.ID).IsZero() {
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
	run, err := a.queueEvent(r, key, d, filterOfRun(d, only, undelivered), targets)
	if err != nil {
		return a.answerAfterConflict(w, r, err)
	}
	return web.Answer(w, http.StatusOK, wire.ReplayResult{Events: 1, Queued: run.Queued, RunID: &run.ID,
		Warnings: in.Warnings})
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
	_, reason, err := a.Reverify(ep, e)
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
func (a *replays) queueEvent(
	r *http.Request, key *config.Key, d *event.Detail, filter json.RawMessage, targets []string) (*jobs.Run, error) {
	name, err := a.runID(r)
	if err != nil {
		return nil, err
	}
	run := &jobs.Run{
		Meta: entity.Meta{ID: name, Account: d.Event.Account}, Endpoints: []string{d.Event.Endpoint}, Single: true,
		Filter: filter, Since: d.Event.ReceivedAt(), Until: d.Event.ReceivedAt().Add(time.Millisecond),
		State: jobs.RunQueueing, Events: 1, Tenant: key.Tenant,
	}
	q := a.newQueuer(run)
	switch _, err = a.Runs.AddRun(r.Context(), run); {
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
