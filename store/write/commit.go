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

// commitLoop commits every commitInterval what the lanes have stored, and once more when flushed is closed.
func (w *Writer) commitLoop(ctx context.Context, flushed <-chan struct{}) error {
	tick := time.NewTicker(commitInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := w.commit(ctx, w.lanes...); err != nil {
				return err
			}
		case <-flushed:
			return w.commit(ctx, w.lanes...)
		}
	}
}

// commit syncs the disk if WriterDeps.Sync is set and then commits the offsets of the records that these lanes have
// stored. Only a failed sync is an error, and it is final: rows may be lost, and a later sync would not report it.
func (c *shared) commit(ctx context.Context, lanes ...*lane) error {
	for _, l := range lanes { // one commit at a time, so that an older one does not overwrite a newer one
		select {
		case l.committing <- struct{}{}:
			defer func() { <-l.committing }()
		case <-ctx.Done():
			return nil // the next owner inserts the rows again, which changes nothing
		}
	}
	ends, needsSync := make([]map[*assignment]partitionEnd, len(lanes)), false
	for i, l := range lanes {
		ends[i] = l.pos.takeUncommitted()
		needsSync = needsSync || len(ends[i]) > 0
	}
	if err := c.sync(needsSync); err != nil {
		return err
	}
	for i, l := range lanes {
		l.commitOffsets(ctx, ends[i])
	}
	return nil
}

// sync calls WriterDeps.Sync if there is one and it is needed. An error stays for all later calls.
func (c *shared) sync(needed bool) error {
	c.syncing <- struct{}{}
	defer func() { <-c.syncing }()
	if c.syncErr != nil || c.deps.Sync == nil || !needed {
		return c.syncErr
	}
	if err := c.deps.Sync(); err != nil {
		c.syncErr = fmt.Errorf("sync inserted rows to disk, to make them durable: %w", err)
	}
	return c.syncErr
}

func (l *lane) commitOffsets(ctx context.Context, ends map[*assignment]partitionEnd) {
	if err := l.group.Commit(ctx, l.pos.committable(ends)); err != nil {
		// The rows are stored: if nobody commits these offsets, they are inserted again, which changes nothing.
		l.pos.putBackUncommitted(ends)
		l.metrics.commitFailures.Inc()
		l.log.LogAttrs(ctx, slog.LevelWarn, "cannot commit offsets after flush", slog.String("group", l.name),
			slog.Any("error", err))
	}
}
