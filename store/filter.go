package store

import (
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// bound begins the conditions with those that nearly every table knows: the window and the endpoints.
func (w *walk) bound(q *query) *query { return w.endpoints(w.window(q)) }

// window begins the conditions with those that every table knows: the account, and the current window by the
// partition and by the primary key.
func (w *walk) window(q *query) *query {
	return q.add(" WHERE account = ", w.q.Account).add(" AND ts >= ", w.from()).add(" AND ts < ", w.until).
		add(" AND id >= ", id.Lowest(w.from())).add(" AND id < ", w.before)
}

// above is bound with a higher lower edge.
func (w *walk) above(q *query, lowest id.ID) *query { return w.bound(q).add(" AND id >= ", lowest) }

// immutable appends the other conditions on what never changes.
func (w *walk) immutable(q *query) *query {
	if len(w.q.Sources) > 0 {
		sources := make([]string, len(w.q.Sources))
		for i, s := range w.q.Sources {
			sources[i] = string(s)
		}
		q.add(" AND source IN ", sources)
	}
	return w.types(q)
}

// types appends the condition on the type.
func (w *walk) types(q *query) *query {
	if len(w.q.Types) == 0 {
		return q
	}
	exact, prefixes := []string{}, []string{}
	for _, t := range w.q.Types {
		if isPrefix(t) {
			prefixes = append(prefixes, strings.TrimSuffix(t, "*"))
		} else {
			exact = append(exact, t)
		}
	}
	return q.add(" AND (type IN ", exact).add(" OR arrayExists(p -> startsWith(type, p), ", prefixes).add("))")
}

// isPrefix reports whether a type that is asked for stands for all that begin so.
func isPrefix(t string) bool { return strings.HasSuffix(t, ".*") }

// endpoints appends the condition on the endpoint. A single one is compared, so that events_by_endpoint is
// read in the order of its ids.
func (w *walk) endpoints(q *query) *query {
	switch len(w.q.Endpoints) {
	case 0:
		return q
	case 1:
		return q.add(" AND endpoint = ", w.q.Endpoints[0])
	default:
		return q.add(" AND endpoint IN ", w.q.Endpoints)
	}
}

// nominate appends the conditions that the events of matches fulfil, and a few others. They are sets of
// ids, which cost a tenth of a join.
func (w *walk) nominate(q *query, lowest id.ID) {
	if len(w.q.Statuses) > 0 {
		w.nominateStatuses(q, lowest)
	}
	if len(w.q.Destinations) > 0 {
		q.add(" AND (hasAny(dests, ", w.q.Destinations).add(") OR id IN (SELECT id FROM deliveries")
		w.above(q, lowest).add(" AND dest IN ", w.q.Destinations).add("))")
	}
	if len(w.q.Runs) > 0 {
		q.add(" AND id IN (SELECT id FROM deliveries FINAL")
		w.above(q, lowest).add(" AND run IN ", w.q.Runs).add(")")
	}
	if len(w.q.Processing) > 0 {
		w.nominateProcessing(q, lowest)
	}
}

// nominateProcessing passes an event whose receipt says one of the states, and those without a receipt when
// they are asked for.
func (w *walk) nominateProcessing(q *query, lowest id.ID) {
	var states []string
	none := false
	for _, p := range w.q.Processing {
		if p == event.ProcessingNone || p == event.ProcessingMissing {
			none = true
		} else {
			states = append(states, string(p))
		}
	}
	switch {
	case none && states == nil:
		q.add(" AND id NOT IN (SELECT id FROM receipts")
	case none: // any state but these
		q.add(" AND id NOT IN (SELECT id FROM receipts FINAL")
	default:
		q.add(" AND id IN (SELECT id FROM receipts FINAL")
	}
	w.window(q).add(" AND id >= ", lowest)
	switch {
	case none && states != nil:
		q.add(" AND state NOT IN ", states)
	case !none:
		q.add(" AND state IN ", states)
	}
	q.add(")")
	if len(w.q.Statuses) == 0 && !slices.ContainsFunc(w.q.Processing, func(p event.Processing) bool { return p != event.ProcessingMissing }) {
		// Only what was delivered can be missing.
		w.above(q.add(" AND id IN (SELECT id FROM deliveries FINAL"), lowest).add(" AND status = ", string(event.Delivered)).add(")")
	}
}

// deliveryStatuses are those of deliveries by which the events that match are found.
func (w *walk) deliveryStatuses() []string {
	words := make([]string, len(w.q.Statuses))
	for i, s := range w.q.Statuses {
		words[i] = string(s)
	}
	if slices.Contains(w.q.Statuses, event.Pending) {
		words = append(words, string(event.Held))
	}
	return words
}

// statuses appends the condition that a delivery has one of the statuses.
func (w *walk) statuses(q *query) *query { return q.add(" AND status IN ", w.deliveryStatuses()) }

// nominateStatuses passes an event that has a delivery of such a status, and those whose status is told
// by the absence of deliveries.
func (w *walk) nominateStatuses(q *query, lowest id.ID) {
	q.add(" AND (id IN (SELECT id FROM deliveries FINAL")
	w.statuses(w.above(q, lowest)).add(")")
	for _, s := range w.q.Statuses {
		switch s {
		case event.Rejected:
			q.add(" OR verdict = 'rejected'")
		case event.Skipped:
			q.add(" OR empty(dests)")
		case event.Pending:
			q.add(" OR id IN (SELECT id FROM (SELECT id, arrayJoin(dests) AS dest FROM events")
			w.above(q, lowest).add(") WHERE (id, dest) NOT IN (SELECT id, dest FROM deliveries")
			w.above(q, lowest).add("))")
		}
	}
	q.add(")")
}
