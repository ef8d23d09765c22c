package lane

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/eventrelay/relay/pkg/id"
)

// goneAfter different events in a row must be answered 410 until their destination is disabled.
const goneAfter = 3

// Gone counts the 410s in a row of one destination.
type Gone struct {
	some atomic.Bool // events is not empty; spares the lock while all is well

	mu     sync.Mutex // guards the rest
	events []id.ID    // different ones, goneAfter at most
	url    string     // where they were sent
}

// Note notes an answer and reports whether the destination has said often enough that it is gone. It goes
// on to say so with each 410. A request without an answer, code 0, neither adds nor ends.
func (g *Gone) Note(code int, e id.ID, url string) bool {
	if code == 0 || code != http.StatusGone && !g.some.Load() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if code != http.StatusGone || g.url != url {
		g.events, g.url = nil, url
	}
	if code == http.StatusGone && len(g.events) < goneAfter && !slices.Contains(g.events, e) {
		g.events = append(g.events, e)
	}
	g.some.Store(len(g.events) > 0)
	return len(g.events) == goneAfter
}

// Reset forgets what was counted, when the destination is disabled: enabled again it begins anew.
func (g *Gone) Reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events = nil
	g.some.Store(false)
}
