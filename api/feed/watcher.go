package feed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

const (
	// maxBatch and maxBatchBytes bound the events that one call of Next returns.
	maxBatch, maxBatchBytes = 200, 4 << 20
	// readTimeout bounds one read for a watcher that is behind. Events read until then are kept.
	readTimeout = 10 * time.Second
	// Slack is how far the records of a partition may be out of time order: a producer holds an event for up to
	// stream.DeliveryTimeout while the partition has no leader, and the clocks of nodes differ.
	Slack = stream.DeliveryTimeout + 2*id.MaxAhead + 30*time.Second
	// storedAfter is the age after which an event is in the store. It is less than the age of any trimmed record.
	storedAfter = 5 * time.Minute
)

// Reasons of a Gap.
const (
	GapRetention = "retention" // the events are older than the retention
	GapLog       = "log"       // the log was recreated and does not know the offset
)

// Gap means that events since From may be missing.
type Gap struct {
	From   time.Time
	Reason string // GapRetention or GapLog
}

// Item is an event, or a gap in front of the next event. Cursor is the position after it.
type Item struct {
	Event  *Event
	Gap    *Gap
	Cursor Cursor
}

// position is where a watcher is in one partition.
type position struct {
	partition int32
	next      int64     // offset of the next record
	at        time.Time // as in Cursor, for this partition
	sub       *subscription
}

// Watcher follows one endpoint. Only one goroutine may use it.
type Watcher struct {
	feed              *Feed
	account, endpoint string
	startAt           time.Time // as Cursor.At, for the first event
	wake              chan struct{}
	positions         []*position // by partition
	gaps              []Gap       // returned before the first event
	// resumeAt are the offsets of the cursor, also in partitions that the watcher does not follow yet: this node may not
	// have applied a move.
	resumeAt map[int32]int64
}

// Watch starts at the cursor from, or at the current end of the log when from is nil. partitions are the current and
// the former partitions of the endpoint: no others are read, because a client may have made up its cursor. The caller
// must Close the watcher.
func (f *Feed) Watch(ctx context.Context, account, endpoint string, partitions []int32, from *Cursor) (
	*Watcher, error) {
	now := f.deps.Now()
	w := &Watcher{feed: f, account: account, endpoint: endpoint, startAt: now, wake: make(chan struct{}, 1)}
	if from != nil {
		w.startAt = from.At
		if oldest := now.Add(-f.deps.Retention); w.startAt.Before(oldest) {
			w.gaps = append(w.gaps, Gap{From: w.startAt, Reason: GapRetention})
			w.startAt = oldest
		}
		w.resumeAt = from.Next
	}
	ends, err := f.deps.Topic.Ends(ctx, stream.Events)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", endpoint, err)
	}
	for _, p := range partitions {
		end, ok := ends[stream.Partition{Topic: stream.Events, Index: p}]
		if !ok {
			continue // the log has fewer partitions than the one that the configuration is from
		}
		next := end
		if from != nil {
			if next, err = w.startOf(ctx, p, end); err != nil {
				break
			}
		}
		if err = w.followPartition(ctx, p, next, end); err != nil {
			break
		}
	}
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("watch %s: %w", endpoint, err)
	}
	return w, nil
}

// startOf returns the offset from which to read a partition whose events the watcher has not seen, or not since its
// cursor.
func (w *Watcher) startOf(ctx context.Context, partition int32, end int64) (int64, error) {
	if next, ok := w.resumeAt[partition]; ok {
		return next, nil
	}
	return w.firstSince(ctx, partition, end)
}

// firstSince returns the offset from which to read a partition that the cursor does not contain, because the
// endpoint moved there later: the first one at startAt, with Slack, or 0 when the log may have trimmed such records.
func (w *Watcher) firstSince(ctx context.Context, partition int32, end int64) (int64, error) {
	offsets, err := w.feed.deps.Topic.OffsetsForTime(ctx, stream.Events, w.startAt.Add(-Slack))
	if err != nil {
		return 0, err
	}
	starts, err := w.feed.deps.Topic.Starts(ctx, stream.Events)
	if err != nil {
		return 0, err
	}
	part := stream.Partition{Topic: stream.Events, Index: partition}
	switch first, ok := offsets[part]; {
	case !ok || first < 0:
		return end, nil
	case starts[part] > 0 && first <= starts[part]:
		return 0, nil // trimmed records may be young enough too; the store has them
	default:
		return min(first, end), nil
	}
}

