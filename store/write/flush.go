package write

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/internal/ch"
)

const (
	// Every insert makes a part in each day it touches, and parts must be merged: a batch that touches
	// more days than manyDays waits up to spreadWait for more rows.
	manyDays   = 8
	spreadWait = 5 * time.Second
	// smallBatch is the number of rows below which WriterConfig.FlushSmall counts.
	smallBatch = 1_000
)

// flushLoop writes a batch whenever one is due, and what is left once polled is closed.
func (w *Writer) flushLoop(ctx context.Context, polled <-chan struct{}) error {
	kicks := newKickBudget(time.Now())
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		b, wait := w.due(time.Now(), kicks)
		if b != nil {
			if err := w.flush(ctx, b); err != nil {
				return err
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-w.wake:
		case <-timer.C:
		case <-polled:
			return w.flush(ctx, w.swap())
		}
	}
}

// due returns the batch when it is time to write it, else how long nothing need be done.
func (w *Writer) due(now time.Time, kicks *kickBudget) (*batch, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.filling
	if b.empty() {
		w.kicked = false
		return nil, time.Hour
	}
	wait := b.since.Add(w.patience(b)).Sub(now)
	if w.fullLocked() {
		wait = 0
	}
	if w.kicked && wait > 0 {
		cost := 1 + len(b.days)/manyDays
		if w.crowd.crowded() {
			cost *= crowdedKick
		}
		wait = min(wait, kicks.take(now, cost))
	}
	if wait > 0 {
		return nil, wait
	}
	return w.swapLocked(), 0
}

// patience is how long the rows of a batch may wait.
func (w *Writer) patience(b *batch) time.Duration {
	switch {
	case len(b.days) > manyDays, w.crowd.crowded():
		return max(w.cfg.FlushEvery, spreadWait)
	case w.cfg.FlushSmall > 0 && b.rows() < smallBatch:
		return min(w.cfg.FlushEvery, w.cfg.FlushSmall)
	default:
		return w.cfg.FlushEvery
	}
}

func (w *Writer) swap() *batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.swapLocked()
}

func (w *Writer) swapLocked() *batch {
	b := w.filling
	w.filling, w.kicked = newBatch(), false
	w.pos.take(b.marks)
	signal(w.room)
	return b
}

// flush writes a batch, tells the topic dead what could not be written, and commits unless that waits for the disk. It
// returns an error only when ctx ended, or a shard is not what it is taken for: then nothing is committed and the rows
// are written again by the next owner.
func (w *Writer) flush(ctx context.Context, b *batch) error {
	if b.empty() {
		return nil
	}
	w.busy <- struct{}{}
	defer func() { <-w.busy }()
	began := time.Now()
	b.erase(w.deps.Erased)
	dead, err := w.writeAll(ctx, b)
	if err != nil {
		return err
	}
	if err := w.bury(ctx, dead); err != nil {
		return err
	}
	w.pos.store(b.marks) // what is in can be read; whoever writes it again for want of a commit changes nothing
	if w.deps.Sync == nil {
		err = w.commit(ctx)
	}
	w.metrics.flushes.Observe(time.Since(began).Seconds())
	return err
}

