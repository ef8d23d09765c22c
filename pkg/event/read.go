package event

import (
	"errors"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// What a read of the store can come to besides its rows.
var (
	ErrNotFound    = errors.New("event not found")
	ErrUnavailable = errors.New("store is unavailable")
	ErrOverloaded  = errors.New("store is overloaded")
)

// Page is one page of a list.
type Page struct {
	Rows []Summary
	More bool // another row was seen behind the last one
	// Partial says that a search ended before it came to the end or filled the page; it goes on below Edge.
	Partial      bool
	ResumeBefore id.ID
	Scanned      int       // rows that a search has looked at
	AsOf         time.Time // set when the store is behind: what was acknowledged later may be missing
}

// Summary is one row of a list, its status derived from the deliveries.
type Summary struct {
	ID            id.ID
	Account       string
	Endpoint      string
	Type          string
	Status        Status
	Reason        Reason // of the event, or of the delivery that decides its status
	DuplicateOf   string // evt_… of the event that it repeats; empty = none
	Attempts      int    // HTTP attempts of all destinations
	Source        Source
	Counts        Counts
	Processing    Processing
	Size          int
	LastAttemptAt time.Time
	NextAttemptAt time.Time
}

// Counts are deliveries by what became of them; skipped ones count in Total alone.
type Counts struct{ Total, Delivered, Failed, Pending int }

// OffsetQuery selects events of an endpoint by where their records stood in the topic events, for those who read on
// behind what the log has trimmed. What was rejected or repeats another event is not among them.
type OffsetQuery struct {
	Account, Endpoint string
	Partition         int32
	From, To          int64     // offsets [From, To)
	Since             time.Time // none of them is older
	Limit             int
	Bytes, MaxBody    int // of all bodies together, about, and of one: longer ones are left out
}

// OffsetPage is the next of them, by offset. When there are none, it says where to read on: at an offset below To, with
// a later Since, or at To when there are no more.
type OffsetPage struct {
	Rows  []EventAtOffset
	Next  int64
	Since time.Time
}

// EventAtOffset is an event with its offset in its partition.
type EventAtOffset struct {
	*Event
	Offset int64
	Size   int // of the body
}

// Detail is the single read.
type Detail struct {
	Summary
	Event             *Event
	Deliveries        []Delivery   // those that nothing is known of yet too, as pending
	Attempts          []AttemptRow // newest 200, oldest first, bodies cut to 1 KiB
	AttemptsTruncated bool
	Receipt           *Receipt
	AsOf              time.Time // as in Page
}

// AttemptPage is one page of the attempts of an event, newest first.
type AttemptPage struct {
	Rows []AttemptRow
	More bool      // another row was seen behind the last one
	AsOf time.Time // as in Page
}

// Delivery is the state of one event at one destination.
type Delivery struct {
	Destination   string
	Status        Status
	Reason        Reason
	Code          int // HTTP status of the last attempt
	Attempts      int
	LastAt        time.Time
	NextAttemptAt time.Time
	Run           string
}

// AttemptRow is one attempt as it is read.
type AttemptRow struct {
	Attempt
	Endpoint    string
	Destination string
	Number      int // from 1 per event and destination, over all triggers
	Run         string
	NextAt      time.Time
}

// Summarize derives status, reason and counts of an event from the newest state of each of its
// deliveries. Destinations named in the event without a delivery row are pending.
//
// Precedence: retrying, pending, failed, delivered, skipped. A held delivery makes the event pending. A
// rejected event is delivered nowhere until it is replayed, from then on its deliveries count alone. So is a
// duplicate or an event of a loop, which name no destinations; that it is one hides what an observing endpoint saw.
func Summarize(e *Event, ds []Delivery) (Status, Reason, Counts) {
	dests := e.Dests
	if e.Verdict == VerdictRejected {
		if len(ds) == 0 {
			return Rejected, e.Reason, Counts{}
		}
		dests = nil
	}
	observed := e.Verdict == VerdictObserved && e.Reason != Duplicate && e.Reason != DeliveryLoop
	var c Counts
	reasons := map[Status]Reason{}
	have := make(map[string]bool, len(ds))
	note := func(s Status, r Reason) {
		if _, ok := reasons[s]; !ok {
			reasons[s] = r
		}
		c.Total++
		switch s {
		case Delivered:
			c.Delivered++
		case Failed:
			c.Failed++
		case Pending, Retrying, Held:
			c.Pending++
		}
	}
	for _, d := range ds {
		have[d.Destination] = true
		note(d.Status, d.Reason)
	}
	for _, dest := range dests {
		if !have[dest] {
			note(Pending, Queued)
		}
	}
	for _, s := range []Status{Retrying, Held, Pending, Failed, Delivered, Skipped} {
		if r, ok := reasons[s]; ok {
			if s == Held {
				s = Pending
			}
			if r == "" && observed { // nothing else marks it
				r = e.Reason
			}
			return s, r, c
		}
	}
	if observed { // its reason is what the verification said
		return Skipped, NoDestination, c
	}
	return Skipped, e.Reason, c
}

// Of reports whether a list by the status has an event of that status with these deliveries: an event is never held,
// and listed by it when one of its deliveries is.
func (s Status) Matches(status Status, ds []Delivery) bool {
	return s == status || s == Held && slices.ContainsFunc(ds, func(d Delivery) bool { return d.Status == Held })
}

// CandidateFilter is what an event is found by that may be listed by a status: it shows one of them at least. Summarize
// decides.
type CandidateFilter struct {
	DeliveryStatuses []Status // the newest state of a delivery
	NoOutcome        bool     // nothing was said of the delivery to one of its destinations
	NoDestination    bool     // it names no destination
	Rejected         bool     // it was rejected
}

// CandidateFilter returns the conditions of the status.
func (s Status) CandidateFilter() CandidateFilter {
	signs := CandidateFilter{DeliveryStatuses: []Status{s}}
	switch s {
	case Pending:
		signs.DeliveryStatuses, signs.NoOutcome = append(signs.DeliveryStatuses, Held), true
	case Skipped:
		signs.NoDestination = true
	case Rejected:
		signs.Rejected = true
	}
	return signs
}

// Match is an event that matches a query, with what tells where it may go.
type Match struct {
	ID       id.ID
	Endpoint string
	Type     string
	Verdict  Verdict
	Reason   Reason // why it was rejected or skipped at accept; empty otherwise
	Size     int    // of its body, in bytes
}

// Stored is an event as it can be sent again, and the newest state of its deliveries.
type Stored struct {
	*Event
	Deliveries []Delivery // those that nothing is known of yet too, as pending
}