// followPartition subscribes to a partition, unless the watcher follows it already.
func (w *Watcher) followPartition(ctx context.Context, partition int32, next, end int64) error {
	if slices.ContainsFunc(w.positions, func(p *position) bool { return p.partition == partition }) {
		return nil
	}
	if next > end {
		w.gaps = append(w.gaps, Gap{From: w.startAt, Reason: GapLog})
		next = end
	}
	sub, err := w.feed.subscribe(ctx, partition, end, w.endpoint, w.wake)
	if err != nil {
		return err
	}
	w.positions = append(w.positions, &position{partition: partition, next: next, at: w.startAt, sub: sub})
	return nil
}

// Follow adds partitions to which the endpoint has moved. Partitions that the watcher follows already are skipped.
func (w *Watcher) Follow(ctx context.Context, partitions ...int32) error {
	for _, p := range partitions {
		if slices.ContainsFunc(w.positions, func(x *position) bool { return x.partition == p }) {
			continue
		}
		ends, err := w.feed.deps.Topic.Ends(ctx, stream.Events)
		if err != nil {
			return fmt.Errorf("follow %s: %w", w.endpoint, err)
		}
		end := ends[stream.Partition{Topic: stream.Events, Index: p}]
		next, err := w.startOf(ctx, p, end)
		if err == nil {
			err = w.followPartition(ctx, p, next, end)
		}
		if err != nil {
			return fmt.Errorf("follow %s: %w", w.endpoint, err)
		}
	}
	return nil
}

// Close ends the subscriptions of the watcher.
func (w *Watcher) Close() {
	for _, p := range w.positions {
		p.sub.close()
	}
	w.positions = nil
}

// Cursor returns the current position of the watcher.
func (w *Watcher) Cursor() Cursor {
	c := Cursor{Next: make(map[int32]int64, len(w.positions))}
	maps.Copy(c.Next, w.resumeAt)
	for _, p := range w.positions {
		c.Next[p.partition] = p.next
		if c.At.IsZero() || p.at.Before(c.At) {
			c.At = p.at
		}
	}
	return c
}

// Next returns the next events in order as soon as there are any, or none after the time wait. After Run has ended it
// returns ErrStopped. After any other error the watcher is still at its position, and Next may be called again.
func (w *Watcher) Next(ctx context.Context, wait time.Duration) ([]Item, error) {
	var items []Item
	for _, gap := range w.gaps {
		items = append(items, Item{Gap: &gap, Cursor: w.Cursor()})
	}
	w.gaps = nil
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		for _, p := range w.positions {
			found, err := w.nextBatch(ctx, p)
			if err != nil && len(found) == 0 && len(items) == 0 {
				return nil, err
			}
			for _, e := range found {
				p.next, p.at = e.Offset+1, e.ReceivedAt()
				if erased := w.feed.deps.Erased; erased != nil && erased(e.ID) {
					continue // an erased payload must not be shown
				}
				items = append(items, Item{Event: e, Cursor: w.Cursor()})
			}
			if len(items) > 0 {
				return items, nil
			}
		}
		if len(items) > 0 {
			return items, nil
		}
		select {
		case <-w.wake:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.feed.stopped:
			return nil, ErrStopped
		}
	}
}

