package lane

import (
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

func TestGoneAfterThreeEventsInARow(t *testing.T) {
	var g goneCounter
	n := 0
	newID := func() id.ID { n++; return id.ID{15: byte(n)} }
	f := func(code int, e id.ID, url string, want bool) {
		t.Helper()
		if got := g.recordAnswer(code, &event.Work{Event: &event.Event{ID: e}}, url); got != want {
			t.Errorf("%d of %v at %s: %v", code, e, url, got)
		}
	}
	same := newID()
	f(200, newID(), "a", false)
	f(410, same, "a", false)
	f(410, newID(), "a", false)
	f(410, same, "a", false) // no third event
	f(0, newID(), "a", false)
	f(410, newID(), "a", true)
	f(410, same, "a", true) // again with each 410 until the destination is disabled
	f(410, newID(), "a", true)
	f(500, newID(), "a", false)
	f(410, newID(), "a", false)
	f(410, newID(), "a", false)
	f(410, newID(), "b", false) // another URL
	f(410, newID(), "b", false)
	f(410, newID(), "b", true)
	lt := newLaneTest(t, 100)
	lt.fill("d", 1)
	lt.byDest["d"].gone = g
	lt.ForgetGone("unknown")
	lt.ForgetGone("d")
	g = lt.byDest["d"].gone
	f(410, newID(), "b", false)
}
