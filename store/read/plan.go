package read

import (
	"context"
	"slices"

	"github.com/eventrelay/relay/pkg/event"
)

// plan is a way to find the next events of a list, by the table that leads to them fastest.
type plan struct {
	name string
	// leads are the filters of which one has to be asked for, 0 for none; beside are those that may be asked for too. A
	// query that asks for any other takes a later plan, so that a filter which a plan does not know is not passed over.
	leads, beside filters
	suits         func(*walk) bool // nil: always
	find          func(*walk, context.Context, int) ([]candidate, error)
	// keys are what is looked for in event_keys, which is read in the order of its ids for a single one.
	keys func(*event.Query) []string
	// next is where the next event is looked for after a stretch of time in which nothing was found; empty: see jump.
	next table
}

// plans are all ways, the fastest first.
func plans() []plan {
	return []plan{
		{name: "search", leads: bySearch, beside: allFilters, find: (*walk).filtered},
		{name: "failures", leads: byStatus, beside: listFilters, suits: (*walk).onlyFailing, find: (*walk).byFailures},
		{name: "runs", leads: byRun, beside: listFilters, find: (*walk).byRuns},
		{name: "receipts", leads: byProcessing, suits: (*walk).onlyReceipts, find: (*walk).byReceipts, next: tableReceipts},
		{
			// A status that few of them have is better looked for together with the destination.
			name: "destinations", leads: byDestination, beside: fixedFilters, find: (*walk).byDestinations,
			keys: func(q *event.Query) []string { return q.Destinations },
		},
		{
			name: "rejected", leads: byStatus, beside: fixedFilters &^ byEndpoint, suits: (*walk).onlyRejected,
			find: (*walk).rejected,
		},
		{name: "filtered", leads: changingFilters &^ byRun, beside: fixedFilters, find: (*walk).filtered},
		{name: "endpoints", leads: byEndpoint, beside: fixedFilters, find: (*walk).byEndpoints},
		{
			name: "types", leads: byType, suits: (*walk).onlyWholeTypes, find: (*walk).byTypes,
			keys: func(q *event.Query) []string { return q.Types },
		},
		{name: "events", beside: fixedFilters &^ byEndpoint, find: (*walk).plain},
	}
}

// plan is the way to the events of the current window.
func (w *walk) plan() *plan {
	all := plans()
	for i := range all {
		p := &all[i]
		lead := p.leads == 0 || w.asks(p.leads)
		if others := w.asked &^ (p.leads | p.beside); lead && others == 0 && (p.suits == nil || p.suits(w)) {
			return p
		}
	}
	panic("BUG: no plan for a list")
}

// onlyFailing reports whether every event that matches in the current window is one that byFailures finds.
func (w *walk) onlyFailing() bool { return w.failing(!w.until.After(w.undone)) }

// failing reports whether every status that is asked for is one that byFailures finds; heard is whether something was
// said of all deliveries.
func (w *walk) failing(heard bool) bool {
	return w.asks(byStatus) && !slices.ContainsFunc(w.Statuses, func(s event.Status) bool {
		signs := s.CandidateFilter()
		// What was to be sent nowhere is not found by its endpoint.
		return s == event.Delivered || signs.Rejected || signs.NoOutcome && !heard || signs.NoDestination &&
			w.asks(byEndpoint)
	})
}

// onlyReceipts reports whether no event is asked for that has no receipt.
func (w *walk) onlyReceipts() bool {
	_, none := w.receiptStates()
	return !none
}

// onlyRejected reports whether rejected events are all that is asked for: what they are was written with them.
func (w *walk) onlyRejected() bool { return len(w.Statuses) == 1 && w.Statuses[0] == event.Rejected }

func (w *walk) onlyWholeTypes() bool { return !slices.ContainsFunc(w.Types, isPrefix) }
