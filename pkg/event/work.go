package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// Work is a work item: it asks for one attempt to deliver an event to one destination. It is a record of the topics
// commands and retry.* and carries the whole event.
type Work struct {
	Event *Event
	// Dest is the id of the destination.
	Dest string
	// Trigger of the attempt that this item asks for.
	Trigger Trigger
	// Attempt is the number of the attempt within its delivery and run, from 1.
	Attempt int
	// Due is the earliest time of the attempt.
	Due time.Time
	// Deadline is until when a circuit breaker may hold the delivery: then it fails, so that it can be recovered. Pauses,
	// limits and stops of the relay do not end it. Zero before the first failure: as long as the payload is kept.
	Deadline time.Time
	// Run is the replay run or recovery job that the item belongs to; empty for automatic attempts.
	Run string
	// Parked is why the delivery waits although no attempt failed (lane_full …); empty for a retry.
	Parked Reason
	// ParkedBy identifies the lane that parked the delivery, so that it recognises its own; 0 when it is not parked.
	ParkedBy uint32
	// ReportedNextAt is the time of the next attempt that was reported when the delivery was parked; zero = none.
	ReportedNextAt time.Time
	// OpenFor and OpenUntil are the state of the circuit breaker that was open when it parked the delivery. So the next
	// owner of the partition knows it. Zero: it was closed, or a version without them has parked the delivery.
	OpenFor   time.Duration
	OpenUntil time.Time
	// Prior and PriorReason are the final status that a skip within a run restores; empty = none.
	Prior       Status
	PriorReason Reason
	// FilterRev is the revision of the endpoint at which the destination's body filter was evaluated, 0 = never.
	// Filtered is the result: true when the filter excluded the event. So a parked delivery that is re-checked many
	// times does not evaluate its body each time.
	FilterRev int64
	Filtered  bool
	// Trace is the traceparent of the attempt before; empty: there was none, or it was not traced.
	Trace string
	Place Place
	// Behind is the event for which a parked delivery of an ordered destination waits, as it was reported; empty: none.
	Behind string
}

// Place is the place of a delivery among those of its destination that have an order. The zero value is none.
type Place struct {
	Slot     uint64 // of its key
	Position int64  // the event's offset in its partition of the topic events, plus 1
	// Blocks: the delivery has failed for good, and those after it wait until a person acts.
	Blocks bool
}

// WasParked reports whether the delivery was parked since its last attempt. One that waits because its node could not
// read the configuration has no Parked, only ReportedNextAt.
func (w *Work) WasParked() bool { return w.Parked != "" || !w.ReportedNextAt.IsZero() }

// workWire is the JSON of the header relay-work; times are unix milliseconds.
type workWire struct {
	V              int     `json:"v"`
	Dest           string  `json:"d"`
	Trigger        Trigger `json:"t"`
	Attempt        int     `json:"a"`
	Due            int64   `json:"due,omitempty"`
	Deadline       int64   `json:"end,omitempty"`
	Run            string  `json:"run,omitempty"`
	Parked         Reason  `json:"p,omitempty"`
	ParkedBy       uint32  `json:"pb,omitempty"`
	ReportedNextAt int64   `json:"pt,omitempty"`
	OpenFor        int64   `json:"bf,omitempty"` // milliseconds
	OpenUntil      int64   `json:"bu,omitempty"`
	Prior          Status  `json:"ps,omitempty"`
	PriorReason    Reason  `json:"pr,omitempty"`
	FilterRev      int64   `json:"fr,omitempty"`
	Filtered       bool    `json:"ff,omitempty"`
	Trace          string  `json:"tc,omitempty"`
	Slot           uint64  `json:"os,omitempty"`
	Position       int64   `json:"op,omitempty"`
	Blocks         bool    `json:"ob,omitempty"`
	Behind         string  `json:"oe,omitempty"`
}

func (w workWire) place() Place { return Place{w.Slot, w.Position, w.Blocks} }

// Record encodes the item. The body is not copied.
func (w *Work) Record() (*stream.Record, error) {
	b, err := json.Marshal(workWire{
		V: 1, Dest: w.Dest, Trigger: w.Trigger, Attempt: w.Attempt, Due: unixMilliUp(w.Due),
		Deadline: unixMilli(w.Deadline), Run: w.Run, Parked: w.Parked, ParkedBy: w.ParkedBy,
		ReportedNextAt: unixMilli(w.ReportedNextAt),
		OpenFor:        w.OpenFor.Milliseconds(), OpenUntil: unixMilli(w.OpenUntil),
		Prior: w.Prior, PriorReason: w.PriorReason, FilterRev: w.FilterRev, Filtered: w.Filtered,
		Trace: w.Trace, Slot: w.Place.Slot, Position: w.Place.Position, Blocks: w.Place.Blocks,
		Behind: w.Behind,
	})
	if err != nil {
		return nil, fmt.Errorf("encode work item: %w", err)
	}
	r := w.Event.Record()
	r.Headers = append(r.Headers, stream.Header{Key: hWork, Value: b})
	r.Timestamp = time.Time{} // the producer's or the broker's clock, not the event's
	return r, nil
}

// DecodeWork reads a record of commands or retry.*.
func DecodeWork(r *stream.Record) (*Work, error) {
	e, err := Decode(r)
	if err != nil {
		return nil, err
	}
	wire, err := decodeWorkHeader(r)
	if err != nil {
		return nil, err
	}
	return &Work{
		Event: e, Dest: wire.Dest, Trigger: wire.Trigger, Attempt: wire.Attempt, Due: fromMilli(wire.Due),
		Deadline: fromMilli(wire.Deadline), Run: wire.Run, Parked: wire.Parked, ParkedBy: wire.ParkedBy,
		ReportedNextAt: fromMilli(wire.ReportedNextAt),
		OpenFor:        time.Duration(wire.OpenFor) * time.Millisecond, OpenUntil: fromMilli(wire.OpenUntil),
		Prior: wire.Prior, PriorReason: wire.PriorReason,
		FilterRev: wire.FilterRev, Filtered: wire.Filtered, Trace: wire.Trace,
		Place: wire.place(), Behind: wire.Behind,
	}, nil
}

// decodeWorkHeader reads the header that makes an event record a work item. The last one counts, because Record appends
// it.
func decodeWorkHeader(r *stream.Record) (workWire, error) {
	var wire workWire
	for _, h := range slices.Backward(r.Headers) {
		if h.Key != hWork {
			continue
		}
		if err := json.Unmarshal(h.Value, &wire); err != nil {
			return wire, fmt.Errorf("decode work item: %w", err)
		}
		if wire.V != 1 || wire.Dest == "" || wire.Attempt < 1 {
			return wire, fmt.Errorf("decode work item: version %d, destination %q, attempt %d", wire.V, wire.Dest,
				wire.Attempt)
		}
		return wire, nil
	}
	return wire, errors.New("decode work item: header " + hWork + " is missing")
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// unixMilliUp rounds up, so that an attempt is never made before it is due.
func unixMilliUp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Add(time.Millisecond - 1).UnixMilli()
}

func fromMilli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
