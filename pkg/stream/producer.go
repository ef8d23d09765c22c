package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrBufferFull is given to the callback when the buffer of the record's client is full: answer 503, or wait and try again.
var ErrBufferFull = errors.New("producer buffer is full")

// Producer appends records. It is three clients, and each of them has a buffer of its own that is bounded in records
// and bytes; nothing waits for room but Room, which waits until all three have it.
//
// The prompt client sends what is there at once and batches by itself while requests are in
// flight, so an idle service answers fast. The busy one lets records without an order gather for a moment while they
// come fast: a request, a barrier and a fetch for three of them cost more than the moment is worth. The patient
// one lets outcomes and retries gather for longer: nobody waits for an outcome, and a retry is not due for a second,
// so each need not cost a request of its own, nor stand before an event.
type Producer struct {
	noLinger, shortLinger, longLinger *kgo.Client
	rate                              recordRate // of records without an order
	createdAt                         time.Time
	prefix                            string
	maxBytes                          int64

	singleClient func() (*kgo.Client, error) // the client of ProduceInOwnBatch, made when it is first needed
	singleTurn   chan struct{}               // of ProduceInOwnBatch; capacity 1
	closeSingle  func()                      // closes what alone has made
}

// unorderedLinger is how long records without an order gather while they come fast.
const unorderedLinger = time.Millisecond

// outcomeLinger is how long outcomes and retries gather, and so by how much later a delivery that was made is seen.
const outcomeLinger = 5 * time.Millisecond

// Bounds of the buffer of each of the three clients: what waits for brokers that do not answer.
const (
	maxBufferedRecords = 20_000
	maxBufferedBytes   = 256 << 20
)

// roomPollInterval is how often Room looks again.
const roomPollInterval = 10 * time.Millisecond

// NewProducer connects lazily: the first record dials.
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
		kgo.RecordDeliveryTimeout(2 * time.Minute),
		kgo.ProduceRequestTimeout(10 * time.Second),
	}
	linger := func(d time.Duration) []kgo.Opt { return append(slices.Clip(opts), kgo.ProducerLinger(d)) }
	prompt, err := c.newClient(clientID, linger(0)...)
	if err != nil {
		return nil, err
	}
	busy, err := c.newClient(clientID, linger(unorderedLinger)...)
	if err != nil {
		prompt.Close()
		return nil, err
	}
	patient, err := c.newClient(clientID, linger(outcomeLinger)...)
	if err != nil {
		prompt.Close()
		busy.Close()
		return nil, err
	}
	p := &Producer{
		noLinger: prompt, shortLinger: busy, longLinger: patient, createdAt: time.Now(), prefix: c.Prefix, maxBytes: int64(c.ProducerBufferBytes),
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

// BrokerHosts returns the hosts under which the brokers of the cluster are reached: a few brokers are configured, and
// those name the others.
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

// Produce appends r to a partition of a topic (named without the prefix). done is called exactly
// once, on a goroutine of the client, when the record is durable or cannot become so any more;
// ErrBufferFull means that it was never queued. Any other error leaves the outcome unknown; r may then be
// produced again. The callbacks of one topic run one after the other: done must be quick, and must not produce, for a
// record that is refused because its buffer is full would wait for the callback that it is called from.
func (p *Producer) Produce(topic string, partition int32, r *Record, done func(*Record, error)) {
	client := p.noLinger
	if topicByName(topic).Linger > 0 {
		client = p.longLinger
	}
	p.produce(client, topic, partition, r, done)
}

// ProduceUnordered is Produce for a record that may come before or after any other that is still on its way. The
// callbacks of a topic then run on two goroutines.
func (p *Producer) ProduceUnordered(topic string, partition int32, r *Record, done func(*Record, error)) {
	client := p.noLinger
	if p.rate.countRecord(time.Since(p.createdAt)) {
		client = p.shortLinger
	}
	p.produce(client, topic, partition, r, done)
}

func (p *Producer) produce(client *kgo.Client, topic string, partition int32, r *Record, done func(*Record, error)) {
	r.Topic, r.Partition = p.prefix+topic, partition
	untimed := r.Timestamp.IsZero()
	client.TryProduce(context.Background(), r, func(r *Record, err error) {
		if err != nil && untimed {
			// The client has set it. A broker refuses times that are far off, and the next try must not
			// carry on a wrong one that the clock has been cured of.
			r.Timestamp = time.Time{}
		}
		if errors.Is(err, kgo.ErrMaxBuffered) {
			err = ErrBufferFull
		}
		done(r, err)
	})
}

// Room waits until there is room for r in all buffers, or until ctx ends: then it returns its error. It
// promises nothing: others may fill them first.
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
	held := client.BufferedProduceBytes()
	return client.BufferedProduceRecords() >= maxBufferedRecords || held > 0 && held+size > p.maxBytes
}

// Refused reports whether the brokers will not take the record that err is about, however often it is
// tried: it is too large, or invalid. They judge whole batches, so the record at fault may be another
// one, unless err is of ProduceInOwnBatch.
func RejectedByBroker(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge) ||
		errors.Is(err, kerr.InvalidRecord)
}

// ProduceInOwnBatch appends one record in a batch of its own and waits for it, or for the end of ctx: then the
// outcome is unknown. What it returns is said of this record and of no other. Calls take turns.
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
	if err := errors.Join(p.noLinger.Flush(ctx), p.shortLinger.Flush(ctx), p.longLinger.Flush(ctx)); err != nil {
		return fmt.Errorf("flush producer: %w", err)
	}
	return nil
}

// Close fails what is still buffered; call Flush first. No call may come after it.
func (p *Producer) Close() {
	p.noLinger.Close()
	p.shortLinger.Close()
	p.longLinger.Close()
	p.closeSingle()
}
