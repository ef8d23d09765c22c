package event

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Outcome is a state that one delivery has reached, a record of the topic outcomes; the outcome with the highest
// Version is the current state. The outcome of an HTTP request carries the attempt.
type Outcome struct {
	Event    id.ID
	Account  string
	Endpoint string
	Dest     string
	Type     string
	Status   Status
	Reason   Reason
	Code     int       // HTTP status of the attempt, 0 = none
	NextAt   time.Time // of the next attempt; zero = none
	At       time.Time // when the delivery reached this state
	Run      string    // replay run or recovery job; empty for automatic attempts
	// SkipReason is why the run skipped the delivery; empty when it did not. A skip restores the final Status and Reason
	// from before the run.
	SkipReason Reason
	// WasParked is set when the delivery was parked before; earlier outcomes then reported it as waiting.
	WasParked bool
	Attempt   *Attempt // nil when no request was made
}

// Field numbers of the wire format (protocol buffers encoding). A number is never reused for another field. A reader
// skips numbers that it does not know, so nodes of two versions read each other's records.
const (
	oEvent = iota + 1
	oAccount
	oDest
	oType
	oStatus
	oReason
	oCode
	oNextAt
	oAt
	oRun
	oAttempt
	oSkipReason
	oWasParked
)

// Record encodes the outcome; its key is the endpoint.
func (o *Outcome) Record() *stream.Record {
	var attempt []byte
	if o.Attempt != nil {
		attempt = o.Attempt.append(make([]byte, 0, typicalAttempt))
	}
	b := make([]byte, 0, outcomeOverhead+len(o.Account)+len(o.Dest)+len(o.Type)+len(o.Run)+len(attempt))
	b = appendBytes(b, oEvent, o.Event[:])
	b = appendString(b, oAccount, o.Account)
	b = appendString(b, oDest, o.Dest)
	b = appendString(b, oType, o.Type)
	b = appendString(b, oStatus, string(o.Status))
	b = appendString(b, oReason, string(o.Reason))
	b = appendInt(b, oCode, int64(o.Code))
	b = appendInt(b, oNextAt, unixMilli(o.NextAt))
	b = appendInt(b, oAt, unixMilli(o.At))
	b = appendString(b, oRun, o.Run)
	b = appendBytes(b, oAttempt, attempt)
	b = appendString(b, oSkipReason, string(o.SkipReason))
	b = appendInt(b, oWasParked, int64(protowire.EncodeBool(o.WasParked)))
	return &stream.Record{Key: []byte(o.Endpoint), Value: b}
}

// Sizes for the initial capacity of Record's buffers, in bytes; a longer outcome costs a second allocation.
const (
	typicalAttempt  = 1536 // encoded; a buffer of this constant size stays on the stack
	outcomeOverhead = 128  // id, enum strings, numbers, tags and lengths
)

// DecodeOutcome reads a record of the topic outcomes. Byte slices share the record's memory.
func DecodeOutcome(r *stream.Record) (*Outcome, error) {
	o := &Outcome{Endpoint: string(r.Key)}
	err := eachField(r.Value, func(num protowire.Number, b []byte, n int64) error {
		switch num {
		case oEvent:
			return readID(&o.Event, b)
		case oAccount:
			o.Account = string(b)
		case oDest:
			o.Dest = string(b)
		case oType:
			o.Type = string(b)
		case oStatus:
			o.Status = statusOf(b)
		case oReason:
			o.Reason = Reason(b)
		case oCode:
			o.Code = int(n)
		case oNextAt:
			o.NextAt = fromMilli(n)
		case oAt:
			o.At = fromMilli(n)
		case oRun:
			o.Run = string(b)
		case oAttempt:
			o.Attempt = &Attempt{}
			return o.Attempt.decode(b)
		case oSkipReason:
			o.SkipReason = Reason(b)
		case oWasParked:
			o.WasParked = n != 0
		}
		return nil
	})
	if err == nil && (o.Event.IsZero() || o.Dest == "" || o.Status == "" || o.Endpoint == "") {
		err = errors.New("event, endpoint, destination or status is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("decode outcome: %w", err)
	}
	return o, nil
}
