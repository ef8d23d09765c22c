// Package feed follows the topic events for those who watch endpoints as events arrive.
//
// In flow the records of the topic, by offset and outside of any group, so every node can serve every endpoint.
// Out flow, for each watcher, the events of one endpoint in the order of the log. Those that were rejected, that
// repeat another, and records that were put back for one group are left out.
//
// Guaranteed: a watcher that goes on from the cursor of the last event it has seen gets each later one once, as long
// as it is retained; what the log has trimmed is read from the store. Where that cannot be, it is told of a gap.
//
// One tail per partition is shared by the watchers of this node; it is there while somebody needs it. What a watcher
// has not taken waits in memory within a bound: past it, it is read from the log again, at the watcher's own pace.
package feed

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Bounds of what waits in memory for watchers.
const (
	// MaxQueued is how many events may wait for one watcher, and maxQueuedBytes how many bytes for all of this node.
	MaxQueued      = 1000
	maxQueuedBytes = 64 << 20
	// MaxBody is the largest body that is handed out.
	MaxBody = 1 << 20
	// maxReads bounds the reads of watchers that are behind: each has buffers of some megabytes.
	maxReads = 4
)

// ErrStopped is returned to watchers that come when the feed has ended.
var ErrStopped = errors.New("the feed has stopped")

// Log is the topic events; stream.Reader is one.
type Log interface {
	Ends(ctx context.Context, topics ...string) (map[stream.Partition]int64, error)
	Starts(ctx context.Context, topics ...string) (map[stream.Partition]int64, error)
	OffsetsForTime(ctx context.Context, topic string, t time.Time) (map[stream.Partition]int64, error)
	Read(ctx context.Context, p stream.Partition, from int64, each func(*stream.Record) error) error
	ReadRanges(ctx context.Context, ranges []stream.Range, each func(stream.Partition, []*stream.Record) error) error
}

// Store has the events that have left the log.
type Store interface {
	// EventsByOffset returns events of an endpoint by their offsets, and where to go on.
	EventsByOffset(ctx context.Context, q event.OffsetQuery) (event.OffsetPage, error)
}

// Deps are what a Feed works with; all but Erased are needed.
type Deps struct {
	Log       *slog.Logger
	Topic     Log
	Store     Store
	Now       func() time.Time
	Retention time.Duration // how long events can be read
	// Erased says whether the payload of an event was erased: such an event is passed over. Nil: none was.
	Erased func(id.ID) bool
}

// Feed is the tails of this node.
type Feed struct {
	deps      Deps
	startTail chan *tail
	readSlots chan struct{} // one element for each read of a watcher that is behind
	stopped   chan struct{} // closed when Run has ended

	mu          sync.Mutex // guards the rest, and what tails and their subscriptions hold
	tails       map[int32]*tail
	queuedBytes int // bytes that wait for watchers
}

// New starts nothing.
func New(deps Deps) (*Feed, error) {
	if deps.Log == nil || deps.Topic == nil || deps.Store == nil || deps.Now == nil || deps.Retention <= 0 {
		return nil, errors.New("feed: a dependency is missing")
	}
	return &Feed{
		deps: deps, startTail: make(chan *tail), readSlots: make(chan struct{}, maxReads), stopped: make(chan struct{}),
		tails: make(map[int32]*tail),
	}, nil
}

// Run follows the partitions that are watched until ctx ends.
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

// Tails is the number of partitions that are followed.
func (f *Feed) Tails() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.tails)
}

// Waiting is the number of bytes that wait for watchers.
func (f *Feed) QueuedBytes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queuedBytes
}
