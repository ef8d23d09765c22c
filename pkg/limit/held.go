package limit

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxMirrored bounds the changed states that wait for Redis; further ones are not displayed on other nodes.
	maxMirrored = 10_000
	// maxMirrorBatch bounds the states in one exchange, so that it ends within Config.Timeout.
	maxMirrorBatch = 200
)

// breakerMirror holds the changed breaker states of destinations that were not written to Redis yet.
type breakerMirror struct {
	mu      sync.Mutex // guards pending
	pending map[string]time.Time
}

// SetHeldUntil mirrors, for display on other nodes, until when deliveries to a destination are held; the zero time
// means that they are not held. Run writes it to Redis in the background. Best effort.
func (l *Limiter) SetHeldUntil(dest string, until time.Time) {
	if l.client == nil {
		return
	}
	defer l.wakeUp()
	m := &l.breakerMirror
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending == nil {
		m.pending = map[string]time.Time{}
	}
	if _, ok := m.pending[dest]; ok || len(m.pending) < maxMirrored {
		m.pending[dest] = until
	}
}

// HeldUntil returns until when deliveries are held, for those of the first 1,000 destinations that are held. Best
// effort: without an answer within Config.Timeout it returns nil.
func (l *Limiter) HeldUntil(ctx context.Context, dests []string) map[string]time.Time {
	dests = dests[:min(len(dests), 1000)]
	if len(dests) == 0 {
		return nil
	}
	keys := make([]string, len(dests))
	for i, d := range dests {
		keys[i] = heldKey(d)
	}
	var values []any
	err := l.call(ctx, "held", func(ctx context.Context) (err error) {
		values, err = l.client.MGet(ctx, keys...).Result()
		return err
	})
	if err != nil {
		return nil
	}
	held := map[string]time.Time{}
	for i, v := range values {
		text, _ := v.(string)
		if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
			held[dests[i]] = time.UnixMilli(ms)
		}
	}
	return held
}

func heldKey(dest string) string { return "held:" + dest }

// mirrorBreakers writes changed states to Redis. It keeps a failed batch for the next round.
func (l *Limiter) mirrorBreakers(ctx context.Context) {
	batch := l.breakerMirror.takeBatch()
	if len(batch) == 0 {
		return
	}
	now := l.now()
	err := l.call(ctx, "held", func(ctx context.Context) error {
		_, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for dest, until := range batch {
				if left := until.Sub(now); left > 0 {
					p.Set(ctx, heldKey(dest), until.UnixMilli(), max(left, time.Second))
				} else {
					p.Del(ctx, heldKey(dest))
				}
			}
			return nil
		})
		return err
	})
	if err != nil {
		l.breakerMirror.putBack(batch)
	}
}

// isEmpty reports whether no state waits for Redis.
func (m *breakerMirror) isEmpty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending) == 0
}

// takeBatch removes at most maxMirrorBatch states from pending and returns them.
func (m *breakerMirror) takeBatch() map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.pending) <= maxMirrorBatch {
		batch := m.pending
		m.pending = nil
		return batch
	}
	batch := make(map[string]time.Time, maxMirrorBatch)
	for dest, until := range m.pending {
		if len(batch) == maxMirrorBatch {
			break
		}
		batch[dest] = until
		delete(m.pending, dest)
	}
	return batch
}

// putBack returns a failed batch to pending, except states that have changed since.
func (m *breakerMirror) putBack(batch map[string]time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending == nil {
		m.pending = batch
		return
	}
	for dest, until := range batch {
		if _, newer := m.pending[dest]; !newer && len(m.pending) < maxMirrored {
			m.pending[dest] = until
		}
	}
}
