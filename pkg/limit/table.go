package limit

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// shardCount divides the lock of the table; a power of two.
	shardCount = 64
	// removeAfter is how long a bucket that rests stays in memory.
	removeAfter = time.Minute
	// evictionSample is how many buckets of a full shard are compared to find one that was not used for long.
	evictionSample = 5
)

// bucketKey names a bucket: a class of its own for each use of the same key.
type bucketKey struct{ class, key string }

// inRedis is the name in the keys of Redis.
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
	nextSweep int // the shard that is swept next; only Run
	evicted   atomic.Int64

	mu          sync.Mutex // guards fresh
	newlyActive []*bucket  // have become active since the last round
}

type shard struct {
	mu      sync.RWMutex // guards buckets
	buckets map[bucketKey]*bucket
}

func (t *table) init(most int) {
	t.seed, t.perShard = maphash.MakeSeed(), most/shardCount
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

// getOrCreate makes the bucket of a key, unless another has made it meanwhile.
func (t *table) getOrCreate(k bucketKey, now time.Duration, rate, burst, first float64) *bucket {
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
	b = &bucket{key: k.inRedis(), rate: rate, burst: burst, level: first, initialLevel: first, levelAt: now, createdAt: now, lastTake: now}
	s.buckets[k] = b
	return b
}

// evictLocked makes room: of a few buckets, taken at random as maps do, the one that was not used longest.
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

// enlist adds a bucket to those that the next round looks at.
func (t *table) enlist(b *bucket) {
	t.mu.Lock()
	t.newlyActive = append(t.newlyActive, b)
	t.mu.Unlock()
}

// appendNewlyActive appends what has become active since the last call.
func (t *table) appendNewlyActive(active []*bucket) []*bucket {
	t.mu.Lock()
	defer t.mu.Unlock()
	active = append(active, t.newlyActive...)
	clear(t.newlyActive)
	t.newlyActive = t.newlyActive[:0]
	return active
}

// sweep forgets the buckets of one shard that are full and have rested for a minute. While this node limits
// for itself it keeps them, up to half of the bound: nobody else knows that they are full.
func (t *table) sweep(now time.Duration, alone bool) {
	s := &t.shards[t.nextSweep]
	t.nextSweep = (t.nextSweep + 1) % shardCount
	s.mu.Lock()
	defer s.mu.Unlock()
	if alone && len(s.buckets) <= t.perShard/2 {
		return
	}
	for k, b := range s.buckets {
		b.mu.Lock()
		forget := !b.active && now-b.lastTake >= removeAfter && now-b.levelAt >= b.untilFullLocked()
		b.mu.Unlock()
		if forget {
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
