package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/spans"
	"github.com/eventrelay/relay/pkg/stream"
)

// ErrOutcomeUnknown is returned when the log has not confirmed the event: it may or may not be stored.
var ErrOutcomeUnknown = errors.New("log did not confirm the event: outcome unknown")

const (
	// acceptTimeout limits the wait for the log. The producer continues to retry after it.
	acceptTimeout = 10 * time.Second
	// maxPartitions is the number of values of the partition field of an id (12 bits).
	maxPartitions = 4096
)

// Producer appends a record and calls done once, when the record is durable or was given up.
type Producer interface {
	Produce(topic string, partition int32, r *stream.Record, done func(*stream.Record, error))
	// ProduceUnordered is Produce without order among the records that are in flight.
	ProduceUnordered(topic string, partition int32, r *stream.Record, done func(*stream.Record, error))
}

// Acceptor assigns events their ids and produces them to the log, for the ingest URLs and for events sent through the
// API.
type Acceptor struct {
	deps     *Deps
	metrics  *metrics
	breakers [maxPartitions]partitionBreaker
}

// Accept sets the event's account and endpoint, assigns an id unless it has one (the body of a sent event contains it),
// and returns when the log has the event durably. After ErrOutcomeUnknown it may or may not be stored. After any other
// error it is not stored: stream.ErrNotStored, together with a *web.Error 429 if it exceeds the ingest_limit, or
// id.ErrClock. Do not change the event or its body afterwards, whatever Accept returns: the producer may still hold
// them.
func (a *Acceptor) Accept(ctx context.Context, e *event.Event, ep *config.Endpoint) error {
	return a.AcceptAll(ctx, []*event.Event{e}, ep)[0]
}

// AcceptAll is Accept for several events of one endpoint, which it produces at the same time. It returns one error or
// nil for each event, in the order of es; one may fail while others succeed.
func (a *Acceptor) AcceptAll(ctx context.Context, es []*event.Event, ep *config.Endpoint) []error {
	errs := make([]error, len(es))
	put := a.deps.Producer.Produce // events of one request keep their order
	if len(es) == 1 {
		put = a.deps.Producer.ProduceUnordered
	}
	answered := make(chan logAnswer, len(es)) // buffered for all: a late acknowledgement must not block the producer
	waiting := 0
	for i, e := range es {
		if errs[i] = a.produce(put, e, ep, func(err error) { answered <- logAnswer{i, err} }); errs[i] == nil {
			errs[i] = errUnanswered
			waiting++
		}
	}
	timeout := time.NewTimer(acceptTimeout)
	defer timeout.Stop()
	for ; waiting > 0; waiting-- {
		select {
		case answer := <-answered:
			errs[answer.index] = a.countRefusal(answer.err)
		case <-timeout.C:
			return a.giveUp(errs, fmt.Errorf("%w: no answer in %v", ErrOutcomeUnknown, acceptTimeout))
		case <-ctx.Done():
			return a.giveUp(errs, fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx)))
		}
	}
	return errs
}

// logAnswer is the log's answer for one of several events.
type logAnswer struct {
	index int
	err   error
}

// errUnanswered is the placeholder of an event that the log has not answered.
var errUnanswered = errors.New("log has not answered")

// produceFunc is Producer.Produce or Producer.ProduceUnordered.
type produceFunc func(topic string, partition int32, r *stream.Record, done func(*stream.Record, error))

// produce passes an event to the producer and calls done once with the log's answer, even after AcceptAll has returned.
// If produce returns an error, the event was not produced and done is not called.
func (a *Acceptor) produce(put produceFunc, e *event.Event, ep *config.Endpoint, done func(error)) error {
	if a.deps.CheckCapacity != nil {
		if err := a.deps.CheckCapacity(); err != nil {
			return a.countRefusal(err)
		}
	}
	if ep.IngestLimit != nil && e.Verdict != event.VerdictRejected { // reject.go limits rejected requests
		if err := a.checkIngestLimit(e, ep); err != nil {
			return err
		}
	}
	if ep.Tenant != "" && e.Verdict != event.VerdictRejected {
		if err := a.checkTenantLimit(ep); err != nil {
			return err
		}
	}
	if err := a.assignID(e, ep); err != nil {
		return err
	}
	e.Account, e.Endpoint = ep.Account, ep.ID
	// All records of an event use the partition in its id, even if the endpoint moves to another
	partition := e.ID.Partition()
	breaker := &a.breakers[partition&(maxPartitions-1)]
	opened, err := breaker.admit(len(e.Body), time.Now())
	if opened {
		a.metrics.stalled.Inc()
	}
	if err != nil {
		return a.countRefusal(err)
	}
	var span *spans.Accepting // receive has begun the one of a provider's event
	if e.Source != event.SourceProvider && !e.Source.IsUse() {
		span = a.deps.Spans.Sent(e, ep.ID)
	}
	put(stream.Events, partition, e.Record(), func(_ *stream.Record, err error) {
		a.recordAnswer(breaker, e, err)
		span.End(e, err)
		done(err)
	})
	return nil
}

// countRefusal counts an event that was not stored, or perhaps not, and returns its error. Unless the error is known to
// mean that the event was not stored, it wraps it in ErrOutcomeUnknown. nil stays nil.
func (a *Acceptor) countRefusal(err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, stream.ErrNotStored) && !errors.Is(err, ErrOutcomeUnknown) {
		// The broker rejected the record or the producer gave up; the record may have been written nevertheless.
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	a.metrics.refused.WithLabelValues(refusalCause(err)).Inc()
	return err
}

// giveUp sets the error of all events that the log has not answered.
func (a *Acceptor) giveUp(errs []error, why error) []error {
	for i, err := range errs {
		if errors.Is(err, errUnanswered) {
			errs[i] = a.countRefusal(why)
		}
	}
	return errs
}

// assignID assigns the event an id, unless it has one. It fails if this node's clock differs from the broker's by more
// than id.MaxAhead, because the id contains the time.
func (a *Acceptor) assignID(e *event.Event, ep *config.Endpoint) (err error) {
	defer func() {
		if err != nil {
			a.metrics.refused.WithLabelValues("clock").Inc()
		}
	}()
	if skew := a.deps.ClockSkew(); skew.Abs() > id.MaxAhead {
		return fmt.Errorf("%w: the broker's clock is %v ahead of this node's", id.ErrClock, skew)
	}
	if e.ID.IsZero() {
		if e.ID, err = a.deps.IDs.New(ep.Partition); err != nil {
			return fmt.Errorf("assign the event an id: %w", err)
		}
	}
	return nil
}

// recordAnswer updates the partition's circuit breaker and the metrics with the log's answer, even after AcceptAll has
// returned. The use of a tripwire is not counted as an event.
func (a *Acceptor) recordAnswer(breaker *partitionBreaker, e *event.Event, err error) {
	if breaker.complete(len(e.Body), err == nil, time.Now()) {
		a.metrics.stalled.Dec()
	}
	if err == nil && !e.Source.IsUse() {
		a.metrics.accepted.WithLabelValues(string(e.Source), string(e.Verdict)).Inc()
		a.metrics.acceptedBytes.Add(float64(len(e.Body)))
	}
}

// refusalCause returns the label `cause` of relay_ingest_refused_total for an error.
func refusalCause(err error) string {
	switch {
	case errors.Is(err, errPartitionStalled):
		return "stalled"
	case errors.Is(err, stream.ErrBufferFull):
		return "full"
	default:
		return "unknown"
	}
}
