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

// produceAlone tries the record of a completion by itself. If it is refused then too, it will be for ever, and
// another one takes its place.
func (f *finisher) produceAlone(ctx context.Context, completion *completion) {
	current := completion.steps[0]
	try, cancel := context.WithTimeout(ctx, aloneTimeout)
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

// replace puts something that Kafka can take in the place of a record that it refused for good:
//
//   - for a follow-up, a copy of it in the topic dead and an outcome that says failed: the delivery
//     ends here, and a person can bring it back;
//   - for a copy in the topic dead, only where it came from and why; if not even that is taken, the log
//     line of this function and the outcome are all that tells of it;
//   - for an outcome, the same without what was sent and answered, then without its attempt. One that says
//     just what became of the delivery is not given up: it is produced until it is taken.
func (f *finisher) replaceRecord(completion *completion, cause error) {
	current := &completion.steps[0]
	f.metrics.refusedRecords.WithLabelValues(current.topic).Inc()
	f.log.LogAttrs(context.Background(), slog.LevelError, "record was refused for good",
		slog.String("topic", current.topic),
		slog.Int("partition", int(completion.partition())), slog.Int("bytes", sizeOf(current.record)),
		slog.String("delivery", completion.description()), slog.Any("error", cause))
	switch current.topic {
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
			f.advance(completion) // as if it were acknowledged: there is nothing less to say
			return
		}
		current.record = &stream.Record{Key: current.record.Key, Headers: headers}
	default:
		f.metrics.deadLetters.Inc()
		dead := f.stream.DeadLetterRecord(
			current.record, stream.DispatchGroup, fmt.Errorf("continue %s: %w", completion.description(), cause))
		completion.steps = []step{
			{topic: stream.Dead, record: dead, crash: crashRetry}, outcomeStep(f.failedOutcome(completion))}
	}
	completion.tries = 0
	f.ready.put(completion)
}

// lighter is the outcome with less of its attempt.
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

// failedOutcome is the outcome of a delivery whose follow-up was refused. It keeps the attempt that was to be
// told of.
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

// name says for the log which delivery a completion belongs to.
func (c *completion) description() string {
	if work := c.delivery.Work; work != nil {
		return fmt.Sprintf("%s to %s", work.Event.ID.Text(id.Event), work.Dest)
	}
	return fmt.Sprintf("%s[%d]@%d", slotOf(c.delivery).part.id.Topic, c.partition(), slotOf(c.delivery).offset)
}
