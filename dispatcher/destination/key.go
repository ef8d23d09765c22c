package destination

import (
	"net/http"
	"slices"

	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Key selects a value of an event, as a setting that kinds.Keys describes.
type Key struct {
	word     string // empty: selector
	selector event.DedupKey
}

// ParseKey parses the setting.
func ParseKey(text string) (k Key, err error) {
	if slices.Contains(kinds.Keys, text) {
		return Key{word: text}, nil
	}
	k.selector, err = event.ParseDedupKey(text)
	return k, err
}

// Of returns the value of an event with those headers, empty if it has none.
func (k Key) Of(m Message, header http.Header) string {
	ev := m.Work.Event
	switch k.word {
	case "event_id":
		return ev.ID.Text(id.Event)
	case "endpoint_id":
		return ev.Endpoint
	case "type":
		return ev.Type
	case "none":
		return ""
	}
	value, _ := k.selector.Of(header, m.Content.Body)
	return value
}
