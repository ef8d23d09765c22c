package read

import (
	"github.com/eventrelay/relay/pkg/id"
)

// eventText is the text of an event's id, empty for none.
func eventText(d id.ID) string {
	if d.IsZero() {
		return ""
	}
	return d.Text(id.Event)
}
