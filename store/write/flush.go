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
	// Every insert makes a part in each day partition that it has rows for, and parts must be merged: a batch with rows
	// of more than manyDays days waits up to spreadWait for more rows.
	manyDays   = 8
	spreadWait = 5 * time.Second
	// smallBatch is the number of rows below which WriterConfig.FlushSmall applies.
	smallBatch = 1_000
)

// flushLoop flushes a batch whenever one is due, and the last one when polled is closed.
func (w *Writer) flushLoop(ctx context.Context, polled <-chan struct{}) error {
	budget := newFlushBudget(time.Now())
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		b, wait := w.takeDueBatch(time.Now(), budget)
		if b != nil {
			if err := w.flush(ctx, b); err != nil {
				return err
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-w.flushWake:
		case <-timer.C:
		case <-polled:
			return w.flush(ctx, w.takeBatch())
		}
	}
}

// takeDueBatch returns the batch if it is time to flush it, else how long to wait until it may be.
func (w *Writer) takeDueBatch(now time.Time, budget *flushBudget) (*batch, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.filling
	if b.empty() {
		w.flushRequested = false
		return nil, time.Hour
	}
	wait := b.firstRecordAt.Add(w.maxWait(b)).Sub(now)
	if w.isFullLocked() {
		wait = 0
	}
	if w.flushRequested && wait > 0 {
		cost := 1 + len(b.days)/manyDays
		if w.throttle.isActive() {
			cost *= throttledFlushCost
		}
		wait = min(wait, budget.spend(now, cost))
	}
	if wait > 0 {
		return nil, wait
	}
	return w.takeBatchLocked(), 0
}

// maxWait is how long the rows of a batch may wait for a flush.
func (w *Writer) maxWait(b *batch) time.Duration {
	switch {
	case len(b.days) > manyDays, w.throttle.isActive():
		return max(w.cfg.FlushEvery, spreadWait)
	case w.cfg.FlushSmall > 0 && b.rows() < smallBatch:
		return min(w.cfg.FlushEvery, w.cfg.FlushSmall)
	default:
		return w.cfg.FlushEvery
	}
}

func (w *Writer) takeBatch() *batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.takeBatchLocked()
}

func (w *Writer) takeBatchLocked() *batch {
	b := w.filling
	w.filling, w.flushRequested = newBatch(), false
	w.pos.markFlushing(b.ends)
	notify(w.batchTaken)
	return b
}

// flush inserts a batch, produces its dead letters, and commits the offsets, unless commitLoop does that after a sync
// of the disk. It returns an error only if ctx ended or a shard is the wrong one. Then nothing is committed, and the
// next partition owner inserts the rows again.
func (w *Writer) flush(ctx context.Context, b *batch) error {
	if b.empty() {
		return nil
	}
	w.flushing <- struct{}{}
	defer func() { <-w.flushing }()
	began := time.Now()
	w.flushingSince.Store(&b.oldest)
	b.stripErased(w.deps.Erased)
	dead, err := w.writeAll(ctx, b)
	if err != nil {
		return err
	}
	if err := w.produceDeadLetters(ctx, dead); err != nil {
		return err
	}
	// stored rows can be read; without a commit the next owner inserts them again, which changes nothing
	w.pos.markStored(b.ends)
	w.flushingSince.Store(nil)
	if w.deps.Sync == nil {
		err = w.commit(ctx)
	}
	w.metrics.flushes.Observe(time.Since(began).Seconds())
	return err
}

