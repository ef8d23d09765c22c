package dispatcher

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/transform"
)

// sender makes the attempts of deliveries.
type sender struct {
	*deliveries
	ids          *id.Generator
	rules        *rules
	destinations *destination.Sender
	disabler     *disabler
}

// work sends the deliveries of a lane until the lane says Stop.
func (s *sender) work(ctx context.Context, l *lane.Lane) {
	var last lane.Result
	for {
		decision := l.Next(ctx, last)
		switch decision.Action {
		case lane.Stop:
			return
		case lane.Send:
			last = s.send(ctx, l, decision)
		default:
			s.carryOut(decision)
			last = lane.Result{Delivery: decision.Delivery}
		}
	}
}

// send makes one attempt, records it and its next step, and returns the result for the lane.
func (s *sender) send(ctx context.Context, l *lane.Lane, decision lane.Decision) lane.Result {
	delivery, work := decision.Delivery, decision.Delivery.Work
	if work.Attempt > 1 {
		s.metrics.retryLateness.Observe(max(s.now().Sub(work.Due), 0).Seconds())
	}
	content, cancelled, err := s.transformations.apply(ctx, decision.Eligibility.Endpoint, work)
	switch {
	case err != nil && ctx.Err() != nil: // the node stops: the next owner delivers
		s.lanes.Release(delivery)
		return lane.Result{Delivery: delivery}
	case err != nil:
		s.failTransformation(delivery, decision.Eligibility.Endpoint, err)
		return lane.Result{Delivery: delivery}
	case cancelled:
		s.end(lane.Decision{
			Delivery: delivery, DecidedAt: s.now(), Status: event.Skipped, Reason: event.CancelledByRule,
		})
		return lane.Result{Delivery: delivery}
	case content.Made() != delivery.Reserved:
		l.Reserve(delivery, content.Made())
	}
	policy := policyOf(work, decision.Eligibility.Endpoint)
	attempt, result := s.makeAttempt(ctx, l, decision, content, policy.RetryOn)
	if result.NotTaken || result.Outdated {
		delivery.Slot.EndDelivery()
		kind := lane.WaitsForPull
		if result.Outdated {
			kind = lane.Outdated
		}
		return lane.Result{Delivery: delivery, Kind: kind}
	}
	if ctx.Err() != nil && attempt.Code == 0 && !attempt.OK { // the node stops, has cancelled it: the next owner delivers
		s.lanes.Release(delivery)
		return lane.Result{Delivery: delivery}
	}
	if result.Unsent != nil {
		s.carryOut(s.lanes.ParkUnsent(delivery, result.Unsent))
		return lane.Result{Delivery: delivery}
	}
	now := s.now()
	next := decide(work, result.Classification, policy, attempt.RetryAfter, now, s.rules.expiry(work), rand.Float64())
	delivery.Recorded = result.Recorded
	s.recordAttempt(delivery, attempt, next, now)
	if result.Disable {
		s.disabler.request(work, decision.Eligibility.Destination.URL, event.ReceiverDisabled)
	}
	return lane.Result{Delivery: delivery, Kind: result.Lane, Code: attempt.Code,
		URL: decision.Eligibility.Destination.URL}
}

// makeAttempt sends the delivery. If the secrets of the destination cannot be opened, the attempt fails with an
// internal error, so that users see it.
func (s *sender) makeAttempt(
	ctx context.Context, l *lane.Lane, decision lane.Decision, content destination.Content, retryOn []string,
) (*event.Attempt, destination.Result) {
	work := decision.Delivery.Work
	attemptID := s.ids.NewUnbounded(decision.Delivery.Slot.Partition().ID.Index)
	target, err := l.Target(decision.Eligibility)
	if err == nil {
		return s.destinations.Send(ctx, attemptID, target.(destination.Target), work, content, retryOn,
			func() bool { return s.isCurrent(work, decision.Eligibility) })
	}
	s.log.LogAttrs(ctx, slog.LevelError, "cannot open destination secrets", slog.String("destination", work.Dest),
		slog.Any("error", err))
	return &event.Attempt{
			ID: attemptID, StartedAt: s.now(), Trigger: work.Trigger, URL: decision.Eligibility.Destination.URL,
			TransformationVersion: content.Version,
			ErrorCode:             event.CodeInternal,
			ErrorMessage: "the URL, headers or secrets of the destination could not be opened; " +
				"set them again",
		}, destination.Result{Lane: lane.Failed, Classification: destination.Classification{
			Class: destination.Retryable, Code: event.CodeInternal}}
}

// failTransformation ends a delivery whose body cannot be transformed. No request was made, so it is no attempt and
// changes neither the window nor the circuit breaker of its lane. The log names no part of the body.
func (s *sender) failTransformation(delivery *lane.Delivery, endpoint *config.Endpoint, err error) {
	work, operation := delivery.Work, transform.NoOp
	if failure := (*transform.Failure)(nil); errors.As(err, &failure) {
		operation = failure.Op
	} else {
		s.log.LogAttrs(context.Background(), slog.LevelError, "cannot compile transformation",
			slog.String("endpoint", endpoint.ID), slog.Any("error", err))
	}
	now, _ := endpoint.TransformationOf(work.Dest)
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "cannot transform body, delivery failed",
		slog.String("event", work.Event.ID.Text(id.Event)), slog.String("endpoint", endpoint.ID),
		slog.String("destination", work.Dest), slog.Int("version", now.Number()),
		slog.Int("operation", operation))
	s.end(lane.Decision{
		Delivery: delivery, DecidedAt: s.now(), Status: event.Failed, Reason: event.TransformFailed,
	})
}

// isCurrent reports whether a delivery that was checked before may still be sent as it is.
func (s *sender) isCurrent(work *event.Work, before lane.Eligibility) bool {
	_, leased := s.rules.config.Lease()
	now := s.rules.Check(work, false)
	switch {
	case !leased:
		return false
	case !now.Known:
		return true
	case now.Status != "" || now.Paused:
		return false
	case now.Endpoint.Rev == before.Endpoint.Rev:
		return true
	}
	return now.Endpoint.Transformation.Number() == before.Endpoint.Transformation.Number() &&
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
func (s *sender) recordAttempt(delivery *lane.Delivery, attempt *event.Attempt, next nextStep, now time.Time) {
	work := delivery.Work
	outcome := newOutcome(work, next.status, next.reason, now)
	outcome.Code, outcome.Attempt, outcome.NextAt = attempt.Code, attempt, next.due
	s.metrics.attempt(work.Dest, attempt)
	logAttempt(s.log, outcome)
	if next.status == event.Delivered && (work.Run != "" || work.Attempt > 1 || work.WasParked()) {
		s.rules.superseded.add(lane.DeliveryKey{Event: work.Event.ID, Dest: work.Dest}, attempt.StartedAt)
	}
	if next.status == event.Delivered && work.Run != "" {
		s.rules.superseded.add(lane.KeyOf(work), attempt.StartedAt)
		s.lanes.Unblock(delivery.Slot.Partition().ID.Index, work)
	}
	if next.status != event.Retrying {
		s.finish(delivery, step{}, outcome)
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
	s.finish(delivery, s.followUp(&nextWork, now), outcome)
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
