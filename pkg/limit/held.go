package limit

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxMirror bounds the states that wait for Redis; one more is not shown.
	maxMirror = 10_000
	// mirrorBatch bounds one exchange, so that it fits into its time-out.
	mirrorBatch = 200
)

// heldMirror are the changed breaker states that Redis has not heard of.
type heldMirror struct {
	mu      sync.Mutex // guards waiting
	waiting map[string]time.Time
}

// SetHeldUntil mirrors that deliveries to a destination are held until then, for display on other nodes; the
// zero time says that they are not. Best effort, in the background.
func (l *Limiter) SetHeldUntil(dest string, until time.Time) {
	if l.client == nil {
		return
	}
	m := &l.held
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting == nil {
		m.waiting = map[string]time.Time{}
	}
	if _, ok := m.waiting[dest]; ok || len(m.waiting) < maxMirror {
		m.waiting[dest] = until
	}
}

// Held tells which of the destinations (1,000 at most) are held, and until when. Best effort: without an
// answer within 50 ms it is empty.
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

// mirrorHeld tells Redis what has changed. What it does not take stays for the next time.
func (l *Limiter) mirrorHeld(ctx context.Context) {
	batch := l.held.take()
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
		l.held.putBack(batch)
	}
}

func (m *heldMirror) take() map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) <= mirrorBatch {
		batch := m.waiting
		m.waiting = nil
		return batch
	}
	batch := make(map[string]time.Time, mirrorBatch)
	for dest, until := range m.waiting {
		if len(batch) == mirrorBatch {
			break
		}
		batch[dest] = until
		delete(m.waiting, dest)
	}
	return batch
}

// putBack keeps what was not taken, unless something newer was said meanwhile.
func (m *heldMirror) putBack(batch map[string]time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiting == nil {
		m.waiting = batch
		return
	}
	for dest, until := range batch {
		if _, newer := m.waiting[dest]; !newer && len(m.waiting) < maxMirror {
			m.waiting[dest] = until
		}
	}
}
