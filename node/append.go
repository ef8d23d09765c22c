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

// appendAll appends one record for each item to its partition of a topic. It waits for room in the producer's buffer,
// and stops before the first item whose record cannot be made or gets no room. It returns when all records that it
// produced have an answer, or when ctx ends. Only in the second case may records still be in flight. acknowledged is
// the number of records that are durable.
func appendAll[T any](ctx context.Context, log appender, topic string, all []T,
	record func(T) (partition int32, r *stream.Record, err error),
) (acknowledged int, err error) {
	results := make(chan error, len(all)) // room for all: a late answer must not block the producer
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
			} else if err == nil || !errors.Is(failed, stream.ErrBufferFull) { // an unknown outcome outweighs a full buffer
				err = fmt.Errorf("produce to %s: %w", topic, failed)
			}
		case <-ctx.Done():
			return acknowledged, fmt.Errorf("produce to %s: %w", topic, ctx.Err())
		}
	}
	return acknowledged, err
}

// commander appends the deliveries of replays to the topic commands; see jobs.Commander.
type commander struct{ producer appender }

func (c commander) Commands(ctx context.Context, works []*event.Work) (acknowledged int, err error) {
	return appendAll(ctx, c.producer, stream.Commands, works, commandRecord)
}

func commandRecord(w *event.Work) (int32, *stream.Record, error) {
	r, err := w.Record()
	return w.Event.ID.Partition(), r, err
}

// submitter appends the deliveries that recovery jobs start, and outcomes for those that they skip.
type submitter struct{ producer appender }

// Submit returns when all records are durable. After an error none is in flight, unless ctx has ended.
func (s submitter) Submit(ctx context.Context, work []*event.Work, skipped []*event.Outcome) error {
	if _, err := appendAll(ctx, s.producer, stream.Commands, work, commandRecord); err != nil {
		return err
	}
	_, err := appendAll(ctx, s.producer, stream.Outcomes, skipped, func(o *event.Outcome) (int32, *stream.Record, error) {
		return o.Event.Partition(), o.Record(), nil
	})
	return err
}
