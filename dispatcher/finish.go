package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// redoEvery is the pause before a record that Kafka did not take is produced again.
	redoEvery = 200 * time.Millisecond
	// aloneTimeout bounds one try of a record by itself.
	aloneTimeout = 10 * time.Second
)

// step is one record that must be acknowledged before the next one is produced.
type step struct {
	topic  string
	record *stream.Record
	crash  string // crash point after the acknowledgement
}

// completion takes a delivery to its end: its records, one after the other, then its slot. The order is
// the guarantee: a follow-up exists before the outcome speaks of it, and both before the offset is
// committed.
type completion struct {
	delivery *lane.Delivery
	steps    []step
	tries    int
	room     [2]step // of steps; one that cannot be decoded may have more
}

// finisher produces the records of completions. What Kafka does not take is tried again until it is
// taken; meanwhile the delivery stays in the account, and the intake stops when that is full. What Kafka can
// never take is replaced by what it can (refused.go).
//
// The producer calls back on one goroutine, which must not wait for itself: it only puts completions
// into the lists below, and the goroutines of run go on with them.
type finisher struct {
	log      *slog.Logger
	stream   stream.Config
	producer Producer
	faults   *faults
	metrics  *metrics
	now      func() time.Time
	done     func(*lane.Delivery)

	next  backlog // their next record may be produced
	redo  backlog // their record was not taken
	alone backlog // their record may be the one for which its batch was refused
}

func newFinisher(deps Deps, f *faults, m *metrics, done func(*lane.Delivery)) *finisher {
	return &finisher{
		log: deps.Log, stream: deps.Stream, producer: deps.Producer, faults: f, metrics: m, now: deps.Now, done: done,
		next: newBacklog(), redo: newBacklog(), alone: newBacklog(),
	}
}

// complete starts the completion of a delivery. done is called when the last record is acknowledged, at once
// if there is none. It must not be called by the producer.
func (f *finisher) complete(delivery *lane.Delivery, steps ...step) {
	if len(steps) == 0 {
		f.done(delivery)
		return
	}
	c := &completion{delivery: delivery}
	c.steps = append(c.room[:0], steps...)
	f.produce(c)
}

func (f *finisher) produce(c *completion) {
	s := c.steps[0]
	f.producer.Produce(s.topic, c.partition(), s.record, func(_ *stream.Record, err error) { f.answered(c, err) })
}

func (c *completion) partition() int32 { return c.delivery.Slot.Partition().ID.Index }

// answered goes on with what became of a completion's record. One that was not taken may have been written
// all the same: a second copy is a duplicate delivery, or an outcome that says the same again.
func (f *finisher) answered(c *completion, err error) {
	if err == nil {
		f.advance(c)
		return
	}
	f.metrics.produceErrors.Inc()
	if c.tries++; c.tries == 1 {
		f.log.LogAttrs(context.Background(), slog.LevelWarn, "record was not taken, trying again",
			slog.String("topic", c.steps[0].topic), slog.Any("error", err))
	}
	if stream.RejectedByBroker(err) { // from here on the completion belongs to another goroutine
		f.alone.put(c)
	} else {
		f.redo.put(c)
	}
}

// advance is called when the record of the first step is acknowledged.
func (f *finisher) advance(c *completion) {
	f.faults.at(c.steps[0].crash)
	if c.steps, c.tries = c.steps[1:], 0; len(c.steps) > 0 {
		f.next.put(c)
		return
	}
	f.done(c.delivery)
}

// run goes on with completions until ctx ends.
func (f *finisher) run(ctx context.Context) {
	again := func(c *completion) {
		// A record for which there is no room would only be refused, and thousands of them five times a second.
		if f.producer.WaitForRoom(ctx, c.steps[0].record) == nil {
			f.produce(c)
		}
	}
	var all sync.WaitGroup
	all.Go(func() { f.next.each(ctx, 0, again) })
	all.Go(func() { f.redo.each(ctx, redoEvery, again) })
	all.Go(func() { f.alone.each(ctx, 0, func(c *completion) { f.produceAlone(ctx, c) }) })
	all.Wait()
}

// backlog are completions that wait for their goroutine. Its size is bounded by what the node may hold.
type backlog struct {
	told chan struct{} // capacity 1

	mu   sync.Mutex // guards list
	list []*completion
}

func newBacklog() backlog { return backlog{told: make(chan struct{}, 1)} }

func (b *backlog) put(c *completion) {
	b.mu.Lock()
	b.list = append(b.list, c)
	b.mu.Unlock()
	select {
	case b.told <- struct{}{}:
	default:
	}
}

// each calls do for everything that is put, until ctx ends. It waits for pause before each round.
func (b *backlog) each(ctx context.Context, pause time.Duration, do func(*completion)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.told:
		}
		if pause > 0 && wait.For(ctx, pause) != nil {
			return
		}
		b.mu.Lock()
		list := b.list
		b.list = nil
		b.mu.Unlock()
		for _, c := range list {
			if ctx.Err() != nil {
				return
			}
			do(c)
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

// outcomeStep is always the last step.
func outcomeStep(o *event.Outcome) step {
	return step{topic: stream.Outcomes, record: o.Record(), crash: crashOutcome}
}
