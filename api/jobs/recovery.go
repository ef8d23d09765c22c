package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
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

// maxRecoveryRate is the maximum of rate_per_second, in deliveries.
const maxRecoveryRate = 100

// recoveries serves recovery jobs.
type recoveries struct {
	*area
}

// createRecovery creates a job. The node that owns the endpoint's partition prepares it.
func (a *recoveries) createRecovery(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	if err := frame.RefuseLoop(r); err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	job, err := a.readRecoveryInput(body, key)
	if err == nil {
		err = a.checkTenant(key)
	}
	if err != nil {
		return err
	}
	if c := frame.CallOf(r); c != nil {
		job.ID = c.Subject.Text(id.Recovery)
	}
	job, err = frame.CreateOnce(r.Context(), a.Config.AddRecovery, job, a.Config.Recovery, job.ID)
	switch {
	case errors.Is(err, jobs.ErrTooManyOpenRecoveries):
		return web.WrongState("", "too many recovery jobs are open; cancel some of them or wait until they end")
	case err != nil:
		return err
	}
	return a.answerRecovery(w, r, http.StatusCreated, a.awaitPrepared(r.Context(), job))
}

// Jobs of a tenant's keys: an account has room for 1,000 open ones, and 5,000 in 30 days.
const (
	maxTenantOpen = 20
	maxTenantJobs = 200
)

// checkTenant returns the error of a tenant that would take the account's room for jobs.
func (a *recoveries) checkTenant(key *config.Key) error {
	if key.Tenant == "" {
		return nil
	}
	all, _ := a.Config.Recoveries(key.Account, 0, maxTenantJobs, func(j *jobs.Recovery) bool { return a.sees(key, j) })
	open := 0
	for _, j := range all {
		if !j.State.Ended() {
			open++
		}
	}
	if open < maxTenantOpen && len(all) < maxTenantJobs {
		return nil
	}
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Minute,
		Message: fmt.Sprintf("a tenant may have %d open recovery jobs, and %d in 30 days; cancel some, or wait until they "+
			"end", maxTenantOpen, maxTenantJobs)}
}

// readRecoveryInput validates the body of a new job.
func (a *recoveries) readRecoveryInput(body []byte, key *config.Key) (*jobs.Recovery, error) {
	in := &frame.Input{}
	o := in.NewObject("", body)
	now := a.Now()
	job := &jobs.Recovery{
		Meta: entity.Meta{Account: key.Account, CreatedAt: now}, Until: now, State: jobs.RecoveryPreparing,
		Deadline: now.Add(jobs.MaxRecoveryDuration), CreatedBy: key.ID,
	}
	var since string
	o.IgnoreNulls("endpoint_id", "since", "rate_per_second", "destination_id")
	o.Text("endpoint_id", 1, frame.MaxIDText, &job.Endpoint)
	o.Text("since", 1, frame.MaxIDText, &since)
	o.Integer("rate_per_second", 1, maxRecoveryRate, &job.RatePerSecond)
	o.Text("destination_id", 1, frame.MaxIDText, &job.Destination)
	o.RefuseUnknown()
	for _, name := range []string{"endpoint_id", "since", "rate_per_second"} {
		if _, ok := o.Raw(name); !ok {
			o.Fail(name, "is required")
		}
	}
	var ok bool
	if job.Since, ok = web.ParseMoment(since, now); !ok {
		o.Fail("since", web.MomentForms)
	} else if job.Since.Unix() < 0 {
		o.Fail("since", "must not be before 1970")
	} else if !job.Since.Before(now) {
		o.Fail("since", "must be in the past: the selection ends now")
	}
	if in.Err != nil {
		return nil, in.Err
	}
	ep, presence := a.Config.Endpoint(job.Endpoint)
	if presence != entity.Present || !frame.Owns(key, ep) {
		return nil, &web.Error{
			Status: http.StatusNotFound, Type: web.NotFound, Param: "endpoint_id", Message: "there is no such endpoint",
		}
	}
	if job.Destination != "" {
		if d := ep.Destination(job.Destination); d == nil {
			return nil, web.Invalid("destination_id", "is not a destination of the endpoint")
		} else if !d.Enabled {
			return nil, web.Invalid("destination_id", "is disabled; enable it first")
		}
	}
	d, err := a.IDs.New(ep.Partition)
	job.ID, job.Partition = d.Text(id.Recovery), ep.Partition
	return job, err
}

