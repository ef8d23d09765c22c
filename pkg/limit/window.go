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

// claimWindowScript counts an occurrence of KEYS[1] and returns 0, or returns for how many milliseconds the window
// still lasts when it has ARGV[1] occurrences already. A new window lasts for ARGV[2] milliseconds.
var claimWindowScript = redis.NewScript(
	`if tonumber(redis.call('GET', KEYS[1]) or '0') >= tonumber(ARGV[1]) then return redis.call('PTTL', KEYS[1]) end ` +
		`if redis.call('INCR', KEYS[1]) == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`)

// releaseWindowScript takes one occurrence off KEYS[1], unless its window has ended meanwhile.
var releaseWindowScript = redis.NewScript(
	`if tonumber(redis.call('GET', KEYS[1]) or '0') > 1 then return redis.call('DECR', KEYS[1]) end ` +
		`return redis.call('DEL', KEYS[1])`)

// Claim counts an occurrence of a key and returns 0; or, if its window has most occurrences already, it counts nothing
// and returns how long the window still lasts. Of calls at the same time, on any nodes, no more than most succeed. It
// takes at most Config.Timeout and never fails.
func (w *Window) Claim(ctx context.Context, key string, most int) (wait time.Duration) {
	k := windowKey(sha256.Sum256([]byte(key)))
	if wait = w.claimLocal(k, most); wait > 0 {
		return wait
	}
	var left int64
	err := w.limiter.call(ctx, "window", func(ctx context.Context) (err error) {
		left, err = claimWindowScript.Run(ctx, w.limiter.client, []string{k.inRedis(w.class)}, most,
			w.span.Milliseconds()).Int64()
		return err
	})
	if err != nil || left == 0 {
		return 0 // without Redis the node's own count decides
	}
	w.releaseLocal(k)
	return max(time.Duration(left)*time.Millisecond, time.Millisecond)
}

// Release takes back an occurrence that Claim has counted. It takes at most Config.Timeout. Best effort: where Redis
// does not answer, the occurrence counts until its window ends.
func (w *Window) Release(ctx context.Context, key string) {
	k := windowKey(sha256.Sum256([]byte(key)))
	w.releaseLocal(k)
	_ = w.limiter.call(ctx, "window", func(ctx context.Context) error {
		return releaseWindowScript.Run(ctx, w.limiter.client, []string{k.inRedis(w.class)}).Err()
	})
}

// AddMany counts n occurrences of a key, perhaps none, and returns how often the key has now occurred in its window. It
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

// claimLocal is Claim for this node alone.
func (w *Window) claimLocal(k windowKey, most int) (wait time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.openLocked(k)
	if c.n >= most {
		return c.began + w.span - w.limiter.elapsed()
	}
	c.n++
	w.local[k] = c
	return 0
}

// releaseLocal is Release for this node alone.
func (w *Window) releaseLocal(k windowKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.local[k]
	if c.n--; c.n <= 0 {
		delete(w.local, k)
		return
	}
	w.local[k] = c
}

// addLocal is AddMany for this node alone.
func (w *Window) addLocal(k windowKey, n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.openLocked(k)
	c.n += n
	w.local[k] = c
	return c.n
}

// openLocked returns the window of a key as it is now, and makes room for the key if it is new.
func (w *Window) openLocked(k windowKey) localCount {
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
		return localCount{began: now}
	}
	return c
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
