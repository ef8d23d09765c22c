package dispatcher

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// The path of a delivery: admit gives it to its lane, a worker of the lane gets it back and sends it, the answer is
// classified (classify.go), the next step is decided (next.go), and conclude has both recorded (finish.go). Where the
// lane decides otherwise, carryOut ends or parks it.

// admit gives a delivery that is due to its lane.
func (d *Dispatcher) admit(delivery *lane.Delivery) { d.carryOut(d.lanes.Admit(delivery)) }

// worker sends the deliveries of a lane until the lane has none for it.
func (d *Dispatcher) worker(ctx context.Context, l *lane.Lane) {
	var last lane.Result
	for {
		decision := d.lanes.Next(ctx, l, last)
		switch decision.Action {
		case lane.Stop:
			return
		case lane.Send:
			last = d.send(ctx, l, decision)
		default:
			d.carryOut(decision)
			last = lane.Result{Delivery: decision.Delivery}
		}
	}
}

// send makes one attempt, records it and what follows from it, and returns what the lane learns.
func (d *Dispatcher) send(ctx context.Context, l *lane.Lane, decision lane.Decision) lane.Result {
	delivery, w := decision.Delivery, decision.Delivery.Work
	if w.Attempt > 1 {
		d.metrics.late.Observe(max(d.now().Sub(w.Due), 0).Seconds())
	}
	a := d.attempt(ctx, l, decision)
	if ctx.Err() != nil && a.Code == 0 { // our own stop has cut it short: it is left to the next owner
		d.lanes.Release(delivery)
		return lane.Result{Delivery: delivery}
	}
	d.faults.at(crashSent)
	policy := policyOf(w, decision.Eligibility.Endpoint)
	v := classify(a.Code, a.ErrorCode, policy.RetryOn)
	a.OK, a.ErrorCode = v.fate == delivered, v.code
	if !a.OK && a.Code != 0 {
		a.ErrorMessage = statusMessage(a.Code)
	}
	now := d.now()
	n := decide(w, v, policy, a.RetryAfter, now, d.rules.expiry(w), rand.Float64())
	d.conclude(delivery, a, n, now)
	return lane.Result{Delivery: delivery, Kind: resultOf(a), Code: a.Code, URL: decision.Eligibility.Destination.URL}
}

// attempt sends the request. A destination whose secrets do not open has failed an attempt as well:
// the mistake is on our side, and it shows.
func (d *Dispatcher) attempt(ctx context.Context, l *lane.Lane, decision lane.Decision) *event.Attempt {
	w := decision.Delivery.Work
	attemptID := d.ids.Next(decision.Delivery.Slot.Partition().ID.Index)
	target, err := d.lanes.Target(l, decision.Eligibility)
	if err == nil {
		return d.client.send(ctx, attemptID, target, w)
	}
	d.log.LogAttrs(ctx, slog.LevelError, "cannot open destination secrets", slog.String("destination", w.Dest),
		slog.Any("error", err))
	return &event.Attempt{
		ID: attemptID, StartedAt: d.now(), Trigger: w.Trigger, URL: decision.Eligibility.Destination.URL,
		Method:    w.Event.Method,
		ErrorCode: event.CodeInternal, ErrorMessage: "the configuration of the destination could not be opened",
	}
}

// resultOf is what the lane learns from an attempt.
func resultOf(a *event.Attempt) lane.ResultKind {
	switch {
	case a.OK:
		return lane.Succeeded
	case a.ErrorCode == event.CodeTimeout:
		return lane.TimedOut
	}
	return lane.Failed
}

// conclude records an attempt and its next step.
func (d *Dispatcher) conclude(delivery *lane.Delivery, a *event.Attempt, n next, now time.Time) {
	w := delivery.Work
	o := outcome(w, n.status, n.reason, now)
	o.Code, o.Attempt, o.NextAt = a.Code, a, n.due
	d.metrics.attempt(a)
	logAttempt(d.log, o)
	if n.status == event.Delivered && (w.Run != "" || w.Attempt > 1 || w.Parked != "") {
		d.rules.superseded.add(deliveryKey{event: w.Event.ID, dest: w.Dest})
	}
	if n.status == event.Delivered && ofRecovery(w) {
		d.rules.superseded.add(deliveryKey{w.Event.ID, w.Dest, w.Run})
	}
	if n.status != event.Retrying {
		d.record(delivery, step{}, o)
		return
	}
	again := *w
	again.Attempt, again.Due, again.Deadline = w.Attempt+1, n.due, n.deadline
	again.Parked, again.ParkedBy, again.ReportedNextAt = "", 0, time.Time{}
	if w.Run == "" {
		again.Trigger = event.TriggerRetry
	}
	d.record(delivery, d.followUp(&again, now), o)
}

