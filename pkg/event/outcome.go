package event

import (
	"errors"
	"fmt"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Outcome is a state that one delivery has reached, a record of the topic outcomes; the outcome with the highest
// Version is the current state. The outcome of an HTTP request carries the attempt.
//
// The tags are the field numbers of the wire format (protocol buffers encoding). A number is never reused for another
// field. A reader skips numbers that it does not know, so nodes of two versions read each other's records.
type Outcome struct {
	Event    id.ID     `wire:"1"`
	Account  string    `wire:"2"`
	Endpoint string    // the key of the record
	Dest     string    `wire:"3"`
	Type     string    `wire:"4"`
	Status   Status    `wire:"5,intern"`
	Reason   Reason    `wire:"6"`
	Code     int       `wire:"7"`                 // HTTP status of the attempt, 0 = none
	NextAt   time.Time `wire:"8"`                 // of the next attempt; zero = none
	At       time.Time `wire:"9"`                 // when the delivery reached this state
	Run      string    `wire:"10"`                // replay run or recovery job; empty for automatic attempts
	Attempt  *Attempt  `wire:"11,typicalAttempt"` // nil when no request was made
	// SkipReason is why the run skipped the delivery; empty when it did not. A skip restores the final Status and Reason
	// from before the run.
	SkipReason Reason `wire:"12"`
	// WasParked is set when the delivery was parked before; earlier outcomes then reported it as waiting.
	WasParked bool `wire:"13"`
	// Behind is the event for which a delivery of an ordered destination waits, with the reason Behind; empty: unknown.
	Behind string `wire:"14"`
}

// Record encodes the outcome; its key is the endpoint.
func (o *Outcome) Record() *stream.Record {
	size := outcomeOverhead + len(o.Account) + len(o.Dest) + len(o.Type) + len(o.Run)
	if a := o.Attempt; a != nil {
		size += attemptOverhead + len(a.ErrorMessage) + len(a.URL) + len(a.RequestHeader) + len(a.ResponseHeader) +
			len(a.ResponseBody) + len(a.Trace)
	}
	return &stream.Record{Key: []byte(o.Endpoint), Value: o.appendWire(make([]byte, 0, size))}
}

// Sizes for the initial capacity of Record's buffers, in bytes; a longer outcome costs a second allocation.
const (
	typicalAttempt  = 1536 // encoded; a buffer of this constant size stays on the stack
	outcomeOverhead = 128  // id, enum strings, numbers, tags and lengths
	attemptOverhead = 64   // the same of an attempt
)

// DecodeOutcome reads a record of the topic outcomes. Byte slices share the record's memory.
func DecodeOutcome(r *stream.Record) (*Outcome, error) {
	o := &Outcome{Endpoint: string(r.Key)}
	err := o.decodeWire(r.Value)
	if err == nil && (o.Event.IsZero() || o.Dest == "" || o.Status == "" || o.Endpoint == "") {
		err = errors.New("event, endpoint, destination or status is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("decode outcome: %w", err)
	}
	return o, nil
}
