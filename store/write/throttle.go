package write

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store/ch"
)

const (
	// throttledFlushCost is how much of the budget (10 a second) a flush for a reader costs meanwhile: one a second is
	// left.
	throttledFlushCost = 10
	// tooManyPartsPause is the shortest pause after ClickHouse rejected an insert with TOO_MANY_PARTS. A merge takes
	// seconds, and every retry sends the whole batch.
	tooManyPartsPause = time.Second
	// partsTimeout bounds one count of the parts.
	partsTimeout = 10 * time.Second
	// codeTooManyParts is ClickHouse's error code TOO_MANY_PARTS.
	codeTooManyParts = 252
)

// watchParts counts the parts every PartsInterval until ctx ends and throttles or unthrottles the flushes of each
// loader. It changes nothing if the count fails: whether ClickHouse is available is decided by the inserts.
func (w *Writer) watchParts(ctx context.Context) error {
	for {
		if err := wait.For(ctx, wait.Jitter(w.cfg.PartsInterval)); err != nil {
			return err
		}
		if err := w.checkParts(ctx); err != nil {
			w.log.LogAttrs(ctx, slog.LevelDebug, "cannot count clickhouse parts", slog.Any("error", err))
		}
	}
}

// checkParts counts the parts once.
func (w *Writer) checkParts(ctx context.Context) error {
	parts, most := make([]int, len(w.loaders)), 0
	for i, l := range w.loaders {
		n, err := l.countParts(ctx)
		if err != nil {
			return err
		}
		parts[i], most = n, max(most, n)
	}
	w.metrics.parts.Set(float64(most))
	for i, l := range w.loaders {
		switch {
		case parts[i] >= w.cfg.ThrottleParts:
			l.setThrottled(ctx, true, slog.Int("parts", parts[i]))
		case parts[i] <= w.cfg.ThrottleParts/2 && len(l.pos.failingShards()) == 0:
			l.setThrottled(ctx, false, slog.Int("parts", parts[i]))
		}
	}
	return nil
}

// countParts returns the number of parts in the partition of the loader's tables that has most of them, on any shard.
func (l *loader) countParts(ctx context.Context) (most int, err error) {
	for _, s := range l.shards {
		n, err := s.countParts(ctx, l.ownTables)
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	return most, nil
}

// countParts counts the parts of the tables that a condition selects.
func (s *shard) countParts(ctx context.Context, ofTables ch.SQL) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, partsTimeout)
	defer cancel()
	var n uint64
	q := new(ch.Query).Add("SELECT max(n) FROM (SELECT count() AS n FROM system.parts " +
		"WHERE database = currentDatabase() AND active AND ").Add(ofTables).Add(" GROUP BY table, partition_id)")
	if err := s.conn.QueryRow(ctx, q.Text(), q.Args()...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count parts: %w", err)
	}
	return int(n), nil
}

// setThrottled logs once when throttling begins and once when it ends.
func (l *loader) setThrottled(ctx context.Context, on bool, reason slog.Attr) {
	if l.throttled.Swap(on) == on {
		return
	}
	if !on {
		l.metrics.throttled.Dec()
		l.log.LogAttrs(ctx, slog.LevelInfo, "clickhouse has merged its parts: flushing at the usual rate again",
			slog.String("group", l.name), reason)
		return
	}
	l.metrics.throttled.Inc()
	l.log.LogAttrs(ctx, slog.LevelWarn,
		"clickhouse has too many parts: flushing less often until it has merged them", slog.String("group", l.name), reason)
}

// isTooManyParts reports whether ClickHouse rejected an insert with TOO_MANY_PARTS.
func isTooManyParts(err error) bool {
	var ex *clickhouse.Exception
	return errors.As(err, &ex) && ex.Code == codeTooManyParts
}
