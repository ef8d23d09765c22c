package api

import (
	"math"
	"net/http"
	"strconv"
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

// classNames are those of the buckets that all nodes share.
var classNames = [classes]string{"read", "write", "send"}

func classOf(method, path string) class {
	switch {
	case method == http.MethodGet:
		return classRead
	case path == sendPath, path == batchPath:
		return classSend
	default:
		return classWrite
	}
}

// Limits gives each key a token bucket for each class of requests, with a second's worth at most, shared
// by all nodes. Left is what this node would still let through at once.
type Limits interface {
	TakeSharedToken(class, key string, perSecond float64) (wait time.Duration, left float64)
}

// allow takes one token and writes the X-RateLimit headers, or returns the 429. Only keys that exist get
// here, so there are no more buckets than keys.
func (rt *router) limitRate(h http.Header, key string, c class) error {
	rate := rt.rates[c]
	if rate == 0 {
		return nil
	}
	wait, left := rt.limits.TakeSharedToken(classNames[c], key, float64(rate))
	h.Set("X-RateLimit-Limit", strconv.Itoa(rate))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(int(max(left, 0))))
	// seconds until the bucket is full
	h.Set("X-RateLimit-Reset", strconv.Itoa(int(math.Ceil((float64(rate)-left)/float64(rate)))))
	if wait == 0 {
		return nil
	}
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: max(wait, time.Second),
		Message: "the key makes more than " + strconv.Itoa(rate) + " such requests a second"}
}
