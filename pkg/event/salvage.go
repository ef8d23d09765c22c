package event

import (
	"encoding/json"
	"strings"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Salvaged is what can still be read of a record that Decode or DecodeWork cannot decode.
type Salvaged struct {
	Event    id.ID
	Account  string
	Endpoint string
	Type     string
	Run      string
	Dests    []string // destinations of the record's deliveries
	FromWork bool     // the record is a work item: Run and Dests name its one delivery; otherwise Dests are the event's
}

// Salvage reads the event, the destinations and the run of an undecodable record, so that its deliveries can be
// reported as failed. It returns false when the record does not name a delivery.
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
			var wire workWire
			if json.Unmarshal(h.Value, &wire) == nil && wire.Dest != "" {
				s.Run, s.Dests, s.FromWork = wire.Run, []string{wire.Dest}, true
			}
		}
	}
	return s, !s.Event.IsZero() && s.Endpoint != "" && len(s.Dests) > 0
}
