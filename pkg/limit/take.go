package limit

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// tick is how often Run looks at what has changed.
	tick = 50 * time.Millisecond
	// shardCount divides the lock of the table; a power of two.
	shardCount = 64
)

// bucketKey names a bucket: a class of its own for each use of the same key.
type bucketKey struct{ class, key string }

// table holds the buckets.
type table struct {
	seed     maphash.Seed
	perShard int
	shards   [shardCount]shard
}

type shard struct {
	mu      sync.RWMutex // guards buckets
	buckets map[bucketKey]*bucket
}

// Take asks for one token of the bucket of a key that one node owns at a time. 0: it was taken. Otherwise
// nothing was taken, and the result is the wait until one is likely there. It does no I/O and never fails.
// A rate of 0 is no limit; a burst below 1 is 1.
func (l *Limiter) Take(key string, perSecond float64, burst int) time.Duration {
	wait, _ := l.take(bucketKey{"", key}, perSecond, float64(max(burst, 1)))
	return wait
}

// TakeShared is Take for a key that is used on all nodes at once, with a burst of one second's worth. It
// also tells what is left in this node's sight.
func (l *Limiter) TakeShared(class, key string, perSecond float64) (wait time.Duration, left float64) {
	return l.take(bucketKey{class, key}, perSecond, max(perSecond, 1))
}

func (l *Limiter) take(k bucketKey, rate, burst float64) (time.Duration, float64) {
	if !(rate > 0) {
		return 0, burst
	}
	return l.buckets.get(k, l, rate, burst).take(l.elapsed(), rate, burst)
}

func (t *table) init(most int) {
	t.seed, t.perShard = maphash.MakeSeed(), most/shardCount
	for i := range t.shards {
		t.shards[i].buckets = map[bucketKey]*bucket{}
	}
}

// get finds or makes the bucket of a key.
func (t *table) get(k bucketKey, l *Limiter, rate, burst float64) *bucket {
	s := &t.shards[maphash.String(t.seed, k.key)%shardCount]
	s.mu.RLock()
	b := s.buckets[k]
	s.mu.RUnlock()
	if b != nil {
		return b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b = s.buckets[k]; b == nil {
		b = &bucket{rate: rate, burst: burst, level: burst, at: l.elapsed()}
		s.buckets[k] = b
	}
	return b
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
