package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ErrNotStored is part of an error after which the record is certainly not in the log, and never will be.
var ErrNotStored = errors.New("not stored")

// ErrBufferFull is passed to the callback if the buffer of the record's client is full: answer 503, or wait and retry.
// It is an ErrNotStored.
var ErrBufferFull = fmt.Errorf("producer buffer is full: %w", ErrNotStored)

// DeliveryTimeout is how long a producer holds a record that the log does not take. Whoever waits for it gives up
// earlier.
const DeliveryTimeout = 2 * time.Minute

// Producer appends records. Its buffers are bounded in records and bytes; only WaitForRoom waits for space.
type Producer struct{ Appender }

// Appender is a producer of one engine.
type Appender interface {
	// Produce appends r to a partition of a topic (named without the prefix). It calls done exactly once, on a goroutine
	// of the client, when the record is durable or cannot become so any more. ErrNotStored means that r is not in the log.
	// After any other error it is unknown whether r was stored; it may be produced again. The callbacks of one topic run
	// one after the other, so done must be quick. It must not call Produce: with a full buffer the new record's callback
	// would wait for done.
	Produce(topic string, partition int32, r *Record, done func(*Record, error))
	// ProduceUnordered is Produce for a record that may be stored before or after any other unacknowledged record. The
	// callbacks of a topic then run on two goroutines.
	ProduceUnordered(topic string, partition int32, r *Record, done func(*Record, error))
	// ProduceInOwnBatch appends one record in a batch of its own and waits until it is durable. Its error is about this
	// record and no other. If ctx ends first, it is unknown whether the record was stored. Concurrent calls run one after
	// the other.
	ProduceInOwnBatch(ctx context.Context, topic string, partition int32, r *Record) error
	// Flush waits until the callbacks of all earlier records were called.
	Flush(ctx context.Context) error
	// BrokerHosts returns the host names of all brokers of the cluster, not only of the configured ones.
	BrokerHosts(ctx context.Context) ([]string, error)
	// Close fails the records that are still buffered; call Flush first. No method may be called after it.
	Close()
	// HasRoom reports whether all buffers have room for a record of a size.
	HasRoom(size int64) bool
}

// NewProducer creates a producer. It connects with the first record.
func NewProducer(c Config, clientID string) (*Producer, error) {
	c.ProducerBufferBytes = cmp.Or(c.ProducerBufferBytes, maxBufferedBytes)
	if e := c.engine(); e != nil {
		return &Producer{e.NewAppender(c)}, nil
	}
	p, err := newKafkaProducer(c, clientID)
	if err != nil {
		return nil, err
	}
	return &Producer{p}, nil
}

// roomPollInterval is how often WaitForRoom checks the buffers.
const roomPollInterval = 10 * time.Millisecond

// WaitForRoom waits until all buffers have room for r, or until ctx ends and then returns its error. It reserves
// nothing: other records may fill the buffers first.
func (p *Producer) WaitForRoom(ctx context.Context, r *Record) error {
	size := sizeOf(r)
	if p.HasRoom(size) {
		return ctx.Err()
	}
	tick := time.NewTicker(roomPollInterval)
	defer tick.Stop()
	for !p.HasRoom(size) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// sizeOf returns the bytes of a record that count against a buffer.
func sizeOf(r *Record) int64 {
	size := int64(len(r.Key) + len(r.Value))
	for _, h := range r.Headers {
		size += int64(len(h.Key) + len(h.Value))
	}
	return size
}

// RejectedByBroker reports whether the brokers will never accept the record that err is about: it is too large, or
// invalid. Brokers check whole batches, so another record of the batch may be at fault, unless err comes from
// ProduceInOwnBatch.
func RejectedByBroker(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) ||
		errors.Is(err, kerr.InvalidRecord)
}

// ProduceSync appends one record and waits until it is durable. If ctx ends first, it is unknown whether the record was
// stored: it may still be in flight.
func (p *Producer) ProduceSync(ctx context.Context, topic string, partition int32, r *Record) error {
	result := make(chan error, 1)
	p.Produce(topic, partition, r, func(_ *Record, err error) { result <- err })
	select {
	case err := <-result:
		if err != nil {
			return fmt.Errorf("produce to %s: %w", topic, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("produce to %s: %w", topic, ctx.Err())
	}
}
