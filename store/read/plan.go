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
	needsOneOf, allows filters
	applies            func(*walk) bool // nil: always
	find               func(*walk, context.Context, int) ([]candidate, error)
	// keys are what is looked for in event_keys, which is read in the order of its ids for a single one.
	keys func(*event.Query) []string
	// next is where the next event is looked for after a stretch of time in which nothing was found; empty: see jump.
	nextEventTable table
}

// plans are all ways, the fastest first.
func plans() []plan {
	return []plan{
		{name: "search", needsOneOf: bySearch, allows: allFilters, find: (*walk).scanFiltered},
		{name: "failures", needsOneOf: byStatus, allows: listFilters, applies: (*walk).onlyFailing,
			find: (*walk).findFailures},
		{name: "runs", needsOneOf: byRun, allows: listFilters, find: (*walk).findRuns},
		{name: "receipts", needsOneOf: byProcessing, applies: (*walk).onlyReceipts, find: (*walk).findReceipts,
			nextEventTable: tableReceipts},
		{
			// A status that few of them have is better looked for together with the destination.
			name: "destinations", needsOneOf: byDestination, allows: fixedFilters, find: (*walk).findDestinations,
			keys: func(q *event.Query) []string { return q.Destinations },
		},
		{
			name: "rejected", needsOneOf: byStatus, allows: fixedFilters &^ byEndpoint, applies: (*walk).onlyRejected,
			find: (*walk).scanRejected,
		},
		{name: "filtered", needsOneOf: changingFilters &^ byRun, allows: fixedFilters, find: (*walk).scanFiltered},
		{name: "endpoints", needsOneOf: byEndpoint, allows: fixedFilters, find: (*walk).scanEndpoints},
		{
			name: "types", needsOneOf: byType, applies: (*walk).onlyWholeTypes, find: (*walk).findTypes,
			keys: func(q *event.Query) []string { return q.Types },
		},
		{name: "events", allows: fixedFilters &^ byEndpoint, find: (*walk).scanEvents},
	}
}

// plan is the way to the events of the current window.
func (w *walk) plan() *plan {
	all := plans()
	for i := range all {
		p := &all[i]
		lead := p.needsOneOf == 0 || w.has(p.needsOneOf)
		if others := w.used &^ (p.needsOneOf | p.allows); lead && others == 0 && (p.applies == nil || p.applies(w)) {
			return p
		}
	}
	panic("BUG: no plan for a list")
}

// onlyFailing reports whether every event that matches in the current window is one that findFailures finds.
func (w *walk) onlyFailing() bool {
	return w.hasOnlyFailureStatuses(!w.until.After(w.allReportedBefore))
}

// failing reports whether every status that is asked for is one that findFailures finds; heard is whether something was
// said of all deliveries.
func (w *walk) hasOnlyFailureStatuses(heard bool) bool {
	return w.has(byStatus) && !slices.ContainsFunc(w.Statuses, func(s event.Status) bool {
		signs := s.CandidateFilter()
		// What was to be sent nowhere is not found by its endpoint.
		return s == event.Delivered || signs.Rejected || signs.NoOutcome && !heard || signs.NoDestination &&
			w.has(byEndpoint)
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
