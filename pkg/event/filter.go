package event

import (
	"time"

	"github.com/eventrelay/relay/pkg/id"
)

// Query selects events for a list, newest first. Empty members do not restrict; several values of one
// member are alternatives.
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
	Before       id.ID     // only older ids: the position of a cursor; zero on the first page
	Limit        int       // 1–100
}

// Search selects events by what they carry. Its members that are set all have to match; of the values of one, any.
type Search struct {
	Text   string // in body, headers or id, in any case
	Body   []BodyMatch
	Header []HeaderMatch
}

// BodyMatch compares the scalar at a path of a JSON body with texts, by its own text; numbers also by their value.
type BodyMatch struct{ Members, Values []string }

// HeaderMatch compares the values of a header; names do not distinguish case.
type HeaderMatch struct {
	Name   string
	Values []string
}

// Filter is a filter by values, of which an event has to have one.
type Filter struct {
	Name          string   // of the parameter of GET /v1/events, and of the member of a replay
	Aliases       []string // other names that it may be sent by
	AllowedValues []string // the values that there are; nil: any
	Prefix        bool     // a value that ends with ".*" stands for all that begin so
	Replay        bool     // POST /v1/replays selects by it too
	memberAccess
}

// values read and write the member of a Query that holds the values of a filter.
type memberAccess struct {
	Values func(*Query) []string
	Set    func(*Query, []string)
}

// Filters are all of them, in the order in which they are explained. The condition of each is in store/read/filters.go.
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
		Name: "source", AllowedValues: Convert[string](SourceProvider, SourceAPI, SourceTest),
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

// Convert converts words of one type to another.
func Convert[To, From ~string](words ...From) []To {
	out := make([]To, len(words))
	for i, w := range words {
		out[i] = To(w)
	}
	return out
}