// awaitPrepared waits up to PreparationWait for a new job to become ready, and returns its newest state.
func (a *recoveries) awaitPrepared(ctx context.Context, job *jobs.Recovery) *jobs.Recovery {
	timeout := time.NewTimer(a.PreparationWait)
	defer timeout.Stop()
	for {
		changed := a.Config.RecoveriesChanged()
		if newer, presence := a.Config.Recovery(job.ID); presence == entity.Present {
			job = newer
		}
		if job.State != jobs.RecoveryPreparing {
			return job
		}
		select {
		case <-changed:
		case <-timeout.C:
			return job
		case <-ctx.Done():
			return job
		}
	}
}

// answerRecovery answers a write with the job. The write has taken effect, so an unavailable store is no error: then
// all submitted deliveries are reported as queued.
func (a *recoveries) answerRecovery(w http.ResponseWriter, r *http.Request, status int, job *jobs.Recovery) error {
	p, err := a.progressOf(r.Context(), job)
	if err != nil {
		p = progress{asOf: job.CreatedAt}
	}
	frame.SetAsOf(w, p.asOf)
	return web.Answer(w, status, a.view(p, job))
}

func (a *recoveries) readRecovery(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	job, err := a.recoveryInPath(r, key)
	if err != nil {
		return err
	}
	p, err := a.progressOf(r.Context(), job)
	if err != nil {
		return err
	}
	frame.SetAsOf(w, p.asOf)
	return web.Answer(w, http.StatusOK, a.view(p, job))
}

// recoveryInPath returns the job that the path names, or the 404.
func (a *recoveries) recoveryInPath(r *http.Request, key *config.Key) (*jobs.Recovery, error) {
	a.CatchUp(r.Context())
	job, presence := a.Config.Recovery(web.InfoOf(r).Vars["recovery"])
	if presence != entity.Present || !a.sees(key, job) || a.Now().Sub(job.CreatedAt) >= jobs.RecoveryRetention {
		return nil, web.Missing("there is no such recovery job, or it is older than 30 days")
	}
	return job, nil
}

// sees reports whether a key sees a job: that of a tenant those of its endpoints.
func (a *recoveries) sees(key *config.Key, job *jobs.Recovery) bool {
	if key.Tenant == "" {
		return job.Account == key.Account
	}
	ep, presence := a.Config.Endpoint(job.Endpoint)
	return presence == entity.Present && frame.Owns(key, ep)
}

func (a *recoveries) listRecoveries(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	q := frame.NewQuery(r, "recoveries "+frame.ScopeOf(key))
	states := frame.EnumFilter(q, "state", jobs.RecoveryStates()...)
	endpoints, ofTenant := q.List("endpoint_id"), a.TenantFilter(q, key)
	page, err := a.ConfigPage(r, q)
	if err != nil {
		return err
	}
	oldest := a.Now().Add(-jobs.RecoveryRetention)
	found, more := a.Config.Recoveries(key.Account, page.Before, page.Limit, func(j *jobs.Recovery) bool {
		return j.CreatedAt.After(oldest) && a.sees(key, j) && ofTenant(j.Endpoint) &&
			(len(states) == 0 || slices.Contains(states, j.State)) &&
			(len(endpoints) == 0 || slices.Contains(endpoints, j.Endpoint))
	})
	p, err := a.progressOf(r.Context(), found...)
	if err != nil {
		return err
	}
	frame.SetAsOf(w, p.asOf)
	return frame.WriteConfigPage(w, page, found, more,
		frame.ViewsOf(found, func(j *jobs.Recovery) wire.Recovery { return a.view(p, j) }))
}

// itemStates are the states of an item of a job.
var itemStates = []event.Status{event.Pending, event.ItemQueued, event.Delivered, event.Failed, event.Skipped}

