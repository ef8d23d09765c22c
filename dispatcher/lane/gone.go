package lane

import (
	"net/http"
	"slices"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// goneAfter different events in a row must be answered 410 (Gone) before their destination is disabled.
const goneAfter = 3

// goneCounter counts consecutive 410 answers of one destination. It is guarded by Lanes.mu.
type goneCounter struct {
	events []id.ID // different ones, at most goneAfter
	url    string  // to which they were sent
}

// recordAnswer counts an answer and reports whether the destination is gone: it returns true for each 410 from the
// third different event on. Code 0, a request without an answer, changes nothing.
func (g *goneCounter) recordAnswer(code int, work *event.Work, url string) bool {
	if code == 0 || code != http.StatusGone && len(g.events) == 0 {
		return false
	}
	if code != http.StatusGone || g.url != url {
		g.events, g.url = nil, url
	}
	if code == http.StatusGone && len(g.events) < goneAfter && !slices.Contains(g.events, work.Event.ID) {
		g.events = append(g.events, work.Event.ID)
	}
	return len(g.events) == goneAfter
}

// ForgetGone resets the count of 410 answers of a destination that was disabled or changed.
func (ls *Lanes) ForgetGone(dest string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byDest[dest]; l != nil {
		l.gone = goneCounter{}
	}
}
