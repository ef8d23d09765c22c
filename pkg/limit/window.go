package limit

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Window counts occurrences of keys. The window of a key begins with its first occurrence and lasts for span; then the
// count is 0 again. Every node counts its own occurrences in memory. With Redis all nodes also count together, and the
// higher count is the answer. So a node knows at least its own count when Redis is lost.
type Window struct {
	limiter *Limiter
	class   string
	span    time.Duration
	most    int // keys in memory

	mu      sync.Mutex // guards what follows
	local   map[windowKey]localCount
	sweptAt time.Duration
}

// windowKey is the SHA-256 of a key: keys may be long and private.
type windowKey [sha256.Size]byte

// localCount is what this node has counted of one key.
type localCount struct {
	began time.Duration // since Limiter.startedAt
	n     int
}

// maxWindowKeys bounds the keys of a window in memory, some 100 bytes each. Beyond it a new key replaces one whose
// window is about to end.
const maxWindowKeys = 1 << 16

// NewWindow returns a window counter. class separates its keys from those of others.
func (l *Limiter) NewWindow(class string, span time.Duration) *Window {
	return &Window{limiter: l, class: class, span: span, most: maxWindowKeys, local: make(map[windowKey]localCount)}
}

func (k windowKey) inRedis(class string) string {
	return "window:" + class + ":" + base64.RawURLEncoding.EncodeToString(k[:])
}

// Count returns how often a key occurred in its window, and how long the window still lasts; 0, 0 for never. It takes
// at most Config.Timeout and never fails.
func (w *Window) Count(ctx context.Context, key string) (n int, left time.Duration) {
	k := windowKey(sha256.Sum256([]byte(key)))
	n, left = w.countLocal(k)
	var count *redis.StringCmd
	var ttl *redis.DurationCmd
	err := w.limiter.call(ctx, "window", func(ctx context.Context) error {
		_, err := w.limiter.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			count, ttl = p.Get(ctx, k.inRedis(w.class)), p.PTTL(ctx, k.inRedis(w.class))
			return nil
		})
		return ignoreNil(err)
	})
	if err != nil {
		return n, left
	}
	if shared, err := count.Int(); err == nil && ttl.Val() > 0 && (shared > n || shared == n && ttl.Val() > left) {
		return shared, ttl.Val()
	}
	return n, left
}

// Add counts one occurrence of a key. It takes at most Config.Timeout and never fails.
func (w *Window) Add(ctx context.Context, key string) { w.AddMany(ctx, key, 1) }

// AddMany counts n occurrences of a key, at least 1, and returns how often the key has now occurred in its window. It
// takes at most Config.Timeout and never fails.
func (w *Window) AddMany(ctx context.Context, key string, n int) int {
	k := windowKey(sha256.Sum256([]byte(key)))
	local := w.addLocal(k, n)
	var shared *redis.IntCmd
	err := w.limiter.call(ctx, "window", func(ctx context.Context) error {
		_, err := w.limiter.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.SetArgs(ctx, k.inRedis(w.class), 0, redis.SetArgs{Mode: "NX", TTL: w.span})
			shared = p.IncrBy(ctx, k.inRedis(w.class), int64(n)) // keeps the TTL
			return nil
		})
		return ignoreNil(err)
	})
	if err != nil {
		return local // this node has counted it
	}
	return max(local, int(shared.Val()))
}

// countLocal is Count for this node alone.
func (w *Window) countLocal(k windowKey) (n int, left time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.local[k]
	if left = c.began + w.span - w.limiter.elapsed(); c.n == 0 || left <= 0 {
		return 0, 0
	}
	return c.n, left
}

// addLocal is AddMany for this node alone.
func (w *Window) addLocal(k windowKey, n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.limiter.elapsed()
	if now-w.sweptAt >= w.span {
		maps.DeleteFunc(w.local, func(_ windowKey, c localCount) bool { return now-c.began >= w.span })
		w.sweptAt = now
	}
	c, known := w.local[k]
	if !known && len(w.local) >= w.most {
		w.evictLocked()
	}
	if !known || now-c.began >= w.span {
		c = localCount{began: now}
	}
	c.n += n
	w.local[k] = c
	return c.n
}

// evictLocked removes, of a few keys in the map's random order, the one whose window ends first.
func (w *Window) evictLocked() {
	var victim windowKey
	sampled := 0
	for k, c := range w.local {
		if sampled == 0 || c.began < w.local[victim].began {
			victim = k
		}
		if sampled++; sampled == evictionSample {
			break
		}
	}
	delete(w.local, victim)
}
