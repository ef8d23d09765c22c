package config

import (
	"context"
	"log/slog"

	"github.com/eventrelay/relay/pkg/wait"
)

// maxSwept is the maximum number of entities of a kind that one pass removes, with one record each.
const maxSwept = 2000

// sweep removes expired entities, on the owner of partition 0 of events, until ctx ends.
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

// sweepOnce removes what has expired, and the oldest scans.
func (c *core) sweepOnce(ctx context.Context) error {
	for k := range kinds {
		if !has(k, expires|expiresInAnyOrder) {
			continue
		}
		if err := c.sweepKind(ctx, k); err != nil {
			return err
		}
	}
	return c.sweepScans(ctx)
}

// sweepKind removes the expired entities of a kind, at most maxSwept: the oldest up to the first that has not expired,
// if they expire in the order of their creation.
func (c *core) sweepKind(ctx context.Context, k kind) error {
	swept := 0
	for e := range c.View().OldestFirst(k) {
		if !c.hasEnded(c.value(e)) {
			if has(k, expiresInAnyOrder) {
				continue
			}
			return nil
		}
		if swept == maxSwept {
			return nil
		}
		if err := c.ForgetIfUnchanged(ctx, k, e.ID, e.Rev); err != nil {
			return err
		}
		swept++
	}
	return nil
}
