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
	endpoints  map[string]compiledFilters
	conditions int
}

type compiledFilters struct {
	rev     int64
	filters *config.BodyFilters
}

// bodyMatches says which destinations of an endpoint want the body of an event. The zero value says nothing.
type bodyMatches struct {
	endpoint *config.Endpoint
	matches  []bool // in the order of its destinations
}

// evaluate asks the filters of the event's endpoint about its body, unless there are none or this node does not know
// the endpoint yet.
func (b *bodyFilters) evaluate(view ConfigView, ev *event.Event) bodyMatches {
	ep, presence := view.Endpoint(ev.Endpoint)
	onBody := func(d config.Destination) bool { return d.Filter.NeedsBody() }
	if presence != config.Present || !slices.ContainsFunc(ep.Destinations, onBody) {
		return bodyMatches{}
	}
	b.evaluated.Inc()
	return bodyMatches{ep, b.compiled(ep).Match(ev.Body)}
}

// ready returns the filters of the endpoint's present revision.
func (b *bodyFilters) compiled(ep *config.Endpoint) *config.BodyFilters {
	have, ok := b.endpoints[ep.ID]
	if ok && have.rev == ep.Rev {
		return have.filters
	}
	made := ep.BodyFilters()
	if ok {
		b.conditions -= have.filters.Conditions()
	}
	if b.endpoints == nil || b.conditions+made.Conditions() > maxConditions {
		b.endpoints, b.conditions = make(map[string]compiledFilters), 0
	}
	b.endpoints[ep.ID] = compiledFilters{ep.Rev, made}
	b.conditions += made.Conditions()
	return made
}

// mark notes in the work what the filter of its destination says.
func (x bodyMatches) setFiltered(work *event.Work) {
	for i := range x.matches {
		if d := &x.endpoint.Destinations[i]; d.ID == work.Dest && d.Filter.NeedsBody() {
			work.FilterRev, work.Filtered = x.endpoint.Rev, !x.matches[i]
		}
	}
}
