package read

import (
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/ch"
)

// filters is a set of the filters that a list may have.
type filters uint

// The filters: first those on constant columns of an event, then those on its changing state, then a search.
// definitions has the conditions of each.
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
	listFilters     = fixedFilters | changingFilters // all but a search
	allFilters      = afterLastFilter - 1
)

// definition is one filter: its conditions in statements, and its check of the events that they found.
type definition struct {
	filter filters
	used   bool
	// column appends the condition on a column that is written with the event and never changes.
	column func(*event.Query, *ch.Query)
	// candidates appends a condition that every matching event fulfils, and possibly others. matches decides about each
	// candidate.
	candidates func(*predicate, *ch.Query, timeRange)
	matches    func(*event.Query, *candidate) bool
}

// definitions returns all filters, in the order of their conditions in a statement. search.Where has the conditions of
// a search.
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

// predicate is a query with the definitions of its filters. All statements and checks of a list get their conditions
// from it, so that none forgets a filter.
type predicate struct {
	*event.Query
	used        filters
	definitions []definition // of the filters in used
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

// table is a table that lists read to find events.
type table struct {
	name    ch.SQL
	columns filters // filters whose columns it has
}

// The tables that lists read. The first two hold the events, in the order of ids and in the order of endpoints and ids.
var (
	tableEvents           = table{"events", fixedFilters}
	tableEndpoints        = table{"events_by_endpoint", fixedFilters}
	tableDeliveries       = table{"deliveries", byEndpoint}
	tableFailures         = table{"failure_candidates", byEndpoint | byType}
	tableEndpointFailures = table{"failure_candidates_by_endpoint", byEndpoint} // ordered by endpoint
	tableRuns             = table{"run_deliveries", 0}
	tableReceipts         = table{"receipts", 0}
	tableKeys             = table{"event_keys", 0}
)

// timeRange is the part of a list that one statement reads: partitions in [from, until) and ids in [lowest, before).
type timeRange struct {
	from, until    time.Time
	lowest, before id.ID
}

// above returns the range from the id lowest on.
func (s timeRange) above(lowest id.ID) timeRange {
	s.lowest = lowest
	return s
}

// where appends the first conditions of a statement: the account, the range, and all fixed filters that the table has
// columns for.
func (p *predicate) where(q *ch.Query, t table, s timeRange) *ch.Query {
	q.Add(" WHERE account = ", p.Account).Add(" AND ts >= ", s.from).Add(" AND ts < ", s.until)
	q.Add(" AND id >= ", id.Lowest(s.from)).Add(" AND id < ", s.before)
	p.addColumns(q, t.columns&byEndpoint)
	if !s.lowest.IsZero() {
		q.Add(" AND id >= ", s.lowest)
	}
	return p.addColumns(q, t.columns&^byEndpoint)
}

// addColumns appends the conditions of those fixed filters that are in of.
func (p *predicate) addColumns(q *ch.Query, of filters) *ch.Query {
	for _, d := range p.definitions {
		if d.filter&of != 0 {
			d.column(p.Query, q)
		}
	}
	return q
}

// addCandidates appends the conditions of the filters on changing state. They are sets of ids, which cost a tenth of a
// join.
func (p *predicate) addCandidates(q *ch.Query, s timeRange) {
	for _, d := range p.definitions {
		if d.candidates != nil {
			d.candidates(p, q, s)
		}
	}
}

// matches checks a candidate after its deliveries and receipts were read.
func (p *predicate) matches(c *candidate) bool {
	for _, d := range p.definitions {
		if d.matches != nil && !d.matches(p.Query, c) {
			return false
		}
	}
	return true
}

// endpointColumn uses = for a single endpoint, so that ClickHouse reads events_by_endpoint in the order of ids.
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

// isPrefix reports whether a value of the type filter is a prefix pattern.
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

// statusCandidates appends the candidate filters of the statuses.
func statusCandidates(p *predicate, q *ch.Query, s timeRange) {
	q.Add(" AND (id IN (SELECT id FROM deliveries FINAL")
	p.where(q, tableDeliveries, s).Add(" AND status IN ", p.deliveryStatuses()).Add(")")
	for _, status := range p.Statuses {
		filter := status.CandidateFilter()
		if filter.Rejected {
			q.Add(" OR verdict = 'rejected'")
		}
		if filter.NoDestination {
			q.Add(" OR empty(dests)")
		}
		if filter.NoOutcome {
			q.Add(" OR id IN (SELECT id FROM (SELECT id, arrayJoin(dests) AS dest FROM events")
			p.where(q, table{tableEvents.name, byEndpoint}, s)
			q.Add(") WHERE (id, dest) NOT IN (SELECT id, dest FROM deliveries")
			p.where(q, tableDeliveries, s).Add("))")
		}
	}
	q.Add(")")
}

// deliveryStatuses returns the delivery statuses in the candidate filters of the statuses.
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
	wanted := func(dest string) bool { return slices.Contains(q.Destinations, dest) }
	return slices.ContainsFunc(c.Dests, wanted) || c.any(func(d event.Delivery) bool { return wanted(d.Destination) })
}

func runCandidates(p *predicate, q *ch.Query, s timeRange) {
	p.where(q.Add(" AND id IN (SELECT id FROM run_deliveries"), tableRuns, s).Add(" AND run IN ", p.Runs).Add(")")
}

// matchesRun does not look at the deliveries: each has the run of its newest outcome only, and an event belongs to
// every run that had a delivery of it.
func matchesRun(_ *event.Query, c *candidate) bool { return c.ofRun }

// processingCandidates appends a condition for events whose receipt has one of the states, and for events without a
// receipt when the query includes them.
func processingCandidates(p *predicate, q *ch.Query, s timeRange) {
	states, none := p.receiptStates()
	switch {
	case none && states == nil:
		p.where(q.Add(" AND id NOT IN (SELECT id FROM receipts"), tableReceipts, s)
	case none: // no receipt, or one with a wanted state: no receipt with another state
		p.where(q.Add(" AND id NOT IN (SELECT id FROM receipts FINAL"), tableReceipts, s).Add(" AND state NOT IN ", states)
	default:
		p.where(q.Add(" AND id IN (SELECT id FROM receipts FINAL"), tableReceipts, s).Add(" AND state IN ", states)
	}
	q.Add(")")
	notMissing := func(x event.Processing) bool { return x != event.ProcessingMissing }
	if !p.has(byStatus) && !slices.ContainsFunc(p.Processing, notMissing) {
		q.Add(" AND id IN (SELECT id FROM deliveries FINAL") // "missing" means delivered, without a receipt
		p.where(q, tableDeliveries, s).Add(" AND status = ", string(event.Delivered)).Add(")")
	}
}

// receiptStates returns the receipt states in the query; none reports whether it includes events without a receipt.
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
	state := c.summary.Processing
	return slices.ContainsFunc(q.Processing, func(p event.Processing) bool {
		missing := state == event.ProcessingNone && c.summary.Status == event.Delivered
		return p == state || p == event.ProcessingMissing && missing
	})
}
