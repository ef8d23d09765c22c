package feed

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

// tailPause is how long a tail waits after a read error.
const tailPause = time.Second

// tail follows one partition for all watchers of this node. Feed.mu guards its fields.
type tail struct {
	feed      *Feed
	partition int32
	next      int64                      // offset of the next record
	at        time.Time                  // time of the record before next
	subs      map[string][]*subscription // by endpoint
	refs      int                        // open subscriptions; the last one to close ends the tail
	closed    bool
	cancel    context.CancelFunc // set by run
}

// subscription is a watcher's queue of events from one tail.
type subscription struct {
	tail     *tail
	endpoint string
	wake     chan<- struct{} // capacity 1; shared by all subscriptions of a watcher
	// completeFrom is the first offset from which the queue misses nothing. Events before it must be read elsewhere.
	completeFrom int64
	queued       []*Event
	bytes        int // memory of the queued events
}

// Event is an event as a watcher gets it.
type Event struct {
	*event.Event // without the body when that is larger than MaxBody
	Offset       int64
	Size         int // of the whole body, in bytes
}

// Truncated reports whether the body was left out because it is larger than MaxBody.
func (e *Event) Truncated() bool { return e.Size > MaxBody }

// eventOverhead is about how many bytes of memory an event needs besides its body, query and headers.
const eventOverhead = 512

func (e *Event) memoryBytes() int {
	n := eventOverhead + len(e.Body) + len(e.Query)
	for _, h := range e.Header {
		n += len(h.Name) + len(h.Value)
	}
	return n
}

// visibleEvent decodes a record. It returns nil for events that watchers do not get: rejected ones, duplicates,
// uses of tripwires, records for a single consumer group, and records that cannot be decoded.
func visibleEvent(r *stream.Record) *Event {
	e, err := event.Decode(r)
	if err != nil || e.Source.IsUse() || e.Verdict == event.VerdictRejected || e.DuplicateOf != "" ||
		e.Reason == event.Duplicate || e.OnlyGroup != "" {
		return nil
	}
	out := &Event{Event: e, Offset: r.Offset, Size: len(e.Body)}
	if out.Truncated() {
		e.Body = nil
	} else {
		e.Body = bytes.Clone(e.Body) // the record's body would keep the whole fetched batch in memory
	}
	return out
}

// subscribe adds a subscription to the tail of a partition, and starts the tail if it does not run. end is the
// current end offset of the partition, where a new tail starts.
func (f *Feed) subscribe(ctx context.Context, partition int32, end int64, endpoint string, wake chan<- struct{}) (
	*subscription, error) {
	f.mu.Lock()
	t := f.tails[partition]
	isNew := t == nil
	if isNew {
		t = &tail{feed: f, partition: partition, next: end, subs: make(map[string][]*subscription)}
		f.tails[partition] = t
	}
	t.refs++
	s := &subscription{tail: t, endpoint: endpoint, wake: wake, completeFrom: t.next}
	t.subs[endpoint] = append(t.subs[endpoint], s)
	f.mu.Unlock()
	if !isNew {
		return s, nil
	}
	select {
	case f.startTail <- t:
		return s, nil
	case <-f.stopped:
		s.close()
		return nil, ErrStopped
	case <-ctx.Done():
		s.close()
		return nil, ctx.Err()
	}
}

// close ends the subscription, and the tail if it was the last one.
func (s *subscription) close() {
	t := s.tail
	t.feed.mu.Lock()
	defer t.feed.mu.Unlock()
	s.clearQueue()
	left := slices.DeleteFunc(t.subs[s.endpoint], func(other *subscription) bool { return other == s })
	if t.subs[s.endpoint] = left; len(left) == 0 {
		delete(t.subs, s.endpoint)
	}
	if t.refs--; t.refs > 0 {
		return
	}
	t.closed = true
	if t.feed.tails[t.partition] == t {
		delete(t.feed.tails, t.partition)
	}
	if t.cancel != nil {
		t.cancel()
	}
}

// clearQueue drops the queued events.
func (s *subscription) clearQueue() {
	s.tail.feed.queuedBytes -= s.bytes
	s.queued, s.bytes = nil, 0
}

// run reads the partition until the last subscription is closed or ctx ends.
func (t *tail) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.feed.mu.Lock()
	t.cancel = cancel
	closed, next := t.closed, t.next
	t.feed.mu.Unlock()
	for !closed && ctx.Err() == nil {
		err := t.feed.deps.Topic.Read(
			ctx, stream.Partition{Topic: stream.Events, Index: t.partition}, next, func(r *stream.Record) error {
				t.distribute(r)
				next = r.Offset + 1
				return nil
			})
		if ctx.Err() != nil {
			return
		}
		t.feed.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read events for watchers, trying again",
			slog.Int("partition", int(t.partition)), slog.Any("error", err))
		_ = wait.For(ctx, tailPause) // the loop checks ctx
	}
}

// distribute queues the event of a record for the watchers of its endpoint.
func (t *tail) distribute(r *stream.Record) {
	t.feed.mu.Lock()
	defer t.feed.mu.Unlock()
	if r.Offset < t.next {
		return
	}
	if r.Offset > t.next { // the log has trimmed the records in between
		for _, subs := range t.subs {
			for _, s := range subs {
				s.restart(r.Offset)
			}
		}
	}
	t.next, t.at = r.Offset+1, r.Timestamp
	subs := t.subs[string(r.Key)]
	if len(subs) == 0 {
		return
	}
	e := visibleEvent(r)
	if e == nil {
		return
	}
	for _, s := range subs {
		s.enqueue(e)
	}
}

// enqueue queues an event. When the queue is full, the whole queue is dropped, and the watcher reads its events from
// the log later.
func (s *subscription) enqueue(e *Event) {
	f, size := s.tail.feed, e.memoryBytes()
	if len(s.queued) >= MaxQueued || len(s.queued) > 0 && f.queuedBytes+size > maxQueuedBytes {
		s.restart(e.Offset + 1)
		return
	}
	s.queued = append(s.queued, e)
	s.bytes += size
	f.queuedBytes += size
	s.signal()
}

// restart drops the queue and starts it again at an offset; the watcher must read everything before it elsewhere.
func (s *subscription) restart(offset int64) {
	s.clearQueue()
	s.completeFrom = offset
	s.signal()
}

func (s *subscription) signal() { wait.Wake(s.wake) }
