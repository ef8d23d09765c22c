package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/eventrelay/relay/pkg/control"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// ErrBusy means that the event was not taken and may be sent again: the log is full, slow or away.
var ErrBusy = errors.New("log does not take events at the moment")

// ErrUnknown means that the log did not answer in time: the event may or may not have been taken.
var ErrUnknown = errors.New("log did not answer in time: outcome unknown")

// Bounds of waiting for the log.
const (
	// acceptTimeout bounds one acceptance. Producing goes on alone after it.
	acceptTimeout = 10 * time.Second
	// maxWaiting bounds the events that wait for one partition, so that one without a leader does not fill the
	// producer's buffer (20,000 records) for all the others.
	maxWaiting = 5_000
	// maxPartitions is what the partition field of an id can name.
	maxPartitions = 4096
)

// Producer appends a record and calls back once, when it is durable or cannot become so.
type Producer interface {
	Produce(topic string, partition int32, r *stream.Record, done func(*stream.Record, error))
}

// Acceptor gives events their identity and puts them into the log. Both ways in use it: the ingest URL
// and sending through the API.
type Acceptor struct {
	log     Producer
	ids     *id.Generator
	metrics *metrics
	// waiting counts, by partition, the events that the log has not answered for.
	waiting [maxPartitions]atomic.Int32
}

// Accept sets the event's account and endpoint, gives it an id unless it has one already (the body of
// a sent event holds it), and returns when the log has it durably. Every error but ErrUnknown means
// that nothing was stored. The event and its body must not be changed afterwards, whatever is
// returned: it may still be on its way.
func (a *Acceptor) Accept(ctx context.Context, e *event.Event, ep *control.Endpoint) (err error) {
	if e.ID.IsZero() {
		if e.ID, err = a.ids.New(ep.Partition); err != nil {
			return fmt.Errorf("%w: %w", ErrBusy, err)
		}
	}
	e.Account, e.Endpoint = ep.Account, ep.ID
	waiting := &a.waiting[ep.Partition&(maxPartitions-1)]
	if waiting.Add(1) > maxWaiting {
		waiting.Add(-1)
		return fmt.Errorf("%w: %d events wait for partition %d", ErrBusy, maxWaiting, ep.Partition)
	}
	answered := make(chan error, 1)
	a.log.Produce(stream.Events, ep.Partition, e.Record(), func(_ *stream.Record, err error) {
		waiting.Add(-1)
		answered <- err
	})
	timeout := time.NewTimer(acceptTimeout)
	defer timeout.Stop()
	select {
	case err = <-answered:
	case <-timeout.C:
		err = ErrUnknown
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
	}
	switch {
	case err == nil:
		a.metrics.accepted.WithLabelValues(string(e.Source), string(e.Verdict)).Inc()
		a.metrics.acceptedBytes.Add(float64(len(e.Body)))
		return nil
	case errors.Is(err, ErrUnknown):
		a.metrics.refused.WithLabelValues("unknown").Inc()
		return err
	case errors.Is(err, stream.ErrFull):
		a.metrics.refused.WithLabelValues("full").Inc()
		return fmt.Errorf("%w: %w", ErrBusy, err)
	default:
		// The broker refused the record or the client gave up on it; it may have been written all the same.
		a.metrics.refused.WithLabelValues("log_error").Inc()
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
}
