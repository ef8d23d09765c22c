package write

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store/ch"
)

const (
	// Every insert makes a part in each day partition that it has rows for, and parts must be merged: a batch with rows
	// of more than manyDays days waits up to spreadWait for more rows.
	manyDays   = 8
	spreadWait = 5 * time.Second
	// A batch of fullerBatch rows waits no longer than unreadWait. An insert costs ClickHouse about as much as 5,000 more
	// rows do; but a reader who asks for a flush waits for all of its rows, and the insert takes the longer the more there
	// are. So for readLately after a reader has asked it waits no longer than readWait, and is full at a third.
	fullerBatch = 5_000
	unreadWait  = 2500 * time.Millisecond
	readWait    = time.Second
	readLately  = 10 * time.Second
	readShare   = 3
)

// flushLoop flushes a batch whenever one is due, and the last one when polled is closed.
func (l *loader) flushLoop(ctx context.Context, polled <-chan struct{}) error {
	budget := newFlushBudget(time.Now())
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		b, wait := l.takeDueBatch(time.Now(), budget)
		if b != nil {
			if err := l.flush(ctx, b); err != nil {
				return err
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-l.flushWake:
		case <-timer.C:
		case <-polled:
			return l.flush(ctx, l.takeBatch())
		}
	}
}

// takeDueBatch returns the batch if it is time to flush it, else how long to wait until it may be.
func (l *loader) takeDueBatch(now time.Time, budget *flushBudget) (*batch, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.filling
	if b.empty() {
		l.flushRequested = false
		return nil, time.Hour
	}
	wait := b.firstRecordAt.Add(l.maxWait(b, now)).Sub(now)
	if l.isFullLocked(now) {
		wait = 0
	}
	if l.flushRequested && wait > 0 {
		cost := 1 + len(b.days)/manyDays
		if l.throttled.Load() {
			cost *= throttledFlushCost
		}
		wait = min(wait, budget.spend(now, cost))
	}
	if wait > 0 {
		return nil, wait
	}
	return l.takeBatchLocked(), 0
}

// maxWait is how long the rows of a batch may wait for a flush that no reader asks for.
func (l *loader) maxWait(b *batch, now time.Time) time.Duration {
	longest := l.cfg.FlushEvery
	switch {
	case b.rows < fullerBatch:
	case l.isReadLocked(now):
		longest = min(longest, readWait)
	default:
		longest = min(longest, unreadWait)
	}
	if len(b.days) > manyDays || l.throttled.Load() {
		longest = max(longest, spreadWait)
	}
	return longest
}

func (l *loader) takeBatch() *batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takeBatchLocked()
}

func (l *loader) takeBatchLocked() *batch {
	b := l.filling
	l.filling, l.inserting, l.flushRequested = newBatch(l.sinks), b, false
	l.flushes.Add(1)
	l.reportBufferedLocked()
	l.pos.markFlushing(b.ends)
	wait.Wake(l.batchTaken)
	return b
}

// flush inserts a batch, produces its dead letters, and commits the offsets, unless commitLoop does that after a sync
// of the disk. It returns an error only if ctx ended or a shard is the wrong one. Then nothing is committed, and the
// next partition owner inserts the rows again.
func (l *loader) flush(ctx context.Context, b *batch) error {
	if b.empty() {
		return nil
	}
	l.flushing <- struct{}{}
	defer func() { <-l.flushing }()
	began := time.Now()
	l.flushingSince.Store(&b.oldest)
	l.stripErased(b)
	scanned, stopScan := l.startScan(ctx, b)
	defer stopScan()
	dead, err := l.writeAll(ctx, b)
	if err != nil {
		return err
	}
	if err := l.produceDeadLetters(ctx, dead); err != nil {
		return err
	}
	// stored rows can be read; without a commit the next owner inserts them again, which changes nothing
	l.pos.markStored(b.ends)
	l.mu.Lock()
	l.inserting = nil
	l.mu.Unlock()
	l.flushingSince.Store(nil)
	if err := <-scanned; err != nil {
		return err
	}
	l.pos.markComplete(b.ends)
	if l.deps.Sync == nil {
		err = l.commit(ctx, l)
	}
	l.metrics.flushes.Observe(time.Since(began).Seconds())
	return err
}

// stripErased removes erased payloads from the batch that is to be inserted.
func (l *loader) stripErased(b *batch) {
	events, deliveries := b.stripErased(l.deps.Erased)
	l.mu.Lock()
	defer l.mu.Unlock()
	sinkOf[*eventRow](b).rows, sinkOf[*deliveryRow](b).rows = events, deliveries
}

