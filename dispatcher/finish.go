package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// redoEvery is the pause before a record that Kafka did not take is produced again.
const redoEvery = 200 * time.Millisecond

// step is one record that must be acknowledged before the next one is produced.
type step struct {
	topic  string
	record *stream.Record
	crash  string // crash point after the acknowledgement
}

// completion takes a job to its end: its records, one after the other, then its slot. The order is
// the guarantee: a follow-up exists before the outcome speaks of it, and both before the offset is
// committed.
type completion struct {
	job   *job
	steps []step
	tries int
}

// finisher produces the records of completions. What Kafka does not take is tried again until it is
// taken; meanwhile the job stays in the account, and the intake stops when that is full.
type finisher struct {
	log      *slog.Logger
	producer *stream.Producer
	faults   *faults
	metrics  *metrics
	done     func(*job)
	again    chan struct{} // told when redo is not empty; capacity 1

	mu   sync.Mutex // guards redo
	redo []*completion
}

// finish starts the completion of a job. done is called when the last record is acknowledged, at once
// if there is none.
func (f *finisher) finish(j *job, steps ...step) { f.advance(&completion{job: j, steps: steps}) }

func (f *finisher) advance(c *completion) {
	if len(c.steps) == 0 {
		f.done(c.job)
		return
	}
	s := c.steps[0]
	f.producer.Produce(s.topic, c.job.slot.part.id.Index, s.record, func(_ *stream.Record, err error) {
		if err != nil {
			f.failed(c, s.topic, err)
			return
		}
		f.faults.at(s.crash)
		c.steps, c.tries = c.steps[1:], 0
		f.advance(c)
	})
}

// failed keeps the completion for the next round. The record may have been written all the same: a
// second copy is a duplicate delivery, or an outcome that says the same again.
func (f *finisher) failed(c *completion, topic string, err error) {
	f.metrics.produceErrors.Inc()
	if c.tries++; c.tries == 1 {
		f.log.LogAttrs(context.Background(), slog.LevelWarn, "record was not taken, trying again",
			slog.String("topic", topic), slog.Any("error", err))
	}
	f.mu.Lock()
	f.redo = append(f.redo, c)
	f.mu.Unlock()
	select {
	case f.again <- struct{}{}:
	default:
	}
}

// run tries failed completions again until ctx ends.
func (f *finisher) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.again:
		}
		pause.Reset(redoEvery)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		f.mu.Lock()
		again := f.redo
		f.redo = nil
		f.mu.Unlock()
		for _, c := range again {
			f.advance(c)
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
