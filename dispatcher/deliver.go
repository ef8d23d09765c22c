package dispatcher

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// worker sends the work of a lane until there is none, or there are more workers than may fly.
func (d *Dispatcher) worker(ctx context.Context, l *lane.Lane) {
	var j *lane.Delivery
	var r lane.Result
	for {
		if j = d.lanes.Next(l, j, r); j == nil {
			return
		}
		r = lane.Result{}
		if !slotOf(j).part.begin() {
			d.lanes.Free(j) // the partition left this node: its next owner does it
			continue
		}
		if r = d.deliver(ctx, l, j); r.Kind == lane.PutBack {
			slotOf(j).part.end()
		}
	}
}

// deliver brings one job to its next state: skipped, delivered, to be retried, parked or failed. The
// configuration is read here, at the last moment, so that a change counts for what is queued.
func (d *Dispatcher) deliver(ctx context.Context, l *lane.Lane, j *lane.Delivery) lane.Result {
	w := j.Work
	if j.Aside != "" {
		d.putAside(j, j.Aside, true)
		return lane.Result{}
	}
	r, err := d.judge(ctx, w)
	switch {
	case err != nil:
		d.undecided(ctx, j, err)
		return lane.Result{}
	case r.end.status != "":
		d.ended(j, r.end)
		return lane.Result{}
	case r.paused:
		d.park(j, event.Manual)
		return lane.Result{}
	}
	attemptID := d.ids.Next(slotOf(j).part.id.Index)
	if wait := d.take(l, r.dest); wait > 0 {
		return lane.Result{Kind: lane.PutBack, Wait: wait, Rate: r.dest.RateLimit.PerSecond}
	}
	if w.Attempt > 1 {
		d.metrics.late.Observe(max(d.now().Sub(w.Due), 0).Seconds())
	}
	a := d.attempt(ctx, l, r, attemptID, w)
	if ctx.Err() != nil && a.Code == 0 {
		d.abandon(j)
		return lane.Result{}
	}
	d.faults.at(crashSent)
	if l.Gone().Note(a.Code, w.Event.ID, r.dest.URL) {
		d.retire(retirement{r.ep.ID, w.Dest, r.dest.URL, l.Gone()})
	}
	return d.conclude(j, r.ep, a)
}

// resultOf is what the lane learns from an attempt.
func resultOf(a *event.Attempt) lane.Result {
	switch {
	case a.OK:
		return lane.Result{Kind: lane.Succeeded}
	case a.ErrorCode == event.CodeTimeout:
		return lane.Result{Kind: lane.TimedOut}
	}
	return lane.Result{Kind: lane.Failed}
}

// attempt sends the request. A destination whose secrets do not open has failed an attempt as well:
// the mistake is on our side, and it shows.
func (d *Dispatcher) attempt(ctx context.Context, l *lane.Lane, r ruling, attemptID id.ID, w *event.Work) *event.Attempt {
	t, err := d.open(l, r.ep, r.dest)
	if err == nil {
		return d.client.send(ctx, attemptID, t, w)
	}
	d.log.LogAttrs(ctx, slog.LevelError, "open destination", slog.String("destination", w.Dest), slog.Any("error", err))
	return &event.Attempt{
		ID: attemptID, StartedAt: d.now(), Trigger: w.Trigger, URL: r.dest.URL, Method: w.Event.Method,
		ErrorCode: event.CodeInternal, ErrorMessage: "the configuration of the destination could not be opened",
	}
}

// abandon leaves a job that our own stop has cut short to the next owner of its partition.
func (d *Dispatcher) abandon(j *lane.Delivery) {
	slotOf(j).part.end()
	d.lanes.Free(j)
}

// inFlight is the max_in_flight of the work's destination, 0 if this node does not know it.
func (d *Dispatcher) inFlight(w *event.Work) int {
	if ep, presence := d.config.Endpoint(w.Event.Endpoint); presence == config.Present {
		if dest := ep.Destination(w.Dest); dest != nil {
			return dest.MaxInFlight
		}
	}
	return 0
}

// open returns the opened destination, from the lane if the endpoint has not changed.
func (d *Dispatcher) open(l *lane.Lane, ep *config.Endpoint, dest *config.Destination) (*lane.Target, error) {
	if t := l.Target(); t != nil && t.Rev == ep.Rev {
		return t, nil
	}
	t, err := lane.OpenTarget(d.keyring, ep.Rev, dest)
	if err != nil {
		return nil, err
	}
	l.Keep(t)
	d.lanes.Configure(l, dest.URL, dest.MaxInFlight)
	return t, nil
}

// ended records that a delivery stays as it is. Skipped inside a run, it is again what it was before, if
// that was final: what was still open has an automatic chain that will speak for itself.
func (d *Dispatcher) ended(j *lane.Delivery, e ending) {
	if e.reason == event.DestinationDisabled {
		d.lanes.Disabled(j.Work.Dest)
	}
	o := d.outcome(j.Work, e.status, e.reason)
	if e.status == event.Skipped && j.Work.Run != "" {
		o.Skipped = e.reason
	}
	if e.status == event.Skipped && j.Work.Prior.Terminal() {
		o.Status, o.Reason = j.Work.Prior, j.Work.PriorReason
	}
	d.finish(j, o)
}

