package read

import (
	"context"
	"slices"

	"github.com/eventrelay/relay/pkg/event"
)

// plan is one way to find the next events of a list: which table to read first, and for which queries.
type plan struct {
	name string
	// needsOneOf are filters of which the query must have at least one (0: no condition); allows are further filters that
	// it may have. A query with any other filter takes a later plan, so a plan cannot ignore a filter it does not know.
	needsOneOf, allows filters
	applies            func(*walk) bool // nil: always
	find               func(*walk, context.Context, int) ([]candidate, error)
	// keys returns the values to look up in event_keys. For a single key ClickHouse reads the rows in the order of ids.
	keys func(*event.Query) []string
	// nextEventTable is the table in which skipEmptyTime finds the next event; empty: skipEmptyTime chooses it.
	nextEventTable table
}

// plans returns all plans, the fastest first.
func plans() []plan {
	return []plan{
		{name: "search", needsOneOf: bySearch, allows: allFilters, find: (*walk).scanFiltered},
		{name: "failures", needsOneOf: byStatus, allows: listFilters, applies: (*walk).onlyFailing,
			find: (*walk).findFailures},
		{name: "runs", needsOneOf: byRun, allows: listFilters, find: (*walk).findRuns},
		{name: "receipts", needsOneOf: byProcessing, applies: (*walk).onlyReceipts, find: (*walk).findReceipts,
			nextEventTable: tableReceipts},
		{
			// With a status that few events have, the plan "filtered" below is better.
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

// plan returns the first plan that suits the query and the current window.
func (w *walk) plan() *plan {
	all := plans()
	for i := range all {
		p := &all[i]
		needed := p.needsOneOf == 0 || w.has(p.needsOneOf)
		if others := w.used &^ (p.needsOneOf | p.allows); needed && others == 0 && (p.applies == nil || p.applies(w)) {
			return p
		}
	}
	panic("BUG: no plan for a list")
}

// onlyFailing reports whether findFailures finds every matching event of the current window.
func (w *walk) onlyFailing() bool {
	return w.hasOnlyFailureStatuses(!w.until.After(w.allReportedBefore))
}

// hasOnlyFailureStatuses reports whether findFailures finds every event with one of the query's statuses. allReported
// is whether every delivery has an outcome.
func (w *walk) hasOnlyFailureStatuses(allReported bool) bool {
	return w.has(byStatus) && !slices.ContainsFunc(w.Statuses, func(s event.Status) bool {
		filter := s.CandidateFilter()
		// Events without a destination cannot be found by endpoint.
		return s == event.Delivered || filter.Rejected || filter.NoOutcome && !allReported || filter.NoDestination &&
			w.has(byEndpoint)
	})
}

// onlyReceipts reports whether every matching event has a receipt.
func (w *walk) onlyReceipts() bool {
	_, none := w.receiptStates()
	return !none
}

// onlyRejected reports whether the query selects rejected events only. The verdict is a constant column of the event.
func (w *walk) onlyRejected() bool { return len(w.Statuses) == 1 && w.Statuses[0] == event.Rejected }

func (w *walk) onlyWholeTypes() bool { return !slices.ContainsFunc(w.Types, isPrefix) }
