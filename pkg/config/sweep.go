package config

import (
	"context"
	"log/slog"
	"time"

	"github.com/eventrelay/relay/pkg/wait"
)

// maxSwept is the maximum number of entities of a kind that one pass removes, with one record each.
const maxSwept = 2000

// sweep removes expired entities, on the owner of partition 0 of events, until ctx ends. Entities of the swept kinds,
// fixtures excepted, expire in about the order of their creation.
func (c *core) sweep(ctx context.Context) error {
	for wait.For(ctx, c.sweepInterval) == nil {
		if !c.Owner() {
			continue
		}
		if err := c.sweepOnce(ctx); err != nil && ctx.Err() == nil {
			c.log.LogAttrs(ctx, slog.LevelWarn, "cannot remove expired entities", slog.Any("error", err))
		}
	}
	return nil
}

// sweepOnce removes the expired answers, replay runs, fixtures, acts and erasures, and the oldest scans.
func (c *core) sweepOnce(ctx context.Context) error {
	err := c.sweepKind(ctx, kindAnswer, func(v value) time.Time { return v.(*Answer).ExpiresAt })
	if err != nil {
		return err
	}
	err = c.sweepKind(ctx, kindRun, func(v value) time.Time { return v.(*Run).CreatedAt.Add(runRetention) })
	if err != nil {
		return err
	}
	if err := c.sweepFixtures(ctx); err != nil {
		return err
	}
	err = c.sweepKind(ctx, kindAct, func(v value) time.Time { return v.(*Act).CreatedAt.Add(actRetention) })
	if err != nil {
		return err
	}
	if err := c.sweepScans(ctx); err != nil {
		return err
	}
	return c.sweepKind(ctx, kindErasure, c.erasureEnd)
}

// sweepKind removes the oldest entities of a kind, up to the first that has not expired, at most maxSwept.
func (c *core) sweepKind(ctx context.Context, k kind, end func(value) time.Time) error {
	swept := 0
	for oldest := range c.View().OldestFirst(k) {
		if swept == maxSwept || c.now().Before(end(c.value(oldest))) {
			return nil
		}
		if err := c.ForgetIfUnchanged(ctx, k, oldest.ID, oldest.Rev); err != nil {
			return err
		}
		swept++
	}
	return nil
}
