package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// ErrOutcomeUnknown means that the log did not confirm the event: it may or may not have been stored.
var ErrOutcomeUnknown = errors.New("log did not confirm the event: outcome unknown")

const (
	// acceptTimeout bounds one acceptance. Producing goes on alone after it.
	acceptTimeout = 10 * time.Second
	// maxPartitions is what the partition field of an id can name.
	maxPartitions = 4096
)

// Producer appends a record and calls back once, when it is durable or cannot become so.
type Producer interface {
	Produce(topic string, partition int32, r *stream.Record, done func(*stream.Record, error))
	// ProduceUnordered is Produce for a record that keeps no order with others that are still on their way.
	ProduceUnordered(topic string, partition int32, r *stream.Record, done func(*stream.Record, error))
}

// Acceptor gives events their identity and puts them into the log. Both ways in use it: the ingest URL
// and sending through the API.
type Acceptor struct {
	producer      Producer
	ids           *id.Generator
	clockSkew     func() time.Duration
	checkCapacity func() error // nil = never
	limits        Limits
	metrics       *metrics
	breakers      [maxPartitions]partitionBreaker
}

// Accept sets the event's account and endpoint, gives it an id unless it has one already (the body of
// a sent event holds it), and returns when the log has it durably. After ErrOutcomeUnknown it may be stored or not;
// after any other error, which is then stream.ErrBufferFull (over its ingest_limit it is that and a 429) or
// id.ErrClock, it is not. The event and its body must not be changed afterwards, whatever is returned: it may still be
// on its way.
func (a *Acceptor) Accept(ctx context.Context, e *event.Event, ep *config.Endpoint) error {
	return a.AcceptAll(ctx, []*event.Event{e}, ep)[0]
}

// AcceptAll is Accept for several events of one endpoint. They are on their way into the log at the same time,
// and what becomes of one says nothing of the others: it returns an error or nil for each, in their order.
func (a *Acceptor) AcceptAll(ctx context.Context, es []*event.Event, ep *config.Endpoint) []error {
	errs := make([]error, len(es))
	put := a.producer.Produce // events that came together keep their order
	if len(es) == 1 {
		put = a.producer.ProduceUnordered
	}
	answered := make(chan logAnswer, len(es)) // room for all: an answer that comes late must not wait for a reader
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
		case x := <-answered:
			errs[x.index] = a.countRefusal(x.err)
		case <-timeout.C:
			return a.giveUp(errs, fmt.Errorf("%w: no answer in %v", ErrOutcomeUnknown, acceptTimeout))
		case <-ctx.Done():
			return a.giveUp(errs, fmt.Errorf("%w: %w", ErrOutcomeUnknown, context.Cause(ctx)))
		}
	}
	return errs
}

// logAnswer is what the log says to one of several events.
type logAnswer struct {
	index int
	err   error
}

// errUnanswered stands for the log's answer while it is waited for.
var errUnanswered = errors.New("log has not answered")

// produceFunc is one of the methods of Producer.
type produceFunc func(topic string, partition int32, r *stream.Record, done func(*stream.Record, error))

// produce gives an event to the producer; done hears the log's answer once, also when nobody waits for it any more.
// An error means that it was not even tried.
func (a *Acceptor) produce(put produceFunc, e *event.Event, ep *config.Endpoint, done func(error)) error {
	if a.checkCapacity != nil {
		if err := a.checkCapacity(); err != nil {
			return a.countRefusal(err)
		}
	}
	if ep.IngestLimit != nil && e.Verdict != event.VerdictRejected { // of which there are other bounds
		if err := a.checkIngestLimit(e, ep); err != nil {
			return err
		}
	}
	if err := a.assignID(e, ep); err != nil {
		return err
	}
	e.Account, e.Endpoint = ep.Account, ep.ID
	partition := e.ID.Partition() // all of an event's life is there, also when its endpoint moves meanwhile
	c := &a.breakers[partition&(maxPartitions-1)]
	opened, err := c.admit(len(e.Body), time.Now())
	if opened {
		a.metrics.stalled.Inc()
	}
	if err != nil {
		return a.countRefusal(err)
	}
	put(stream.Events, partition, e.Record(), func(_ *stream.Record, err error) {
		a.recordAnswer(c, e, err)
		done(err)
	})
	return nil
}

// refused counts an event that was not stored, or perhaps not, and returns what its sender hears.
func (a *Acceptor) countRefusal(err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, stream.ErrBufferFull) && !errors.Is(err, ErrOutcomeUnknown) {
		// The broker refused the record or the client gave up on it; it may have been written all the same.
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	a.metrics.refused.WithLabelValues(refusalCause(err)).Inc()
	return err
}

// giveUp says why to those whose answer is still missing.
func (a *Acceptor) giveUp(errs []error, why error) []error {
	for i, err := range errs {
		if errors.Is(err, errUnanswered) {
			errs[i] = a.countRefusal(why)
		}
	}
	return errs
}

// identify gives the event its id, unless this node's clock is so wrong that the id would lie about its time.
func (a *Acceptor) assignID(e *event.Event, ep *config.Endpoint) (err error) {
	defer func() {
		if err != nil {
			a.metrics.refused.WithLabelValues("clock").Inc()
		}
	}()
	if skew := a.clockSkew(); skew.Abs() > id.MaxAhead {
		return fmt.Errorf("%w: the broker's clock is %v ahead of this node's", id.ErrClock, skew)
	}
	if e.ID.IsZero() {
		if e.ID, err = a.ids.New(ep.Partition); err != nil {
			return fmt.Errorf("give the event an id: %w", err)
		}
	}
	return nil
}

// answered hears the log's answer, also when nobody waits for it any more.
func (a *Acceptor) recordAnswer(c *partitionBreaker, e *event.Event, err error) {
	if c.complete(len(e.Body), err == nil, time.Now()) {
		a.metrics.stalled.Dec()
	}
	if err == nil {
		a.metrics.accepted.WithLabelValues(string(e.Source), string(e.Verdict)).Inc()
		a.metrics.acceptedBytes.Add(float64(len(e.Body)))
	}
}

// refusal is the word for an error in the metrics.
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
