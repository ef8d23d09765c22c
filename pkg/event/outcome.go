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

func (o *Outcome) fields(c *codec) {
	c.id(1, &o.Event)
	text(c, 2, &o.Account)
	text(c, 3, &o.Dest)
	text(c, 4, &o.Type)
	c.status(5, &o.Status)
	text(c, 6, &o.Reason)
	c.int(7, &o.Code)
	c.time(8, &o.NextAt)
	c.time(9, &o.At)
	text(c, 10, &o.Run)
	c.attempt(11, &o.Attempt)
	text(c, 12, &o.SkipReason)
	c.bool(13, &o.WasParked)
}

// Record encodes the outcome; its key is the endpoint.
func (o *Outcome) Record() *stream.Record {
	size := outcomeOverhead + len(o.Account) + len(o.Dest) + len(o.Type) + len(o.Run)
	if a := o.Attempt; a != nil {
		size += attemptOverhead + len(a.ErrorMessage) + len(a.URL) + len(a.RequestHeader) + len(a.ResponseHeader) +
			len(a.ResponseBody) + len(a.Trace)
	}
	c := codec{writing: true, out: make([]byte, 0, size)}
	o.fields(&c)
	return &stream.Record{Key: []byte(o.Endpoint), Value: c.out}
}

// Sizes for the initial capacity of Record's buffer, in bytes: ids, enum strings, numbers, tags and lengths. A longer
// outcome costs a second allocation.
const outcomeOverhead, attemptOverhead = 128, 96

// DecodeOutcome reads a record of the topic outcomes. Byte slices share the record's memory.
func DecodeOutcome(r *stream.Record) (*Outcome, error) {
	o := &Outcome{Endpoint: string(r.Key)}
	var c codec
	c.read(r.Value)
	o.fields(&c)
	err := c.err
	if err == nil && (o.Event.IsZero() || o.Dest == "" || o.Status == "" || o.Endpoint == "") {
		err = errIncomplete
	}
	if err != nil {
		return nil, fmt.Errorf("decode outcome: %w", err)
	}
	return o, nil
}

var errIncomplete = errors.New("event, endpoint, destination or status is missing")
