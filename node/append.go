package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
)

// appender is a stream.Producer.
type appender interface {
	WaitForRoom(ctx context.Context, r *stream.Record) error
	Produce(topic string, partition int32, r *stream.Record, done func(*stream.Record, error))
}

// appendAll appends a record for each of all to its partition of a topic, and stops before the first that cannot be
// made or finds no room in the producer's buffer, for which it waits. It returns when those before are durable or when
// ctx ends, and how many were by then: after another error none is on its way any more.
func appendAll[T any](ctx context.Context, log appender, topic string, all []T,
	record func(T) (partition int32, r *stream.Record, err error),
) (acknowledged int, err error) {
	results := make(chan error, len(all)) // room for all: an answer that comes late must not wait for a reader
	produced := 0
	for _, x := range all {
		partition, r, recordErr := record(x)
		if recordErr == nil && log.WaitForRoom(ctx, r) != nil {
			recordErr = fmt.Errorf("produce to %s: %w", topic, stream.ErrBufferFull)
		}
		if err = recordErr; err != nil {
			break
		}
		log.Produce(topic, partition, r, func(_ *stream.Record, err error) { results <- err })
		produced++
	}
	for range produced {
		select {
		case failed := <-results:
			if failed == nil {
				acknowledged++
			} else if err == nil || !errors.Is(failed, stream.ErrBufferFull) { // what is not known for sure counts
				err = fmt.Errorf("produce to %s: %w", topic, failed)
			}
		case <-ctx.Done():
			return acknowledged, fmt.Errorf("produce to %s: %w", topic, ctx.Err())
		}
	}
	return acknowledged, err
}

// commander puts work onto the topic commands; see api.Commander.
type commander struct{ producer appender }

func (c commander) Commands(ctx context.Context, works []*event.Work) (acknowledged int, err error) {
	return appendAll(ctx, c.producer, stream.Commands, works, commandRecord)
}

func commandRecord(w *event.Work) (int32, *stream.Record, error) {
	r, err := w.Record()
	return w.Event.ID.Partition(), r, err
}

// submitter appends what recovery jobs submit and what they say of what they do not.
type submitter struct{ producer appender }

// Submit returns when all of it is durable. After an error nothing of it is on its way any more, unless ctx has ended.
func (s submitter) Submit(ctx context.Context, work []*event.Work, said []*event.Outcome) error {
	if _, err := appendAll(ctx, s.producer, stream.Commands, work, commandRecord); err != nil {
		return err
	}
	_, err := appendAll(ctx, s.producer, stream.Outcomes, said, func(o *event.Outcome) (int32, *stream.Record, error) {
		return o.Event.Partition(), o.Record(), nil
	})
	return err
}
