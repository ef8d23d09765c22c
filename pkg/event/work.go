package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/stream"
)

// Work asks for one delivery of an event to one destination. It is a record of the topics commands
// and retry.* and carries the whole event.
type Work struct {
	Event *Event
	// Dest is the destination.
	Dest string
	// Trigger of the attempt that this item asks for.
	Trigger Trigger
	// Attempt is the number of the attempt within its chain, from 1.
	Attempt int
	// Due is when the attempt may be made; never earlier.
	Due time.Time
	// Deadline ends the chain: at or after it the delivery fails.
	Deadline time.Time
	// Run is the replay run or recovery job that the chain belongs to; empty for the automatic chain.
	Run string
	// Parked is why the item waits although no attempt failed (lane_full …); empty for a retry.
	Parked Reason
	// ParkedBy marks who parked it, so that the same one can tell that it is back; 0 when it is not parked.
	ParkedBy uint32
	// Told is the time that was told for its next attempt when it was parked; zero when none was.
	ReportedNextAt time.Time
	// Prior is the final status, and its reason, that a skip inside a run restores; empty when there is none.
	Prior       Status
	PriorReason Reason
	// FilterRev is the revision of the endpoint at which the destination's conditions on the body were evaluated, and
	// Filtered is whether they refused it: work that comes by again and again does not read its body each time. 0 when
	// they were not evaluated.
	FilterRev int64
	Filtered  bool
}

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
	Prior          Status  `json:"ps,omitempty"`
	PriorReason    Reason  `json:"pr,omitempty"`
	FilterRev      int64   `json:"fr,omitempty"`
	Filtered       bool    `json:"ff,omitempty"`
}

// Record encodes the item. The body is not copied.
func (w *Work) Record() (*stream.Record, error) {
	b, err := json.Marshal(workWire{
		V: 1, Dest: w.Dest, Trigger: w.Trigger, Attempt: w.Attempt, Due: unixMilliUp(w.Due),
		Deadline: unixMilli(w.Deadline), Run: w.Run, Parked: w.Parked, ParkedBy: w.ParkedBy,
		ReportedNextAt: unixMilli(w.ReportedNextAt),
		Prior:          w.Prior, PriorReason: w.PriorReason, FilterRev: w.FilterRev, Filtered: w.Filtered,
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
	x, err := decodeWorkHeader(r)
	if err != nil {
		return nil, err
	}
	return &Work{
		Event: e, Dest: x.Dest, Trigger: x.Trigger, Attempt: x.Attempt, Due: fromMilli(x.Due),
		Deadline: fromMilli(x.Deadline), Run: x.Run, Parked: x.Parked, ParkedBy: x.ParkedBy,
		ReportedNextAt: fromMilli(x.ReportedNextAt),
		Prior:          x.Prior, PriorReason: x.PriorReason, FilterRev: x.FilterRev, Filtered: x.Filtered,
	}, nil
}

// decodeWorkHeader reads the header that makes an event record a work item. The last one counts: it is ours,
// whatever stood in the record before.
func decodeWorkHeader(r *stream.Record) (workWire, error) {
	var x workWire
	for _, h := range slices.Backward(r.Headers) {
		if h.Key != hWork {
			continue
		}
		if err := json.Unmarshal(h.Value, &x); err != nil {
			return x, fmt.Errorf("decode work item: %w", err)
		}
		if x.V != 1 || x.Dest == "" || x.Attempt < 1 {
			return x, fmt.Errorf("decode work item: version %d, destination %q, attempt %d", x.V, x.Dest, x.Attempt)
		}
		return x, nil
	}
	return x, errors.New("decode work item: header " + hWork + " is missing")
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// unixMilliUp rounds up, so that work is never done before it is due.
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
