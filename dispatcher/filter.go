package dispatcher

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
)

// Filters on types cost nothing and are evaluated whenever the configuration is asked. Those on bodies are evaluated
// when an event is read, for all of its destinations in one pass, and what came of it goes with the work into the
// retry topics. They are evaluated again only after the endpoint has changed, and then by a worker of the lane: what
// a destination that is slow or down makes come by again and again costs the reader and the timer nothing.

// maxConditions bounds the conditions of the endpoints whose filters are kept ready.
const maxConditions = 100_000

// bodyFilters are the filters on bodies of the endpoints whose events were read lately. Only the reader uses them.
type bodyFilters struct {
	evaluated  prometheus.Counter
	endpoints  map[string]readyFilters
	conditions int
}

type readyFilters struct {
	rev     int64
	filters *config.BodyFilters
}

// wantedBy says which destinations of an endpoint want the body of an event. The zero value says nothing.
type wantedBy struct {
	ep     *config.Endpoint
	wanted []bool // in the order of its destinations
}

// evaluate asks the filters of the event's endpoint about its body, unless there are none or this node does not know
// the endpoint yet.
func (b *bodyFilters) evaluate(view ConfigView, e *event.Event) wantedBy {
	ep, presence := view.Endpoint(e.Endpoint)
	onBody := func(d config.Destination) bool { return d.Filter.NeedsBody() }
	if presence != config.Present || !slices.ContainsFunc(ep.Destinations, onBody) {
		return wantedBy{}
	}
	b.evaluated.Inc()
	return wantedBy{ep, b.ready(ep).Match(e.Body)}
}

// ready returns the filters of the endpoint's present revision.
func (b *bodyFilters) ready(ep *config.Endpoint) *config.BodyFilters {
	have, ok := b.endpoints[ep.ID]
	if ok && have.rev == ep.Rev {
		return have.filters
	}
	made := ep.BodyFilters()
	if ok {
		b.conditions -= have.filters.Conditions()
	}
	if b.endpoints == nil || b.conditions+made.Conditions() > maxConditions {
		b.endpoints, b.conditions = make(map[string]readyFilters), 0
	}
	b.endpoints[ep.ID] = readyFilters{ep.Rev, made}
	b.conditions += made.Conditions()
	return made
}

// mark notes in the work what the filter of its destination says.
func (x wantedBy) mark(w *event.Work) {
	for i := range x.wanted {
		if d := &x.ep.Destinations[i]; d.ID == w.Dest && d.Filter.NeedsBody() {
			w.FilterRev, w.Filtered = x.ep.Rev, !x.wanted[i]
		}
	}
}
