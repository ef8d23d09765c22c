package read

import (
	"strings"

	"github.com/eventrelay/relay/pkg/id"
)

// findable reports whether a search may show an event: what was erased is found by its id alone.
func (w *walk) findable(c *candidate) bool {
	s := w.q.Search
	if s == nil || !w.r.erased(c.ID) {
		return true
	}
	return len(s.Body)+len(s.Header) == 0 && strings.Contains(c.ID.Text(id.Event), strings.ToLower(s.Text))
}
