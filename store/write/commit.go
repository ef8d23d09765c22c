package write

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// commitEvery is how often offsets are committed where that waits for the disk.
const commitEvery = time.Second

// commitLoop commits what flushes have written until flushed is closed, and then what is left.
func (w *Writer) commitLoop(ctx context.Context, flushed <-chan struct{}) error {
	tick := time.NewTicker(commitEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := w.commit(ctx); err != nil {
				return err
			}
		case <-flushed:
			return w.commit(ctx)
		}
	}
}

// commit commits the offsets of what is in ClickHouse, after it has seen to it that it is on the disk. Only an error of
// the disk is one, and final: what was written may be gone, and a later try would not say so.
func (w *Writer) commit(ctx context.Context) error {
	select { // an older commit must not come behind a newer one
	case w.committing <- struct{}{}:
		defer func() { <-w.committing }()
	case <-ctx.Done():
		return nil // at worst the rows are written again
	}
	marks := w.pos.takeOwed()
	if w.unsafe != nil || len(marks) == 0 {
		return w.unsafe
	}
	if w.deps.Sync != nil {
		if err := w.deps.Sync(); err != nil {
			w.unsafe = fmt.Errorf("make what was inserted durable: %w", err)
			return w.unsafe
		}
	}
	if err := w.group.Commit(ctx, w.pos.commitable(marks)); err != nil {
		// The rows are in; at worst they are written again, which changes nothing.
		w.pos.owe(marks)
		w.metrics.commits.Inc()
		w.log.LogAttrs(ctx, slog.LevelWarn, "commit after flush", slog.Any("error", err))
	}
	return nil
}
