// Package feed follows the topic events for clients that watch an endpoint while events arrive.
//
// It reads the topic by offset and outside of any consumer group, so every node can serve every endpoint. A watcher
// gets the events of one endpoint in the order of the log, partition by partition. Rejected events, duplicates, events
// with an erased payload, records that were requeued for a single consumer group, and records that cannot be decoded
// are left out.
//
// Guarantee: a watcher that resumes from the cursor of its last event gets each later event once, as long as it is
// retained. Events that the log has trimmed are read from the store. Where neither has them, the watcher gets a Gap.
//
// The watchers of a node share one tail per partition, which runs while at least one of them needs it. Events that a
// watcher has not read yet are queued in memory up to a limit; beyond it they are read from the log again, at the
// watcher's pace. Begin reading at Feed.Watch and Watcher.Next (watcher.go), then tail.run (tail.go).
package feed

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Limits of the events that are queued in memory for watchers.
const (
	// MaxQueued is how many events may be queued for one watcher, maxQueuedBytes how many bytes for all watchers of a
	// node.
	MaxQueued      = 1000
	maxQueuedBytes = 64 << 20
	// MaxBody is the largest body in bytes that a watcher gets; a larger one is left out of its event.
	MaxBody = 1 << 20
	// maxReads bounds the concurrent reads for watchers that are behind: each needs buffers of some megabytes. An API key
	// has one at a time.
	maxReads = 4
)

// ErrStopped is returned to watchers after Run has ended.
var ErrStopped = errors.New("the feed has stopped")

// Log reads the topic events; stream.Reader implements it.
type Log interface {
	Ends(ctx context.Context, topics ...string) (map[stream.Partition]int64, error)
	Starts(ctx context.Context, topics ...string) (map[stream.Partition]int64, error)
	OffsetsForTime(ctx context.Context, topic string, t time.Time) (map[stream.Partition]int64, error)
	Read(ctx context.Context, p stream.Partition, from int64, each func(*stream.Record) error) error
	ReadRanges(ctx context.Context, ranges []stream.Range, each func(stream.Partition, []*stream.Record) error) error
}

// Store holds the events that the log has trimmed.
type Store interface {
	// EventsByOffset returns the next events of an endpoint in the order of their offsets, and the offset to continue
	// from.
	EventsByOffset(ctx context.Context, q event.OffsetQuery) (event.OffsetPage, error)
}

// Deps are the dependencies of a Feed; all but Erased are required.
type Deps struct {
	Log       *slog.Logger
	Topic     Log
	Store     Store
	Now       func() time.Time
	Retention time.Duration // how long events can be read
	// Erased reports whether the payload of an event was erased; such events are skipped. Nil means that none was.
	Erased func(id.ID) bool
}

// Feed reads the topic events for all watchers of this node.
type Feed struct {
	deps      Deps
	startTail chan *tail
	readSlots chan struct{} // one element for each running read for a watcher that is behind
	stopped   chan struct{} // closed when Run has ended

	mu          sync.Mutex // guards the fields below, and those of tails and subscriptions
	tails       map[int32]*tail
	reading     map[string]chan struct{} // by API key: closed when its read for a watcher that is behind ends
	queuedBytes int                      // bytes queued for all watchers
}

// New validates deps. It starts nothing; Run does.
func New(deps Deps) (*Feed, error) {
	if deps.Log == nil || deps.Topic == nil || deps.Store == nil || deps.Now == nil || deps.Retention <= 0 {
		return nil, errors.New("feed: a dependency is missing")
	}
	return &Feed{
		deps: deps, startTail: make(chan *tail), readSlots: make(chan struct{}, maxReads), stopped: make(chan struct{}),
		tails: make(map[int32]*tail), reading: make(map[string]chan struct{}),
	}, nil
}

