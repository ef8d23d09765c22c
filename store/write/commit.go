package write

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// commitInterval is how often offsets are committed when WriterDeps.Sync is set, and how often failed commits are
// retried in any case.
const commitInterval = time.Second

// commitLoop commits every commitInterval what flushes have stored, and once more when flushed is closed.
func (w *Writer) commitLoop(ctx context.Context, flushed <-chan struct{}) error {
	tick := time.NewTicker(commitInterval)
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

// commit syncs the disk if WriterDeps.Sync is set and then commits the offsets of the stored records. Only a failed
// sync is an error, and it is final: rows may be lost, and a later sync would not report it.
func (w *Writer) commit(ctx context.Context) error {
	select { // one commit at a time, so that an older one does not overwrite a newer one
	case w.committing <- struct{}{}:
		defer func() { <-w.committing }()
	case <-ctx.Done():
		return nil // the next owner inserts the rows again, which changes nothing
	}
	ends := w.pos.takeUncommitted()
	if w.syncErr != nil || len(ends) == 0 {
		return w.syncErr
	}
	if w.deps.Sync != nil {
		if err := w.deps.Sync(); err != nil {
			w.syncErr = fmt.Errorf("sync inserted rows to disk, to make them durable: %w", err)
			return w.syncErr
		}
	}
	if err := w.group.Commit(ctx, w.pos.committable(ends)); err != nil {
		// The rows are stored: if nobody commits these offsets, they are inserted again, which changes nothing.
		w.pos.putBackUncommitted(ends)
		w.metrics.commitFailures.Inc()
		w.log.LogAttrs(ctx, slog.LevelWarn, "cannot commit offsets after flush", slog.Any("error", err))
	}
	return nil
}
