package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/pkg/certfile"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// logClient is how one process reaches the brokers: the engine of its stream.Config. Its clients do what those of
// Kafka do when answers are late, lost or refusals; log_test.go of pkg/stream says what that is.
type logClient struct {
	b    *brokers
	over *link
	now  func() time.Time
	name string
}

var pause = wait.Backoff{First: 50 * time.Millisecond, Longest: 2 * time.Second}

// requestTimeout is how long an answer may take before a client asks again.
const requestTimeout = 20 * time.Second

// ask repeats a request until it is answered, or ctx ends, or it was tried 20 times.
func (c *logClient) ask(ctx context.Context, do func(context.Context) error) (err error) {
	for try := range 20 {
		var refusal error
		asking, cancel := context.WithTimeout(ctx, requestTimeout)
		err = c.over.call(asking, func(ctx context.Context) { refusal = do(ctx) })
		cancel()
		if err == nil {
			err = refusal
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, errCut) ||
			refusal != nil && !kerr.IsRetriable(refusal) {
			break
		}
		if wait.For(ctx, pause.After(try)) != nil {
			break
		}
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// appender is a stream.Appender. Records of a partition are appended in their order, a batch at a time.
type appender struct {
	*logClient
	maxBytes int64
	ctx      context.Context
	end      context.CancelFunc
	sending  sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	queues map[queueKey]*queue
	used   [3]struct{ records, bytes int64 } // by kind
	idle   chan struct{}                     // closed when nothing waits; nil: nobody asks
	calls  [3]sync.Mutex                     // held while callbacks of a kind run
}

// Kinds of records: each has a buffer of its own.
const (
	direct = iota
	lingering
	unordered
)

type queueKey struct {
	kind int
	stream.Partition
}

type queue struct {
	waiting []*outgoing
	linger  time.Duration
	running bool
}

type outgoing struct {
	*stream.Record
	done    func(*stream.Record, error)
	bytes   int64
	since   time.Time
	untimed bool
}

// NewAppender implements stream.Engine.
func (c *logClient) NewAppender(cfg stream.Config) stream.Appender {
	a := &appender{logClient: c, maxBytes: int64(cfg.ProducerBufferBytes), queues: make(map[queueKey]*queue)}
	a.ctx, a.end = context.WithCancel(context.Background())
	return a
}

// lingers are the topics of which nobody waits for a record.
func lingers(name string) time.Duration {
	for _, t := range stream.Topics() {
		if t.Name == name {
			return t.Linger
		}
	}
	return 0
}

// Produce implements stream.Appender.
func (a *appender) Produce(topic string, p int32, r *stream.Record, done func(*stream.Record, error)) {
	kind := direct
	if lingers(topic) > 0 {
		kind = lingering
	}
	a.add(queueKey{kind, stream.Partition{Topic: topic, Index: p}}, r, done)
}

// ProduceUnordered implements stream.Appender.
func (a *appender) ProduceUnordered(topic string, p int32, r *stream.Record, done func(*stream.Record, error)) {
	a.add(queueKey{unordered, stream.Partition{Topic: topic, Index: p}}, r, done)
}

func (a *appender) add(key queueKey, r *stream.Record, done func(*stream.Record, error)) {
	o := &outgoing{Record: r, done: done, bytes: int64(len(r.Key) + len(r.Value)), since: a.now(),
		untimed: r.Timestamp.IsZero()}
	r.Topic, r.Partition, r.Offset = "relay."+key.Topic, key.Index, -1
	if o.untimed {
		r.Timestamp = o.since
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	used := &a.used[key.kind]
	if used.records >= 20_000 || used.bytes+o.bytes > a.maxBytes || a.ctx.Err() != nil {
		err := stream.ErrBufferFull
		if a.ctx.Err() != nil {
			err = kgo.ErrClientClosed
		}
		go a.finish(key, []*outgoing{o}, err, false) // Close may be waiting for those that are sent
		return
	}
	used.records, used.bytes = used.records+1, used.bytes+o.bytes
	q := a.queues[key]
	if q == nil {
		q = &queue{linger: lingers(key.Topic)}
		a.queues[key] = q
	}
	q.waiting = append(q.waiting, o)
	if !q.running {
		q.running = true
		a.sending.Go(func() { a.drain(key, q) })
	}
}

func (a *appender) drain(key queueKey, q *queue) {
	for {
		if q.linger > 0 {
			_ = wait.For(a.ctx, q.linger)
		}
		a.mu.Lock()
		batch := q.waiting
		q.waiting = nil
		q.running = len(batch) > 0
		a.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		a.finish(key, batch, a.send(key, batch), true)
	}
}

// send appends a batch. It fails when the time for it is over and it is certainly not in the log: the client of Kafka
// asks again until it knows.
func (a *appender) send(key queueKey, batch []*outgoing) error {
	records := make([]*stream.Record, len(batch))
	for i, o := range batch {
		records[i] = o.Record
	}
	known := true
	for try := 0; ; try++ {
		var refusal error
		asking, cancel := context.WithTimeout(a.ctx, requestTimeout)
		err := a.over.call(asking, func(context.Context) { refusal = a.b.append(key.Partition, records) })
		cancel()
		switch {
		case err == nil && refusal == nil:
			return nil
		case a.ctx.Err() != nil, errors.Is(err, errCut):
			return kgo.ErrClientClosed
		case err == nil && !kerr.IsRetriable(refusal):
			return refusal
		case err == nil:
			known = known && !errors.Is(refusal, kerr.RequestTimedOut)
		case !errors.Is(err, errNotSent):
			known = false
		}
		if known && a.now().Sub(batch[0].since) > stream.DeliveryTimeout {
			return kgo.ErrRecordTimeout
		}
		_ = wait.For(a.ctx, pause.After(try))
	}
}

func (a *appender) finish(key queueKey, batch []*outgoing, err error, counted bool) {
	a.over.pass()
	for _, o := range batch {
		if err != nil && o.untimed {
			o.Timestamp = time.Time{}
		}
		a.mu.Lock()
		if used := &a.used[key.kind]; counted {
			used.records, used.bytes = used.records-1, used.bytes-o.bytes
		}
		a.mu.Unlock()
		a.calls[key.kind].Lock()
		o.done(o.Record, err)
		a.calls[key.kind].Unlock()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.idle != nil && a.empty() {
		close(a.idle)
		a.idle = nil
	}
}

func (a *appender) empty() bool {
	return a.used[direct].records+a.used[lingering].records+a.used[unordered].records == 0
}

// ProduceInOwnBatch implements stream.Appender.
func (a *appender) ProduceInOwnBatch(ctx context.Context, topic string, p int32, r *stream.Record) error {
	result := make(chan error, 1)
	a.Produce(topic, p, r, func(_ *stream.Record, err error) { result <- err })
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// HasRoom implements stream.Appender.
func (a *appender) HasRoom(size int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !slices.ContainsFunc(a.used[:], func(u struct{ records, bytes int64 }) bool {
		return u.records >= 20_000 || u.bytes > 0 && u.bytes+size > a.maxBytes
	})
}

// Flush implements stream.Appender.
func (a *appender) Flush(ctx context.Context) error {
	a.mu.Lock()
	if a.empty() {
		a.mu.Unlock()
		return nil
	}
	if a.idle == nil {
		a.idle = make(chan struct{})
	}
	idle := a.idle
	a.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// BrokerHosts implements stream.Appender.
func (a *appender) BrokerHosts(context.Context) ([]string, error) { return nil, nil }

// Close implements stream.Appender.
func (a *appender) Close() {
	a.mu.Lock()
	a.end()
	a.mu.Unlock()
	a.sending.Wait()
}

// logReader is a stream.LogReader. The nil one below it panics for what no stage of the simulation asks.
type logReader struct {
	stream.LogReader
	*logClient
}

// NewLogReader implements stream.Engine.
func (c *logClient) NewLogReader(stream.Config) stream.LogReader { return logReader{nil, c} }

// Close implements stream.LogReader.
func (logReader) Close() {}

func (r logReader) offsets(ctx context.Context, topics []string, of func(stream.Partition) int64) (
	map[stream.Partition]int64, error) {
	out := make(map[stream.Partition]int64)
	err := r.ask(ctx, func(context.Context) error {
		for _, p := range r.b.of(topics) {
			out[p] = of(p)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	return out, nil
}

// Ends implements stream.LogReader.
func (r logReader) Ends(ctx context.Context, topics ...string) (map[stream.Partition]int64, error) {
	return r.offsets(ctx, topics, r.b.end)
}

// Starts implements stream.LogReader.
func (r logReader) Starts(ctx context.Context, topics ...string) (map[stream.Partition]int64, error) {
	return r.offsets(ctx, topics, func(p stream.Partition) int64 {
		start, _, _ := r.b.bounds(p, time.Time{})
		return start
	})
}

// OffsetsForTime implements stream.LogReader.
func (r logReader) OffsetsForTime(ctx context.Context, topic string, t time.Time) (map[stream.Partition]int64, error) {
	return r.offsets(ctx, []string{topic}, func(p stream.Partition) int64 {
		_, _, since := r.b.bounds(p, t)
		return since
	})
}

// Read implements stream.LogReader.
func (r logReader) Read(ctx context.Context, p stream.Partition, from int64, each func(*stream.Record) error) error {
	at := []position{{p, max(from, 0)}}
	for try := 0; ; try++ {
		var found []fetched
		err := r.over.call(ctx, func(ctx context.Context) { found = r.b.fetch(ctx, at, 1000) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || len(found) == 0 {
			if errors.Is(err, errCut) {
				<-ctx.Done() // a dead process reads nothing
			}
			_ = wait.For(ctx, pause.After(try))
			continue
		}
		try = 0
		if p.Topic == stream.Control {
			_ = wait.For(ctx, r.over.configurationLag())
		}
		for _, record := range found[0].records {
			at[0].next = record.Offset + 1
			if err := each(record); errors.Is(err, stream.ErrStop) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
}

// ReadWithControlRecords implements stream.LogReader: there are none.
func (r logReader) ReadWithControlRecords(ctx context.Context, p stream.Partition, from int64,
	each func(*stream.Record) error) error {
	return r.Read(ctx, p, from, each)
}

// FetchRanges implements stream.LogReader.
func (r logReader) FetchRanges(ctx context.Context, ranges []stream.Range, _ int32,
	each func(stream.Partition, []*stream.Record) error) error {
	for _, g := range ranges {
		for next := g.From; next < g.To; {
			var found []fetched
			err := r.ask(ctx, func(ctx context.Context) error {
				if start, _, _ := r.b.bounds(g.Partition, time.Time{}); start > next {
					return stream.ErrTrimmed
				}
				found = r.b.fetch(ctx, []position{{g.Partition, next}}, min(1000, int(g.To-next)))
				return nil
			})
			if err == nil && len(found) == 0 {
				err = ctx.Err()
			}
			if err != nil {
				return fmt.Errorf("read %s[%d]: %w", g.Topic, g.Index, err)
			}
			next = found[0].records[len(found[0].records)-1].Offset + 1
			if err := each(g.Partition, found[0].records); errors.Is(err, stream.ErrStop) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// Commits implements stream.LogReader.
func (r logReader) Commits(ctx context.Context, group string, topics ...string) (
	out map[stream.Partition]stream.Commit, err error) {
	err = r.ask(ctx, func(context.Context) error {
		c, err := r.b.coordinator(group)
		if err == nil {
			out = c.committed(r.b.of(topics))
		}
		return err
	})
	return out, err
}

// TopicID implements stream.LogReader.
func (r logReader) TopicID(_ context.Context, topic string) (cluster, id string, err error) {
	return "simulation", topic, nil
}

// MemberCount implements stream.LogReader.
func (r logReader) MemberCount(ctx context.Context, group string) (n int, err error) {
	err = r.ask(ctx, func(context.Context) error {
		c, err := r.b.coordinator(group)
		if err == nil {
			n = c.size()
		}
		return err
	})
	return n, err
}

// BrokerCount implements stream.LogReader.
func (logReader) BrokerCount(context.Context) (int, error) { return 1, nil }

// Endpoints implements stream.LogReader.
func (logReader) Endpoints(context.Context) []certfile.Endpoint { return nil }

// AllowedWriters implements stream.LogReader.
func (logReader) AllowedWriters(context.Context) ([]stream.AllowedWriter, string, error) {
	return nil, "", nil
}

// TrimAll implements stream.LogReader.
func (r logReader) TrimAll(ctx context.Context, before map[stream.Partition]int64) error {
	return r.ask(ctx, func(context.Context) error {
		r.b.trim(before)
		return nil
	})
}
