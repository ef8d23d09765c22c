package dispatcher

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
)

// Filters on the event type cost nothing and are evaluated with each configuration check. Filters on the body are
// evaluated when an event is read, for all of its destinations in one pass. The result travels with the delivery
// through the retry topics. It is evaluated again only after the endpoint has changed, and then by a worker of the
// lane. So re-checks of a slow destination cost the reader and the timer nothing.

// maxConditions bounds the conditions of all compiled filters in the cache.
const maxConditions = 100_000

// bodyFilters caches the compiled body filters of endpoints. Only the reader uses it.
type bodyFilters struct {
	evaluated  prometheus.Counter
	endpoints  map[string]compiledFilters
	conditions int
}

// compiledFilters are the filters of one revision of an endpoint.
type compiledFilters struct {
	rev     int64
	filters *filter.BodyFilters
}

// bodyMatches says for each destination of an endpoint whether its filter matches the body of an event. Without matches
// it says nothing.
type bodyMatches struct {
	endpoint *config.Endpoint // nil: this node does not know it
	matches  []bool           // in the order of endpoint.Destinations
}

// evaluate evaluates the filters of the endpoint for the body of the event. Without such filters, or while this node
// does not know the endpoint, it returns no matches.
func (b *bodyFilters) evaluate(view ConfigView, ev *event.Event) bodyMatches {
	endpoint, presence := view.Endpoint(ev.Endpoint)
	onBody := func(d config.Destination) bool { return d.Filter.NeedsBody() }
	switch {
	case presence != entity.Present:
		return bodyMatches{}
	case !slices.ContainsFunc(endpoint.Destinations, onBody):
		return bodyMatches{endpoint: endpoint}
	}
	b.evaluated.Inc()
	return bodyMatches{endpoint, b.compiled(endpoint).Match(ev.Body)}
}

// compiled returns the filters of the current revision of the endpoint.
func (b *bodyFilters) compiled(endpoint *config.Endpoint) *filter.BodyFilters {
	cached, ok := b.endpoints[endpoint.ID]
	if ok && cached.rev == endpoint.Rev {
		return cached.filters
	}
	fresh := endpoint.BodyFilters()
	if ok {
		b.conditions -= cached.filters.Conditions()
	}
	if b.endpoints == nil || b.conditions+fresh.Conditions() > maxConditions {
		b.endpoints, b.conditions = make(map[string]compiledFilters), 0
	}
	b.endpoints[endpoint.ID] = compiledFilters{endpoint.Rev, fresh}
	b.conditions += fresh.Conditions()
	return fresh
}

// place returns the place of a delivery in the order of its destination. Events that its filter excludes have none.
func (m bodyMatches) place(work *event.Work, offset int64) event.Place {
	if m.endpoint == nil || work.Trigger == event.TriggerTest {
		return event.Place{}
	}
	dest := m.endpoint.Destination(work.Dest)
	if dest == nil || dest.Ordering == nil || work.Filtered || !dest.Filter.MatchesType(work.Event.Type) ||
		!dest.Ordering.Includes(work.Event) {
		return event.Place{}
	}
	slot, ok := slotOfKey(work.Event, work.Dest, dest.Ordering)
	if !ok {
		return event.Place{}
	}
	return event.Place{Slot: slot, Position: offset + 1}
}

// slotOfKey is the slot of the key of an event; ok is false for an event without the key, which has no order.
func slotOfKey(ev *event.Event, dest string, ordering *kinds.Ordering) (slot uint64, ok bool) {
	keyOf, err := ordering.KeyOf()
	if err != nil { // a newer version wrote it
		return 0, false
	}
	header := make(http.Header, len(ev.Header))
	for _, f := range ev.Header {
		header.Add(f.Name, f.Value)
	}
	key, ok := keyOf(header, ev.Body)
	hash := sha256.Sum256([]byte(dest + "\x00" + key)) // a sender must find no key that waits for one of another sender
	return binary.BigEndian.Uint64(hash[:]), ok
}

// setFiltered stores the result for the destination of work in it.
func (m bodyMatches) setFiltered(work *event.Work) {
	for i := range m.matches {
		if d := &m.endpoint.Destinations[i]; d.ID == work.Dest && d.Filter.NeedsBody() {
			work.FilterRev, work.Filtered = m.endpoint.Rev, !m.matches[i]
		}
	}
}
