package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
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

// step is one record that must be acknowledged before the next one is produced.
type step struct {
	topic     string
	partition int32 // of the topic findings; records of other topics have the partition of their slot
	record    *stream.Record
	crash     string // crash point after the acknowledgement
}

// completion finishes a delivery: its records, one after the other, then its slot. The order guarantees that a
// follow-up exists before its outcome reports it, and both before the offset is committed.
type completion struct {
	delivery   *lane.Delivery
	steps      []step
	tries      int
	stepsArray [2]step // room for the usual steps, in one allocation; a record that cannot be decoded may need more
}

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

func newFinisher(deps Deps, m *metrics, done func(*lane.Delivery)) *finisher {
	return &finisher{
		log: deps.Log, stream: deps.Stream, producer: deps.Producer, metrics: m, now: deps.Now, onDone: done,
		onReject: func(*lane.Delivery) {},
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

// partition returns the partition of the next record.
func (c *completion) partition() int32 {
	if c.steps[0].topic == stream.Findings {
		return c.steps[0].partition
	}
	return c.delivery.Slot.Partition().ID.Index
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
	crash.At(completion.steps[0].crash)
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

// backlog is a list of completions for one goroutine. Its size is bounded by the deliveries that the node may hold.
type backlog struct {
	signal chan struct{} // capacity 1

	mu   sync.Mutex // guards list
	list []*completion
}

func newBacklog() backlog { return backlog{signal: make(chan struct{}, 1)} }

func (b *backlog) put(completion *completion) {
	b.mu.Lock()
	b.list = append(b.list, completion)
	b.mu.Unlock()
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

// each calls do for every completion that is put, until ctx ends. After something was put it first waits for pause.
func (b *backlog) each(ctx context.Context, pause time.Duration, do func(*completion)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.signal:
		}
		if pause > 0 && wait.For(ctx, pause) != nil {
			return
		}
		b.mu.Lock()
		list := b.list
		b.list = nil
		b.mu.Unlock()
		for _, completion := range list {
			if ctx.Err() != nil {
				return
			}
			do(completion)
		}
	}
}

// Crash points, in the order in which a failed delivery passes them.
const (
	crashSent    = "sent"    // the request is answered, nothing is recorded
	crashRetry   = "retry"   // the follow-up is acknowledged
	crashOutcome = "outcome" // the outcome is acknowledged
	crashCommit  = "commit"  // the offset is committed
)

// outcomeStep produces the outcome. It is always the last step.
func outcomeStep(outcome *event.Outcome) step {
	return step{topic: stream.Outcomes, record: outcome.Record(), crash: crashOutcome}
}