// carryOut does what a lane has decided about a delivery that is not sent now.
func (d *Dispatcher) carryOut(decision lane.Decision) {
	switch decision.Action {
	case lane.End:
		d.end(decision)
	case lane.Park:
		d.park(decision)
	}
}

// end records that a delivery stays as it is. Skipped inside a run, it is again what it was before, if
// that was final: what was still open has automatic attempts that will speak for themselves.
func (d *Dispatcher) end(decision lane.Decision) {
	w := decision.Delivery.Work
	o := outcome(w, decision.Status, decision.Reason, decision.DecidedAt)
	if o.Status == event.Skipped && w.Run != "" {
		o.SkipReason = o.Reason
	}
	if o.Status == event.Skipped && w.Prior.Terminal() {
		o.Status, o.Reason = w.Prior, w.PriorReason
	}
	d.record(decision.Delivery, step{}, o)
}

// park puts a delivery that cannot be sent now into a retry topic. It is no attempt.
func (d *Dispatcher) park(decision lane.Decision) {
	if decision.Err != nil {
		d.log.LogAttrs(context.Background(), slog.LevelWarn, "park delivery, the configuration cannot be read",
			slog.Any("error", decision.Err))
	}
	w := decision.Delivery.Work
	if d.log.Enabled(context.Background(), slog.LevelDebug) {
		d.log.LogAttrs(context.Background(), slog.LevelDebug, "delivery parked",
			slog.String("reason", string(decision.Reason)),
			slog.String("event", w.Event.ID.Text(id.Event)), slog.String("destination", w.Dest), slog.Time("due", decision.Due))
	}
	again := *w
	again.Parked, again.ParkedBy = decision.Reason, decision.ParkedBy
	again.Due, again.ReportedNextAt = decision.Due, decision.ReportedNextAt
	var o *event.Outcome
	if decision.Status != "" {
		o = outcome(w, decision.Status, decision.Reason, decision.DecidedAt)
		o.NextAt = decision.EarliestSend
	}
	d.record(decision.Delivery, d.followUp(&again, decision.DecidedAt), o)
}

// hop sends a delivery that is not due into the next tier.
func (d *Dispatcher) hop(delivery *lane.Delivery, now time.Time) {
	if d.lanes.Begin(delivery) {
		d.record(delivery, d.followUp(delivery.Work, now), nil)
	}
}

// followUp is the record that continues a delivery, in the retry topic of its delay.
func (d *Dispatcher) followUp(again *event.Work, now time.Time) step {
	r, err := again.Record()
	if err != nil {
		panic("BUG: " + err.Error()) // strings, numbers and times always encode
	}
	return step{topic: lane.TierFor(d.tiers, again.Due.Sub(now)).Topic, record: r, crash: crashRetry}
}

// record produces the record that continues a delivery, if any, then the outcome that speaks of it, if any.
func (d *Dispatcher) record(delivery *lane.Delivery, followUp step, o *event.Outcome) {
	var steps [2]step
	n := 0
	if followUp.record != nil {
		steps[n] = followUp
		n++
	}
	if o != nil {
		d.metrics.outcome(o)
		steps[n] = outcomeStep(o)
		n++
	}
	d.finisher.complete(delivery, steps[:n]...)
}

func outcome(w *event.Work, status event.Status, reason event.Reason, at time.Time) *event.Outcome {
	return &event.Outcome{
		Event: w.Event.ID, Account: w.Event.Account, Endpoint: w.Event.Endpoint, Dest: w.Dest, Type: w.Event.Type,
		Status: status, Reason: reason, At: at, Run: w.Run, WasParked: w.Parked != "",
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
		slog.String("event", o.Event.Text(id.Event)), slog.String("endpoint", o.Endpoint),
		slog.String("destination", o.Dest), slog.String("trigger", string(o.Attempt.Trigger)),
		slog.String("status", string(o.Status)), slog.Int("code", o.Code),
		slog.String("error", string(o.Attempt.ErrorCode)), slog.Duration("duration", o.Attempt.Duration),
		slog.Time("next", o.NextAt))
}
