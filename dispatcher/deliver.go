package dispatcher

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// The path of a delivery: admit passes it to its lane, a worker of the lane takes it, applies the endpoint's
// transformation (transform.go) and has its kind send it (package destination), which also classifies the answer,
// decide chooses the next step (next.go), and recordAttempt makes the outcome and the follow-up, which the finisher
// produces (finish.go). When the lane decides not to send it, carryOut ends or parks it.

// admit passes a delivery that is due to its lane.
func (d *Dispatcher) admit(delivery *lane.Delivery) {
	d.transformations.reserve(d.config, delivery)
	d.carryOut(d.lanes.Admit(delivery))
}

// worker sends the deliveries of a lane until the lane says Stop.
func (d *Dispatcher) worker(ctx context.Context, l *lane.Lane) {
	var last lane.Result
	for {
		decision := l.Next(ctx, last)
		switch decision.Action {
		case lane.Stop:
			return
		case lane.Send:
			last = d.sendDelivery(ctx, l, decision)
		default:
			d.carryOut(decision)
			last = lane.Result{Delivery: decision.Delivery}
		}
	}
}

// sendDelivery makes one attempt, records it and its next step, and returns the result for the lane.
func (d *Dispatcher) sendDelivery(ctx context.Context, l *lane.Lane, decision lane.Decision) lane.Result {
	delivery, work := decision.Delivery, decision.Delivery.Work
	if work.Attempt > 1 {
		d.metrics.retryLateness.Observe(max(d.now().Sub(work.Due), 0).Seconds())
	}
	content, err := d.transformations.apply(ctx, decision.Eligibility.Endpoint, work)
	switch {
	case err != nil && ctx.Err() != nil: // the node stops: the next owner delivers
		d.lanes.Release(delivery)
		return lane.Result{Delivery: delivery}
	case err != nil:
		d.failTransformation(delivery, decision.Eligibility.Endpoint, err)
		return lane.Result{Delivery: delivery}
	case content.Made() != delivery.Reserved:
		l.Reserve(delivery, content.Made())
	}
	policy := policyOf(work, decision.Eligibility.Endpoint)
	attempt, result := d.makeAttempt(ctx, l, decision, content, policy.RetryOn)
	if result.NotTaken || result.Outdated {
		delivery.Slot.EndDelivery()
		kind := lane.WaitsForPull
		if result.Outdated {
			kind = lane.Outdated
		}
		return lane.Result{Delivery: delivery, Kind: kind}
	}
	if ctx.Err() != nil && attempt.Code == 0 && !attempt.OK { // the node stops, has cancelled it: the next owner delivers
		d.lanes.Release(delivery)
		return lane.Result{Delivery: delivery}
	}
	if result.Unsent != nil {
		d.carryOut(d.lanes.ParkUnsent(delivery, result.Unsent))
		return lane.Result{Delivery: delivery}
	}
	crash.At(crashSent)
	now := d.now()
	next := decide(work, result.Classification, policy, attempt.RetryAfter, now, d.rules.expiry(work), rand.Float64())
	delivery.Recorded = result.Recorded
	d.recordAttempt(delivery, attempt, next, now)
	if result.Disable {
		d.disabler.request(work, decision.Eligibility.Destination.URL, event.ReceiverDisabled)
	}
	return lane.Result{Delivery: delivery, Kind: result.Lane, Code: attempt.Code,
		URL: decision.Eligibility.Destination.URL}
}

// makeAttempt sends the delivery. If the secrets of the destination cannot be opened, the attempt fails with an
// internal error, so that users see it.
func (d *Dispatcher) makeAttempt(
	ctx context.Context, l *lane.Lane, decision lane.Decision, content destination.Content, retryOn []string,
) (*event.Attempt, destination.Result) {
	work := decision.Delivery.Work
	attemptID := d.ids.NewUnbounded(decision.Delivery.Slot.Partition().ID.Index)
	target, err := l.Target(decision.Eligibility)
	if err == nil {
		return d.sender.Send(ctx, attemptID, target.(destination.Target), work, content, retryOn,
			func() bool { return d.isCurrent(work, decision.Eligibility) })
	}
	d.log.LogAttrs(ctx, slog.LevelError, "cannot open destination secrets", slog.String("destination", work.Dest),
		slog.Any("error", err))
	return &event.Attempt{
			ID: attemptID, StartedAt: d.now(), Trigger: work.Trigger, URL: decision.Eligibility.Destination.URL,
			TransformationVersion: content.Version,
			ErrorCode:             event.CodeInternal,
			ErrorMessage: "the URL, headers or secrets of the destination could not be opened; " +
				"set them again",
		}, destination.Result{Lane: lane.Failed, Classification: destination.Classification{
			Class: destination.Retryable, Code: event.CodeInternal}}
}

