package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/eventrelay/relay/pkg/segment"
)

// localProducer appends to the log in this process. Records of topics with a linger have a buffer of their own, so that
// they do not take the room of others.
type localProducer struct {
	cfg               Config
	direct, lingering localBuffer
}

// localBuffer bounds the records that wait for their acknowledgement.
type localBuffer struct {
	maxBytes int64

	mu      sync.Mutex // guards the fields below
	records int
	bytes   int64
	empty   chan struct{} // closed when there are none; nil: nobody waits
}

func newLocalProducer(c Config) *localProducer {
	p := &localProducer{cfg: c}
	p.direct.maxBytes, p.lingering.maxBytes = int64(c.ProducerBufferBytes), int64(c.ProducerBufferBytes)
	return p
}

// localRecord is a record on its way into a segment.
type localRecord struct {
	*Record
	done    func(*Record, error)
	buffer  *localBuffer // that has room for it; nil: none
	bytes   int64
	untimed bool
}

func (r *localRecord) Size() int                  { return int(r.bytes) + 4*(3+2*len(r.Headers)) }
func (r *localRecord) AppendTo(dst []byte) []byte { return appendRecord(dst, r.Record) }

func (r *localRecord) Done(offset int64, err error) {
	if r.buffer != nil {
		r.buffer.release(r.bytes)
	}
	if r.Offset = offset; err != nil && r.untimed {
		r.Timestamp = time.Time{}
	}
	if err != nil && !errors.Is(err, segment.ErrFailed) && !errors.Is(err, segment.ErrTorn) &&
		!errors.Is(err, ErrNotStored) {
		err = fmt.Errorf("%w: %w", ErrNotStored, err) // it was refused, or its write failed and was cut off
	}
	r.done(r.Record, err)
}

// maxOverhead is more than what a record has beside keys, values and headers' names.
const maxOverhead = 1 << 10

func (p *localProducer) Produce(topic string, partition int32, r *Record, done func(*Record, error)) {
	t := topicByName(topic)
	buffer := &p.direct
	if t.Linger > 0 {
		buffer = &p.lingering
	}
	p.append(t, buffer, p.cfg.Prefix+topic, partition, r, done)
}

// ProduceUnordered is Produce: a record waits for no other.
func (p *localProducer) ProduceUnordered(topic string, partition int32, r *Record, done func(*Record, error)) {
	p.Produce(topic, partition, r, done)
}

func (p *localProducer) append(t Topic, buffer *localBuffer, topic string, partition int32, r *Record,
	done func(*Record, error)) {
	r.Topic, r.Partition = topic, partition
	l := &localRecord{Record: r, done: done, bytes: sizeOf(r), untimed: r.Timestamp.IsZero()}
	to := p.cfg.Embedded.segments.Partition(topic, partition)
	var refusal error
	switch {
	case to == nil:
		refusal = kerr.UnknownTopicOrPartition
	case l.bytes+maxOverhead > MaxMessageBytes:
		refusal = kerr.MessageTooLarge
	case buffer != nil && !buffer.take(l.bytes):
		refusal = ErrBufferFull
	}
	if refusal != nil {
		p.cfg.Embedded.segments.Refuse(l, refusal)
		return
	}
	l.buffer = buffer
	if l.untimed || t.TimestampType == appendTime {
		r.Timestamp = p.cfg.Embedded.now()
	}
	r.Timestamp = r.Timestamp.Truncate(time.Millisecond)
	to.Append(r.Timestamp.UnixMilli(), l, t.Linger)
}

func (p *localProducer) ProduceInOwnBatch(ctx context.Context, topic string, partition int32, r *Record) error {
	result := make(chan error, 1)
	p.append(topicByName(topic), nil, p.cfg.Prefix+topic, partition, r, func(_ *Record, err error) { result <- err })
	var err error
	select {
	case err = <-result:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("produce to %s: %w", topic, err)
	}
	return nil
}

func (p *localProducer) HasRoom(size int64) bool {
	return p.direct.hasRoom(size) && p.lingering.hasRoom(size)
}

func (p *localProducer) Flush(ctx context.Context) error {
	for _, b := range []*localBuffer{&p.direct, &p.lingering} {
		select {
		case <-b.whenEmpty():
		case <-ctx.Done():
			return fmt.Errorf("flush producer: %w", ctx.Err())
		}
	}
	return nil
}

func (p *localProducer) BrokerHosts(context.Context) ([]string, error) { return nil, nil }

// Close does nothing: what was produced is written already, or will be.
func (p *localProducer) Close() {}

// take takes the room of a record, and reports whether there was room.
func (b *localBuffer) take(size int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.records >= maxBufferedRecords || b.bytes+size > b.maxBytes {
		return false
	}
	b.records++
	b.bytes += size
	return true
}

func (b *localBuffer) release(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes -= size
	if b.records--; b.records == 0 && b.empty != nil {
		close(b.empty)
		b.empty = nil
	}
}

func (b *localBuffer) hasRoom(size int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.records < maxBufferedRecords && (b.bytes == 0 || b.bytes+size <= b.maxBytes)
}

// whenEmpty returns a channel that is closed when no record waits.
func (b *localBuffer) whenEmpty() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.records == 0 {
		c := make(chan struct{})
		close(c)
		return c
	}
	if b.empty == nil {
		b.empty = make(chan struct{})
	}
	return b.empty
}

var _ segment.Entry = (*localRecord)(nil)
