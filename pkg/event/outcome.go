package event

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
)

// Outcome is a state that one delivery has reached, a record of the topic outcomes; the outcome with the highest
// Version is the current state. The outcome of a request carries the attempt.
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

// Produce is the method of an attempt that is a record of a Kafka topic.
const Produce = "PRODUCE"

// Attempt is one request of a delivery, with its answer; of a kind without HTTP, one call of its protocol. The tags are
// field numbers, as in [Outcome]; 14 and 15 were the headers as lists of name and value.
type Attempt struct {
	ID             id.ID         `wire:"1"`
	StartedAt      time.Time     `wire:"2"`
	Trigger        Trigger       `wire:"3,intern"`
	OK             bool          `wire:"4"`
	Code           int           `wire:"5"` // HTTP status, 0 = none
	ErrorCode      ErrorCode     `wire:"6"`
	ErrorMessage   string        `wire:"7"` // ≤ 500 bytes
	Duration       time.Duration `wire:"8,us"`
	TTFB           time.Duration `wire:"9,us"`
	RetryAfter     time.Duration `wire:"10,s"`
	RemoteIP       netip.Addr    `wire:"11"`
	URL            string        `wire:"12"` // without credentials
	Method         string        `wire:"13"`
	ResponseBody   []byte        `wire:"16"` // ≤ 16 KiB
	Truncated      bool          `wire:"17"`
	RequestHeader  Lines         `wire:"18"` // credentials masked
	ResponseHeader Lines         `wire:"19"`
	// TransformationVersion is the version of the transformation that made the body; 0: it was sent as it is stored.
	TransformationVersion int    `wire:"20"`
	Trace                 string `wire:"21"` // traceparent of its span, which the request carried; empty: it is not traced
}

// Version orders the outcomes of one delivery: the largest one is current. It is
// run_ms << 80 | rank << 64 | offset + 1, in two halves. The zero value is below every outcome.
//
// run_ms is the time inside the id of the run, run_… or rec_…. Automatic attempts have no run and count as 0, below
// every run. Within a run the rank puts delivered above failed and skipped, and these above open states. The 1
// separates the first outcome of a partition from a command, which has the offset -1.
//
// A delivered outcome uses the later of run_ms and the time of its delivery. Otherwise a delivery that succeeds
// automatically after a replay of the same event failed would stay failed for ever. That time is in the record, so
// reading the record again yields the same version.
type Version struct{ Hi, Lo uint64 }

// Ranks of a version. Delivered is the highest: within a run a delivered delivery stays delivered.
const (
	rankOpen uint64 = iota
	rankEnded
	rankDelivered
)

// Compare is negative when v is older than w.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Hi, w.Hi), cmp.Compare(v.Lo, w.Lo))
}

// Big returns the version as one number, the form that the store keeps.
func (v Version) Big() *big.Int {
	b := new(big.Int).SetUint64(v.Hi)
	return b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(v.Lo))
}

// VersionOf is the inverse of Big.
func VersionOf(b *big.Int) Version {
	lo := new(big.Int).And(b, new(big.Int).SetUint64(math.MaxUint64))
	return Version{Hi: new(big.Int).Rsh(b, 64).Uint64(), Lo: lo.Uint64()}
}

// Version returns the version of the outcome when its record has this offset in the topic outcomes.
func (o *Outcome) Version(offset int64) (Version, error) {
	return versionOf(o.Run, o.Status, o.At, offset)
}

// QueuedVersion returns the version of a run's command before it has an outcome: the lowest of its run.
func QueuedVersion(run string) (Version, error) { return versionOf(run, Pending, time.Time{}, -1) }

func versionOf(run string, status Status, at time.Time, offset int64) (Version, error) {
	var ms, rank uint64
	switch {
	case status == Delivered:
		rank, ms = rankDelivered, uint64(max(at.UnixMilli(), 0))
	case status.Terminal():
		rank = rankEnded
	}
	if run != "" {
		prefix, _, _ := strings.Cut(run, "_")
		r, err := id.Parse(prefix+"_", run)
		if err != nil {
			return Version{}, fmt.Errorf("read run %q: %w", run, err)
		}
		ms = max(ms, uint64(r.UnixMilli()))
	}
	return Version{Hi: ms<<16 | rank, Lo: uint64(offset + 1)}, nil
}
