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
func (f *finisher) produceAlone(ctx context.Context, c *completion) {
	s := c.steps[0]
	try, cancel := context.WithTimeout(ctx, aloneTimeout)
	err := f.producer.ProduceInOwnBatch(try, s.topic, c.partition(), s.record)
	cancel()
	switch {
	case err == nil:
		f.advance(c)
	case stream.RejectedByBroker(err):
		f.replace(c, err)
	default:
		f.redo.put(c)
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
func (f *finisher) replace(c *completion, cause error) {
	s := &c.steps[0]
	f.metrics.refused.WithLabelValues(s.topic).Inc()
	f.log.LogAttrs(context.Background(), slog.LevelError, "record was refused for good", slog.String("topic", s.topic),
		slog.Int("partition", int(c.partition())), slog.Int("bytes", sizeOf(s.record)),
		slog.String("delivery", c.name()), slog.Any("error", cause))
	switch s.topic {
	case stream.Outcomes:
		o, err := event.DecodeOutcome(s.record)
		if err != nil || o.Attempt == nil {
			f.redo.put(c)
			return
		}
		s.record = lighter(o).Record()
	case stream.Dead:
		headers := s.record.Headers[:stream.DeadHeaderCount]
		if s.record.Value == nil && len(s.record.Headers) == len(headers) {
			f.advance(c) // as if it were acknowledged: there is nothing less to say
			return
		}
		s.record = &stream.Record{Key: s.record.Key, Headers: headers}
	default:
		f.metrics.dead.Inc()
		dead := f.stream.DeadLetterRecord(s.record, stream.DispatchGroup, fmt.Errorf("continue %s: %w", c.name(), cause))
		c.steps = []step{{topic: stream.Dead, record: dead, crash: crashRetry}, outcomeStep(f.failedOutcome(c))}
	}
	c.tries = 0
	f.next.put(c)
}

// lighter is the outcome with less of its attempt.
func lighter(o *event.Outcome) *event.Outcome {
	a := o.Attempt
	if a.RequestHeader == "" && a.ResponseHeader == "" && a.ResponseBody == nil {
		o.Attempt = nil
		return o
	}
	a.RequestHeader, a.ResponseHeader, a.ResponseBody, a.Truncated = "", "", nil, a.Truncated || a.ResponseBody != nil
	return o
}

// failedOutcome is the outcome of a delivery whose follow-up was refused. It keeps the attempt that was to be
// told of.
func (f *finisher) failedOutcome(c *completion) *event.Outcome {
	w := c.delivery.Work
	o := &event.Outcome{
		Event: w.Event.ID, Account: w.Event.Account, Endpoint: w.Event.Endpoint, Dest: w.Dest, Type: w.Event.Type, Run: w.Run,
	}
	if len(c.steps) > 1 {
		if told, err := event.DecodeOutcome(c.steps[1].record); err == nil {
			o = told
		}
	}
	o.Status, o.Reason, o.At, o.NextAt = event.Failed, event.Undecodable, f.now(), time.Time{}
	f.metrics.outcome(o)
	return o
}

// name says for the log which delivery a completion belongs to.
func (c *completion) name() string {
	if w := c.delivery.Work; w != nil {
		return fmt.Sprintf("%s to %s", w.Event.ID.Text(id.Event), w.Dest)
	}
	return fmt.Sprintf("%s[%d]@%d", slotOf(c.delivery).part.id.Topic, c.partition(), slotOf(c.delivery).offset)
}
