package jobs

import (
	"strings"

	"github.com/eventrelay/relay/dashboard/frame"
)

// jobList is a FilteredList of jobs of endpoints, such as replays, with the choices of its filters.
type jobList[T any] struct {
	*frame.FilteredList[T]
	frame.EndpointChoices
	States []frame.Option
}

// jobFilters are the filters of a jobList.
var jobFilters = []string{"state", "endpoint_id"}

// listJobs reads a page of the list /v1/NAME, which is shown at /app/NAME. states are the choices of the filter of
// states.
func listJobs[T any](v *frame.Visit, name string, states []string) (l *jobList[T], err error) {
	l = &jobList[T]{}
	if l.FilteredList, err = frame.ListRows[T](v, "/v1/"+name, "/app/"+name, jobFilters); err != nil {
		return nil, err
	}
	l.EndpointChoices = frame.NewEndpointChoices(v, l.Filters.Value("endpoint_id"))
	l.CSV = frame.CSVLink(name, l.Filters.Values)
	for _, s := range states {
		l.States = append(l.States, frame.Option{Value: s, Text: strings.ReplaceAll(s, "_", " ")})
	}
	return l, nil
}
