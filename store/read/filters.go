package read

import (
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
)

// filters is a set of the filters that a list may have.
type filters uint

// The filters on what never changes of an event, then those on what does, then a search. definitions says what each
// of them asks for.
const (
	byEndpoint filters = 1 << iota
	bySource
	byType
	byStatus
	byDestination
	byRun
	byProcessing
	bySearch
	afterLastFilter

	fixedFilters    = byStatus - 1
	changingFilters = bySearch - 1 - fixedFilters
	listFilters     = fixedFilters | changingFilters // but for a search
	allFilters      = afterLastFilter - 1
)

// definition is one filter of a query: the condition that statements have of it, and the check of what they found.
type definition struct {
	filter filters
	used   bool
	// column is the condition on a column that is written with the event and never changes.
	column func(*event.Query, *ch.Query)
	// candidates is a condition that every event which matches fulfils, and some others do; matches decides about those.
	candidates func(*predicate, *ch.Query, timeRange)
	matches    func(*event.Query, *candidate) bool
}

// definitions are all filters, in the order of the conditions in a statement. The condition of a search is searched.
func definitions(q *event.Query) []definition {
	return []definition{
		{filter: byEndpoint, used: len(q.Endpoints) > 0, column: endpointColumn},
		{filter: bySource, used: len(q.Sources) > 0, column: sourceColumn},
		{filter: byType, used: len(q.Types) > 0, column: typeColumn},
		{filter: byStatus, used: len(q.Statuses) > 0, candidates: statusCandidates, matches: matchesStatus},
		{
			filter: byDestination, used: len(q.Destinations) > 0,
			candidates: destinationCandidates, matches: matchesDestination,
		},
		{filter: byRun, used: len(q.Runs) > 0, candidates: runCandidates, matches: matchesRun},
		{filter: byProcessing, used: len(q.Processing) > 0, candidates: processingCandidates, matches: matchesProcessing},
		{filter: bySearch, used: q.Search != nil},
	}
}

// predicate is what a query asks for. All statements and checks of a list get their conditions from it.
type predicate struct {
	*event.Query
	used        filters
	definitions []definition // of those that are asked
}

func newPredicate(q *event.Query) *predicate {
	p := &predicate{Query: q}
	for _, d := range definitions(q) {
		if d.used {
			p.used |= d.filter
			p.definitions = append(p.definitions, d)
		}
	}
	return p
}

func (p *predicate) has(any filters) bool { return p.used&any != 0 }

// table is one that leads to events.
type table struct {
	name    ch.SQL
	columns filters // those that it has columns for
}

// The tables that lists look at. The first two hold the events, in two orders.
var (
	tableEvents           = table{"events", fixedFilters}
	tableEndpoints        = table{"events_by_endpoint", fixedFilters}
	tableDeliveries       = table{"deliveries", byEndpoint}
	tableFailures         = table{"failure_candidates", byEndpoint | byType}
	tableEndpointFailures = table{"failure_candidates_by_endpoint", byEndpoint} // in the order of endpoints
	tableRuns             = table{"run_deliveries", 0}
	tableReceipts         = table{"receipts", 0}
	tableKeys             = table{"event_keys", 0}
)

// span is the part of a list that one statement looks at: its partitions, and the ids in [lowest, before).
type timeRange struct {
	from, until    time.Time
	lowest, before id.ID
}

// above is the span from an id on.
func (s timeRange) above(lowest id.ID) timeRange {
	s.lowest = lowest
	return s
}

// where begins the conditions of a statement: the account, the span, and all fixed filters that the table has columns
// for.
func (p *predicate) where(q *ch.Query, t table, s timeRange) *ch.Query {
	q.Add(" WHERE account = ", p.Account).Add(" AND ts >= ", s.from).Add(" AND ts < ", s.until)
	q.Add(" AND id >= ", id.Lowest(s.from)).Add(" AND id < ", s.before)
	p.addColumns(q, t.columns&byEndpoint)
	if !s.lowest.IsZero() {
		q.Add(" AND id >= ", s.lowest)
	}
	return p.addColumns(q, t.columns&^byEndpoint)
}

// columns appends the conditions of some of the fixed filters.
func (p *predicate) addColumns(q *ch.Query, of filters) *ch.Query {
	for _, d := range p.definitions {
		if d.filter&of != 0 {
			d.column(p.Query, q)
		}
	}
	return q
}

// narrow appends the conditions of all other filters but a search. They are sets of ids, which cost a tenth of a
// join.
func (p *predicate) addCandidates(q *ch.Query, s timeRange) {
	for _, d := range p.definitions {
		if d.candidates != nil {
			d.candidates(p, q, s)
		}
	}
}

// matches checks a candidate, whose deliveries and receipts have been read.
func (p *predicate) matches(c *candidate) bool {
	for _, d := range p.definitions {
		if d.matches != nil && !d.matches(p.Query, c) {
			return false
		}
	}
	return true
}

// endpointColumn compares a single endpoint, so that events_by_endpoint is read in the order of its ids.
func endpointColumn(q *event.Query, to *ch.Query) {
	if len(q.Endpoints) == 1 {
		to.Add(" AND endpoint = ", q.Endpoints[0])
	} else {
		to.Add(" AND endpoint IN ", q.Endpoints)
	}
}

