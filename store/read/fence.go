package read

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/internal/ch"
)

// errBehind says that the writer has not come as far as a read needs it.
var errBehind = errors.New("the writer is behind")

// committedPoll is the pause between two looks at the offsets that other nodes have committed.
const committedPoll = 50 * time.Millisecond

// fence waits until ClickHouse holds what the log held when it was asked.
type fence struct {
	topic  *stream.Reader
	writer store.FlushRequester // nil on a node without one
	wait   time.Duration
	ends   *coalescer[map[stream.Partition]int64]

	mu         sync.Mutex // guards met
	lastPassed time.Time  // when the last fence began that was met in time
}

func newFence(topic *stream.Reader, writer store.FlushRequester, wait time.Duration) *fence {
	return &fence{topic: topic, writer: writer, wait: wait,
		ends: newCoalescer(func(ctx context.Context) (map[stream.Partition]int64, error) {
			return topic.Ends(ctx, store.Topics()...)
		})}
}

// all waits for every partition of events. The zero time means that the store is up to date, another one that
// rows acknowledged after it may be missing.
func (f *fence) waitAll(ctx context.Context) (asOf time.Time, err error) {
	return f.waitMatching(ctx, func(p stream.Partition) bool { return stream.FenceEvents.Has(p.Topic) })
}

// one waits for the partitions of one number, which hold all about the events of an endpoint.
func (f *fence) waitPartition(ctx context.Context, partition int32) (asOf time.Time, err error) {
	return f.waitMatching(ctx, func(p stream.Partition) bool {
		return p.Index == partition && stream.FenceEvents.Has(p.Topic)
	})
}

// audit waits for the audit log.
func (f *fence) waitAudit(ctx context.Context) (asOf time.Time, err error) {
	return f.waitMatching(ctx, func(p stream.Partition) bool { return stream.FenceAudit.Has(p.Topic) })
}

// at waits for one partition of a topic alone. The error says that it has not got there in time.
func (f *fence) waitOffset(ctx context.Context, p stream.Partition, end int64) error {
	limited, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	if behind := f.waitStored(limited, map[stream.Partition]int64{p: end}); len(behind) > 0 {
		return errBehind
	}
	return nil
}

func (f *fence) waitMatching(ctx context.Context, matters func(stream.Partition) bool) (time.Time, error) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	ends, err := f.ends.get(limited)
	if err != nil {
		if ctx.Err() != nil {
			return time.Time{}, ch.ClassifyError(ctx, ctx.Err())
		}
		return f.lastPassedAt(), nil // the log is away; what is there is served
	}
	targets := make(map[stream.Partition]int64, len(ends))
	for p, end := range ends {
		if end > 0 && matters(p) {
			targets[p] = end
		}
	}
	behind := f.waitStored(limited, targets)
	if ctx.Err() != nil {
		return time.Time{}, ch.ClassifyError(ctx, ctx.Err())
	}
	if len(behind) > 0 {
		return f.asOf(behind), nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if began.After(f.lastPassed) {
		f.lastPassed = began
	}
	return time.Time{}, nil
}

// reach waits until the targets are stored, ctx ends, or waiting is in vain. It returns what is missing.
func (f *fence) waitStored(ctx context.Context, targets map[stream.Partition]int64) map[stream.Partition]int64 {
	for kicked := false; ; kicked = true {
		p, changed := f.progress()
		remote := dropStored(targets, p.Owned)
		f.dropCommitted(ctx, targets, remote)
		if len(targets) == 0 || p.Failing {
			return targets
		}
		if f.writer != nil && !kicked {
			f.writer.RequestFlush(maps.Clone(targets))
		}
		if !f.waitChange(ctx, changed, len(remote) > 0) {
			return targets
		}
	}
}

// dropCommitted deletes the targets that another node's writer has committed. An error is not the end:
// the group may be in the middle of a change, and is asked again until the fence's time is up.
func (f *fence) dropCommitted(ctx context.Context, targets, remote map[stream.Partition]int64) {
	if len(remote) == 0 {
		return
	}
	committed, err := f.topic.Committed(ctx, store.Group, store.Topics()...)
	if err != nil {
		return
	}
	for p, end := range remote {
		if committed[p] >= end {
			delete(targets, p)
		}
	}
}

// settle deletes the targets that are stored and returns those of partitions that the writer in this
// process does not own.
func dropStored(targets map[stream.Partition]int64,
	owned map[stream.Partition]store.Position) map[stream.Partition]int64 {
	remote := make(map[stream.Partition]int64)
	for p, end := range targets {
		at, ok := owned[p]
		switch {
		case !ok:
			remote[p] = end
		case at.Offset >= end:
			delete(targets, p)
		}
	}
	return remote
}

func (f *fence) progress() (store.Progress, <-chan struct{}) {
	if f.writer == nil {
		return store.Progress{}, nil
	}
	p := f.writer.Progress()
	return p, p.Changed
}

// pause waits for a reason to look again and reports whether there is time left.
func (f *fence) waitChange(ctx context.Context, changed <-chan struct{}, poll bool) bool {
	var tick <-chan time.Time
	if poll {
		t := time.NewTimer(committedPoll)
		defer t.Stop()
		tick = t.C
	}
	select {
	case <-changed:
	case <-tick:
	case <-ctx.Done():
		return false
	}
	return true
}

// asOf is the time that the store stands for while these partitions are behind: all that was
// acknowledged before is there.
func (f *fence) asOf(behind map[stream.Partition]int64) time.Time {
	p, _ := f.progress()
	met := f.lastPassedAt()
	var oldest time.Time
	for part := range behind {
		at := met
		if own, ok := p.Owned[part]; ok && own.RecordTime.After(met) {
			at = own.RecordTime
		}
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	return oldest
}

// lastPassedAt is when the store was last known to be up to date; 1970 when it never was.
func (f *fence) lastPassedAt() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lastPassed.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return f.lastPassed
}
