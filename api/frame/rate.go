package frame

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
)

// class is a kind of request with its own rate limit.
type class uint8

const (
	classRead class = iota
	classWrite
	classSend
	classes // number of classes
)

// classNames are the names of the shared token buckets.
var classNames = [classes]string{"read", "write", "send"}

func (x *Route) rateClass(method string) class {
	switch {
	case method == http.MethodGet, x.Computes:
		return classRead
	case x.Sends:
		return classSend
	default:
		return classWrite
	}
}

// Limits holds a token bucket for each key and class of requests, shared by all nodes, with a burst of one second.
// left is how many requests this node would still allow at once.
type Limits interface {
	TakeSharedToken(class, key string, perSecond float64) (wait time.Duration, left float64)
}

// limitRate takes a token and sets the X-RateLimit headers, or returns the 429. Only valid keys and signed-in people
// get here, so there are at most as many buckets as keys and people.
func (rt *Router) limitRate(h http.Header, key *config.Key, c class) error {
	rate := rt.Rates[c]
	if rate == 0 {
		return nil
	}
	wait, left := rt.Limits.TakeSharedToken(classNames[c], key.ID, float64(rate))
	h.Set("X-RateLimit-Limit", strconv.Itoa(rate))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(int(max(left, 0))))
	// seconds until the bucket is full
	h.Set("X-RateLimit-Reset", strconv.Itoa(int(math.Ceil((float64(rate)-left)/float64(rate)))))
	if wait == 0 {
		return nil
	}
	who := "the API key"
	if isPerson(key) {
		who = "you"
	}
	return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: max(wait, time.Second),
		Message: who + " may make " + strconv.Itoa(rate) +
			" requests of this kind a second; wait as long as Retry-After says"}
}
