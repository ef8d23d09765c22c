package event

import (
	"errors"
	"fmt"
	"time"

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
	Event     id.ID      `wire:"1"` // field numbers, as in Outcome
	Account   string     `wire:"2"`
	Endpoint  string     // the key of the record
	State     Processing `wire:"3"`
	Reference string     `wire:"4"`
	Details   string     `wire:"5"` // a JSON string or object, byte for byte as it was sent; empty = none
	At        time.Time  `wire:"6"`
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

// Record encodes the receipt; its key is the endpoint.
func (r *Receipt) Record() *stream.Record {
	return &stream.Record{Key: []byte(r.Endpoint), Value: r.appendWire(nil)}
}

// DecodeReceipt reads a record of the topic receipts.
func DecodeReceipt(rec *stream.Record) (*Receipt, error) {
	r := &Receipt{Endpoint: string(rec.Key)}
	err := r.decodeWire(rec.Value)
	if err == nil && (r.Event.IsZero() || r.Endpoint == "" || r.State == "") {
		err = errors.New("event, endpoint or state is missing")
	}
	if err != nil {
		return nil, fmt.Errorf("decode receipt: %w", err)
	}
	return r, nil
}