// writeAll writes every shard's part of a batch and returns what cannot be stored. The batch is written when all of it
// is: while one shard is away the others wait, for the offsets of a partition say nothing of shards.
func (w *Writer) writeAll(ctx context.Context, b *batch) ([]deadRecord, error) {
	for _, s := range w.shards {
		if err := w.verify(ctx, s); err != nil {
			return nil, err
		}
	}
	parts := b.split(len(w.shards))
	refused := make([][]deadRecord, len(parts))
	g, gctx := errgroup.WithContext(ctx)
	for i, part := range parts {
		g.Go(func() (err error) {
			if refused[i], err = w.write(gctx, w.shards[i], part); err == nil {
				err = w.noteHours(gctx, w.shards[i], part)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return append(b.dead, slices.Concat(refused...)...), nil
}

// verify sees once, before anything is written, that a shard is the one that it is taken for. While it cannot be asked,
// or has not been set up, the writer waits; one that is another must not get these rows.
func (w *Writer) verify(ctx context.Context, s *shard) error {
	for try := 0; !s.known; try++ {
		ask, cancel := context.WithTimeout(ctx, w.cfg.InsertTimeout)
		err := ch.CheckShard(ask, s.conn, "shard", s.number, len(w.shards))
		cancel()
		switch {
		case err == nil:
			s.known = true
			return nil
		case errors.Is(err, ch.ErrWrongShard):
			return err
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		}
		w.setAway(ctx, s, err)
		if err := w.rest(ctx, s, pauses.After(try), err); err != nil {
			return err
		}
	}
	return nil
}

// write inserts into all tables of a shard at once, which takes as long as the slowest, and returns what cannot be
// stored. Only candidates come after attempts, and deliveries after both: no reader may see a delivery, of a run or of
// all, without the attempt that brought it about, nor one that the list of its status does not look for.
func (w *Writer) write(ctx context.Context, s *shard, b *batch) ([]deadRecord, error) {
	var refused [6][]deadRecord
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { refused[0], err = writeRows(gctx, w, s, s.tables.events, b.events); return err })
	g.Go(func() (err error) {
		if refused[1], err = writeRows(gctx, w, s, s.tables.attempts, b.attempts); err != nil {
			return err
		}
		if refused[5], err = w.writeCandidates(gctx, s, b.deliveries); err != nil {
			return err
		}
		refused[2], err = writeRows(gctx, w, s, s.tables.deliveries, b.deliveries)
		return err
	})
	g.Go(func() (err error) { refused[3], err = writeRows(gctx, w, s, s.tables.receipts, b.receipts); return err })
	g.Go(func() (err error) { refused[4], err = writeRows(gctx, w, s, s.tables.audit, b.audit); return err })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(refused[:]...), nil
}

// writeRows inserts the rows and returns those that ClickHouse refuses. While ClickHouse is away it tries again until
// ctx ends. A table that takes no other row either, before the refused ones are looked for or afterwards, is the
// server's fault, whatever the error says, and nothing is buried for that; nor for what went wrong for a moment: those
// that are refused are tried once more, until no other is left.
func writeRows[R row](ctx context.Context, w *Writer, s *shard, t *table[R], rows []R) (dead []deadRecord, err error) {
	for try := 0; len(rows) > 0; try++ {
		err := insertPatiently(ctx, w, s, t, rows)
		if err == nil || !refused(err) {
			return nil, err
		}
		cause := t.probe(ctx, s.conn, w.cfg.InsertTimeout)
		if cause == nil {
			tried := len(rows)
			if rows, dead, err = bisect(ctx, w, s, t, rows, err); err != nil {
				return nil, err
			}
			if cause = t.probe(ctx, s.conn, w.cfg.InsertTimeout); cause == nil {
				if len(rows) == tried {
					return dead, nil
				}
				continue
			}
		}
		if ctx.Err() == nil {
			w.setAway(ctx, s, cause)
		}
		if err := w.rest(ctx, s, pauses.After(try), cause); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// bisect finds the refused rows of a batch that was refused as a whole, and inserts the others.
func bisect[R row](ctx context.Context, w *Writer, s *shard, t *table[R], rows []R, cause error) (
	refusedRows []R, dead []deadRecord, err error,
) {
	if len(rows) == 1 {
		return rows, []deadRecord{{rows[0].origin(), cause}}, nil
	}
	for _, half := range [][]R{rows[:len(rows)/2], rows[len(rows)/2:]} {
		err := insertPatiently(ctx, w, s, t, half)
		if refused(err) {
			var rows []R
			var more []deadRecord
			rows, more, err = bisect(ctx, w, s, t, half, err)
			refusedRows, dead = append(refusedRows, rows...), append(dead, more...)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return refusedRows, dead, nil
}

// insertPatiently returns nil, an error about the rows themselves, or that of ctx.
func insertPatiently[R row](ctx context.Context, w *Writer, s *shard, t *table[R], rows []R) error {
	for pauses, try := pauses, 0; ; try++ {
		insert, cancel := context.WithTimeout(ctx, w.cfg.InsertTimeout)
		err := t.write(insert, s.conn, rows)
		cancel()
		if err == nil || refused(err) {
			w.setAway(ctx, s, nil)
			if err == nil {
				w.metrics.rows.WithLabelValues(t.name).Add(float64(len(rows)))
			}
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		w.metrics.failures.Inc()
		w.setAway(ctx, s, err)
		if refusedForParts(err) {
			w.setCrowded(ctx, true, slog.String("table", t.name))
			if pauses.First < crowdedPause {
				pauses.First, try = crowdedPause, 0
			}
		}
		if err := w.rest(ctx, s, pauses.After(try), err); err != nil {
			return err
		}
	}
}

// setAway logs that ClickHouse went away or came back, once each.
func (w *Writer) setAway(ctx context.Context, s *shard, cause error) {
	news, away := w.pos.setFailing(s.number, cause != nil)
	if !news {
		return
	}
	w.metrics.away.Set(float64(away))
	if cause == nil {
		w.log.LogAttrs(ctx, slog.LevelInfo, "clickhouse takes rows again", slog.Int("shard", s.number))
		return
	}
	w.log.LogAttrs(ctx, slog.LevelWarn, "clickhouse takes no rows, the log keeps them",
		slog.Int("shard", s.number), slog.Any("error", cause))
}

// bury sends records to the topic dead and waits until they are durable there.
func (w *Writer) bury(ctx context.Context, dead []deadRecord) error {
	seen := make(map[*stream.Record]bool, len(dead)) // a record may have been refused by two tables
	for _, d := range dead {
		if seen[d.record] {
			continue
		}
		seen[d.record] = true
		w.metrics.dead.WithLabelValues(d.place.Topic).Inc()
		w.log.LogAttrs(ctx, slog.LevelError, "record cannot be stored", slog.String("topic", d.place.Topic),
			slog.Int("partition", int(d.place.Index)), slog.Int64("offset", d.record.Offset), slog.Any("error", d.cause))
		if err := w.buryOne(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) buryOne(ctx context.Context, d deadRecord) error {
	for try := 0; ; try++ {
		dead := w.deps.Stream.DeadLetterRecord(d.record, store.Group, d.cause)
		err := w.deps.Producer.ProduceSync(ctx, stream.Dead, d.place.Index, dead)
		if err == nil {
			return nil
		}
		w.log.LogAttrs(ctx, slog.LevelWarn, "produce to dead", slog.Any("error", err))
		if err := wait.For(ctx, pauses.After(try)); err != nil {
			return err
		}
	}
}

// kickBudget bounds the flushes that readers cause: ten a second on average, because every flush makes
// parts that must be merged, with a reserve for a quiet time's first readers, who are answered at once.
type kickBudget struct {
	tokens float64
	at     time.Time
}

const (
	kicksPerSecond = 10
	kickReserve    = 100
)

func newKickBudget(now time.Time) *kickBudget { return &kickBudget{kickReserve, now} }

// take pays for one flush and returns 0, or takes nothing and returns when there will be enough.
func (k *kickBudget) take(now time.Time, cost int) time.Duration {
	k.tokens = min(kickReserve, k.tokens+now.Sub(k.at).Seconds()*kicksPerSecond)
	k.at = now
	missing := float64(cost) - k.tokens
	if missing <= 0 {
		k.tokens -= float64(cost)
		return 0
	}
	return time.Duration(missing / kicksPerSecond * float64(time.Second))
}
