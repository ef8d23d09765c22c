package write

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/eventrelay/relay/pkg/wait"
)

const (
	// throttledGrowth is how much larger a batch may grow while flushes are throttled: up to 80,000 rows or 32 MiB.
	throttledGrowth = 4
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

// throttle says whether flushes are throttled because ClickHouse has more parts than it can merge. Each insert makes a
// part in every day partition that it has rows for, reads open all of them, and at 3,000 parts ClickHouse rejects
// inserts. So the writer inserts larger batches, less often, well before that.
type throttle struct {
	mu     sync.Mutex // guards active
	active bool
}

func (c *throttle) isActive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active
}

// set reports whether the state changed.
func (c *throttle) set(on bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.active != on
	c.active = on
	return changed
}

// watchParts counts the parts every PartsInterval until ctx ends and throttles or unthrottles the flushes. It changes
// nothing if the count fails: whether ClickHouse is available is decided by the inserts.
func (w *Writer) watchParts(ctx context.Context) error {
	for {
		if err := wait.For(ctx, wait.Jitter(w.cfg.PartsInterval)); err != nil {
			return err
		}
		parts, err := w.countParts(ctx)
		if err != nil {
			w.log.LogAttrs(ctx, slog.LevelDebug, "cannot count clickhouse parts", slog.Any("error", err))
			continue
		}
		w.metrics.parts.Set(float64(parts))
		switch {
		case parts >= w.cfg.ThrottleParts:
			w.setThrottled(ctx, true, slog.Int("parts", parts))
		case parts <= w.cfg.ThrottleParts/2 && !w.pos.progress().Failing:
			w.setThrottled(ctx, false, slog.Int("parts", parts))
		}
	}
}

// countParts returns the number of parts in the partition that has most of them, on any shard.
func (w *Writer) countParts(ctx context.Context) (most int, err error) {
	for _, s := range w.shards {
		n, err := s.countParts(ctx)
		if err != nil {
			return 0, err
		}
		most = max(most, n)
	}
	return most, nil
}

func (s *shard) countParts(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, partsTimeout)
	defer cancel()
	var n uint64
	err := s.conn.QueryRow(ctx, "SELECT max(n) FROM (SELECT count() AS n FROM system.parts "+
		"WHERE database = currentDatabase() AND active GROUP BY table, partition_id)").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count parts: %w", err)
	}
	return int(n), nil
}

// setThrottled logs once when throttling begins and once when it ends.
func (w *Writer) setThrottled(ctx context.Context, on bool, reason slog.Attr) {
	if !w.throttle.set(on) {
		return
	}
	if !on {
		w.metrics.throttled.Set(0)
		w.log.LogAttrs(ctx, slog.LevelInfo, "clickhouse has merged its parts: flushing at the usual rate again", reason)
		return
	}
	w.metrics.throttled.Set(1)
	w.log.LogAttrs(ctx, slog.LevelWarn,
		"clickhouse has too many parts: flushing less often until it has merged them", reason)
}

// isTooManyParts reports whether ClickHouse rejected an insert with TOO_MANY_PARTS.
func isTooManyParts(err error) bool {
	var ex *clickhouse.Exception
	return errors.As(err, &ex) && ex.Code == codeTooManyParts
}
