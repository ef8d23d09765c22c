package frame

import (
	"net/http"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/web"
)

// Limits of the bodies that requests hold in memory, in bytes that have arrived: of this node, and of one key or
// person. Buffers grow by doubling, so they hold at most twice as much. The rate limit alone bounds nothing: a body may
// take half a minute to arrive, and HTTP/2 has hundreds of requests on one connection.
const (
	maxBodyBytes      = 512 << 20
	maxBodyBytesOfKey = maxBodyBytes / 4 // more than its batches need
	// uncountedBody is how much of each body is not counted. Most bodies are no larger.
	uncountedBody = 4 << 10
)

// bodyBudget bounds what the bodies of all requests hold.
type bodyBudget struct {
	most, mostOfKey int64

	mu   sync.Mutex // guards what follows
	all  int64
	keys map[string]int64
}

func newBodyBudget() *bodyBudget {
	return &bodyBudget{most: maxBodyBytes, mostOfKey: maxBodyBytesOfKey, keys: map[string]int64{}}
}

// Bound sets how many bytes the bodies of all requests hold, and those of one key.
func (b *bodyBudget) Bound(all, ofKey int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most, b.mostOfKey = all, ofKey
}

// Held returns how many bytes the bodies hold now, and one for each key that has any.
func (b *bodyBudget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all + int64(len(b.keys))
}

// track counts the body of a request of a key. keep is called with each part of it, and returns the 429 of the key or
// the 503 of the node. Call release when the request is answered.
func (b *bodyBudget) track(key string) (keep func(n int) error, release func()) {
	arrived, held := 0, int64(0)
	keep = func(n int) error {
		if arrived += n; arrived <= uncountedBody {
			return nil
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		held += int64(n)
		b.all += int64(n)
		b.keys[key] += int64(n)
		switch {
		case b.keys[key] > b.mostOfKey:
			return &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
				Message: "the bodies of the requests that this API key or person makes at the same time are too large " +
					"together; nothing was done, send fewer at once"}
		case b.all > b.most:
			return web.ServiceUnavailable(nil, "this node holds as many request bodies as it can; nothing was done, try again")
		}
		return nil
	}
	return keep, func() {
		if held == 0 {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.all -= held
		if b.keys[key] -= held; b.keys[key] == 0 {
			delete(b.keys, key)
		}
	}
}