// Run reads the partitions that have watchers until ctx ends. Watch and Follow wait while Run is not running.
func (f *Feed) Run(ctx context.Context) error {
	var tails sync.WaitGroup
	defer tails.Wait()
	defer close(f.stopped)
	for {
		select {
		case <-ctx.Done():
			return nil
		case t := <-f.startTail:
			tails.Go(func() { t.run(ctx) })
		}
	}
}

// Tails returns the number of partitions that are being read for watchers.
func (f *Feed) Tails() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.tails)
}

// QueuedBytes returns the number of bytes that are queued for watchers.
func (f *Feed) QueuedBytes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queuedBytes
}

// acquireRead waits for the turn of the API key in ctx and for a slot of the node; release frees both.
func (f *Feed) acquireRead(ctx context.Context) (release func(), err error) {
	key, done := event.Caller(ctx), make(chan struct{})
	for {
		f.mu.Lock()
		running := f.reading[key]
		if running == nil && key != "" {
			f.reading[key] = done
		}
		f.mu.Unlock()
		if running == nil {
			break
		}
		select {
		case <-running:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	end := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if key != "" {
			delete(f.reading, key)
		}
		close(done)
	}
	select {
	case f.readSlots <- struct{}{}:
		return func() { <-f.readSlots; end() }, nil
	case <-ctx.Done():
		end()
		return nil, ctx.Err()
	}
}

// ErrCursor means that a text is not a cursor of this endpoint.
var ErrCursor = errors.New("not a cursor of this endpoint")

const (
	// cursorVersion changes with the meaning of a cursor; cursors of other versions are refused.
	cursorVersion = 1
	// endpointLen is how many bytes of the hash of its endpoint a cursor carries, to detect mistakes.
	endpointLen = 6
	// maxCursor bounds the text of a cursor. An endpoint's events are in one partition, and in a few more after
	// moves.
	maxCursor = 2048
)

// Cursor is a position in the events of an endpoint: the next offset in each partition that holds them.
type Cursor struct {
	// At is a lower bound of the times at which the events after the cursor were accepted.
	At   time.Time
	Next map[int32]int64
}

// Encode returns the cursor as text.
func (c Cursor) Encode(endpoint string) string {
	b := append(make([]byte, 0, 32), cursorVersion)
	b = append(b, endpointHash(endpoint)...)
	b = binary.AppendUvarint(b, uint64(max(c.At.UnixMilli(), 0)))
	for _, p := range slices.Sorted(maps.Keys(c.Next)) {
		b = binary.AppendUvarint(b, uint64(p))
		b = binary.AppendUvarint(b, uint64(c.Next[p]))
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParseCursor decodes a cursor that Encode made for this endpoint, or returns ErrCursor.
func ParseCursor(endpoint, text string) (Cursor, error) {
	if len(text) > maxCursor {
		return Cursor{}, ErrCursor
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+endpointLen || b[0] != cursorVersion ||
		string(b[1:1+endpointLen]) != string(endpointHash(endpoint)) {
		return Cursor{}, ErrCursor
	}
	b = b[1+endpointLen:]
	at, ok := uvarint(&b, math.MaxInt64/1000)
	c := Cursor{At: time.UnixMilli(at).UTC(), Next: make(map[int32]int64)}
	for ok && len(b) > 0 {
		var p, next int64
		if p, ok = uvarint(&b, math.MaxUint16); !ok {
			break
		}
		if next, ok = uvarint(&b, math.MaxInt64); ok {
			c.Next[int32(p)] = next
		}
	}
	if !ok || len(c.Next) == 0 {
		return Cursor{}, ErrCursor
	}
	return c, nil
}

// uvarint removes a number of at most limit from the front of b.
func uvarint(b *[]byte, limit uint64) (int64, bool) {
	v, n := binary.Uvarint(*b)
	if n <= 0 || v > limit {
		return 0, false
	}
	*b = (*b)[n:]
	return int64(v), true
}

func endpointHash(endpoint string) []byte {
	sum := sha256.Sum256([]byte(endpoint))
	return sum[:endpointLen]
}
