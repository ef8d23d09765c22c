package event

import (
	"encoding/json"
	"strings"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Salvaged is what can still be read of a record that Decode or DecodeWork refused.
type Salvaged struct {
	Event    id.ID
	Account  string
	Endpoint string
	Type     string
	Run      string
	Dests    []string // of the deliveries that the record stood for
	FromWork bool     // Run and Dests are those of a work item; otherwise it may have been any of the event's
}

// Salvage reads the remains. It reports false when they do not name a delivery: then nothing can be
// said about what became of it.
func Salvage(r *stream.Record) (Salvaged, bool) {
	s := Salvaged{Endpoint: string(r.Key)}
	for _, h := range r.Headers {
		switch v := string(h.Value); h.Key {
		case hID:
			if eventID, err := id.Parse(id.Event, v); err == nil {
				s.Event = eventID
			}
		case hAccount:
			s.Account = v
		case hType:
			s.Type = v
		case hDests:
			if s.Dests == nil {
				s.Dests = strings.Split(v, ",")
			}
		case hWork:
			var x workWire
			if json.Unmarshal(h.Value, &x) == nil && x.Dest != "" {
				s.Run, s.Dests, s.FromWork = x.Run, []string{x.Dest}, true
			}
		}
	}
	return s, !s.Event.IsZero() && s.Endpoint != "" && len(s.Dests) > 0
}
