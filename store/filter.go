package store

import (
	"strings"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// bound begins the conditions: the account and the current window, by the partition and by the primary
// key.
func (w *walk) bound(q *query) *query {
	return q.add(" WHERE account = ", w.q.Account).add(" AND ts >= ", w.from()).add(" AND ts < ", w.until).
		add(" AND id >= ", id.Lowest(w.from())).add(" AND id < ", w.before)
}

// immutable appends the conditions on what never changes.
func (w *walk) immutable(q *query) *query {
	if len(w.q.Endpoints) > 0 {
		q.add(" AND endpoint IN ", w.q.Endpoints)
	}
	if len(w.q.Sources) > 0 {
		sources := make([]string, len(w.q.Sources))
		for i, s := range w.q.Sources {
			sources[i] = string(s)
		}
		q.add(" AND source IN ", sources)
	}
	if len(w.q.Types) == 0 {
		return q
	}
	exact, prefixes := []string{}, []string{}
	for _, t := range w.q.Types {
		if p, ok := strings.CutSuffix(t, "*"); ok && strings.HasSuffix(p, ".") {
			prefixes = append(prefixes, p)
		} else {
			exact = append(exact, t)
		}
	}
	return q.add(" AND (type IN ", exact).add(" OR arrayExists(p -> startsWith(type, p), ", prefixes).add("))")
}

// nominate appends the conditions that the events of matches fulfil, and some others.
func (w *walk) nominate(q *query) {
	if len(w.q.Statuses) > 0 {
		q.add(" AND (0")
		for _, s := range w.q.Statuses {
			q.add(" OR ").add(nominates(s))
		}
		q.add(")")
	}
	if len(w.q.Destinations) > 0 {
		q.add(" AND (hasAny(dests, ", w.q.Destinations).add(") OR hasAny(ds, ", w.q.Destinations).add("))")
	}
	if len(w.q.Runs) > 0 {
		q.add(" AND hasAny(rs, ", w.q.Runs).add(")")
	}
}

// nominates is the condition on an event (verdict, dests) and its deliveries (ds, ss) that one of this
// status fulfils.
func nominates(s event.Status) string {
	switch s {
	case event.Rejected:
		return "verdict = 'rejected'"
	case event.Pending:
		return "has(ss, 'pending') OR has(ss, 'held') OR verdict != 'rejected' AND NOT hasAll(ds, dests)"
	case event.Held:
		return "has(ss, 'held')"
	case event.Retrying:
		return "has(ss, 'retrying')"
	case event.Failed:
		return "has(ss, 'failed')"
	case event.Delivered:
		return "has(ss, 'delivered')"
	case event.Skipped:
		return "has(ss, 'skipped') OR verdict != 'rejected' AND empty(dests) AND empty(ds)"
	}
	return "0"
}