func (a *recoveries) listRecoveryItems(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	job, err := a.recoveryInPath(r, key)
	if err != nil {
		return err
	}
	q := frame.NewQuery(r, "recovery items "+job.ID)
	states := frame.EnumFilter(q, "state", itemStates...)
	first, items := 0, job.Total
	if len(frame.EnumFilter(q, "canary", "true")) > 0 {
		first, items = job.Canary.From, job.Canary.End()
	}
	limit, last := q.Page()
	q.RefuseUnknown()
	if q.Err != nil {
		return q.Err
	}
	out := frame.List[wire.RecoveryItem]{Data: []wire.RecoveryItem{}}
	if items > 0 {
		page, err := a.Recovery.RecoveryItems(r.Context(), event.RecoveryJob{
			Account: job.Account, ID: job.ID, Selection: job.Selection, From: first, Total: items,
			Reserved: job.Reserved, UnsentReason: job.State.UnsentReason(),
		}, int(min(last.Seq(), int64(items))), limit, states)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			out.Data = append(out.Data, itemOf(job, &page.Rows[i]))
		}
		if page.More {
			out.NextCursor = q.Hash.Cursor(frame.SeqKey(page.Rows[len(page.Rows)-1].Seq))
		}
		frame.SetAsOf(w, page.AsOf)
	}
	return web.Answer(w, http.StatusOK, out)
}

// Actions on a recovery job.
const (
	actionCanary   = "canary"
	actionContinue = "continue"
	actionCancel   = "cancel"
)

// actOnRecovery applies an action to a job if the job's state allows it.
func (a *recoveries) actOnRecovery(w http.ResponseWriter, r *http.Request, key *config.Key) error {
	if err := frame.RefuseLoop(r); err != nil {
		return err
	}
	job, err := a.recoveryInPath(r, key)
	if err != nil {
		return err
	}
	body, err := a.Body(r)
	if err != nil {
		return err
	}
	in := &frame.Input{}
	o := in.NewObject("", body)
	var x jobAction
	o.Enum("action", &x.action, actionCanary, actionContinue, actionCancel)
	x.state = frame.Optional(o, "state", func(name string, dst *string) {
		o.Enum(name, dst, event.Convert[string](jobs.RecoveryStates()...)...)
	})
	o.RefuseUnknown()
	if x.action == "" {
		o.Fail("action", "is required: one of canary, continue, cancel")
	}
	if in.Err != nil {
		return in.Err
	}
	// Another node may have shown the client a state that this node has not applied yet.
	if err := a.Config.Sync(r.Context()); err != nil {
		return err
	}
	if c := frame.CallOf(r); c != nil {
		x.call = c.Subject.String()
	}
	act := func(j *jobs.Recovery) error { return a.applyAction(j, x) }
	job, err = a.Config.UpdateRecovery(r.Context(), job.ID, act)
	if err != nil {
		return err
	}
	return a.answerRecovery(w, r, http.StatusOK, job)
}

// jobAction is an action on a recovery job.
type jobAction struct {
	action string
	state  *string // that the job must be in; nil = any
	call   string  // the call with an Idempotency-Key; empty = none
}

// applyAction changes a job. An action that is already in effect changes nothing, and that of a call is done once,
// whatever the job did since.
func (a *recoveries) applyAction(j *jobs.Recovery, x jobAction) error {
	action := x.action
	if inEffect(j, action) || x.call != "" && j.ActedBy == x.call {
		return nil
	}
	if x.state != nil && *x.state != string(j.State) {
		return &web.Error{Status: http.StatusBadRequest, Type: web.Conflict, Param: "state",
			Message: fmt.Sprintf("is not the current one: the job is %s; read it again", j.State)}
	}
	if allowed := actionsOf(j.State); !slices.Contains(allowed, action) {
		may := "none of the actions is allowed any more"
		if len(allowed) > 0 {
			may = "allowed now: " + strings.Join(allowed, ", ")
		}
		return web.WrongState("action", "%s is not allowed while the job is %s; %s", action, j.State, may)
	}
	now := a.Now()
	j.ActedBy = x.call
	switch action {
	case actionCancel:
		j.End(jobs.RecoveryCancelled, jobs.StopCancelled, now)
		return nil
	case actionCanary:
		if other := a.otherSendingJob(j); other != nil && j.Sendable > 0 {
			return errOtherJobSends(other)
		}
		j.StartCanary(now)
	case actionContinue:
		if other := a.otherSendingJob(j); other != nil {
			return errOtherJobSends(other)
		}
		j.State = jobs.RecoveryRunning
	}
	return nil
}