// nextBatch returns the next events of a partition, from the queue or, if the watcher is behind, from the log or the
// store.
func (w *Watcher) nextBatch(ctx context.Context, p *position) ([]*Event, error) {
	for {
		found, completeFrom := p.sub.takeBatch(p)
		if len(found) > 0 || completeFrom <= p.next {
			return found, nil
		}
		found, err := w.readBehind(ctx, p, completeFrom)
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
}

// takeBatch removes a batch from the queue. If the position is before completeFrom it removes nothing and returns
// completeFrom, else the offset of the position.
func (s *subscription) takeBatch(p *position) (found []*Event, completeFrom int64) {
	f := s.tail.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.next < s.completeFrom {
		return nil, s.completeFrom
	}
	size := 0
	for len(s.queued) > 0 && len(found) < maxBatch && (size == 0 || size < maxBatchBytes) {
		e := s.queued[0]
		s.queued[0] = nil
		s.queued = s.queued[1:]
		n := e.memoryBytes()
		s.bytes -= n
		f.queuedBytes -= n
		if e.Offset >= p.next {
			size += n
			found = append(found, e)
		}
	}
	if len(s.queued) == 0 {
		s.queued = nil // free the array
		if len(found) == 0 && s.tail.next > p.next {
			p.next = s.tail.next // skip records of other endpoints
			if s.tail.at.Add(-Slack).After(p.at) {
				p.at = s.tail.at.Add(-Slack)
			}
		}
	}
	return found, p.next
}

// readBehind reads a batch of the events before the offset completeFrom, from the log or, where the log has trimmed
// them, from the store. It moves the position past the records it has read.
func (w *Watcher) readBehind(ctx context.Context, p *position, completeFrom int64) ([]*Event, error) {
	release, err := w.feed.acquireRead(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	found, err := w.readLog(ctx, p, completeFrom)
	if !errors.Is(err, stream.ErrTrimmed) {
		return found, err
	}
	return w.readStore(ctx, p, completeFrom)
}

// readLog reads events that are still in the log. When an error or readTimeout ends the read, it returns the events
// that were read until then.
func (w *Watcher) readLog(ctx context.Context, p *position, completeFrom int64) (found []*Event, err error) {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	size, began, complete := 0, p.next, true
	part := stream.Range{Partition: stream.Partition{Topic: stream.Events, Index: p.partition}, From: p.next,
		To: completeFrom}
	err = w.feed.deps.Topic.ReadRanges(
		limited, []stream.Range{part}, func(_ stream.Partition, records []*stream.Record) error {
			for _, r := range records {
				if string(r.Key) == w.endpoint {
					if e := visibleEvent(r); e != nil {
						found = append(found, e)
						size += e.memoryBytes()
					}
				}
				if complete = len(found) < maxBatch && size < maxBatchBytes; !complete {
					return stream.ErrStop
				}
				if len(found) == 0 {
					p.next = r.Offset + 1
				}
			}
			return nil
		})
	if err != nil && (len(found) > 0 || p.next > began) && ctx.Err() == nil {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read events of %s from the log: %w", w.endpoint, err)
	}
	if complete && len(found) == 0 {
		p.next = completeFrom
	}
	return found, nil
}

// readStore reads events that the log has trimmed.
func (w *Watcher) readStore(ctx context.Context, p *position, completeFrom int64) ([]*Event, error) {
	part := stream.Partition{Topic: stream.Events, Index: p.partition}
	firsts, err := w.feed.deps.Topic.Starts(ctx, stream.Events)
	if err == nil && firsts[part] <= p.next { // the embedded log does not report its start offset
		firsts, err = w.feed.deps.Topic.OffsetsForTime(ctx, stream.Events, w.feed.deps.Now().Add(-storedAfter))
	}
	if err != nil {
		return nil, fmt.Errorf("read events of %s: %w", w.endpoint, err)
	}
	end := min(max(firsts[part], p.next+1), completeFrom)
	page, err := w.feed.deps.Store.EventsByOffset(ctx, event.OffsetQuery{
		Account: w.account, Endpoint: w.endpoint, Partition: p.partition, From: p.next, To: end,
		Since: p.at.Add(-Slack), Limit: maxBatch, Bytes: maxBatchBytes, MaxBody: MaxBody,
	})
	if err != nil {
		return nil, fmt.Errorf("read events of %s from the store: %w", w.endpoint, err)
	}
	found := make([]*Event, len(page.Rows))
	for i, row := range page.Rows {
		found[i] = &Event{Event: row.Event, Offset: row.Offset, Size: row.Size}
	}
	if len(found) == 0 {
		p.next = page.Next
		if page.Since.Add(Slack).After(p.at) {
			p.at = page.Since.Add(Slack)
		}
	}
	return found, nil
}