// conclude records an attempt and what follows from it.
func (d *Dispatcher) conclude(j *lane.Delivery, ep *config.Endpoint, a *event.Attempt) lane.Result {
	w := j.Work
	policy := policyOf(w, ep)
	v := classify(a.Code, a.ErrorCode, policy.RetryOn)
	a.OK, a.ErrorCode = v.fate == delivered, v.code
	if !a.OK && a.Code != 0 {
		a.ErrorMessage = statusMessage(a.Code)
	}
	now := d.now()
	n := decide(w, v, policy, a.RetryAfter, now, d.expiry(w), rand.Float64())
	o := d.outcome(w, n.status, n.reason)
	o.Code, o.Attempt, o.NextAt = a.Code, a, n.due
	d.metrics.attempt(a)
	logAttempt(d.log, o)
	if n.status == event.Delivered && (w.Run != "" || w.Attempt > 1 || w.Parked != "") {
		d.superseded.add(delivery{event: w.Event.ID, dest: w.Dest})
	}
	if n.status == event.Delivered && ofRecovery(w) {
		d.superseded.add(delivery{w.Event.ID, w.Dest, w.Run})
	}
	if n.status != event.Retrying {
		d.finish(j, o)
		return resultOf(a)
	}
	again := *w
	again.Attempt, again.Due, again.Deadline = w.Attempt+1, n.due, n.deadline
	again.Parked, again.ParkedBy, again.Told = "", 0, time.Time{}
	if w.Run == "" {
		again.Trigger = event.TriggerRetry
	}
	d.follow(j, &again, now, o)
	return resultOf(a)
}

// next is what an attempt leads to.
type next struct {
	status   event.Status
	reason   event.Reason
	due      time.Time // of the next attempt, when retrying
	deadline time.Time // of the chain, when retrying
}

// decide is the rule of a chain: pure, so that years of it are tested in microseconds. random is
// uniform in [0, 1).
func decide(w *event.Work, v verdict, p config.RetryPolicy, retryAfter time.Duration, now, expiry time.Time, random float64) next {
	switch {
	case ofRecovery(w):
		return decideRecovery(w, v, now, expiry)
	case v.fate == delivered:
		return next{status: event.Delivered}
	case v.fate == fail:
		return next{status: event.Failed, reason: v.reason}
	case w.Attempt >= p.Attempts():
		return next{status: event.Failed, reason: event.AttemptsExhausted}
	}
	deadline := w.Deadline
	if deadline.IsZero() {
		deadline = lane.Earlier(now.Add(chainLength(p)), expiry)
	}
	due := now.Add(retryDelay(p, w.Attempt, retryAfter, random))
	switch {
	case due.Before(deadline):
		return next{status: event.Retrying, due: due, deadline: deadline}
	case !due.Before(expiry):
		return next{status: event.Failed, reason: event.PayloadExpired}
	}
	return next{status: event.Failed, reason: event.AttemptsExhausted}
}

// undecided puts work aside that could not even be judged, without a word: nothing is known of it.
func (d *Dispatcher) undecided(ctx context.Context, j *lane.Delivery, err error) {
	if ctx.Err() != nil {
		d.abandon(j)
		return
	}
	d.log.LogAttrs(ctx, slog.LevelWarn, "put delivery aside, the configuration cannot be read", slog.Any("error", err))
	again, now := *j.Work, d.now()
	again.Due, again.ParkedBy = now.Add(lane.ShortestPark), 0
	d.follow(j, &again, now, nil)
}

// follow produces the work that continues a delivery, then the outcome that speaks of it, if any.
func (d *Dispatcher) follow(j *lane.Delivery, again *event.Work, now time.Time, o *event.Outcome) {
	r, err := again.Record()
	if err != nil {
		panic("BUG: " + err.Error()) // strings, numbers and times always encode
	}
	steps := []step{{topic: lane.TierFor(d.tiers, again.Due.Sub(now)).Topic, record: r, crash: crashRetry}}
	if o != nil {
		d.metrics.outcome(o)
		steps = append(steps, outcomeStep(o))
	}
	d.finisher.finish(j, steps...)
}

func (d *Dispatcher) finish(j *lane.Delivery, o *event.Outcome) {
	d.metrics.outcome(o)
	d.finisher.finish(j, outcomeStep(o))
}

func (d *Dispatcher) outcome(w *event.Work, status event.Status, reason event.Reason) *event.Outcome {
	return &event.Outcome{
		Event: w.Event.ID, Account: w.Event.Account, Endpoint: w.Event.Endpoint, Dest: w.Dest, Type: w.Event.Type,
		Status: status, Reason: reason, At: d.now(), Run: w.Run, Waited: w.Parked != "",
	}
}

// logAttempt writes the one line of a delivery: at info when it has failed for good, else at debug. A destination
// that is down fails thousands of attempts a minute; the metrics count those.
func logAttempt(log *slog.Logger, o *event.Outcome) {
	level := slog.LevelDebug
	if o.Status == event.Failed {
		level = slog.LevelInfo
	}
	if !log.Enabled(context.Background(), level) {
		return
	}
	log.LogAttrs(context.Background(), level, "delivery",
		slog.String("event", o.Event.Text(id.Event)), slog.String("endpoint", o.Endpoint), slog.String("destination", o.Dest),
		slog.String("trigger", string(o.Attempt.Trigger)), slog.String("status", string(o.Status)), slog.Int("code", o.Code),
		slog.String("error", string(o.Attempt.ErrorCode)), slog.Duration("duration", o.Attempt.Duration), slog.Time("next", o.NextAt))
}
