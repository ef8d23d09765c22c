package kinds

import (
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/event"
)

// Keys are the keys of records and groups of messages that are no selectors.
var Keys = []string{"event_id", "endpoint_id", "type", "none"}

func validateKey(name, key string) *Fault {
	if _, err := event.ParseDedupKey(key); err == nil || slices.Contains(Keys, key) {
		return nil
	}
	return &Fault{name, "must be one of " + strings.Join(Keys, ", ") + ", or a path such as body:$.data.id or " +
		"header:X-Shop"}
}
