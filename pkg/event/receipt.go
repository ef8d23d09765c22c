package event

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Processing is the state of an event as its receiver reports it after the delivery.
type Processing string

// States of processing. ProcessingNone means that there is no receipt.
const (
	ProcessingNone    Processing = "none"
	ProcessingRunning Processing = "processing"
	ProcessingDone    Processing = "processed"
	ProcessingFailed  Processing = "failed"
)

// ProcessingMissing selects events that were delivered and have no receipt. It is a filter value, not a state.
const ProcessingMissing Processing = "missing"

// Receipt reports the processing of an event, a record of the topic receipts.
type Receipt struct {
	Event     id.ID
	Account   string
	Endpoint  string
	State     Processing
	Reference string
	Details   string // a JSON string or object, byte for byte as it was sent; empty = none
	At        time.Time
	// FirstAt is when the event got its first receipt. Only reads set it; it is not encoded.
	FirstAt time.Time
}

// processedBit is set in the version of a receipt with the state ProcessingDone.
const processedBit = 1 << 63

// Version orders the receipts of an event: the highest one is current. ProcessingDone is above all other states; among
// the other states, whichever they are, the later record is. offset is that of the receipt's record.
func (r *Receipt) Version(offset int64) uint64 {
	if r.State == ProcessingDone {
		return uint64(offset) | processedBit
	}
	return uint64(offset)
}

// ReceiptResult is the answer to a receipt: the event's current receipt right after it.
type ReceiptResult struct {
	Receipt
	// Applied is false when the event was already processed and the receipt has another state. Receipt is then the
	// earlier one, which stays current.
	Applied bool
}

// Field numbers of the wire format; see outcome.go.
const (
	rEvent = iota + 1
	rAccount
	rState
	rReference
	rDetails
	rAt
)

// Record encodes the receipt; its key is the endpoint.
func (r *Receipt) Record() *stream.Record {
	b := appendBytes(nil, rEvent, r.Event[:])
	b = appendString(b, rAccount, r.Account)
	b = appendString(b, rState, string(r.State))
	b = appendString(b, rReference, r.Reference)
	b = appendString(b, rDetails, r.Details)
	b = appendInt(b, rAt, unixMilli(r.At))
	return &stream.Record{Key: []byte(r.Endpoint), Value: b}
}

// DecodeReceipt reads a record of the topic receipts.
func DecodeReceipt(rec *stream.Record) (*Receipt, error) {
	r := &Receipt{Endpoint: string(rec.Key)}
	err := eachField(rec.Value, func(num protowire.Number, b []byte, n int64) error {
		switch num {
		case rEvent:
			return readID(&r.Event, b)
		case rAccount:
			r.Account = string(b)
		case rState:
			r.State = Processing(b)
		case rReference:
			r.Reference = string(b)
		case rDetails:
			r.Details = string(b)
		case rAt:
			r.At = fromMilli(n)
		}
		return nil
	})
	if err == nil && (r.Event.IsZero() || r.Endpoint == "" || r.State == "") {
		err = errors.New("event, endpoint or state is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("decode receipt: %w", err)
	}
	return r, nil
}
