package api

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/web"
)

// class is a kind of request with a rate of its own.
type class uint8

const (
	classRead class = iota
	classWrite
	classSend
	classes // how many there are
)

func classOf(method, path string) class {
	switch {
	case method == http.MethodGet:
		return classRead
	case path == sendPath:
		return classSend
	default:
		return classWrite
	}
}

// limiter gives each key a token bucket for each class: rate tokens a second, a second's worth at most.
// It counts on this node alone, so n nodes behind a balancer let through n times the rate at most.
//
// Only keys that exist get a bucket, so the map is as large as the list of keys.
type limiter struct {
	rates [classes]float64

	mu      sync.Mutex // guards buckets and what they hold
	buckets map[bucketKey]*bucket
}

type bucketKey struct {
	key   string
	class class
}

type bucket struct {
	tokens float64
	at     time.Time // when tokens was right
}

func newLimiter(cfg Config) limiter {
	return limiter{
		rates:   [classes]float64{float64(cfg.RateRead), float64(cfg.RateWrite), float64(cfg.RateSend)},
		buckets: map[bucketKey]*bucket{},
	}
}

// allow takes one token and writes the X-RateLimit headers, or returns the 429.
func (l *limiter) allow(h http.Header, key string, c class, now time.Time) error {
	rate := l.rates[c]
	if rate == 0 {
		return nil
	}
	ok, left := l.take(bucketKey{key, c}, rate, now)
	h.Set("X-RateLimit-Limit", strconv.Itoa(int(rate)))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(int(max(left, 0))))
	h.Set("X-RateLimit-Reset", strconv.Itoa(int(math.Ceil((rate-left)/rate)))) // seconds until the bucket is full
	if ok {
		return nil
	}
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
		Message: "the key makes more than " + strconv.Itoa(int(rate)) + " such requests a second"}
}

func (l *limiter) take(k bucketKey, rate float64, now time.Time) (ok bool, left float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[k]
	if b == nil {
		b = &bucket{tokens: rate, at: now}
		l.buckets[k] = b
	}
	passed := max(0, now.Sub(b.at).Seconds()) // a clock that steps back gives nothing
	b.tokens, b.at = min(rate, b.tokens+passed*rate), now
	if b.tokens < 1 {
		return false, b.tokens
	}
	b.tokens--
	return true, b.tokens
}