// lag returns the age of the oldest record that was read and is not stored yet, 0 if there is none.
func (l *loader) lag(now time.Time) time.Duration {
	if flushing := l.flushingSince.Load(); flushing != nil {
		return max(now.Sub(*flushing), 0)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.filling.empty() {
		return 0
	}
	return max(now.Sub(l.filling.oldest), 0)
}

// writeAll inserts the rows of all shards and returns what cannot be stored. A batch is stored only when all shards
// have their part: offsets are per Kafka partition, not per shard, so while one shard is unavailable the others wait.
func (l *loader) writeAll(ctx context.Context, b *batch) ([]deadLetter, error) {
	for _, s := range l.shards {
		if err := l.verifyShard(ctx, s); err != nil {
			return nil, err
		}
	}
	parts := b.split(len(l.shards))
	rejected, err := concurrently(ctx, l.shards, func(ctx context.Context, s *shard) ([]deadLetter, error) {
		part := parts[s.number-1]
		dead, err := concurrently(ctx, part.sinks, func(ctx context.Context, k anySink) ([]deadLetter, error) {
			return k.insert(ctx, l, s)
		})
		if err == nil {
			err = l.updateUsage(ctx, s, part)
		}
		return dead, err
	})
	// If two tables reject rows of one record, its dead letter names the cause of the first of them.
	return append(b.deadLetters, rejected...), err
}

// verifyShard checks the shard's identity once, before the first insert. While ClickHouse is unavailable or relay
// migrate has not run, it waits; a wrong shard is an error, because it must not get these rows.
func (l *loader) verifyShard(ctx context.Context, s *shard) error {
	for try := 0; !s.verified; try++ {
		checkCtx, cancel := context.WithTimeout(ctx, l.cfg.InsertTimeout)
		err := ch.CheckShard(checkCtx, s.conn, "shard", s.number, len(l.shards))
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
		l.setUnavailable(ctx, s, err)
		if err := l.pauseUntilReachable(ctx, s, pauses.After(try), err); err != nil {
			return err
		}
	}
	return nil
}

// writeRows inserts the rows and returns those that ClickHouse rejects, as dead letters. While ClickHouse is
// unavailable it retries until ctx ends. A probe decides between bad rows and a bad server, before and after the
// bisection: a table that does not take a known good row either is the server's fault, whatever the error says, and
// makes no dead letters. The rejected rows are tried again until no more of them succeed, so a passing fault makes no
// dead letters either.
func writeRows[R row](ctx context.Context, l *loader, s *shard, t *table[R], rows []R) (dead []deadLetter, err error) {
	for try := 0; len(rows) > 0; try++ {
		err := insertWithRetry(ctx, l, s, t, rows)
		if err == nil || !rowsRejected(err) {
			return nil, err
		}
		serverErr := t.probe(ctx, s.conn, l.cfg.InsertTimeout)
		if serverErr == nil {
			tried := len(rows)
			if rows, dead, err = bisect(ctx, l, s, t, rows, err); err != nil {
				return nil, err
			}
			if serverErr = t.probe(ctx, s.conn, l.cfg.InsertTimeout); serverErr == nil {
				if len(rows) == tried {
					return dead, nil
				}
				continue
			}
		}
		if ctx.Err() == nil {
			l.setUnavailable(ctx, s, serverErr)
		}
		if err := l.pauseUntilReachable(ctx, s, pauses.After(try), serverErr); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// bisect finds the rejected rows of a batch that was rejected as a whole, by halving it, and inserts the others.
func bisect[R row](ctx context.Context, l *loader, s *shard, t *table[R], rows []R, cause error) (
	rejectedRows []R, dead []deadLetter, err error,
) {
	if len(rows) == 1 {
		return rows, []deadLetter{{rows[0].recordSource(), cause}}, nil
	}
	for _, half := range [][]R{rows[:len(rows)/2], rows[len(rows)/2:]} {
		err := insertWithRetry(ctx, l, s, t, half)
		if rowsRejected(err) {
			var rows []R
			var more []deadLetter
			rows, more, err = bisect(ctx, l, s, t, half, err)
			rejectedRows, dead = append(rejectedRows, rows...), append(dead, more...)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return rejectedRows, dead, nil
}

// insertWithRetry inserts the rows, retrying until ctx ends. It returns nil, an error about the rows, or that of ctx.
func insertWithRetry[R row](ctx context.Context, l *loader, s *shard, t *table[R], rows []R) error {
	backoff := pauses
	for try := 0; ; try++ {
		insertCtx, cancel := context.WithTimeout(ctx, l.cfg.InsertTimeout)
		err := t.write(insertCtx, s.conn, rows)
		cancel()
		if err == nil || rowsRejected(err) {
			l.setUnavailable(ctx, s, nil)
			if err == nil {
				l.metrics.rows.WithLabelValues(t.name).Add(float64(len(rows)))
			}
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		l.metrics.insertFailures.Inc()
		l.setUnavailable(ctx, s, err)
		if isTooManyParts(err) {
			l.setThrottled(ctx, true, slog.String("table", t.name))
			if backoff.First < tooManyPartsPause {
				backoff.First, try = tooManyPartsPause, 0
			}
		}
		if err := l.pauseUntilReachable(ctx, s, backoff.After(try), err); err != nil {
			return err
		}
	}
}

// setUnavailable records whether inserts of this loader into a shard fail, and logs when that changes. Without a cause
// they work.
func (l *loader) setUnavailable(ctx context.Context, s *shard, cause error) {
	if !l.pos.setFailing(s.number, cause != nil) {
		return
	}
	if cause == nil {
		l.log.LogAttrs(ctx, slog.LevelInfo, "clickhouse accepts inserts again", slog.String("group", l.name),
			slog.Int("shard", s.number))
		return
	}
	l.log.LogAttrs(ctx, slog.LevelWarn, "clickhouse inserts fail, records stay in the log until they succeed",
		slog.String("group", l.name), slog.Int("shard", s.number), slog.Any("error", cause))
}

// produceDeadLetters produces records to the dead letter topic and waits until they are durable there.
func (l *loader) produceDeadLetters(ctx context.Context, deadLetters []deadLetter) error {
	seen := make(map[*stream.Record]bool, len(deadLetters)) // two tables may have rejected rows of one record
	for _, d := range deadLetters {
		if seen[d.record] {
			continue
		}
		seen[d.record] = true
		l.metrics.deadLetters.WithLabelValues(d.assignment.Topic).Inc()
		l.log.LogAttrs(ctx, slog.LevelError, "cannot store record, sending it to the dead letter topic",
			slog.String("topic", d.assignment.Topic),
			slog.Int("partition", int(d.assignment.Index)), slog.Int64("offset", d.record.Offset), slog.Any("error", d.cause))
		if err := l.produceDeadLetter(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) produceDeadLetter(ctx context.Context, d deadLetter) error {
	for try := 0; ; try++ {
		record := l.deps.Stream.DeadLetterRecord(d.record, l.name, d.cause)
		err := l.deps.Producer.ProduceSync(ctx, stream.Dead, d.assignment.Index, record)
		if err == nil {
			return nil
		}
		l.log.LogAttrs(ctx, slog.LevelWarn, "cannot produce to the dead letter topic, retrying", slog.Any("error", err))
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

// commitInterval is how often offsets are committed when WriterDeps.Sync is set, and how often failed commits are
// retried in any case.
const commitInterval = time.Second

// commitLoop commits every commitInterval what the loaders have stored, and once more when flushed is closed.
func (w *Writer) commitLoop(ctx context.Context, flushed <-chan struct{}) error {
	tick := time.NewTicker(commitInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := w.commit(ctx, w.loaders...); err != nil {
				return err
			}
		case <-flushed:
			return w.commit(ctx, w.loaders...)
		}
	}
}

// commit syncs the disk if WriterDeps.Sync is set and then commits the offsets of the records that these loaders have
// stored. Only a failed sync is an error, and it is final: rows may be lost, and a later sync would not report it.
func (c *shared) commit(ctx context.Context, loaders ...*loader) error {
	for _, l := range loaders { // one commit at a time, so that an older one does not overwrite a newer one
		select {
		case l.committing <- struct{}{}:
			defer func() { <-l.committing }()
		case <-ctx.Done():
			return nil // the next owner inserts the rows again, which changes nothing
		}
	}
	ends, needsSync := make([]map[*assignment]partitionEnd, len(loaders)), false
	for i, l := range loaders {
		ends[i] = l.pos.takeUncommitted()
		needsSync = needsSync || len(ends[i]) > 0
	}
	if err := c.sync(needsSync); err != nil {
		return err
	}
	for i, l := range loaders {
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

func (l *loader) commitOffsets(ctx context.Context, ends map[*assignment]partitionEnd) {
	if err := l.group.Commit(ctx, l.pos.committable(ends)); err != nil {
		// The rows are stored: if nobody commits these offsets, they are inserted again, which changes nothing.
		l.pos.putBackUncommitted(ends)
		l.metrics.commitFailures.Inc()
		l.log.LogAttrs(ctx, slog.LevelWarn, "cannot commit offsets after flush", slog.String("group", l.name),
			slog.Any("error", err))
	}
}

// errRowsRejected marks an insert whose rows could not be encoded, before it reached ClickHouse.
var errRowsRejected = errors.New("rows cannot be encoded")

// rowsRejected reports whether an insert failed because of its rows. Any other error is not about them: no answer of
// ClickHouse (network, timeout, a proxy's page), or one about the server's state, load or schema. Those rows are
// inserted later as they are.
func rowsRejected(err error) bool {
	if errors.Is(err, errRowsRejected) {
		return true
	}
	var ex *clickhouse.Exception
	return errors.As(err, &ex) && !ch.IsServerError(ex.Code)
}