// isCurrent reports whether a delivery that was checked before may still be sent as it is.
func (d *Dispatcher) isCurrent(work *event.Work, before lane.Eligibility) bool {
	now := d.rules.Check(work, false)
	switch {
	case !now.Known:
		return true
	case now.Status != "" || now.Paused:
		return false
	case now.Endpoint.Rev == before.Endpoint.Rev:
		return true
	}
	return now.Endpoint.TransformationVersion() == before.Endpoint.TransformationVersion() &&
		reflect.DeepEqual(sentAs(now.Destination), sentAs(before.Destination))
}

// sentAs is a destination without what does not change a request. With it an application that changes a limit every few
// seconds would delay batches forever.
func sentAs(d *config.Destination) config.Destination {
	sent := *d
	sent.Name, sent.MaxInFlight, sent.RateLimit, sent.Ordering = nil, 0, nil, nil
	sent.PurgeBefore, sent.StateReason, sent.GoneAt = time.Time{}, "", time.Time{}
	return sent
}

// recordAttempt records an attempt and its next step.
func (d *Dispatcher) recordAttempt(delivery *lane.Delivery, attempt *event.Attempt, next nextStep, now time.Time) {
	work := delivery.Work
	outcome := newOutcome(work, next.status, next.reason, now)
	outcome.Code, outcome.Attempt, outcome.NextAt = attempt.Code, attempt, next.due
	d.metrics.attempt(work.Dest, attempt)
	logAttempt(d.log, outcome)
	if next.status == event.Delivered && (work.Run != "" || work.Attempt > 1 || work.WasParked()) {
		d.rules.superseded.add(lane.DeliveryKey{Event: work.Event.ID, Dest: work.Dest}, attempt.StartedAt)
	}
	if next.status == event.Delivered && work.Run != "" {
		d.rules.superseded.add(lane.KeyOf(work), attempt.StartedAt)
		d.lanes.Unblock(delivery.Slot.Partition().ID.Index, work)
	}
	if next.status != event.Retrying {
		d.finishDelivery(delivery, step{}, outcome)
		return
	}
	nextWork := *work
	nextWork.Attempt, nextWork.Due, nextWork.Deadline = work.Attempt+1, next.due, next.deadline
	nextWork.Parked, nextWork.ParkedBy, nextWork.ReportedNextAt, nextWork.Behind = "", 0, time.Time{}, ""
	nextWork.OpenFor, nextWork.OpenUntil = 0, time.Time{}
	if attempt.Trace != "" {
		nextWork.Trace = attempt.Trace
	}
	if work.Run == "" {
		nextWork.Trigger = event.TriggerRetry
	}
	d.finishDelivery(delivery, d.followUp(&nextWork, now), outcome)
}

// carryOut ends or parks a delivery as its lane has decided.
func (d *Dispatcher) carryOut(decision lane.Decision) {
	switch decision.Action {
	case lane.End:
		d.endDelivery(decision)
	case lane.Park:
		d.parkDelivery(decision)
	}
}

// endDelivery records that no attempt follows. A delivery that is skipped within a replay or recovery job gets its
// earlier final status back. If it had none, it is skipped until the next outcome of its automatic attempts, which go
// on. A superseded delivery does not: with the earlier status delivered, the skip would replace the outcome of the
// attempt that has delivered it. An earlier status delivered counts as of the start of the run, not as of now: an
// attempt of the run that another node has made is newer, and so is the outcome of a later run.
//
// A decision without a status ends a copy of a delivery: the outcome of the other record counts.
func (d *Dispatcher) endDelivery(decision lane.Decision) {
	work := decision.Delivery.Work
	if decision.Status == "" {
		slotOf(decision.Delivery).endsAsCopy()
		d.finishDelivery(decision.Delivery, step{}, nil)
		return
	}
	outcome := newOutcome(work, decision.Status, decision.Reason, decision.DecidedAt)
	if outcome.Status == event.Skipped && work.Run != "" {
		outcome.SkipReason = outcome.Reason
	}
	if outcome.Status == event.Skipped && outcome.Reason != event.Superseded && work.Prior.Terminal() {
		outcome.Status, outcome.Reason = work.Prior, work.PriorReason
		if work.Prior == event.Delivered {
			outcome.At = startedAt(work)
		}
	}
	d.finishDelivery(decision.Delivery, step{}, outcome)
}

