package jobs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
)

// Limits of a page: what is read, sent and acknowledged before the next page. A single event may exceed them.
const (
	pageDeliveries = 500
	pageBytes      = 16 << 20 // bytes of bodies, each counted for every delivery
)

// plan is a counted selection: which events are sent, and to how many destinations. It holds about 24 bytes for each
// event and no bodies.
type plan struct {
	selected   []selectedEvent // oldest first
	events     int
	deliveries int
	bytes      int64
	unverified int // rejected events with deliveries whose endpoint no longer verifies signatures
	reverified int // rejected events with deliveries that the current secrets accept, regardless of their age
	tooOld     int // events left out that were refused for their age
	copies     int // rejected events left out because one with the same signature and signed content is selected
	signed     map[signedContent]bool

	// The cost of counting: matches, selected or not, and bodies that were read to decide.
	matches, bodiesRead int
	bodyBytesRead       int64
}

// signedContent identifies the signed content of a rejected event. A plan holds at most maxReplayRead of them, about
// 5 MB.
type signedContent struct {
	endpoint string
	hash     [sha256.Size]byte
}

// selectedEvent is an event of a plan with the number of its destinations.
type selectedEvent struct {
	id           id.ID
	size         uint32
	destinations uint16
}

// addEvent counts an event that goes to n destinations, and fails when the plan exceeds its limits.
func (p *plan) addEvent(e *event.Match, n int) error {
	p.events++
	p.deliveries += n
	p.bytes += int64(n) * int64(e.Size)
	switch {
	case p.deliveries > maxReplayDeliveries:
		return errSelectionTooLarge("", fmt.Sprintf("the selection has more than %d deliveries", maxReplayDeliveries))
	case p.bytes > maxReplayBytes:
		return errSelectionTooLarge("", "the bodies of the selection are more than 1 GiB, each counted for every delivery")
	}
	if n > 0 {
		p.selected = append(p.selected, selectedEvent{id: e.ID, size: uint32(e.Size), destinations: uint16(n)})
	}
	return nil
}

// countMatch counts a matching event.
func (p *plan) countMatch() error {
	if p.matches++; p.matches > maxReplayEvents {
		return errSelectionTooLarge("", fmt.Sprintf("more than %d events match", maxReplayEvents))
	}
	return nil
}

// countBodyRead counts an event whose body must be read to decide whether it is selected. Events that turn out not
// to be selected count too: a flood of rejected requests must not make this node read for an hour.
func (p *plan) countBodyRead(e *event.Match) error {
	p.bodiesRead++
	p.bodyBytesRead += int64(e.Size)
	if p.bodiesRead > maxReplayRead || p.bodyBytesRead > maxReplayReadBytes {
		return errSelectionTooLarge("", fmt.Sprintf(
			"more than %d events or 1 GiB of bodies would have to be read to decide what to send: rejected events, "+
				"events of destinations with body filters, and all with only_undelivered; a status other than rejected leaves "+
				"rejected ones out",
			maxReplayRead))
	}
	return nil
}

// nextPage splits off the first page of events: at most pageDeliveries and pageBytes, but at least one event.
func nextPage(events []selectedEvent) (page, rest []selectedEvent) {
	deliveries, bytes := 0, 0
	for i, p := range events {
		deliveries += int(p.destinations)
		bytes += int(p.destinations) * int(p.size)
		if i > 0 && (deliveries > pageDeliveries || bytes > pageBytes) {
			return events[:i], events[i:]
		}
	}
	return events, nil
}

func idsOf(events []selectedEvent) []id.ID {
	ids := make([]id.ID, len(events))
	for i, p := range events {
		ids[i] = p.id
	}
	return ids
}

// plan counts what a selection will send. It reads bodies only where they decide: of rejected events, which are
// selected if the current secrets accept them, and for body filters. Duplicates are not selected: the original event
// is, and each duplicate can be replayed by its id.
func (a *planner) plan(ctx context.Context, s *selection) (*plan, error) {
	p := &plan{signed: make(map[signedContent]bool)}
	err := a.Selection.Select(ctx, s.query, func(page []event.Match) error {
		var undecided []selectedEvent
		for i := range page {
			if err := p.countMatch(); err != nil {
				return err
			}
			if a.classify(s, &page[i]) != decidedByBody {
				continue
			}
			if err := p.countBodyRead(&page[i]); err != nil {
				return err
			}
			undecided = append(undecided, selectedEvent{page[i].ID, uint32(page[i].Size), 1})
		}
		destinationCounts, err := a.destinationCountByBody(ctx, s, p, undecided)
		if err != nil {
			return err
		}
		for i := range page {
			if err := a.addIfSelected(p, s, &page[i], destinationCounts); err != nil {
				return err
			}
		}
		return nil
	})
	slices.Reverse(p.selected)
	return p, err
}

