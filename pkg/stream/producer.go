package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrFull is given to the callback when the producer's buffer is full: answer 503, or wait and try again.
var ErrFull = errors.New("producer buffer is full")

// Producer appends records. Its buffer is bounded in records and bytes; nothing waits for room.
type Producer struct {
	cl     *kgo.Client
	prefix string
}

// Bounds of a producer's buffer: what waits for brokers that do not answer.
const (
	maxBufferedRecords = 20_000
	maxBufferedBytes   = 256 << 20
)

// NewProducer connects lazily: the first record dials.
//
// The linger is 0: franz-go sends what is there at once and batches by itself while requests are in
// flight, so an idle service answers fast and a busy one batches.
func NewProducer(c Config, clientID string) (*Producer, error) {
	cl, err := c.newClient(clientID,
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(MaxMessageBytes),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(maxBufferedRecords),
		kgo.MaxBufferedBytes(maxBufferedBytes),
		kgo.RecordDeliveryTimeout(2*time.Minute),
		kgo.ProduceRequestTimeout(10*time.Second),
	)
	if err != nil {
		return nil, err
	}
	return &Producer{cl: cl, prefix: c.Prefix}, nil
}

// Produce appends r to a partition of a topic (named without the prefix). done is called exactly
// once, on a goroutine of the client, when the record is durable or cannot become so any more;
// ErrFull means that it was never queued. Any other error leaves the outcome unknown; r may then be
// produced again.
func (p *Producer) Produce(topic string, partition int32, r *Record, done func(*Record, error)) {
	r.Topic, r.Partition = p.prefix+topic, partition
	untimed := r.Timestamp.IsZero()
	p.cl.TryProduce(context.Background(), r, func(r *Record, err error) {
		if err != nil && untimed {
			// The client has set it. A broker refuses times that are far off, and the next try must not
			// carry on a wrong one that the clock has been cured of.
			r.Timestamp = time.Time{}
		}
		if errors.Is(err, kgo.ErrMaxBuffered) {
			err = ErrFull
		}
		done(r, err)
	})
}

// ProduceSync appends one record and waits for it, or for the end of ctx: then the outcome is unknown,
// for the record may still be on its way.
func (p *Producer) ProduceSync(ctx context.Context, topic string, partition int32, r *Record) error {
	res := make(chan error, 1)
	p.Produce(topic, partition, r, func(_ *Record, err error) { res <- err })
	select {
	case err := <-res:
		if err != nil {
			return fmt.Errorf("produce to %s: %w", topic, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("produce to %s: %w", topic, ctx.Err())
	}
}

// Flush waits until everything that was given to Produce is decided.
func (p *Producer) Flush(ctx context.Context) error {
	if err := p.cl.Flush(ctx); err != nil {
		return fmt.Errorf("flush producer: %w", err)
	}
	return nil
}

// Close fails what is still buffered; call Flush first.
func (p *Producer) Close() { p.cl.Close() }
