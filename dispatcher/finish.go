package dispatcher

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

const (
	// retryPause is the pause before a record that Kafka did not accept is produced again.
	retryPause = 200 * time.Millisecond
	// singleTimeout bounds one try to produce a record in a batch of its own.
	singleTimeout = 10 * time.Second
	// hitPause is how long the hit of a tripwire's use waits at most. Its store and its triage must not take CPU from
	// the requests after the use, of which somebody may measure the time.
	hitPause = 250 * time.Millisecond
)

// finisher produces the records of completions. What Kafka does not accept is retried until it does. Meanwhile the
// delivery stays in memory, and the reader stops when memory is full. A record that Kafka will never accept is replaced
// by another one (see replaceRecord).
//
// The producer calls back on one goroutine, which must not block. The callback calls onDone after the last record, and
// otherwise puts the completion into one of the lists below; the goroutines of run continue it.
type finisher struct {
	log      *slog.Logger
	stream   stream.Config
	producer Producer
	metrics  *metrics
	now      func() time.Time
	onDone   func(*lane.Delivery)
	onReject func(*lane.Delivery) // a delivery ends because its follow-up is refused

	ready   backlog // completions whose next record may be produced
	retries backlog // completions whose record was not accepted
	single  backlog // completions whose batch was rejected, perhaps because of their record
	hits    backlog // completions that wait for hitPause
}

func newFinisher(deps Deps, m *metrics, done, reject func(*lane.Delivery)) *finisher {
	return &finisher{
		log: deps.Log, stream: deps.Stream, producer: deps.Producer, metrics: m, now: deps.Now, onDone: done,
		onReject: reject,
		ready:    newBacklog(), retries: newBacklog(), single: newBacklog(), hits: newBacklog(),
	}
}

// complete starts the completion of a delivery. onDone is called when the last record is acknowledged, at once if there
// are no steps. The producer's callbacks must not call complete: it may block.
func (f *finisher) complete(delivery *lane.Delivery, steps ...step) {
	if len(steps) == 0 {
		f.onDone(delivery)
		return
	}
	completion := &completion{delivery: delivery}
	completion.steps = append(completion.stepsArray[:0], steps...)
	f.produce(completion)
}

// completeLater starts the completion of a delivery with one step, in hitPause at most.
func (f *finisher) completeLater(delivery *lane.Delivery, only step) {
	f.hits.put(&completion{delivery: delivery, steps: []step{only}})
}

func (f *finisher) produce(completion *completion) {
	current := completion.steps[0]
	f.producer.Produce(current.topic, completion.partition(), current.record, func(_ *stream.Record, err error) {
		f.onProduced(completion, err)
	})
}

// onProduced continues a completion when its record was produced or failed. A record that failed may have been written
// all the same: a second copy is a duplicate delivery, or an equal outcome.
func (f *finisher) onProduced(completion *completion, err error) {
	if err == nil {
		f.advance(completion)
		return
	}
	f.metrics.produceErrors.Inc()
	if completion.tries++; completion.tries == 1 {
		f.log.LogAttrs(context.Background(), slog.LevelWarn, "cannot produce record, retrying",
			slog.String("topic", completion.steps[0].topic), slog.Any("error", err))
	}
	if stream.RejectedByBroker(err) { // from here on another goroutine owns the completion
		f.single.put(completion)
	} else {
		f.retries.put(completion)
	}
}

// advance is called when the record of the first step is acknowledged.
func (f *finisher) advance(completion *completion) {
	if completion.steps, completion.tries = completion.steps[1:], 0; len(completion.steps) > 0 {
		f.ready.put(completion)
		return
	}
	f.onDone(completion.delivery)
}

// run continues completions until ctx ends.
func (f *finisher) run(ctx context.Context) {
	produceWithRoom := func(completion *completion) {
		// Without room in the producer's buffer, thousands of records would fail five times a second.
		if f.producer.WaitForRoom(ctx, completion.steps[0].record) == nil {
			f.produce(completion)
		}
	}
	var all sync.WaitGroup
	all.Go(func() { f.ready.each(ctx, 0, produceWithRoom) })
	all.Go(func() { f.retries.each(ctx, retryPause, produceWithRoom) })
	all.Go(func() { f.hits.each(ctx, hitPause, produceWithRoom) })
	all.Go(func() { f.single.each(ctx, 0, func(completion *completion) { f.produceSingle(ctx, completion) }) })
	all.Wait()
}

