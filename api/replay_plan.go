package api

import (
	"context"
	"fmt"
	"slices"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Bounds of a page: what is read, sent and acknowledged before the next one. A single event may exceed them.
const (
	pageDeliveries = 500
	pageBytes      = 16 << 20 // of bodies, each as often as it is delivered
)

// plan is a selection counted: which events go anywhere, and to how many destinations. It holds some 24 bytes for
// each of them and no bodies.
type plan struct {
	selected   []selectedEvent // the oldest first
	events     int
	deliveries int
	bytes      int64
	unverified int // of events: rejected ones whose endpoint verifies nothing any more

	// What counting them takes: matches, selected or not, and bodies that were read to decide.
	matches, bodiesRead int
	bodyBytesRead       int64
}

// pick is an event that is delivered.
type selectedEvent struct {
	id           id.ID
	size         uint32
	destinations uint16
}

// add counts an event that goes to n destinations.
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

// see counts a match.
func (p *plan) countMatch() error {
	if p.matches++; p.matches > maxReplayEvents {
		return errSelectionTooLarge("", fmt.Sprintf("more than %d events match", maxReplayEvents))
	}
	return nil
}

// reads counts an event whose body must be read before it is known whether it is selected. Those that are not selected
// after all count too: a flood of refused requests must not make this node read for an hour.
func (p *plan) countBodyRead(e *event.Match) error {
	p.bodiesRead++
	p.bodyBytesRead += int64(e.Size)
	if p.bodiesRead > maxReplayRead || p.bodyBytesRead > maxReplayReadBytes {
		return errSelectionTooLarge("", fmt.Sprintf(
			"more than %d rejected events, or events for filters on bodies, would have to be read, or more than 1 GiB; "+
				"a status other than rejected leaves rejected ones out", maxReplayRead))
	}
	return nil
}

// nextPage cuts the first page off the picks.
func nextPage(picks []selectedEvent) (page, rest []selectedEvent) {
	deliveries, bytes := 0, 0
	for i, p := range picks {
		deliveries += int(p.destinations)
		bytes += int(p.destinations) * int(p.size)
		if i > 0 && (deliveries > pageDeliveries || bytes > pageBytes) {
			return picks[:i], picks[i:]
		}
	}
	return picks, nil
}

func idsOf(picks []selectedEvent) []id.ID {
	ids := make([]id.ID, len(picks))
	for i, p := range picks {
		ids[i] = p.id
	}
	return ids
}

// plan counts what a selection sends. Bodies are read only where they decide: of rejected events, which are selected
// when the present secrets accept them, and for filters on bodies. Duplicates are not selected: the event that they
// repeat is, and each of them can be replayed by its id.
func (a *planner) plan(ctx context.Context, s *selection) (*plan, error) {
	p := &plan{}
	err := a.selection.Select(ctx, s.query, func(page []event.Match) error {
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
		copies, err := a.destinationCountByBody(ctx, s, undecided)
		if err != nil {
			return err
		}
		for i := range page {
			if err := a.addIfSelected(p, s, &page[i], copies); err != nil {
				return err
			}
		}
		return nil
	})
	slices.Reverse(p.selected)
	return p, err
}

// pick adds an event to the plan if it is selected; copies are the destinations of those that the body decides about.
func (a *planner) addIfSelected(p *plan, s *selection, e *event.Match, copies map[id.ID]int) error {
	n, selected := 0, true
	switch a.classify(s, e) {
	case notSelected:
		return nil
	case selectedNow:
		n = a.destinationCount(s, e)
	case decidedByBody:
		n, selected = copies[e.ID]
	}
	if !selected {
		return nil
	}
	if e.Verdict == event.VerdictRejected && a.unverified(e.Endpoint) {
		p.unverified++
	}
	return p.addEvent(e, n)
}

// choice is whether a selection has an event.
type selectionChoice uint8

const (
	notSelected selectionChoice = iota
	selectedNow
	decidedByBody // the body must be read to know, or to know where it goes
)

// selects is that choice. Of an endpoint that verifies nothing any more, rejected events are selected only where they
// are asked for by their status: they are what somebody once refused, and there is nothing to judge them by.
func (a *planner) classify(s *selection, e *event.Match) selectionChoice {
	ep := a.presentEndpoint(e.Endpoint, s.query.Account)
	rejected := e.Verdict == event.VerdictRejected
	switch {
	case e.Reason == event.Duplicate:
		return notSelected
	case ep == nil && rejected:
		return notSelected
	case ep == nil:
		return selectedNow // it goes nowhere, and says so
	case rejected && ep.Verification != nil:
		return decidedByBody
	case rejected && !slices.Contains(s.query.Statuses, event.Rejected):
		return notSelected
	}
	for i := range ep.Destinations {
		if d := &ep.Destinations[i]; s.includes(d) && d.Filter.MatchesType(e.Type) && d.Filter.NeedsBody() {
			return decidedByBody
		}
	}
	return selectedNow
}

// unverified reports whether an endpoint asks for no signatures.
func (a *planner) unverified(endpoint string) bool {
	ep, presence := a.config.Endpoint(endpoint)
	return presence == config.Present && ep.Verification == nil
}

// copies is to how many destinations an event goes whose body need not be read.
func (a *planner) destinationCount(s *selection, e *event.Match) (n int) {
	ep := a.presentEndpoint(e.Endpoint, s.query.Account)
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

// may reports whether a destination gets events of the selection at all.
func (s *selection) includes(d *config.Destination) bool {
	return d.Enabled && (len(s.destinations) == 0 || slices.Contains(s.destinations, d.ID))
}

// destinationCountByBody is copies with the bodies. What is not selected, because it is still rejected, is not among
// them.
func (a *planner) destinationCountByBody(ctx context.Context, s *selection, undecided []selectedEvent) (
	map[id.ID]int, error) {
	copies := make(map[id.ID]int, len(undecided))
	for len(undecided) > 0 {
		var page []selectedEvent
		page, undecided = nextPage(undecided)
		stored, err := a.selection.Stored(ctx, s.query.Account, idsOf(page))
		if err != nil {
			return nil, err
		}
		for _, e := range stored {
			ep := a.presentEndpoint(e.Endpoint, s.query.Account)
			if ep == nil {
				continue
			}
			if e.Verdict == event.VerdictRejected && ep.Verification != nil {
				reason, err := a.reverify(ep, e.Event)
				if err != nil {
					return nil, err
				}
				if reason != "" {
					continue
				}
			}
			copies[e.ID] = len(s.targets(ep, e.Event))
		}
	}
	return copies, nil
}

// targets are the destinations that an event goes to.
func (s *selection) targets(ep *config.Endpoint, e *event.Event) (dests []string) {
	var wanted []bool
	if filters := ep.BodyFilters(); filters != nil {
		wanted = filters.Match(e.Body)
	}
	for i := range ep.Destinations {
		if d := &ep.Destinations[i]; s.includes(d) && d.Filter.MatchesType(e.Type) && (wanted == nil || wanted[i]) {
			dests = append(dests, d.ID)
		}
	}
	return dests
}
