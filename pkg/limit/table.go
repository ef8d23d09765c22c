package limit

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// shardCount is the number of shards, each with a lock of its own.
	shardCount = 64
	// removeAfter is how long a full, unused bucket stays in memory.
	removeAfter = time.Minute
	// evictionSample is how many buckets of a full shard are compared to find one that was not used for long.
	evictionSample = 5
)

// bucketKey names a bucket. class separates different uses of the same key.
type bucketKey struct{ class, key string }

// inRedis returns the part of the Redis keys that names the bucket.
func (k bucketKey) inRedis() string {
	if k.class == "" {
		return k.key
	}
	return k.class + ":" + k.key
}

// table holds the buckets.
type table struct {
	seed      maphash.Seed
	perShard  int
	shards    [shardCount]shard
	nextSweep int // the next shard to sweep; used by Run alone
	evicted   atomic.Int64

	mu          sync.Mutex // guards newlyActive
	newlyActive []*bucket  // since the last round
}

type shard struct {
	mu      sync.RWMutex // guards buckets
	buckets map[bucketKey]*bucket
}

func (t *table) init(maxBuckets int) {
	t.seed, t.perShard = maphash.MakeSeed(), maxBuckets/shardCount
	for i := range t.shards {
		t.shards[i].buckets = map[bucketKey]*bucket{}
	}
}

func (t *table) shard(k bucketKey) *shard { return &t.shards[maphash.String(t.seed, k.key)%shardCount] }

func (t *table) find(k bucketKey) *bucket {
	s := t.shard(k)
	s.mu.RLock()
	b := s.buckets[k]
	s.mu.RUnlock()
	return b
}

// getOrCreate returns the bucket of a key. If there is none, it creates one with the initial level.
func (t *table) getOrCreate(k bucketKey, now time.Duration, rate, burst, initial float64) *bucket {
	s := t.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[k]
	if b != nil {
		return b
	}
	if len(s.buckets) >= t.perShard {
		s.evictLocked()
		t.evicted.Add(1)
	}
	b = &bucket{key: k.inRedis(), rate: rate, burst: burst, level: initial, initialLevel: initial, levelAt: now,
		createdAt: now, lastTake: now}
	s.buckets[k] = b
	return b
}

// evictLocked removes, of a few buckets in the map's random order, the one that was not used for the longest time.
func (s *shard) evictLocked() {
	var victim bucketKey
	oldest, n := time.Duration(0), 0
	for k, b := range s.buckets {
		b.mu.Lock()
		taken := b.lastTake
		b.mu.Unlock()
		if n == 0 || taken < oldest {
			victim, oldest = k, taken
		}
		if n++; n == evictionSample {
			break
		}
	}
	delete(s.buckets, victim)
}

// enlist makes the next round visit a bucket.
func (t *table) enlist(b *bucket) {
	t.mu.Lock()
	t.newlyActive = append(t.newlyActive, b)
	t.mu.Unlock()
}

// appendNewlyActive appends the buckets that have become active since the last call.
func (t *table) appendNewlyActive(active []*bucket) []*bucket {
	t.mu.Lock()
	defer t.mu.Unlock()
	active = append(active, t.newlyActive...)
	clear(t.newlyActive)
	t.newlyActive = t.newlyActive[:0]
	return active
}

// sweep removes the buckets of one shard that are full and unused for a minute. While this node limits for itself,
// it keeps them up to half of the bound: a new bucket for the same key would begin with fewer tokens.
func (t *table) sweep(now time.Duration, limitsAlone bool) {
	s := &t.shards[t.nextSweep]
	t.nextSweep = (t.nextSweep + 1) % shardCount
	s.mu.Lock()
	defer s.mu.Unlock()
	if limitsAlone && len(s.buckets) <= t.perShard/2 {
		return
	}
	for k, b := range s.buckets {
		b.mu.Lock()
		remove := !b.active && now-b.lastTake >= removeAfter && now-b.levelAt >= b.untilFullLocked()
		b.mu.Unlock()
		if remove {
			delete(s.buckets, k)
		}
	}
}

func (t *table) len() int {
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		n += len(s.buckets)
		s.mu.RUnlock()
	}
	return n
}
