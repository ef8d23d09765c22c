package dispatcher

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

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
			{topic: stream.Dead, record: dead, crash: crashRetry}, outcomeStep(f.failedOutcome(completion))}
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

// description names the delivery of a completion for the log.
func (c *completion) description() string {
	if work := c.delivery.Work; work != nil {
		return fmt.Sprintf("%s to %s", work.Event.ID.Text(id.Event), work.Dest)
	}
	return fmt.Sprintf("%s[%d]@%d", slotOf(c.delivery).partition.id.Topic, c.partition(), slotOf(c.delivery).offset)
}
