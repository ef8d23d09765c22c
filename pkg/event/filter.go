package event

import (
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

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
