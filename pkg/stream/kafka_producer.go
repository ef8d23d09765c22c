package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaProducer has three clients, each with a buffer of its own that is bounded in records and bytes;
// ProduceInOwnBatch has a fourth.
//
// The client without linger sends at once and batches only while requests are in flight, so an idle service answers
// fast. The client with a short linger, 1 ms, takes unordered records while they arrive fast or many of them wait:
// three records that share one request, one sync and one fetch save more time than that millisecond. The client with a
// long linger, 5 ms, takes outcomes and retries: nobody waits for an outcome, and a retry is not due for a second, so
// they share requests and do not delay events.
type kafkaProducer struct {
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

const (
	// fastest is the level of zstd: the next one takes more CPU for a few percent.
	fastest = 1
	// maxExpansion bounds how much larger than its bytes in the log a batch may be. Fetches are bounded in those bytes: a
	// mebibyte of zeros takes some hundred of them, so a fetch of many would fill the memory of whoever reads them.
	maxExpansion = 10
)

// boundedCompressor leaves batches as they are that would become too large when they are read.
type boundedCompressor struct{ kgo.Compressor }

func newCompressor() (kgo.Compressor, error) {
	zstd, err := kgo.DefaultCompressor(kgo.ZstdCompression().WithLevel(fastest))
	return boundedCompressor{zstd}, err
}

func (c boundedCompressor) Compress(to *bytes.Buffer, batch []byte, flags ...kgo.CompressFlag) ([]byte,
	kgo.CompressionCodecType) {
	out, codec := c.Compressor.Compress(to, batch, flags...)
	if len(out)*maxExpansion < len(batch) {
		return batch, kgo.CodecNone
	}
	return out, codec
}

// outcomeLinger is the linger of outcomes and retries, and so how much later a finished delivery becomes visible.
const outcomeLinger = 5 * time.Millisecond

// Bounds of the buffer of each of the three clients, which fills while the brokers do not answer.
const (
	maxBufferedRecords = 20_000
	maxBufferedBytes   = 256 << 20
)

// newKafkaProducer creates a producer. It connects with the first record.
func newKafkaProducer(c Config, clientID string) (*kafkaProducer, error) {
	compression := kgo.ProducerBatchCompression(kgo.NoCompression()) // for a broker in this process
	if c.DialFunc == nil {
		compressor, err := newCompressor()
		if err != nil {
			return nil, err
		}
		compression = kgo.WithCompressor(compressor)
	}
	opts := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytes(MaxMessageBytes),
		compression,
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
	p := &kafkaProducer{
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

func (p *kafkaProducer) BrokerHosts(ctx context.Context) ([]string, error) {
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

func (p *kafkaProducer) Produce(topic string, partition int32, r *Record, done func(*Record, error)) {
	client := p.noLinger
	if topicByName(topic).Linger > 0 {
		client = p.longLinger
	}
	p.produce(client, topic, partition, r, done)
}

func (p *kafkaProducer) ProduceUnordered(topic string, partition int32, r *Record, done func(*Record, error)) {
	p.produce(p.clientOfUnordered(), topic, partition, r, func(r *Record, err error) {
		p.unanswered.Add(-1)
		done(r, err)
	})
}

// clientOfUnordered counts an unordered record as unanswered and returns the client that takes it.
func (p *kafkaProducer) clientOfUnordered() *kgo.Client {
	fast := p.rate.countRecord(time.Since(p.createdAt))
	if p.unanswered.Add(1) > manyUnanswered || fast {
		return p.shortLinger
	}
	return p.noLinger
}

func (p *kafkaProducer) produce(
	client *kgo.Client, topic string, partition int32, r *Record, done func(*Record, error)) {
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

func (p *kafkaProducer) HasRoom(size int64) bool {
	return !p.isFull(p.noLinger, size) && !p.isFull(p.shortLinger, size) && !p.isFull(p.longLinger, size)
}

func (p *kafkaProducer) isFull(client *kgo.Client, size int64) bool {
	buffered := client.BufferedProduceBytes()
	return client.BufferedProduceRecords() >= maxBufferedRecords || buffered > 0 && buffered+size > p.maxBytes
}

func (p *kafkaProducer) ProduceInOwnBatch(ctx context.Context, topic string, partition int32, r *Record) error {
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

func (p *kafkaProducer) Flush(ctx context.Context) error {
	if err := errors.Join(p.noLinger.Flush(ctx), p.shortLinger.Flush(ctx), p.longLinger.Flush(ctx)); err != nil {
		return fmt.Errorf("flush producer: %w", err)
	}
	return nil
}

func (p *kafkaProducer) Close() {
	p.noLinger.Close()
	p.shortLinger.Close()
	p.longLinger.Close()
	p.closeSingle()
}
