package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrBufferFull is passed to the callback if the buffer of the record's client is full: answer 503, or wait and retry.
var ErrBufferFull = errors.New("producer buffer is full")

// Producer appends records. It has three clients, each with a buffer of its own that is bounded in records and bytes;
// ProduceInOwnBatch has a fourth. Only WaitForRoom waits for free space in a buffer.
//
// The client without linger sends at once and batches only while requests are in flight, so an idle service answers
// fast. The client with a short linger, 1 ms, takes unordered records while they arrive fast or many of them wait:
// three records that share one request, one sync and one fetch save more time than that millisecond. The client with a
// long linger, 5 ms, takes outcomes and retries: nobody waits for an outcome, and a retry is not due for a second, so
// they share requests and do not delay events.
type Producer struct {
	noLinger, shortLinger, longLinger *kgo.Client
	rate                              recordRate   // of unordered records
	unanswered                        atomic.Int64 // unordered records that wait for their acknowledgement
	createdAt                         time.Time
	prefix                            string
	maxBytes                          int64

	singleClient func() (*kgo.Client, error) // of ProduceInOwnBatch; created at the first call
	singleTurn   chan struct{}               // held by the running ProduceInOwnBatch; capacity 1
	closeSingle  func()                      // closes what singleClient has created
}

// unorderedLinger is the linger of unordered records while they arrive fast, or while more than manyUnanswered of them
// wait. On a machine that is busy with other work few arrive, because each waits long for its request.
const (
	unorderedLinger = time.Millisecond
	manyUnanswered  = 8
)

// outcomeLinger is the linger of outcomes and retries, and so how much later a finished delivery becomes visible.
const outcomeLinger = 5 * time.Millisecond

// Bounds of the buffer of each of the three clients, which fills while the brokers do not answer.
const (
	maxBufferedRecords = 20_000
	maxBufferedBytes   = 256 << 20
)

// DeliveryTimeout is how long a producer holds a record that the log does not take. Whoever waits for it gives up
// earlier.
const DeliveryTimeout = 2 * time.Minute

// roomPollInterval is how often WaitForRoom checks the buffers.
const roomPollInterval = 10 * time.Millisecond

// NewProducer creates a producer. It connects with the first record.
func NewProducer(c Config, clientID string) (*Producer, error) {
	if c.ProducerBufferBytes == 0 {
		c.ProducerBufferBytes = maxBufferedBytes
	}
	opts := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytes(MaxMessageBytes),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(maxBufferedRecords),
		kgo.MaxBufferedBytes(c.ProducerBufferBytes),
		kgo.RecordDeliveryTimeout(DeliveryTimeout),
		kgo.ProduceRequestTimeout(10 * time.Second),
	}
	linger := func(d time.Duration) []kgo.Opt { return append(slices.Clip(opts), kgo.ProducerLinger(d)) }
	noLinger, err := c.newClient(clientID, linger(0)...)
	if err != nil {
		return nil, err
	}
	shortLinger, err := c.newClient(clientID, linger(unorderedLinger)...)
	if err != nil {
		noLinger.Close()
		return nil, err
	}
	longLinger, err := c.newClient(clientID, linger(outcomeLinger)...)
	if err != nil {
		noLinger.Close()
		shortLinger.Close()
		return nil, err
	}
	p := &Producer{
		noLinger: noLinger, shortLinger: shortLinger, longLinger: longLinger, createdAt: time.Now(), prefix: c.Prefix,
		maxBytes:   int64(c.ProducerBufferBytes),
		singleTurn: make(chan struct{}, 1), closeSingle: func() {},
	}
	p.singleClient = sync.OnceValues(func() (*kgo.Client, error) {
		cl, err := c.newClient(clientID+"-alone", linger(0)...)
		if err == nil {
			p.closeSingle = cl.Close
		}
		return cl, err
	})
	return p, nil
}

// BrokerHosts returns the host names of all brokers of the cluster, not only of the configured ones.
func (p *Producer) BrokerHosts(ctx context.Context) ([]string, error) {
	brokers, err := kadm.NewClient(p.noLinger).ListBrokers(ctx)
	if err != nil {
		return nil, fmt.Errorf("list brokers: %w", err)
	}
	var hosts []string
	for _, b := range brokers {
		hosts = append(hosts, b.Host)
	}
	return hosts, nil
}