// inEffect reports whether the job is already in the state that the action leads to.
func inEffect(j *jobs.Recovery, action string) bool {
	continued := j.Reserved > j.Canary.End()
	switch action {
	case actionCanary:
		return j.State == jobs.RecoveryCanaryRunning || j.State == jobs.RecoveryCompleted && !continued
	case actionContinue:
		return j.State == jobs.RecoveryRunning || j.State == jobs.RecoveryCompleted && continued
	default:
		return j.State == jobs.RecoveryCancelled
	}
}

// actionsOf returns the actions that a state allows.
func actionsOf(s jobs.RecoveryState) []string {
	switch {
	case s.Ended():
		return nil
	case s == jobs.RecoveryReady:
		return []string{actionCanary, actionCancel}
	case s == jobs.RecoveryAwaitingApproval:
		return []string{actionContinue, actionCancel}
	}
	return []string{actionCancel}
}

// otherSendingJob returns another job that currently sends to a destination of this one, nil if there is none.
func (a *recoveries) otherSendingJob(j *jobs.Recovery) *jobs.Recovery {
	jobs, _ := a.Config.Recoveries(j.Account, 0, 1, func(x *jobs.Recovery) bool {
		return x.ID != j.ID && x.State.Sending() && x.Overlaps(j)
	})
	if len(jobs) == 0 {
		return nil
	}
	return jobs[0]
}

func errOtherJobSends(other *jobs.Recovery) error {
	const text = "must wait: recovery job %s sends to the same destination and is %s"
	return web.WrongState("action", text, other.ID, other.State)
}

// addNeeds adds the jobs that wait for an approval to what needs a person.
func (a *recoveries) addNeeds(to *wire.OverviewNeeds, account string) {
	waiting, _ := a.Config.Recoveries(account, 0, math.MaxInt, func(j *jobs.Recovery) bool {
		return j.State == jobs.RecoveryAwaitingApproval
	})
	for _, j := range waiting {
		x := wire.WaitingRecovery{ID: j.ID, EndpointID: j.Endpoint, DestinationID: frame.OrNull(j.Destination),
			Total: j.Total, Canary: viewOfCanary(j.Canary), DeadlineAt: web.Time(j.Deadline), CreatedBy: j.CreatedBy}
		if e := a.PresentEndpoint(j.Endpoint, account); e != nil {
			x.EndpointName = &e.Name
		}
		to.Recoveries.Add(x)
	}
}

func viewOfCanary(c jobs.CanaryResult) wire.Canary {
	return wire.Canary{Total: c.Total, Delivered: c.Delivered, Failed: c.Failed}
}

// progress holds the outcomes of submitted deliveries by job. Settled jobs are absent: their records hold the outcomes.
type progress struct {
	counts   map[string]event.RecoveryCounts
	failures map[string]map[string]event.RecoveryFailures // by job and destination
	asOf     time.Time
}

// progressOf reads the progress of jobs of one account from the store.
func (a *recoveries) progressOf(ctx context.Context, jobs ...*jobs.Recovery) (progress, error) {
	p := progress{failures: map[string]map[string]event.RecoveryFailures{}}
	var unsettled []string
	account := ""
	for _, j := range jobs {
		if j.Reserved > 0 && !j.Settled {
			unsettled, account = append(unsettled, j.ID), j.Account
		}
	}
	if len(unsettled) == 0 {
		return p, nil
	}
	var err error
	if p.counts, p.asOf, err = a.Recovery.RecoveryCounts(ctx, account, unsettled...); err != nil {
		return p, err
	}
	for job, c := range p.counts {
		if c.Failed == 0 {
			continue
		}
		if p.failures[job], err = a.Recovery.RecoveryFailures(ctx, account, job); err != nil {
			return p, err
		}
	}
	return p, nil
}

