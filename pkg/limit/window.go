package limit

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/netip"
	"strings"
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

// Limits of attempts to sign in.
const (
	maxSignIns       = 5  // with one email address from one client address
	maxClientSignIns = 20 // from one client address, with whatever email addresses
	signInSpan       = time.Minute
)

// SignIns limits attempts to sign in that did not succeed, per minute: five with one email address from one client
// address, and twenty from one client address with any email addresses, known or not. So one client makes a node hash
// at most twenty wrong passwords a minute, which take less than a second of the places for hashes: it cannot keep
// others from signing in. Addresses of one IPv6 network (/64) count as one, because a client has all of them.
//
// Whoever has many addresses is not bounded by this: n of them try 5n passwords of a person in a minute, and no more
// than all nodes can hash (see maxHashes in pkg/config). There is no limit per person across addresses: with one,
// anybody could keep a person out.
type SignIns struct{ pairs, clients *Window }

// NewSignIns returns a SignIns that all nodes share through Redis.
func (l *Limiter) NewSignIns() *SignIns {
	return &SignIns{l.NewWindow("sign-in", signInSpan), l.NewWindow("sign-in-client", signInSpan)}
}

// Claim counts an attempt to sign in with that email address from that client. Claim before the password is verified:
// then attempts at the same time cannot be more than the limit. It returns 0, or for how long such attempts are
// refused; then it has counted nothing. It takes at most three times Config.Timeout.
func (s *SignIns) Claim(ctx context.Context, email string, from netip.Addr) (wait time.Duration) {
	ctx = context.WithoutCancel(ctx) // a client that hangs up is counted all the same
	client := networkOf(from)
	// The client comes first: it adds no more pairs than it may try.
	if wait = s.clients.Claim(ctx, client, maxClientSignIns); wait > 0 {
		return wait
	}
	if wait = s.pairs.Claim(ctx, pairKey(email, client), maxSignIns); wait > 0 {
		s.clients.Release(ctx, client)
	}
	return wait
}

// Release takes back an attempt that Claim has counted: the password was right, or was not verified. It takes at most
// twice Config.Timeout.
func (s *SignIns) Release(ctx context.Context, email string, from netip.Addr) {
	ctx = context.WithoutCancel(ctx)
	client := networkOf(from)
	s.pairs.Release(ctx, pairKey(email, client))
	s.clients.Release(ctx, client)
}

// networkOf returns the address of a client, or its IPv6 network (/64).
func networkOf(from netip.Addr) string {
	from = from.Unmap()
	if from.Is6() {
		if p, err := from.WithZone("").Prefix(64); err == nil {
			return p.String()
		}
	}
	return from.String()
}

// pairKey returns the key of an email address and a client. Every spelling of an address that signs in the same user
// gives the same key.
func pairKey(email, client string) string {
	return client + " " + strings.ToLower(strings.TrimSpace(email))
}
