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
	// A batch may grow crowdedGrowth times as large while ClickHouse is crowded: up to 80,000 rows or 32 MB.
	crowdedGrowth = 4
	// crowdedKick is what a reader's flush costs then of the budget for them: one a second is left.
	crowdedKick = 10
	// crowdedPause is the shortest pause after an insert that was refused for the number of parts. A merge takes seconds,
	// and every try sends the whole batch.
	crowdedPause = time.Second
	// lookTimeout bounds one look at the parts.
	lookTimeout = 10 * time.Second
	// codeTooManyParts is TOO_MANY_PARTS.
	codeTooManyParts = 252
)

// crowd tells whether ClickHouse has more parts than it can merge. Each insert makes one in every day partition that it
// touches, reads open all of them, and with some thousands inserts are refused: so rows are written in larger batches,
// and less often, well before that.
type crowd struct {
	mu sync.Mutex // guards on
	on bool
}

func (c *crowd) crowded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.on
}

// set reports whether that is news.
func (c *crowd) set(on bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.on != on
	c.on = on
	return news
}

// watchParts looks at the parts now and then until ctx ends. What it cannot see it does not judge: whether ClickHouse
// is there is the business of the inserts.
func (w *Writer) watchParts(ctx context.Context) error {
	for {
		if err := wait.For(ctx, wait.Jitter(w.cfg.PartsInterval)); err != nil {
			return err
		}
		parts, err := w.countParts(ctx)
		if err != nil {
			w.log.LogAttrs(ctx, slog.LevelDebug, "look at clickhouse's parts", slog.Any("error", err))
			continue
		}
		w.metrics.parts.Set(float64(parts))
		switch {
		case parts >= w.cfg.ThrottleParts:
			w.setCrowded(ctx, true, slog.Int("parts", parts))
		case parts <= w.cfg.ThrottleParts/2 && !w.pos.progress().Failing:
			w.setCrowded(ctx, false, slog.Int("parts", parts))
		}
	}
}

// countParts returns the number of parts of the partition that has most of them, on any shard.
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
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var n uint64
	err := s.conn.QueryRow(ctx, "SELECT max(n) FROM (SELECT count() AS n FROM system.parts "+
		"WHERE database = currentDatabase() AND active GROUP BY table, partition_id)").Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count parts: %w", err)
	}
	return int(n), nil
}

// setCrowded logs that rows are written less often, or as often as usual again, once each.
func (w *Writer) setCrowded(ctx context.Context, on bool, why slog.Attr) {
	if !w.crowd.set(on) {
		return
	}
	if !on {
		w.metrics.crowded.Set(0)
		w.log.LogAttrs(ctx, slog.LevelInfo, "clickhouse has merged its parts, rows are written as often as usual", why)
		return
	}
	w.metrics.crowded.Set(1)
	w.log.LogAttrs(ctx, slog.LevelWarn,
		"clickhouse has many parts, rows are written less often until it has merged them", why)
}

// refusedForParts reports whether an insert failed because there are too many parts.
func refusedForParts(err error) bool {
	var ex *clickhouse.Exception
	return errors.As(err, &ex) && ex.Code == codeTooManyParts
}
