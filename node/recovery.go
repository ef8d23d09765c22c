package node

import (
	"cmp"
	"context"

	"github.com/eventrelay/relay/dispatcher/recovery"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// newRecovery runs the recovery jobs of the partitions that this node dispatches.
func (n *Node) newRecovery() (func(context.Context) error, error) {
	r, err := recovery.New(recovery.Deps{
		Log: n.log, Jobs: n.control, Endpoints: n.control, Items: n.reader, Submit: submitter{n.producer}, Now: n.control.Now,
		Name: func() string { return id.Random("") },
	})
	if err != nil {
		return nil, err
	}
	n.recovery = r
	return r.Run, nil
}

// submitter appends what recovery jobs submit and what they say of what they do not.
type submitter struct{ producer *stream.Producer }

// Submit returns when all of it is durable. After an error nothing of it is on its way any more, unless ctx has ended.
func (s submitter) Submit(ctx context.Context, work []*event.Work, said []*event.Outcome) error {
	results := make(chan error, len(work)+len(said))
	waiting := 0
	produce := func(topic string, partition int32, r *stream.Record) {
		s.producer.Produce(topic, partition, r, func(_ *stream.Record, err error) { results <- err })
		waiting++
	}
	for _, w := range work {
		r, err := w.Record()
		if err != nil {
			return err
		}
		if err := s.producer.Room(ctx, r); err != nil {
			return err
		}
		produce(stream.Commands, w.Event.ID.Partition(), r)
	}
	for _, o := range said {
		produce(stream.Outcomes, o.Event.Partition(), o.Record())
	}
	var failed error
	for range waiting {
		select {
		case err := <-results:
			failed = cmp.Or(failed, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return failed
}