// lag returns the age of the oldest record that was read and is not stored yet, 0 if there is none.
func (w *Writer) lag(now time.Time) time.Duration {
	if flushing := w.flushingSince.Load(); flushing != nil {
		return max(now.Sub(*flushing), 0)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.filling.empty() {
		return 0
	}
	return max(now.Sub(w.filling.oldest), 0)
}

// writeAll inserts the rows of all shards and returns what cannot be stored. A batch is stored only when all shards
// have their part: offsets are per Kafka partition, not per shard, so while one shard is unavailable the others wait.
func (w *Writer) writeAll(ctx context.Context, b *batch) ([]deadLetter, error) {
	for _, s := range w.shards {
		if err := w.verifyShard(ctx, s); err != nil {
			return nil, err
		}
	}
	parts := b.split(len(w.shards))
	rejected := make([][]deadLetter, len(parts))
	g, gctx := errgroup.WithContext(ctx)
	for i, part := range parts {
		g.Go(func() (err error) {
			if rejected[i], err = w.writeShard(gctx, w.shards[i], part); err == nil {
				err = w.updateUsage(gctx, w.shards[i], part)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return append(b.deadLetters, slices.Concat(rejected...)...), nil
}

// verifyShard checks the shard's identity once, before the first insert. While ClickHouse is unavailable or relay
// migrate has not run, it waits; a wrong shard is an error, because it must not get these rows.
func (w *Writer) verifyShard(ctx context.Context, s *shard) error {
	for try := 0; !s.verified; try++ {
		checkCtx, cancel := context.WithTimeout(ctx, w.cfg.InsertTimeout)
		err := ch.CheckShard(checkCtx, s.conn, "shard", s.number, len(w.shards))
		cancel()
		switch {
		case err == nil:
			s.verified = true
			return nil
		case errors.Is(err, ch.ErrWrongShard):
			return err
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), err)
		}
		w.setUnavailable(ctx, s, err)
		if err := w.pauseUntilReachable(ctx, s, pauses.After(try), err); err != nil {
			return err
		}
	}
	return nil
}

// writeShard inserts into all tables of a shard concurrently and returns what cannot be stored. Candidates are inserted
// after attempts, and deliveries after both: no reader may see a delivery without the attempt that led to it, nor one
// that the list of its status does not find.
func (w *Writer) writeShard(ctx context.Context, s *shard, b *batch) ([]deadLetter, error) {
	var rejected [8][]deadLetter
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { rejected[0], err = writeRows(gctx, w, s, s.tables.events, b.events); return err })
	g.Go(func() (err error) {
		if rejected[1], err = writeRows(gctx, w, s, s.tables.attempts, b.attempts); err != nil {
			return err
		}
		if rejected[5], err = w.writeCandidates(gctx, s, b.deliveries); err != nil {
			return err
		}
		rejected[2], err = writeRows(gctx, w, s, s.tables.deliveries, b.deliveries)
		return err
	})
	g.Go(func() (err error) {
		rejected[3], err = writeRows(gctx, w, s, s.tables.receipts, b.receipts)
		return err
	})
	g.Go(func() (err error) { rejected[4], err = writeRows(gctx, w, s, s.tables.audit, b.audit); return err })
	g.Go(func() (err error) { rejected[6], err = writeRows(gctx, w, s, s.tables.hits, b.hits); return err })
	g.Go(func() (err error) { rejected[7], err = writeRows(gctx, w, s, s.tables.senders, b.senders); return err })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(rejected[:]...), nil
}

// writeRows inserts the rows and returns those that ClickHouse rejects, as dead letters. While ClickHouse is
// unavailable it retries until ctx ends. A probe decides between bad rows and a bad server, before and after the
// bisection: a table that does not take a known good row either is the server's fault, whatever the error says, and
// makes no dead letters. The rejected rows are tried again until no more of them succeed, so a passing fault makes no
// dead letters either.
func writeRows[R row](ctx context.Context, w *Writer, s *shard, t *table[R], rows []R) (dead []deadLetter, err error) {
	for try := 0; len(rows) > 0; try++ {
		err := insertWithRetry(ctx, w, s, t, rows)
		if err == nil || !rowsRejected(err) {
			return nil, err
		}
		serverErr := t.probe(ctx, s.conn, w.cfg.InsertTimeout)
		if serverErr == nil {
			tried := len(rows)
			if rows, dead, err = bisect(ctx, w, s, t, rows, err); err != nil {
				return nil, err
			}
			if serverErr = t.probe(ctx, s.conn, w.cfg.InsertTimeout); serverErr == nil {
				if len(rows) == tried {
					return dead, nil
				}
				continue
			}
		}
		if ctx.Err() == nil {
			w.setUnavailable(ctx, s, serverErr)
		}
		if err := w.pauseUntilReachable(ctx, s, pauses.After(try), serverErr); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// bisect finds the rejected rows of a batch that was rejected as a whole, by halving it, and inserts the others.
func bisect[R row](ctx context.Context, w *Writer, s *shard, t *table[R], rows []R, cause error) (
	rejectedRows []R, dead []deadLetter, err error,
) {
	if len(rows) == 1 {
		return rows, []deadLetter{{rows[0].recordSource(), cause}}, nil
	}
	for _, half := range [][]R{rows[:len(rows)/2], rows[len(rows)/2:]} {
		err := insertWithRetry(ctx, w, s, t, half)
		if rowsRejected(err) {
			var rows []R
			var more []deadLetter
			rows, more, err = bisect(ctx, w, s, t, half, err)
			rejectedRows, dead = append(rejectedRows, rows...), append(dead, more...)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return rejectedRows, dead, nil
}

// insertWithRetry inserts the rows, retrying until ctx ends. It returns nil, an error about the rows, or that of ctx.
func insertWithRetry[R row](ctx context.Context, w *Writer, s *shard, t *table[R], rows []R) error {
	for pauses, try := pauses, 0; ; try++ {
		insertCtx, cancel := context.WithTimeout(ctx, w.cfg.InsertTimeout)
		err := t.write(insertCtx, s.conn, rows)
		cancel()
		if err == nil || rowsRejected(err) {
			w.setUnavailable(ctx, s, nil)
			if err == nil {
				w.metrics.rows.WithLabelValues(t.name).Add(float64(len(rows)))
			}
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		w.metrics.insertFailures.Inc()
		w.setUnavailable(ctx, s, err)
		if isTooManyParts(err) {
			w.setThrottled(ctx, true, slog.String("table", t.name))
			if pauses.First < tooManyPartsPause {
				pauses.First, try = tooManyPartsPause, 0
			}
		}
		if err := w.pauseUntilReachable(ctx, s, pauses.After(try), err); err != nil {
			return err
		}
	}
}

// setUnavailable records whether inserts into a shard fail, and logs when that changes. Without a cause they work.
func (w *Writer) setUnavailable(ctx context.Context, s *shard, cause error) {
	changed, failing := w.pos.setFailing(s.number, cause != nil)
	if !changed {
		return
	}
	w.metrics.unavailable.Set(float64(failing))
	if cause == nil {
		w.log.LogAttrs(ctx, slog.LevelInfo, "clickhouse accepts inserts again", slog.Int("shard", s.number))
		return
	}
	w.log.LogAttrs(ctx, slog.LevelWarn, "clickhouse inserts fail, records stay in Kafka until they succeed",
		slog.Int("shard", s.number), slog.Any("error", cause))
}

// produceDeadLetters produces records to the dead letter topic and waits until they are durable there.
func (w *Writer) produceDeadLetters(ctx context.Context, deadLetters []deadLetter) error {
	seen := make(map[*stream.Record]bool, len(deadLetters)) // two tables may have rejected rows of one record
	for _, d := range deadLetters {
		if seen[d.record] {
			continue
		}
		seen[d.record] = true
		w.metrics.deadLetters.WithLabelValues(d.assignment.Topic).Inc()
		w.log.LogAttrs(ctx, slog.LevelError, "cannot store record, sending it to the dead letter topic",
			slog.String("topic", d.assignment.Topic),
			slog.Int("partition", int(d.assignment.Index)), slog.Int64("offset", d.record.Offset), slog.Any("error", d.cause))
		if err := w.produceDeadLetter(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (w *Writer) produceDeadLetter(ctx context.Context, d deadLetter) error {
	for try := 0; ; try++ {
		record := w.deps.Stream.DeadLetterRecord(d.record, store.Group, d.cause)
		err := w.deps.Producer.ProduceSync(ctx, stream.Dead, d.assignment.Index, record)
		if err == nil {
			return nil
		}
		w.log.LogAttrs(ctx, slog.LevelWarn, "cannot produce to the dead letter topic, retrying", slog.Any("error", err))
		if err := wait.For(ctx, pauses.After(try)); err != nil {
			return err
		}
	}
}

// flushBudget bounds the flushes that readers request: ten a second on average, because every flush makes parts that
// must be merged. A reserve of 100 lets the first readers after a quiet time be answered at once.
type flushBudget struct {
	tokens     float64
	refilledAt time.Time
}

const (
	requestedFlushesPerSecond = 10
	requestedFlushReserve     = 100
)

func newFlushBudget(now time.Time) *flushBudget { return &flushBudget{requestedFlushReserve, now} }

// spend pays for one flush and returns 0. If the budget is too small, it spends nothing and returns when it will
// suffice.
func (k *flushBudget) spend(now time.Time, cost int) time.Duration {
	k.tokens = min(requestedFlushReserve, k.tokens+now.Sub(k.refilledAt).Seconds()*requestedFlushesPerSecond)
	k.refilledAt = now
	missing := float64(cost) - k.tokens
	if missing <= 0 {
		k.tokens -= float64(cost)
		return 0
	}
	return time.Duration(missing / requestedFlushesPerSecond * float64(time.Second))
}
