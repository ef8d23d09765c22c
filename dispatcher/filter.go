package dispatcher

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"slices"
	"sync"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/filter"
	"github.com/eventrelay/relay/pkg/config/kinds"
	"github.com/eventrelay/relay/pkg/event"
)

// Filters on the event type cost nothing and are evaluated with each configuration check. Other conditions are
// evaluated when an event is read, for all of its destinations together. The result travels with the delivery
// through the retry topics. It is evaluated again only after the endpoint has changed, and then by a worker of the
// lane. So re-checks of a slow destination cost the reader and the timer nothing.

// maxConditions bounds the conditions of all compiled filters in the cache.
const maxConditions = 100_000

// filters caches the compiled conditions of endpoints.
type filters struct {
	mu        sync.Mutex // guards the fields below
	endpoints map[string]compiledFilters
	weight    int
}

// compiledFilters are the conditions of one revision of an endpoint.
type compiledFilters struct {
	rev        int64
	conditions *filter.Conditions
}

// filterMatches says for each destination of an endpoint whether an event meets its conditions. Without matches it says
// nothing.
type filterMatches struct {
	endpoint *config.Endpoint // nil: this node does not know it
	matches  []bool           // in the order of endpoint.Destinations
	failed   []error          // nil: none
}

// matches evaluates the conditions of all destinations of the event's endpoint. Without conditions, or while this node
// does not know the endpoint, it returns no matches.
func (r *rules) matches(ev *event.Event) filterMatches {
	endpoint, presence := r.config.Endpoint(ev.Endpoint)
	has := func(d config.Destination) bool { return d.Filter.HasConditions() }
	switch {
	case presence != entity.Present:
		return filterMatches{}
	case !slices.ContainsFunc(endpoint.Destinations, has):
		return filterMatches{endpoint: endpoint}
	}
	r.bodiesRead.Inc()
	matches, failed := r.filters.compiled(endpoint).Hold(ev, endpoint.Tenant)
	return filterMatches{endpoint, matches, failed}
}

// compiled returns the filters of the current revision of the endpoint.
func (b *filters) compiled(endpoint *config.Endpoint) *filter.Conditions {
	b.mu.Lock()
	defer b.mu.Unlock()
	cached, ok := b.endpoints[endpoint.ID]
	if ok && cached.rev == endpoint.Rev {
		return cached.conditions
	}
	fresh := endpoint.Conditions()
	if ok {
		b.weight -= cached.conditions.Weight()
	}
	if b.endpoints == nil || b.weight+fresh.Weight() > maxConditions {
		b.endpoints, b.weight = make(map[string]compiledFilters), 0
	}
	b.endpoints[endpoint.ID] = compiledFilters{endpoint.Rev, fresh}
	b.weight += fresh.Weight()
	return fresh
}

// place returns the place of a delivery in the order of its destination. Events that its filter excludes have none.
func (m filterMatches) place(work *event.Work, offset int64) event.Place {
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

// setFiltered stores the result in the work. A condition that failed is not stored: a worker evaluates it again and
// ends the delivery.
func (m filterMatches) setFiltered(work *event.Work) {
	for i := range m.matches {
		d := &m.endpoint.Destinations[i]
		if d.ID == work.Dest && d.Filter.HasConditions() && (m.failed == nil || m.failed[i] == nil) {
			work.FilterRev, work.Filtered = m.endpoint.Rev, !m.matches[i]
		}
	}
}
