package read

import (
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
)

// bound begins the conditions with those that nearly every table knows: the window and the endpoints.
func (w *walk) bound(q *ch.Query) *ch.Query { return w.endpoints(w.window(q)) }

// window begins the conditions with those that every table knows: the account, and the current window by the
// partition and by the primary key.
func (w *walk) window(q *ch.Query) *ch.Query {
	return q.Add(" WHERE account = ", w.q.Account).Add(" AND ts >= ", w.from()).Add(" AND ts < ", w.until).
		Add(" AND id >= ", id.Lowest(w.from())).Add(" AND id < ", w.before)
}

// above is bound with a higher lower edge.
func (w *walk) above(q *ch.Query, lowest id.ID) *ch.Query {
	return w.bound(q).Add(" AND id >= ", lowest)
}

// immutable appends the other conditions on what never changes.
func (w *walk) immutable(q *ch.Query) *ch.Query {
	if len(w.q.Sources) > 0 {
		sources := make([]string, len(w.q.Sources))
		for i, s := range w.q.Sources {
			sources[i] = string(s)
		}
		q.Add(" AND source IN ", sources)
	}
	return w.types(q)
}

// types appends the condition on the type.
func (w *walk) types(q *ch.Query) *ch.Query {
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
	return q.Add(" AND (type IN ", exact).Add(" OR arrayExists(p -> startsWith(type, p), ", prefixes).Add("))")
}

// isPrefix reports whether a type that is asked for stands for all that begin so.
func isPrefix(t string) bool { return strings.HasSuffix(t, ".*") }

// endpoints appends the condition on the endpoint. A single one is compared, so that events_by_endpoint is
// read in the order of its ids.
func (w *walk) endpoints(q *ch.Query) *ch.Query {
	switch len(w.q.Endpoints) {
	case 0:
		return q
	case 1:
		return q.Add(" AND endpoint = ", w.q.Endpoints[0])
	default:
		return q.Add(" AND endpoint IN ", w.q.Endpoints)
	}
}

// nominate appends the conditions that the events of matches fulfil, and a few others. They are sets of
// ids, which cost a tenth of a join.
func (w *walk) nominate(q *ch.Query, lowest id.ID) {
	if len(w.q.Statuses) > 0 {
		w.nominateStatuses(q, lowest)
	}
	if len(w.q.Destinations) > 0 {
		q.Add(" AND (hasAny(dests, ", w.q.Destinations).Add(") OR id IN (SELECT id FROM deliveries")
		w.above(q, lowest).Add(" AND dest IN ", w.q.Destinations).Add("))")
	}
	if len(w.q.Runs) > 0 {
		q.Add(" AND id IN (SELECT id FROM deliveries FINAL")
		w.above(q, lowest).Add(" AND run IN ", w.q.Runs).Add(")")
	}
	if len(w.q.Processing) > 0 {
		w.nominateProcessing(q, lowest)
	}
}

// nominateProcessing passes an event whose receipt says one of the states, and those without a receipt when
// they are asked for.
func (w *walk) nominateProcessing(q *ch.Query, lowest id.ID) {
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
		q.Add(" AND id NOT IN (SELECT id FROM receipts")
	case none: // any state but these
		q.Add(" AND id NOT IN (SELECT id FROM receipts FINAL")
	default:
		q.Add(" AND id IN (SELECT id FROM receipts FINAL")
	}
	w.window(q).Add(" AND id >= ", lowest)
	switch {
	case none && states != nil:
		q.Add(" AND state NOT IN ", states)
	case !none:
		q.Add(" AND state IN ", states)
	}
	q.Add(")")
	if len(w.q.Statuses) == 0 && !slices.ContainsFunc(w.q.Processing, func(p event.Processing) bool { return p != event.ProcessingMissing }) {
		// Only what was delivered can be missing.
		w.above(q.Add(" AND id IN (SELECT id FROM deliveries FINAL"), lowest).Add(" AND status = ", string(event.Delivered)).Add(")")
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
func (w *walk) statuses(q *ch.Query) *ch.Query { return q.Add(" AND status IN ", w.deliveryStatuses()) }

// nominateStatuses passes an event that has a delivery of such a status, and those whose status is told
// by the absence of deliveries.
func (w *walk) nominateStatuses(q *ch.Query, lowest id.ID) {
	q.Add(" AND (id IN (SELECT id FROM deliveries FINAL")
	w.statuses(w.above(q, lowest)).Add(")")
	for _, s := range w.q.Statuses {
		switch s {
		case event.Rejected:
			q.Add(" OR verdict = 'rejected'")
		case event.Skipped:
			q.Add(" OR empty(dests)")
		case event.Pending:
			q.Add(" OR id IN (SELECT id FROM (SELECT id, arrayJoin(dests) AS dest FROM events")
			w.above(q, lowest).Add(") WHERE (id, dest) NOT IN (SELECT id, dest FROM deliveries")
			w.above(q, lowest).Add("))")
		}
	}
	q.Add(")")
}
