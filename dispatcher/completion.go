package dispatcher

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/eventrelay/relay/dispatcher/lane"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// step is one record that must be acknowledged before the next one is produced.
type step struct {
	topic     string
	partition int32 // of the topic findings; records of other topics have the partition of their slot
	record    *stream.Record
}

// completion finishes a delivery: its records, one after the other, then its slot. The order guarantees that a
// follow-up exists before its outcome reports it, and both before the offset is committed.
type completion struct {
	delivery   *lane.Delivery
	steps      []step
	tries      int
	stepsArray [2]step // room for the usual steps, in one allocation; a record that cannot be decoded may need more
}

// partition returns the partition of the next record.
func (c *completion) partition() int32 {
	if c.steps[0].topic == stream.Findings {
		return c.steps[0].partition
	}
	return c.delivery.Slot.Partition().ID.Index
}

// description names the delivery of a completion for the log.
func (c *completion) description() string {
	if work := c.delivery.Work; work != nil {
		return fmt.Sprintf("%s to %s", work.Event.ID.Text(id.Event), work.Dest)
	}
	return fmt.Sprintf("%s[%d]@%d", slotOf(c.delivery).partition.id.Topic, c.partition(), slotOf(c.delivery).offset)
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
	wait.Wake(b.signal)
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

// outcomeStep produces the outcome. It is always the last step.
func outcomeStep(outcome *event.Outcome) step {
	return step{topic: stream.Outcomes, record: outcome.Record()}
}
