package lane

import (
	"net/http"
	"slices"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// goneAfter different events in a row must be answered 410 until their destination is disabled.
const goneAfter = 3

// gone counts the 410s in a row of one destination. It is guarded by Lanes.mu.
type goneCounter struct {
	events []id.ID // different ones, goneAfter at most
	url    string  // where they were sent
}

// answered counts an answer and reports whether the destination has said often enough that it is gone. It goes
// on to say so with each 410. A request without an answer, code 0, neither adds nor ends.
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

// ForgetGone forgets the 410s of a destination that was disabled or changed: it begins anew.
func (ls *Lanes) ForgetGone(dest string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.byDest[dest]; l != nil {
		l.gone = goneCounter{}
	}
}
