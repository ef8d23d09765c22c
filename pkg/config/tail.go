package config

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

var controlLog = stream.Partition{Topic: stream.Control}

// tail applies what comes after the loaded state.
func (c *Control) tail(ctx context.Context) error {
	return c.follow(ctx, controlLog, func() int64 { return c.view.Load().next }, c.step)
}

// follow reads a partition until ctx ends or each returns an error. What the brokers refuse for a while must
// not end a node that goes on with what it knows: it is logged, and the reading goes on at next.
func (c *Control) follow(ctx context.Context, p stream.Partition, next func() int64, each func(*stream.Record) error) error {
	for {
		err := c.reader.ReadAll(ctx, p, next(), each)
		if !errors.Is(err, stream.ErrRead) {
			return err
		}
		c.log.LogAttrs(ctx, slog.LevelWarn, "cannot follow the log, trying again", slog.String("topic", p.Topic), slog.Any("error", err))
		if err := wait.For(ctx, time.Second); err != nil {
			return err
		}
	}
}

// step applies one record and publishes the state after it.
func (c *Control) step(rec *stream.Record) error {
	v := c.view.Load()
	if rec.Offset != v.next {
		return fmt.Errorf("%w: offset %d follows %d", errGap, rec.Offset, v.next-1)
	}
	own, err := c.authentic(rec)
	if err != nil {
		return fmt.Errorf("record at offset %d: %w", rec.Offset, err)
	}
	if !own { // as if it were not there
		c.publish(v.state, rec.Offset+1)
		return nil
	}
	r := c.codec.parse(rec.Value)
	next, res, err := apply(v.state, r)
	if err != nil {
		return fmt.Errorf("apply record at offset %d: %w", rec.Offset, err)
	}
	if res == invalid {
		c.log.LogAttrs(context.Background(), slog.LevelError, "invalid record in the configuration log",
			slog.Int64("offset", rec.Offset), slog.String("node", r.Node), slog.Any("error", r.fault))
	}
	c.metrics.records.WithLabelValues(res.String()).Inc()
	if res == applied {
		c.applied.Add(1)
	}
	c.publish(next, rec.Offset+1)
	c.ops.finish(r.OpID, opResult{
		result: res, next: rec.Offset + 1, at: time.Now(), entity: next.sets[r.kind].living(r.ID),
	})
	select {
	case c.kick <- struct{}{}:
	default:
	}
	return nil
}

func (c *Control) publish(s *state, next int64) {
	before := c.view.Swap(&view{state: s, next: next})
	if before.sets[kindRecovery].bySeq.root != s.sets[kindRecovery].bySeq.root {
		c.recoveries.fire()
	}
	c.lease.confirm(next)
	c.changed.fire()
}

// Sync waits until everything that is in the log now is applied here.
func (c *Control) Sync(ctx context.Context) error {
	if err := c.running(ctx); err != nil {
		return err
	}
	return c.sync(ctx)
}

// running waits until Run has made the node ready.
func (c *Control) running(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-c.stopped:
		return fmt.Errorf("%w: it was stopped", ErrUnavailable)
	case <-ctx.Done():
		return fmt.Errorf("%w: not ready: %w", ErrUnavailable, ctx.Err())
	}
}

func (c *Control) sync(ctx context.Context) error {
	ends, err := c.reader.Ends(ctx, stream.Control)
	if err != nil {
		return fmt.Errorf("read the end of the configuration log: %w", err)
	}
	end := ends[controlLog]
	if err := c.changed.await(ctx, func() bool { return c.view.Load().next >= end }); err != nil {
		return fmt.Errorf("wait for the configuration log: %w", err)
	}
	return nil
}

// operations are the records that this node wrote and waits for.
type operations struct {
	mu   sync.Mutex // guards wait
	wait map[string]chan opResult
}

// opResult is what the own tail found of a record.
type opResult struct {
	result result
	next   int64     // offset after the record: the position that acknowledges it
	at     time.Time // when it was applied here, which is after its append
	entity *entity   // after it; nil when there is none
}

func (o *operations) expect(op string) <-chan opResult {
	ch := make(chan opResult, 1)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.wait == nil {
		o.wait = make(map[string]chan opResult)
	}
	o.wait[op] = ch
	return ch
}

func (o *operations) forget(op string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.wait, op)
}

func (o *operations) finish(op string, r opResult) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ch := o.wait[op]; ch != nil {
		delete(o.wait, op)
		ch <- r
	}
}
