package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// The functions below leave out zero values, as protocol buffers do.

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func appendString(b []byte, num protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func appendInt(b []byte, num protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(v))
}

// eachField calls f for each field of a message, with b for a bytes field and n for a varint. It skips other types.
func eachField(msg []byte, f func(num protowire.Number, b []byte, n int64) error) error {
	for len(msg) > 0 {
		num, typ, size := protowire.ConsumeTag(msg)
		if size < 0 {
			return protowire.ParseError(size)
		}
		msg = msg[size:]
		var b []byte
		var n uint64
		switch typ {
		case protowire.BytesType:
			b, size = protowire.ConsumeBytes(msg)
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(msg)
		default:
			size = protowire.ConsumeFieldValue(num, typ, msg)
		}
		if size < 0 {
			return protowire.ParseError(size)
		}
		msg = msg[size:]
		if typ != protowire.BytesType && typ != protowire.VarintType {
			continue
		}
		if err := f(num, b, int64(n)); err != nil {
			return fmt.Errorf("field %d: %w", num, err)
		}
	}
	return nil
}

func readID(d *id.ID, b []byte) error {
	if len(b) != len(d) {
		return errors.New("id is not 16 bytes long")
	}
	copy(d[:], b)
	return nil
}

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
