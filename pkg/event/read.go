package event

import (
	"errors"
	"slices"
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// Errors of reads.
var (
	ErrNotFound    = errors.New("event not found")
	ErrUnavailable = errors.New("store is unavailable")
	ErrOverloaded  = errors.New("store is overloaded")
)

// Page is one page of a list.
type Page struct {
	Rows []Summary
	More bool // there is at least one more row
	// Partial means that a search ran out of time before it filled the page or reached the end. The next page continues
	// with ids below ResumeBefore.
	Partial      bool
	ResumeBefore id.ID
	Scanned      int       // rows that a search has read
	AsOf         time.Time // set when the store is behind: events acknowledged later may be missing
}

// Summary is one row of a list. Its status is derived from the deliveries.
type Summary struct {
	ID            id.ID
	Account       string
	Endpoint      string
	Type          string
	Status        Status
	Reason        Reason // of the event, or of the delivery that determines its status
	DuplicateOf   string // evt_… of the event that it repeats; empty = none
	Attempts      int    // HTTP attempts of all destinations
	Source        Source
	Proof         Proof
	Counts        Counts
	Processing    Processing
	Size          int
	LastAttemptAt time.Time
	NextAttemptAt time.Time
	// Deliveries has one delivery for each destination; one without an outcome is pending. Only Reader.Event counts their
	// attempts.
	Deliveries []Delivery
}

// Counts are the deliveries of an event by status. Pending includes retrying and held ones; skipped ones count in Total
// only.
type Counts struct{ Total, Delivered, Failed, Pending int }

// OffsetQuery selects events of an endpoint by the offsets of their records in the topic events. The feed uses it for
// offsets that the log has trimmed. Rejected events and duplicates are left out.
type OffsetQuery struct {
	Account, Endpoint string
	Partition         int32
	From, To          int64     // offsets [From, To)
	Since             time.Time // lower bound of their times
	Limit             int
	Bytes             int // approximate limit of all bodies together
	MaxBody           int // a body of more bytes is left out
}

// OffsetPage is one page of events in the order of their offsets. The query for the next page has From = Next and
// Since = Since of this page. The last page has Next = OffsetQuery.To. A page may be empty without being the last.
type OffsetPage struct {
	Rows  []AtOffset
	Next  int64
	Since time.Time
}

// AtOffset is an event with the offset of its record in its partition.
type AtOffset struct {
	*Event
	Offset int64
	Size   int // of the body
}

// Detail is everything about one event.
type Detail struct {
	Summary
	Event             *Event
	Attempts          []AttemptRow // the newest 200, oldest first, bodies cut to 1 KiB
	AttemptsTruncated bool
	Receipt           *Receipt
	AsOf              time.Time // as in Page
}

// AttemptPage is one page of the attempts of an event, newest first.
type AttemptPage struct {
	Rows []AttemptRow
	More bool      // there is at least one more row
	AsOf time.Time // as in Page
}

// Delivery is the state of one event at one destination.
type Delivery struct {
	Destination   string
	Status        Status
	Reason        Reason
	Code          int    // HTTP status of the last attempt
	Behind        string // for the reason Behind: the event for which it waits; empty if it is not known
	Attempts      int
	LastAt        time.Time
	NextAttemptAt time.Time
	Run           string
}

// AttemptRow is one attempt with the delivery that it belongs to.
type AttemptRow struct {
	Attempt
	Endpoint    string
	Destination string
	Number      int // counts from 1 per event and destination, over all triggers
	Run         string
	NextAt      time.Time
}

// Summarize derives status, reason and counts of an event from the newest state of each of its deliveries. A
// destination named in the event without a delivery row is pending.
//
// Precedence: retrying, pending, failed, delivered, skipped. A held delivery makes the event pending.
//
// A rejected event has no deliveries until it is replayed; from then on only the replayed deliveries count. The same is
// true of a duplicate and of an event in a loop, which name no destinations. Their reason takes precedence over the
// reason that an observing endpoint recorded.
func Summarize(e *Event, deliveries []Delivery) (Status, Reason, Counts) {
	dests := e.Dests
	if e.Verdict == VerdictRejected {
		if len(deliveries) == 0 {
			return Rejected, e.Reason, Counts{}
		}
		dests = nil
	}
	observed := e.Verdict == VerdictObserved && e.Reason != Duplicate && e.Reason != DeliveryLoop
	var c Counts
	reasons := map[Status]Reason{}
	have := make(map[string]bool, len(deliveries))
	count := func(s Status, r Reason) {
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
	for _, d := range deliveries {
		have[d.Destination] = true
		count(d.Status, d.Reason)
	}
	for _, dest := range dests {
		if !have[dest] {
			count(Pending, Queued)
		}
	}
	for _, s := range []Status{Retrying, Held, Pending, Failed, Delivered, Skipped} {
		if r, ok := reasons[s]; ok {
			if s == Held {
				s = Pending
			}
			if r == "" && observed { // the list shows the failed verification as the reason
				r = e.Reason
			}
			return s, r, c
		}
	}
	if observed { // e.Reason is the verification's
		return Skipped, NoDestination, c
	}
	return Skipped, e.Reason, c
}

// Matches reports whether the filter status s selects an event of that status with these deliveries. An event is never
// held: the filter held selects events with a held delivery.
func (s Status) Matches(status Status, deliveries []Delivery) bool {
	return s == status ||
		s == Held && slices.ContainsFunc(deliveries, func(d Delivery) bool { return d.Status == Held })
}

// CandidateFilter selects every event that may have a status, and possibly others: an event with the status fulfils at
// least one of the conditions. Summarize decides about each candidate.
type CandidateFilter struct {
	DeliveryStatuses []Status // a delivery has one of these as its newest state
	NoOutcome        bool     // a delivery to one of its destinations has no outcome
	NoDestination    bool     // it names no destination
	Rejected         bool     // it was rejected
}

// CandidateFilter returns the candidate filter of the status.
func (s Status) CandidateFilter() CandidateFilter {
	filter := CandidateFilter{DeliveryStatuses: []Status{s}}
	switch s {
	case Pending:
		filter.DeliveryStatuses, filter.NoOutcome = append(filter.DeliveryStatuses, Held), true
	case Skipped:
		filter.NoDestination = true
	case Rejected:
		filter.Rejected = true
	}
	return filter
}

// Match is an event that matches a query, with the fields that decide where a replay may send it.
type Match struct {
	ID       id.ID
	Endpoint string
	Type     string
	Verdict  Verdict
	Reason   Reason // why it was rejected or skipped at accept; empty otherwise
	Size     int    // of its body, in bytes
}

// Stored is a complete event, so that it can be sent again, with the newest state of its deliveries.
type Stored struct {
	*Event
	Deliveries []Delivery // a delivery without an outcome is pending
}

// Query selects events for a list, newest first. An event has to match every member that is set, by any one of its
// values.
type Query struct {
	Account      string
	Endpoints    []string
	Destinations []string
	Runs         []string
	Statuses     []Status
	Types        []string // exact, or a prefix followed by ".*"
	Sources      []Source
	Processing   []Processing
	Since, Until time.Time // [Since, Until)
	Search       *Search   // nil = none
	Before       id.ID     // position of a cursor: only events with a lower id; zero on the first page
	Limit        int       // 1–100
}

// Search selects events by their content. An event has to match every member that is set.
type Search struct {
	Text   string // in body, headers or id, in any case
	Body   []BodyMatch
	Header []HeaderMatch
}

// BodyMatch selects events by the scalar at a path of their JSON body. It matches when the scalar's text equals one of
// Values, or when both are numbers of the same value.
type BodyMatch struct{ Members, Values []string }

// HeaderMatch selects events that have a header line with this name, in any case, and one of Values.
type HeaderMatch struct {
	Name   string
	Values []string
}

// Filter describes one list filter: an event matches when it has one of the given values.
type Filter struct {
	Name          string   // parameter of GET /v1/events and member of POST /v1/replays
	Aliases       []string // other accepted names
	AllowedValues []string // nil: any value
	ListValues    []string // further values that lists take, and replays do not
	Prefix        bool     // a value that ends with ".*" matches every type with that prefix
	Replay        bool     // POST /v1/replays selects by it too
	memberAccess
}

// memberAccess reads and writes the member of a Query that holds the values of a filter.
type memberAccess struct {
	Values func(*Query) []string
	Set    func(*Query, []string)
}

// Filters are all list filters, in the order of the API description. store/read/filters.go has their SQL conditions.
var Filters = []Filter{
	{
		Name: "endpoint_id", Aliases: []string{"endpoint"}, Replay: true,
		memberAccess: accessTo(func(q *Query) *[]string { return &q.Endpoints }),
	},
	{Name: "destination_id", Replay: true, memberAccess: accessTo(func(q *Query) *[]string { return &q.Destinations })},
	{Name: "run_id", memberAccess: accessTo(func(q *Query) *[]string { return &q.Runs })},
	{
		Name: "status", Replay: true, AllowedValues: Convert[string](Pending, Retrying, Delivered, Failed, Skipped, Rejected),
		ListValues:   Convert[string](Held),
		memberAccess: accessTo(func(q *Query) *[]Status { return &q.Statuses }),
	},
	{Name: "type", Prefix: true, Replay: true, memberAccess: accessTo(func(q *Query) *[]string { return &q.Types })},
	{
		Name: "source", AllowedValues: Convert[string](SourceProvider, SourceAPI, SourceTest, SourceReconcile),
		memberAccess: accessTo(func(q *Query) *[]Source { return &q.Sources }),
	},
	{
		Name: "processing",
		AllowedValues: Convert[string](
			ProcessingNone, ProcessingRunning, ProcessingDone, ProcessingFailed, ProcessingMissing),
		memberAccess: accessTo(func(q *Query) *[]Processing { return &q.Processing }),
	},
}

func accessTo[T ~string](member func(*Query) *[]T) memberAccess {
	return memberAccess{
		Values: func(q *Query) []string { return Convert[string](*member(q)...) },
		Set:    func(q *Query, texts []string) { *member(q) = Convert[T](texts...) },
	}
}

// Convert converts a list of strings from one type to another.
func Convert[To, From ~string](values ...From) []To {
	out := make([]To, len(values))
	for i, v := range values {
		out[i] = To(v)
	}
	return out
}
