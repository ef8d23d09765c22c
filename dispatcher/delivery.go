package dispatcher

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/pkg/stream"
)

// deliveries is what becomes of deliveries apart from attempts: admit passes one to its lane, carryOut ends or parks it
// as the lane decides, and finish records that.
type deliveries struct {
	config          ConfigView
	log             *slog.Logger
	now             func() time.Time
	tiers           []stream.Tier
	lanes           *lane.Lanes
	transformations *transformations
	finisher        *finisher
	metrics         *metrics
	spans           *spans.Recorder
	parkWarned      atomic.Int64 // unix seconds of the last warning that deliveries are parked because of an error
}

// admit passes a delivery that is due to its lane.
func (d *deliveries) admit(delivery *lane.Delivery) {
	d.transformations.reserve(d.config, delivery)
	d.carryOut(d.lanes.Admit(delivery))
}

// carryOut ends or parks a delivery as its lane has decided.
func (d *deliveries) carryOut(decision lane.Decision) {
	switch decision.Action {
	case lane.End:
		d.end(decision)
	case lane.Park:
		d.park(decision)
	}
}

// end records that no attempt follows. A delivery that is skipped within a replay or recovery job gets its
// earlier final status back. If it had none, it is skipped until the next outcome of its automatic attempts, which go
// on. A superseded delivery does not: with the earlier status delivered, the skip would replace the outcome of the
// attempt that has delivered it. An earlier status delivered counts as of the start of the run, not as of now: an
// attempt of the run that another node has made is newer, and so is the outcome of a later run.
//
// A decision without a status ends a copy of a delivery: the outcome of the other record counts.
func (d *deliveries) end(decision lane.Decision) {
	work := decision.Delivery.Work
	if decision.Status == "" {
		slotOf(decision.Delivery).endsAsCopy()
		d.finish(decision.Delivery, step{}, nil)
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
	d.finish(decision.Delivery, step{}, outcome)
}

// park writes a delivery that cannot be sent now to a retry topic. This is not an attempt.
func (d *deliveries) park(decision lane.Decision) {
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
	d.finish(decision.Delivery, d.followUp(&nextWork, decision.DecidedAt), outcome)
}

// schedule moves a delivery with a deliver_at to a retry topic. It counts as parked, so that a copy of it ends.
func (d *deliveries) schedule(delivery *lane.Delivery, now time.Time) {
	if !d.lanes.Begin(delivery) {
		return
	}
	nextWork := *delivery.Work
	nextWork.Due, nextWork.ReportedNextAt = delivery.Work.Event.DeliverAt, delivery.Work.Event.DeliverAt
	outcome := newOutcome(delivery.Work, event.Pending, event.Scheduled, now)
	outcome.NextAt = nextWork.Due
	d.finish(delivery, d.followUp(&nextWork, now), outcome)
}

// hop moves a delivery that is not due to the tier for the rest of its wait.
func (d *deliveries) hop(delivery *lane.Delivery, now time.Time) {
	if d.lanes.Begin(delivery) {
		d.finish(delivery, d.followUp(delivery.Work, now), nil)
	}
}

// followUp is the record that continues a delivery, in the retry topic of its delay.
func (d *deliveries) followUp(nextWork *event.Work, now time.Time) step {
	record, err := nextWork.Record()
	if err != nil {
		panic("BUG: " + err.Error()) // strings, numbers and times always encode
	}
	return step{topic: lane.TierFor(d.tiers, nextWork.Due.Sub(now)).Topic, record: record}
}

// finish produces the follow-up, if any, then the outcome, if any, then completes the slot.
func (d *deliveries) finish(delivery *lane.Delivery, followUp step, outcome *event.Outcome) {
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

// blocker is the record that keeps those after a delivery waiting that has failed for good; it has none if the next
// one may go.
func (d *deliveries) blocker(work *event.Work, outcome *event.Outcome) step {
	endpoint, _ := d.config.Endpoint(work.Event.Endpoint)
	if outcome.Status != event.Failed || outcome.Reason == event.PayloadExpired || endpoint == nil {
		return step{}
	}
	if dest := endpoint.Destination(work.Dest); dest == nil || !dest.BlocksAfterFailure() {
		return step{}
	}
	now, next := d.now(), *work
	next.Place.Blocks, next.Parked, next.ParkedBy, next.ReportedNextAt = true, event.Behind, 0, time.Time{}
	next.Due = now.Add(lane.MinRecheck)
	return d.followUp(&next, now)
}

func newOutcome(work *event.Work, status event.Status, reason event.Reason, at time.Time) *event.Outcome {
	return &event.Outcome{
		Event: work.Event.ID, Account: work.Event.Account, Endpoint: work.Event.Endpoint, Dest: work.Dest,
		Type:   work.Event.Type,
		Status: status, Reason: reason, At: at, Run: work.Run,
		WasParked: work.WasParked(),
	}
}
