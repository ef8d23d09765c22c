package conflog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
)

var recordLog = stream.Partition{Topic: stream.Control}

// tail applies the records after the loaded state.
func (l *Log) tail(ctx context.Context) error {
	return l.follow(ctx, recordLog, func() int64 { return l.view.Load().nextOffset }, l.applyRecord)
}

// follow calls each for the records of a partition, from next() on, until ctx ends or each returns an error. A read
// error of the brokers, such as a missing permission, is logged and the read is tried again after 1 s: it must not stop
// a node that can work with the configuration it has.
func (l *Log) follow(ctx context.Context, p stream.Partition, next func() int64,
	each func(*stream.Record) error) error {
	for {
		err := l.reader.ReadWithControlRecords(ctx, p, next(), each)
		if !errors.Is(err, stream.ErrRead) {
			return err
		}
		l.log.LogAttrs(ctx, slog.LevelWarn, "cannot read the topic, trying again", slog.String("topic", p.Topic),
			slog.Any("error", err))
		if err := wait.For(ctx, time.Second); err != nil {
			return err
		}
	}
}

// applyRecord applies one record and publishes the new state.
func (l *Log) applyRecord(rec *stream.Record) error {
	v := l.view.Load()
	if rec.Offset != v.nextOffset {
		return fmt.Errorf("%w: offset %d comes after offset %d", errGap, rec.Offset, v.nextOffset-1)
	}
	authentic, err := (authenticator{l}).authentic(rec)
	if err != nil {
		return fmt.Errorf("record at offset %d: %w", rec.Offset, err)
	}
	if !authentic { // ignored
		l.publish(v.state, rec.Offset+1)
		return nil
	}
	r := l.parse(rec.Value)
	next, res, err := apply(v.state, r)
	if err != nil {
		return fmt.Errorf("apply record at offset %d: %w", rec.Offset, err)
	}
	if res == invalid {
		l.log.LogAttrs(context.Background(), slog.LevelError, "ignored an invalid record in the configuration log",
			slog.Int64("offset", rec.Offset), slog.String("node", r.Node), slog.Any("error", r.fault))
	}
	l.metrics.records.WithLabelValues(res.String()).Inc()
	if res == applied {
		l.applied.Add(1)
	}
	l.publish(next, rec.Offset+1)
	written := WriteResult{
		result: res, nextOffset: rec.Offset + 1, appliedAt: time.Now(), Entity: next.sets[r.kind].findLiving(r.ID),
	}
	if r.Second != nil {
		written.Second = next.sets[r.Second.kind].findLiving(r.Second.ID)
	}
	l.pendingWrites.finish(r.OpID, written)
	wait.Wake(l.heartbeatNow)
	return nil
}

// publish makes a state visible to readers, advances the lease and wakes those who wait.
func (l *Log) publish(s *state, next int64) {
	before := l.view.Swap(&View{state: s, nextOffset: next})
	for k, set := range s.sets {
		if before.sets[k] != set {
			l.changedByKind[k].fire()
		}
	}
	l.lease.advance(next)
	l.changed.fire()
}

// Changed returns a channel that is closed when an entity of the kind is created, changed or removed after the call.
func (l *Log) Changed(k Kind) <-chan struct{} { return l.changedByKind[k].wait() }

// Sync waits until this node has applied everything that is in the log now.
func (l *Log) Sync(ctx context.Context) error {
	if err := l.WaitReady(ctx); err != nil {
		return err
	}
	return l.sync(ctx)
}

// WaitReady waits until Run has made the node ready.
func (l *Log) WaitReady(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-l.stopped:
		return fmt.Errorf("%w: this node is stopping", ErrUnavailable)
	case <-ctx.Done():
		return fmt.Errorf("%w: this node is not ready: %w", ErrUnavailable, ctx.Err())
	}
}

// sync is Sync for the start, before the node is ready.
func (l *Log) sync(ctx context.Context) error {
	ends, err := l.reader.Ends(ctx, stream.Control)
	if err != nil {
		return fmt.Errorf("read the end of the configuration log: %w", err)
	}
	end := ends[recordLog]
	if err := l.changed.await(ctx, func() bool { return l.view.Load().nextOffset >= end }); err != nil {
		return fmt.Errorf("wait for the configuration log: %w", err)
	}
	return nil
}

// pendingWrites holds the writes of this node that wait for their results.
type pendingWrites struct {
	mu      sync.Mutex // guards results
	results map[string]chan WriteResult
}

// expect registers an op_id and returns the channel that receives its result.
func (o *pendingWrites) expect(op string) <-chan WriteResult {
	ch := make(chan WriteResult, 1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.results == nil {
		o.results = make(map[string]chan WriteResult)
	}
	o.results[op] = ch
	return ch
}

// forget unregisters an op_id.
func (o *pendingWrites) forget(op string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.results, op)
}

// finish delivers the result of a record if this node wrote it.
func (o *pendingWrites) finish(op string, r WriteResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ch := o.results[op]; ch != nil {
		delete(o.results, op)
		ch <- r
	}
}