// produceSingle produces the record of a completion in a batch of its own. If brokers reject it then too, they always
// will, and another record replaces it.
func (f *finisher) produceSingle(ctx context.Context, completion *completion) {
	current := completion.steps[0]
	try, cancel := context.WithTimeout(ctx, singleTimeout)
	err := f.producer.ProduceInOwnBatch(try, current.topic, completion.partition(), current.record)
	cancel()
	switch {
	case err == nil:
		f.advance(completion)
	case stream.RejectedByBroker(err):
		f.replaceRecord(completion, err)
	default:
		f.retries.put(completion)
	}
}

// replaceRecord replaces a record that brokers rejected permanently by one that they can accept:
//
//   - a follow-up: its copy goes to the dead letter topic, and a failed outcome ends the delivery; a user can
//     replay it;
//   - a dead letter: only its origin and the error are kept; if they reject even that, the log line of this
//     function and the outcome are all that remains;
//   - an outcome: its recorded headers and response body are removed, and if that does not help, its attempt. An
//     outcome without an attempt is retried until Kafka accepts it, and so is the hit of a tripwire.
func (f *finisher) replaceRecord(completion *completion, cause error) {
	current := &completion.steps[0]
	f.metrics.rejectedRecords.WithLabelValues(current.topic).Inc()
	f.log.LogAttrs(context.Background(), slog.LevelError, "brokers reject record permanently, replacing it",
		slog.String("topic", current.topic),
		slog.Int("partition", int(completion.partition())), slog.Int("bytes", sizeOf(current.record)),
		slog.String("delivery", completion.description()), slog.Any("error", cause))
	switch current.topic {
	case stream.Findings:
		f.retries.put(completion)
		return
	case stream.Outcomes:
		outcome, err := event.DecodeOutcome(current.record)
		if err != nil || outcome.Attempt == nil {
			f.retries.put(completion)
			return
		}
		current.record = shrinkOutcome(outcome).Record()
	case stream.Dead:
		headers := current.record.Headers[:stream.DeadHeaderCount]
		if current.record.Value == nil && len(current.record.Headers) == len(headers) {
			f.advance(completion) // as if it were acknowledged: nothing smaller is left
			return
		}
		current.record = &stream.Record{Key: current.record.Key, Headers: headers}
	default:
		f.metrics.deadLetters.Inc()
		f.onReject(completion.delivery)
		dead := f.stream.DeadLetterRecord(
			current.record, stream.DispatchGroup, fmt.Errorf("continue %s: %w", completion.description(), cause))
		completion.steps = []step{
			{topic: stream.Dead, record: dead}, outcomeStep(f.failedOutcome(completion))}
	}
	completion.tries = 0
	f.ready.put(completion)
}

// shrinkOutcome removes the recorded headers and response body of the attempt; if there are none, the attempt.
func shrinkOutcome(outcome *event.Outcome) *event.Outcome {
	attempt := outcome.Attempt
	if attempt.RequestHeader == "" && attempt.ResponseHeader == "" && attempt.ResponseBody == nil {
		outcome.Attempt = nil
		return outcome
	}
	attempt.RequestHeader, attempt.ResponseHeader, attempt.ResponseBody, attempt.Truncated = "", "", nil,
		attempt.Truncated || attempt.ResponseBody != nil
	return outcome
}

// failedOutcome is the outcome of a delivery whose follow-up was rejected. It keeps the attempt that the planned
// outcome has.
func (f *finisher) failedOutcome(completion *completion) *event.Outcome {
	work := completion.delivery.Work
	outcome := &event.Outcome{
		Event: work.Event.ID, Account: work.Event.Account, Endpoint: work.Event.Endpoint, Dest: work.Dest,
		Type: work.Event.Type, Run: work.Run,
	}
	if len(completion.steps) > 1 {
		if decoded, err := event.DecodeOutcome(completion.steps[1].record); err == nil {
			outcome = decoded
		}
	}
	outcome.Status, outcome.Reason, outcome.At, outcome.NextAt = event.Failed, event.Undecodable, f.now(), time.Time{}
	f.metrics.outcome(outcome)
	return outcome
}