func sourceColumn(q *event.Query, to *ch.Query) {
	to.Add(" AND source IN ", event.Convert[string](q.Sources...))
}

// isPrefix reports whether a type that is asked for stands for all that begin so.
func isPrefix(t string) bool { return strings.HasSuffix(t, ".*") }

func typeColumn(q *event.Query, to *ch.Query) {
	exact, prefixes := []string{}, []string{}
	for _, t := range q.Types {
		if isPrefix(t) {
			prefixes = append(prefixes, strings.TrimSuffix(t, "*"))
		} else {
			exact = append(exact, t)
		}
	}
	to.Add(" AND (type IN ", exact).Add(" OR arrayExists(p -> startsWith(type, p), ", prefixes).Add("))")
}

// statusCandidates are the events that show a sign of one of the statuses.
func statusCandidates(p *predicate, q *ch.Query, s timeRange) {
	q.Add(" AND (id IN (SELECT id FROM deliveries FINAL")
	p.where(q, tableDeliveries, s).Add(" AND status IN ", p.deliveryStatuses()).Add(")")
	for _, status := range p.Statuses {
		signs := status.CandidateFilter()
		if signs.Rejected {
			q.Add(" OR verdict = 'rejected'")
		}
		if signs.NoDestination {
			q.Add(" OR empty(dests)")
		}
		if signs.NoOutcome {
			q.Add(" OR id IN (SELECT id FROM (SELECT id, arrayJoin(dests) AS dest FROM events")
			p.where(q, table{tableEvents.name, byEndpoint}, s)
			q.Add(") WHERE (id, dest) NOT IN (SELECT id, dest FROM deliveries")
			p.where(q, tableDeliveries, s).Add("))")
		}
	}
	q.Add(")")
}

// deliveryStatuses are those of deliveries that are signs of the statuses.
func (p *predicate) deliveryStatuses() (words []string) {
	for _, s := range p.Statuses {
		words = append(words, event.Convert[string](s.CandidateFilter().DeliveryStatuses...)...)
	}
	return words
}

func matchesStatus(q *event.Query, c *candidate) bool {
	return slices.ContainsFunc(q.Statuses, func(s event.Status) bool { return s.Matches(c.summary.Status, c.deliveries) })
}

func destinationCandidates(p *predicate, q *ch.Query, s timeRange) {
	q.Add(" AND (hasAny(dests, ", p.Destinations).Add(") OR id IN (SELECT id FROM deliveries")
	p.where(q, tableDeliveries, s).Add(" AND dest IN ", p.Destinations).Add("))")
}

func matchesDestination(q *event.Query, c *candidate) bool {
	asked := func(dest string) bool { return slices.Contains(q.Destinations, dest) }
	return slices.ContainsFunc(c.Dests, asked) || c.any(func(d event.Delivery) bool { return asked(d.Destination) })
}

func runCandidates(p *predicate, q *ch.Query, s timeRange) {
	p.where(q.Add(" AND id IN (SELECT id FROM deliveries FINAL"), tableDeliveries, s).Add(" AND run IN ", p.Runs).Add(")")
}

func matchesRun(q *event.Query, c *candidate) bool {
	return c.any(func(d event.Delivery) bool { return slices.Contains(q.Runs, d.Run) })
}

// processingCandidates are the events whose receipt says one of the states, and those without a receipt when they are
// asked for.
func processingCandidates(p *predicate, q *ch.Query, s timeRange) {
	states, none := p.receiptStates()
	switch {
	case none && states == nil:
		p.where(q.Add(" AND id NOT IN (SELECT id FROM receipts"), tableReceipts, s)
	case none: // any state but these
		p.where(q.Add(" AND id NOT IN (SELECT id FROM receipts FINAL"), tableReceipts, s).Add(" AND state NOT IN ", states)
	default:
		p.where(q.Add(" AND id IN (SELECT id FROM receipts FINAL"), tableReceipts, s).Add(" AND state IN ", states)
	}
	q.Add(")")
	other := func(x event.Processing) bool { return x != event.ProcessingMissing }
	if !p.has(byStatus) && !slices.ContainsFunc(p.Processing, other) {
		q.Add(" AND id IN (SELECT id FROM deliveries FINAL") // only what was delivered can be missing
		p.where(q, tableDeliveries, s).Add(" AND status = ", string(event.Delivered)).Add(")")
	}
}

// receiptStates are the states of receipts that are asked for, and whether events without a receipt are.
func (p *predicate) receiptStates() (states []string, none bool) {
	for _, x := range p.Processing {
		if x == event.ProcessingNone || x == event.ProcessingMissing {
			none = true
		} else {
			states = append(states, string(x))
		}
	}
	return states, none
}

func matchesProcessing(q *event.Query, c *candidate) bool {
	is := c.summary.Processing
	return slices.ContainsFunc(q.Processing, func(p event.Processing) bool {
		missing := is == event.ProcessingNone && c.summary.Status == event.Delivered
		return p == is || p == event.ProcessingMissing && missing
	})
}