// addIfSelected adds an event to the plan if it is selected. destinationCounts holds the number of destinations of the
// selected events that were decided by their bodies.
func (a *planner) addIfSelected(p *plan, s *selection, e *event.Match, destinationCounts map[id.ID]int) error {
	n, selected := 0, true
	switch a.classify(s, e) {
	case notSelected:
		return nil
	case leftOutForAge:
		p.tooOld++
		return nil
	case selectedNow:
		n = a.destinationCount(s, e)
	case decidedByBody:
		n, selected = destinationCounts[e.ID]
	}
	if !selected {
		return nil
	}
	switch {
	case e.Verdict != event.VerdictRejected || n == 0: // the warnings are about what is delivered
	case a.unverified(e.Endpoint):
		p.unverified++
	default:
		p.reverified++
	}
	return p.addEvent(e, n)
}

// selectionChoice says whether a selection contains an event.
type selectionChoice uint8

const (
	notSelected selectionChoice = iota
	selectedNow
	decidedByBody // the body decides whether it is selected, or where it goes
	leftOutForAge // a captured request could be delivered again and again
)

// classify decides without the body, where possible, whether an event is selected. Rejected events of an endpoint
// that no longer verifies signatures are selected only if the request asks for the status rejected: there is no
// secret to check them with. So are those that were refused for their age, which the current secrets would accept.
func (a *planner) classify(s *selection, e *event.Match) selectionChoice {
	ep := a.PresentEndpoint(e.Endpoint, s.query.Account)
	rejected := e.Verdict == event.VerdictRejected
	askedFor := slices.Contains(s.query.Statuses, event.Rejected)
	switch {
	case e.Reason == event.Duplicate:
		return notSelected
	case ep == nil && rejected:
		return notSelected
	case ep == nil:
		return selectedNow // it counts as an event without deliveries
	case rejected && e.Reason == event.TimestampTolerance && !askedFor:
		return leftOutForAge
	case rejected && ep.Verification != nil:
		return decidedByBody
	case rejected && !askedFor:
		return notSelected
	}
	if s.undelivered {
		return decidedByBody // its deliveries are read with the body
	}
	for i := range ep.Destinations {
		if d := &ep.Destinations[i]; s.includes(d) && d.Filter.MatchesType(e.Type) && d.Filter.HasConditions() {
			return decidedByBody
		}
	}
	return selectedNow
}

// unverified reports whether an endpoint exists and does not verify signatures.
func (a *planner) unverified(endpoint string) bool {
	ep, presence := a.Config.Endpoint(endpoint)
	return presence == entity.Present && ep.Verification == nil
}

// destinationCount returns to how many destinations an event goes whose body need not be read.
func (a *planner) destinationCount(s *selection, e *event.Match) (n int) {
	ep := a.PresentEndpoint(e.Endpoint, s.query.Account)
	if ep == nil {
		return 0
	}
	for i := range ep.Destinations {
		if d := &ep.Destinations[i]; s.includes(d) && d.Filter.MatchesType(e.Type) {
			n++
		}
	}
	return n
}

// includes reports whether a destination may get events of the selection.
func (s *selection) includes(d *config.Destination) bool {
	return d.Enabled && (len(s.destinations) == 0 || slices.Contains(s.destinations, d.ID))
}

// destinationCountByBody reads bodies and returns the number of destinations of each selected event. Events that are
// still rejected, and copies of rejected events that are selected, are missing in the result.
func (a *planner) destinationCountByBody(ctx context.Context, s *selection, p *plan, undecided []selectedEvent) (
	map[id.ID]int, error) {
	destinationCounts := make(map[id.ID]int, len(undecided))
	for len(undecided) > 0 {
		var page []selectedEvent
		page, undecided = nextPage(undecided)
		stored, err := a.Selection.Stored(ctx, s.query.Account, idsOf(page))
		if err != nil {
			return nil, err
		}
		for i := range stored {
			e := &stored[i]
			ep := a.PresentEndpoint(e.Endpoint, s.query.Account)
			if ep == nil {
				continue
			}
			if e.Verdict == event.VerdictRejected && ep.Verification != nil {
				hash, reason, err := a.Reverify(ep, e.Event)
				if err != nil {
					return nil, err
				}
				if reason != "" || p.isCopy(signedContent{ep.ID, hash}) {
					continue
				}
			}
			if n := len(s.targets(ep, e)); n > 0 || !s.undelivered {
				destinationCounts[e.ID] = n
			}
		}
	}
	return destinationCounts, nil
}