// parkDelivery writes a delivery that cannot be sent now to a retry topic. This is not an attempt.
func (d *Dispatcher) parkDelivery(decision lane.Decision) {
	if second := decision.DecidedAt.Unix(); decision.Err != nil && d.parkWarned.Swap(second) != second {
		d.log.LogAttrs(context.Background(), slog.LevelWarn, "cannot make the attempt now, parking delivery",
			slog.Any("error", decision.Err))
	}
	work := decision.Delivery.Work
	if d.log.Enabled(context.Background(), slog.LevelDebug) {
		d.log.LogAttrs(context.Background(), slog.LevelDebug, "delivery parked",
			slog.String("reason", string(decision.Reason)),
			slog.String("event", work.Event.ID.Text(id.Event)), slog.String("destination", work.Dest),
			slog.Time("due", decision.Due))
	}
	d.spans.Park(work, decision.Reason, decision.DecidedAt)
	nextWork := *work
	nextWork.Parked, nextWork.ParkedBy = decision.Reason, decision.ParkedBy
	nextWork.Due, nextWork.ReportedNextAt, nextWork.Behind = decision.Due, decision.ReportedNextAt, decision.Behind
	nextWork.OpenFor, nextWork.OpenUntil = decision.OpenFor, decision.OpenUntil
	var outcome *event.Outcome
	if decision.Status != "" {
		outcome = newOutcome(work, decision.Status, decision.Reason, decision.DecidedAt)
		outcome.NextAt, outcome.Behind = decision.EarliestSend, decision.Behind
	}
	d.finishDelivery(decision.Delivery, d.followUp(&nextWork, decision.DecidedAt), outcome)
}

// scheduleDelivery moves a delivery with a deliver_at to a retry topic. It counts as parked, so that a copy of it ends.
func (d *Dispatcher) scheduleDelivery(delivery *lane.Delivery, now time.Time) {
	if !d.lanes.Begin(delivery) {
		return
	}
	nextWork := *delivery.Work
	nextWork.Due, nextWork.ReportedNextAt = delivery.Work.Event.DeliverAt, delivery.Work.Event.DeliverAt
	outcome := newOutcome(delivery.Work, event.Pending, event.Scheduled, now)
	outcome.NextAt = nextWork.Due
	d.finishDelivery(delivery, d.followUp(&nextWork, now), outcome)
}

// hopDelivery moves a delivery that is not due to the tier for the rest of its wait.
func (d *Dispatcher) hopDelivery(delivery *lane.Delivery, now time.Time) {
	if d.lanes.Begin(delivery) {
		d.finishDelivery(delivery, d.followUp(delivery.Work, now), nil)
	}
}

// followUp is the record that continues a delivery, in the retry topic of its delay.
func (d *Dispatcher) followUp(nextWork *event.Work, now time.Time) step {
	record, err := nextWork.Record()
	if err != nil {
		panic("BUG: " + err.Error()) // strings, numbers and times always encode
	}
	return step{topic: lane.TierFor(d.tiers, nextWork.Due.Sub(now)).Topic, record: record, crash: crashRetry}
}

// finishDelivery produces the follow-up, if any, then the outcome, if any, then completes the slot.
func (d *Dispatcher) finishDelivery(delivery *lane.Delivery, followUp step, outcome *event.Outcome) {
	var steps [2]step
	n := 0
	if work := delivery.Work; work.Place.Position > 0 && followUp.record == nil && outcome != nil {
		if followUp = d.blocker(work, outcome); followUp.record == nil {
			d.lanes.EndPlace(delivery)
		}
	}
	if followUp.record != nil {
		d.lanes.ForgetCopies(delivery)
		steps[n] = followUp
		n++
	}
	if outcome != nil {
		d.metrics.outcome(outcome)
		steps[n] = outcomeStep(outcome)
		n++
	}
	d.finisher.complete(delivery, steps[:n]...)
}

func newOutcome(work *event.Work, status event.Status, reason event.Reason, at time.Time) *event.Outcome {
	return &event.Outcome{
		Event: work.Event.ID, Account: work.Event.Account, Endpoint: work.Event.Endpoint, Dest: work.Dest,
		Type:   work.Event.Type,
		Status: status, Reason: reason, At: at, Run: work.Run,
		WasParked: work.WasParked(),
	}
}

// logAttempt writes one line per attempt: at level info when the delivery has failed for good, else at debug. A
// destination that is down fails thousands of attempts a minute; the metrics count those.
func logAttempt(log *slog.Logger, outcome *event.Outcome) {
	level, message := slog.LevelDebug, "delivery attempted"
	if outcome.Status == event.Failed {
		level, message = slog.LevelInfo, "delivery failed for good"
	}
	if !log.Enabled(context.Background(), level) {
		return
	}
	if trace := event.TraceID(outcome.Attempt.Trace); trace != "" {
		log = log.With("trace_id", trace)
	}
	next := slog.Attr{} // none is left out
	if !outcome.NextAt.IsZero() {
		next = slog.Time("next", outcome.NextAt)
	}
	log.LogAttrs(context.Background(), level, message,
		slog.String("event", outcome.Event.Text(id.Event)), slog.String("endpoint", outcome.Endpoint),
		slog.String("destination", outcome.Dest), slog.String("trigger", string(outcome.Attempt.Trigger)),
		slog.String("status", string(outcome.Status)), slog.Int("code", outcome.Code),
		slog.String("error", string(outcome.Attempt.ErrorCode)), slog.Duration("duration", outcome.Attempt.Duration),
		next)
}