// Produce appends r to a partition of a topic (named without the prefix). It calls done exactly once, on a goroutine of
// the client, when the record is durable or cannot become so any more. ErrBufferFull means that r was not queued. After
// any other error it is unknown whether r was stored; it may be produced again. The callbacks of one topic run one
// after the other, so done must be quick. It must not call Produce: with a full buffer the new record's callback would
// wait for done.
func (p *Producer) Produce(topic string, partition int32, r *Record, done func(*Record, error)) {
	client := p.noLinger
	if topicByName(topic).Linger > 0 {
		client = p.longLinger
	}
	p.produce(client, topic, partition, r, done)
}

// ProduceUnordered is Produce for a record that may be stored before or after any other unacknowledged record. The
// callbacks of a topic then run on two goroutines.
func (p *Producer) ProduceUnordered(topic string, partition int32, r *Record, done func(*Record, error)) {
	p.produce(p.clientOfUnordered(), topic, partition, r, func(r *Record, err error) {
		p.unanswered.Add(-1)
		done(r, err)
	})
}

// clientOfUnordered counts an unordered record as unanswered and returns the client that takes it.
func (p *Producer) clientOfUnordered() *kgo.Client {
	fast := p.rate.countRecord(time.Since(p.createdAt))
	if p.unanswered.Add(1) > manyUnanswered || fast {
		return p.shortLinger
	}
	return p.noLinger
}

func (p *Producer) produce(client *kgo.Client, topic string, partition int32, r *Record, done func(*Record, error)) {
	r.Topic, r.Partition = p.prefix+topic, partition
	untimed := r.Timestamp.IsZero()
	client.TryProduce(context.Background(), r, func(r *Record, err error) {
		if err != nil && untimed {
			// The client has set it. Brokers reject timestamps that are far off (message.timestamp.before.max.ms), so
			// the next attempt must not repeat one from before the clock was corrected.
			r.Timestamp = time.Time{}
		}
		if errors.Is(err, kgo.ErrMaxBuffered) {
			err = ErrBufferFull
		}
		done(r, err)
	})
}

// WaitForRoom waits until all three buffers have room for r, or until ctx ends and then returns its error. It reserves
// nothing: other records may fill the buffers first.
func (p *Producer) WaitForRoom(ctx context.Context, r *Record) error {
	size := int64(len(r.Key) + len(r.Value))
	for _, h := range r.Headers {
		size += int64(len(h.Key) + len(h.Value))
	}
	full := func() bool {
		return p.isFull(p.noLinger, size) || p.isFull(p.shortLinger, size) || p.isFull(p.longLinger, size)
	}
	if !full() {
		return ctx.Err()
	}
	tick := time.NewTicker(roomPollInterval)
	defer tick.Stop()
	for full() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

func (p *Producer) isFull(client *kgo.Client, size int64) bool {
	buffered := client.BufferedProduceBytes()
	return client.BufferedProduceRecords() >= maxBufferedRecords || buffered > 0 && buffered+size > p.maxBytes
}

// RejectedByBroker reports whether the brokers will never accept the record that err is about: it is too large, or
// invalid. Brokers check whole batches, so another record of the batch may be at fault, unless err comes from
// ProduceInOwnBatch.
func RejectedByBroker(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) ||
		errors.Is(err, kerr.InvalidRecord)
}

// ProduceInOwnBatch appends one record in a batch of its own and waits until it is durable. Its error is about this
// record and no other. If ctx ends first, it is unknown whether the record was stored. Concurrent calls run one after
// the other.
func (p *Producer) ProduceInOwnBatch(ctx context.Context, topic string, partition int32, r *Record) error {
	select {
	case p.singleTurn <- struct{}{}:
		defer func() { <-p.singleTurn }()
	case <-ctx.Done():
		return fmt.Errorf("produce to %s: %w", topic, ctx.Err())
	}
	cl, err := p.singleClient()
	if err != nil {
		return err
	}
	r.Topic, r.Partition = p.prefix+topic, partition
	untimed := r.Timestamp.IsZero()
	if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
		if untimed {
			r.Timestamp = time.Time{}
		}
		return fmt.Errorf("produce to %s: %w", topic, err)
	}
	return nil
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

// Flush waits until the callbacks of all earlier records were called.
func (p *Producer) Flush(ctx context.Context) error {
	if err := errors.Join(p.noLinger.Flush(ctx), p.shortLinger.Flush(ctx), p.longLinger.Flush(ctx)); err != nil {
		return fmt.Errorf("flush producer: %w", err)
	}
	return nil
}

// Close fails the records that are still buffered; call Flush first. No method may be called after it.
func (p *Producer) Close() {
	p.noLinger.Close()
	p.shortLinger.Close()
	p.longLinger.Close()
	p.closeSingle()
}