// isCopy reports whether the plan has a rejected event with the same signed content. It counts the copies.
func (p *plan) isCopy(c signedContent) bool {
	if p.signed[c] {
		p.copies++
		return true
	}
	p.signed[c] = true
	return false
}

// targets returns the destinations that an event goes to.
func (s *selection) targets(ep *config.Endpoint, e *event.Stored) (dests []string) {
	takes := filterOf(ep, e.Event)
	for i := range ep.Destinations {
		d := &ep.Destinations[i]
		if s.includes(d) && takes(i) && !(s.undelivered && hasOrAwaits(e.Deliveries, d.ID)) {
			dests = append(dests, d.ID)
		}
	}
	return dests
}

// filterOf returns whether the filter of the i-th destination lets the event pass.
func filterOf(ep *config.Endpoint, e *event.Event) func(i int) bool {
	var wanted []bool
	if conditions := ep.Conditions(); conditions != nil {
		wanted, _ = conditions.Hold(e, ep.Tenant)
	}
	return func(i int) bool { return ep.Destinations[i].Filter.MatchesType(e.Type) && (wanted == nil || wanted[i]) }
}

// activeScopes holds the scopes, sets of endpoints, whose selections this node is counting or queueing: one at a
// time for each endpoint. Other nodes are kept out by the run in the configuration log.
type activeScopes struct {
	mu       sync.Mutex     // guards the fields below
	active   [][]string     // an empty scope means every endpoint
	planning map[string]int // selections being counted, by account
}

// tryAcquire activates the scope unless it shares an endpoint with an active one, and reports whether it did.
func (s *activeScopes) tryAcquire(scope []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.active {
		if len(scope) == 0 || len(other) == 0 ||
			slices.ContainsFunc(scope, func(e string) bool { return slices.Contains(other, e) }) {
			return false
		}
	}
	s.active = append(s.active, scope)
	return true
}

// release deactivates an acquired scope.
func (s *activeScopes) release(scope []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.active, func(other []string) bool { return slices.Equal(other, scope) })
	s.active = slices.Delete(s.active, i, i+1)
}

// maxPlans bounds the selections of an account that this node counts at the same time. Each reads up to a gigabyte,
// and without the limit an account could have one for each of its endpoints.
const maxPlans = 2

// startPlan reserves one of the account's maxPlans and reports whether one was free.
func (s *activeScopes) startPlan(account string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.planning[account] >= maxPlans {
		return false
	}
	if s.planning == nil {
		s.planning = map[string]int{}
	}
	s.planning[account]++
	return true
}

func (s *activeScopes) endPlan(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.planning[account]--; s.planning[account] == 0 {
		delete(s.planning, account)
	}
}

// planWithinLimit counts a selection as soon as one of the account's maxPlans is free.
func (a *replays) planWithinLimit(ctx context.Context, s *selection) (*plan, error) {
	account := s.query.Account
	err := a.RetryUntilDone(ctx, func() (bool, error) {
		if a.scopes.startPlan(account) {
			return true, nil
		}
		return false, &web.Error{Status: http.StatusTooManyRequests, Type: web.RateLimited, RetryAfter: time.Second,
			Message: fmt.Sprintf("this node is already counting %d replays of the account; nothing was queued, send it again",
				maxPlans)}
	})
	if err != nil {
		return nil, err
	}
	defer a.scopes.endPlan(account)
	return a.planner.plan(ctx, s)
}

// acquireScope waits until no other selection on this node shares an endpoint with the scope. The caller calls
// release.
func (a *replays) acquireScope(ctx context.Context, scope []string) (release func(), err error) {
	err = a.RetryUntilDone(ctx, func() (bool, error) {
		if a.scopes.tryAcquire(scope) {
			return true, nil
		}
		return false, jobs.ErrEndpointBusy
	})
	return func() { a.scopes.release(scope) }, err
}