// view renders a job. The store may be newer or older than the job's record, so reserved is the larger of both
// counts.
func (p progress) view(j *jobs.Recovery) wire.Recovery {
	c := p.counts[j.ID]
	if j.Settled {
		c = event.RecoveryCounts{Delivered: j.Delivered, Failed: j.Failed, Skipped: j.Skipped}
	}
	reserved := max(j.Reserved, c.Ended())
	unsent := max(j.Sendable-reserved, 0)
	v := wire.Recovery{
		ID: j.ID, Object: "recovery", EndpointID: j.Endpoint, DestinationID: frame.OrNull(j.Destination),
		Since:         web.Time(j.Since),
		Until:         web.Time(j.Until),
		RatePerSecond: j.RatePerSecond, State: j.State, Total: j.Total, Queued: reserved - c.Ended(), Delivered: c.Delivered,
		Failed:  c.Failed,
		Skipped: c.Skipped + j.Total - j.Sendable, Canary: viewOfCanary(j.Canary), StopReason: frame.OrNull(j.StopReason),
		CreatedAt: web.Time(j.CreatedAt),
		StartedAt: web.Time(j.StartedAt), FinishedAt: web.Time(j.FinishedAt), DeadlineAt: web.Time(j.Deadline),
		CreatedBy:     j.CreatedBy,
		ByDestination: make([]wire.RecoveryDestination, len(j.Destinations)),
	}
	if j.State.Ended() {
		v.Skipped += unsent
	} else {
		v.Pending = unsent
	}
	if j.Reserved <= j.Canary.End() {
		v.Canary.Delivered, v.Canary.Failed = c.Delivered, c.Failed
	}
	for i, d := range j.Destinations {
		if !j.Settled {
			f := p.failures[j.ID][d.ID]
			d.Failed, d.TopError = f.Failed, f.TopError
		}
		v.ByDestination[i] = wire.RecoveryDestination{ID: d.ID, Total: d.Total, Failed: d.Failed,
			TopError: frame.OrNull(d.TopError)}
	}
	if !j.State.Ended() && j.State != jobs.RecoveryPreparing {
		eta := int(math.Ceil(float64(v.Pending+v.Queued) / float64(j.RatePerSecond)))
		v.ETASeconds = &eta
	}
	if perDay := j.RatePerSecond * int(jobs.MaxRecoveryDuration/time.Second); perDay < j.Total {
		v.Warnings = []frame.Warning{{Param: "rate_per_second", Message: fmt.Sprintf(
			"at %d a second the job can send %d deliveries before its deadline, but %d are selected; the rest will be skipped",
			j.RatePerSecond, perDay, j.Total)}}
	}
	if j.Total == 0 && j.State == jobs.RecoveryReady {
		v.Warnings = []frame.Warning{{Param: "since",
			Message: "no delivery of the events received since then has failed for " +
				"good; those " +
				"that are being retried are not selected. To send them now, replay the events with the status retrying, and " +
				"name the destination_id"}}
	}
	return v
}

// view renders a job with warnings about what is paused now: a job neither ends for that nor says so in its state. One
// paused destination holds the whole job, because the next page waits for the results of the last one.
func (a *recoveries) view(p progress, j *jobs.Recovery) wire.Recovery {
	v := p.view(j)
	ep := a.PresentEndpoint(j.Endpoint, j.Account)
	if ep == nil || j.State.Ended() || j.Sendable == 0 {
		return v
	}
	const consequence = " is paused, so the job waits until it is unpaused; deliveries that are not sent by deadline_at " +
		"are skipped"
	if ep.Paused {
		v.Warnings = append(v.Warnings, frame.Warning{Param: "endpoint_id", Message: "the endpoint" + consequence})
		return v
	}
	for _, part := range j.Destinations {
		if d := ep.Destination(part.ID); part.Sendable > 0 && d != nil && d.Paused {
			v.Warnings = append(v.Warnings, frame.Warning{Param: "destination_id", Message: d.ID + consequence})
		}
	}
	return v
}

func itemOf(j *jobs.Recovery, x *event.RecoveryItem) wire.RecoveryItem {
	v := wire.RecoveryItem{
		ID: id.ItemOf(j.ID, x.Seq), RecoveryID: j.ID, EventID: x.Event.Text(id.Event), EventType: frame.OrNull(x.Type),
		DestinationID: x.Destination, DeliveryID: id.DeliveryOf(x.Event, x.Destination), State: x.State,
		SkippedReason: frame.OrNull(x.SkipReason), Canary: j.Canary.Contains(x.Seq),
		Attempts: x.Attempts, LastErrorCode: frame.OrNull(x.Error), UpdatedAt: web.Time(x.At),
	}
	if x.Code != 0 {
		v.LastResponseStatus = &x.Code
	}
	if x.At.IsZero() { // the store has no outcome: use the job's own times
		v.UpdatedAt = web.Time(j.CreatedAt)
		if x.State == event.Skipped && !j.FinishedAt.IsZero() && x.Seq < j.Sendable {
			v.UpdatedAt = web.Time(j.FinishedAt)
		}
	}
	return v
}
