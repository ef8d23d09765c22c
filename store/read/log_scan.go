package read

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read/fence"
)

const (
	// scanSpan is how long after the time of its id an event is usually appended to the log: ingest gives up after 10 s.
	scanSpan = 15 * time.Second
	// scanTimeout bounds one scan of the log.
	scanTimeout = 5 * time.Second
	// parallelScans bounds the scans that run at once; each has buffers of up to 16 MiB.
	parallelScans = 4
)

// scanner finds a single event in the log. The id names the partition and the time at which to begin.
type scanner struct {
	topic   *stream.Reader
	ends    func(ctx context.Context, topics ...string) (map[stream.Partition]int64, error)
	flight  singleflight.Group
	span    time.Duration // how long after the time of its id a record with the event may have been made
	timeout time.Duration // of one scan
	slots   chan struct{}
	absent  absentIDs
}

func newScanner(topic *stream.Reader, span time.Duration) *scanner {
	return &scanner{topic: topic, ends: topic.Ends, span: span, timeout: scanTimeout,
		slots: make(chan struct{}, parallelScans)}
}

// newLateScanner returns a scanner that finds events which the log took late, and no event that a power cut may take.
func newLateScanner(topic *stream.Reader) *scanner {
	s := newScanner(topic, fence.LateAppend)
	s.ends = topic.AcknowledgedEnds
	return s
}

// maxAbsent bounds the ids in each of the two maps of absentIDs.
const maxAbsent = 2048

// absentIDs remembers up to which offset the log does not hold an event, so that a repeated request for an unknown id
// scans new records only. When newer is full it becomes old, and the previous old is dropped.
type absentIDs struct {
	mu         sync.Mutex // guards both
	newer, old map[id.ID]int64
}

// below returns the offset below which the log does not hold the event; 0 = unknown.
func (a *absentIDs) below(d id.ID) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(a.newer[d], a.old[d])
}

func (a *absentIDs) remember(d id.ID, below int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.newer == nil || len(a.newer) >= maxAbsent {
		a.newer, a.old = make(map[id.ID]int64), a.newer
	}
	a.newer[d] = below
}

// find returns event.ErrNotFound when the log does not hold the event (any more), and event.ErrUnavailable when the log
// cannot be read. Concurrent callers for one event share one scan.
func (s *scanner) find(ctx context.Context, account string, d id.ID) (*event.Event, error) {
	result := s.flight.DoChan(d.String(), func() (any, error) {
		// The scan is shared, so it does not end with the context of its first caller.
		scan, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
		defer cancel()
		return s.scan(scan, d)
	})
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		e := r.Val.(*event.Event)
		if e.Account != account {
			return nil, event.ErrNotFound
		}
		return e, nil
	}
}

func (s *scanner) scan(ctx context.Context, d id.ID) (*event.Event, error) {
	release, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	from, end, err := s.bounds(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", event.ErrUnavailable, err)
	}
	if from = max(from, s.absent.below(d)); from >= end {
		return nil, event.ErrNotFound
	}
	found, err := s.read(ctx, d, from, end)
	if err != nil {
		return nil, fmt.Errorf("%w: scan the log: %w", event.ErrUnavailable, err)
	}
	if found == nil {
		s.absent.remember(d, end)
		return nil, event.ErrNotFound
	}
	e, err := event.Decode(found)
	if err != nil {
		return nil, fmt.Errorf("read event from the log: %w", err)
	}
	if e.Source.IsUse() {
		return nil, event.ErrNotFound
	}
	return e, nil
}

// acquire waits for a slot to scan the log; release frees it.
func (s *scanner) acquire(ctx context.Context) (release func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: wait for a free scan: %w", event.ErrUnavailable, ctx.Err())
	}
}

// bounds returns the offsets [from, end) that may hold the event.
func (s *scanner) bounds(ctx context.Context, d id.ID) (from, end int64, err error) {
	p := stream.Partition{Topic: stream.Events, Index: d.Partition()}
	starts, err := s.topic.OffsetsForTime(ctx, stream.Events, d.Time())
	if err != nil {
		return 0, 0, err
	}
	ends, err := s.ends(ctx, stream.Events)
	if err != nil {
		return 0, 0, err
	}
	from, ok := starts[p]
	if !ok || from < 0 {
		return 0, 0, nil // no such partition, or nothing that late
	}
	return from, ends[p], nil
}

func (s *scanner) read(ctx context.Context, d id.ID, from, end int64) (*stream.Record, error) {
	var found *stream.Record
	last := d.Time().Add(s.span)
	want := d.Text(id.Event)
	err := s.topic.Read(ctx, stream.Partition{Topic: stream.Events, Index: d.Partition()}, from,
		func(r *stream.Record) error {
			if event.RecordID(r) == want && r.Offset < end {
				found = r
				return stream.ErrStop
			}
			if r.Offset >= end-1 || r.Timestamp.After(last) {
				return stream.ErrStop
			}
			return nil
		})
	return found, err
}
