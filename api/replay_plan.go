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
	picks      []pick // the oldest first
	events     int
	deliveries int
	bytes      int64
	unverified int // of events: rejected ones whose endpoint verifies nothing any more

	// What counting them takes: matches, selected or not, and bodies that were read to decide.
	seen, read int
	readBytes  int64
}

// pick is an event that is delivered.
type pick struct {
	id     id.ID
	size   uint32
	copies uint16
}

// add counts an event that goes to n destinations.
func (p *plan) add(e *event.Match, n int) error {
	p.events++
	p.deliveries += n
	p.bytes += int64(n) * int64(e.Size)
	switch {
	case p.deliveries > maxReplayDeliveries:
		return tooLarge("", fmt.Sprintf("the selection has more than %d deliveries", maxReplayDeliveries))
	case p.bytes > maxReplayBytes:
		return tooLarge("", "the bodies of the selection are more than 1 GiB, each counted for every delivery")
	}
	if n > 0 {
		p.picks = append(p.picks, pick{id: e.ID, size: uint32(e.Size), copies: uint16(n)})
	}
	return nil
}

// see counts a match.
func (p *plan) see() error {
	if p.seen++; p.seen > maxReplayEvents {
		return tooLarge("", fmt.Sprintf("more than %d events match", maxReplayEvents))
	}
	return nil
}

// reads counts an event whose body must be read before it is known whether it is selected. Those that are not selected
// after all count too: a flood of refused requests must not make this node read for an hour.
func (p *plan) reads(e *event.Match) error {
	p.read++
	p.readBytes += int64(e.Size)
	if p.read > maxReplayRead || p.readBytes > maxReplayReadBytes {
		return tooLarge("", fmt.Sprintf(
			"more than %d rejected events, or events for filters on bodies, would have to be read, or more than 1 GiB; "+
				"a status other than rejected leaves rejected ones out", maxReplayRead))
	}
	return nil
}

// nextPage cuts the first page off the picks.
func nextPage(picks []pick) (page, rest []pick) {
	deliveries, bytes := 0, 0
	for i, p := range picks {
		deliveries += int(p.copies)
		bytes += int(p.copies) * int(p.size)
		if i > 0 && (deliveries > pageDeliveries || bytes > pageBytes) {
			return picks[:i], picks[i:]
		}
	}
	return picks, nil
}

func idsOf(picks []pick) []id.ID {
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
		var unsure []pick
		for i := range page {
			if err := p.see(); err != nil {
				return err
			}
			if a.selects(s, &page[i]) != byBody {
				continue
			}
			if err := p.reads(&page[i]); err != nil {
				return err
			}
			unsure = append(unsure, pick{page[i].ID, uint32(page[i].Size), 1})
		}
		copies, err := a.copiesByBody(ctx, s, unsure)
		if err != nil {
			return err
		}
		for i := range page {
			if err := a.pick(p, s, &page[i], copies); err != nil {
				return err
			}
		}
		return nil
	})
	slices.Reverse(p.picks)
	return p, err
}

// pick adds an event to the plan if it is selected; copies are the destinations of those that the body decides about.
func (a *planner) pick(p *plan, s *selection, e *event.Match, copies map[id.ID]int) error {
	n, selected := 0, true
	switch a.selects(s, e) {
	case no:
		return nil
	case yes:
		n = a.copies(s, e)
	case byBody:
		n, selected = copies[e.ID]
	}
	if !selected {
		return nil
	}
	if e.Verdict == event.VerdictRejected && a.unverified(e.Endpoint) {
		p.unverified++
	}
	return p.add(e, n)
}

// choice is whether a selection has an event.
type choice uint8

const (
	no choice = iota
	yes
	byBody // the body must be read to know, or to know where it goes
)

// selects is that choice. Of an endpoint that verifies nothing any more, rejected events are selected only where they
// are asked for by their status: they are what somebody once refused, and there is nothing to judge them by.
func (a *planner) selects(s *selection, e *event.Match) choice {
	ep := a.livingEndpoint(e.Endpoint, s.query.Account)
	rejected := e.Verdict == event.VerdictRejected
	switch {
	case e.Reason == event.Duplicate:
		return no
	case ep == nil && rejected:
		return no
	case ep == nil:
		return yes // it goes nowhere, and says so
	case rejected && ep.Verification != nil:
		return byBody
	case rejected && !slices.Contains(s.query.Statuses, event.Rejected):
		return no
	}
	for i := range ep.Destinations {
		if d := &ep.Destinations[i]; s.may(d) && d.Filter.MatchesType(e.Type) && d.Filter.OnBody() {
			return byBody
		}
	}
	return yes
}

// unverified reports whether an endpoint asks for no signatures.
func (a *planner) unverified(endpoint string) bool {
	ep, presence := a.view.Endpoint(endpoint)
	return presence == config.Present && ep.Verification == nil
}

// copies is to how many destinations an event goes whose body need not be read.
func (a *planner) copies(s *selection, e *event.Match) (n int) {
	ep := a.livingEndpoint(e.Endpoint, s.query.Account)
	if ep == nil {
		return 0
	}
	for i := range ep.Destinations {
		if d := &ep.Destinations[i]; s.may(d) && d.Filter.MatchesType(e.Type) {
			n++
		}
	}
	return n
}

// may reports whether a destination gets events of the selection at all.
func (s *selection) may(d *config.Destination) bool {
	return d.Enabled && (len(s.only) == 0 || slices.Contains(s.only, d.ID))
}

// copiesByBody is copies with the bodies. What is not selected, because it is still rejected, is not among them.
func (a *planner) copiesByBody(ctx context.Context, s *selection, unsure []pick) (map[id.ID]int, error) {
	copies := make(map[id.ID]int, len(unsure))
	for len(unsure) > 0 {
		var page []pick
		page, unsure = nextPage(unsure)
		stored, err := a.selection.Stored(ctx, s.query.Account, idsOf(page))
		if err != nil {
			return nil, err
		}
		for _, e := range stored {
			ep := a.livingEndpoint(e.Endpoint, s.query.Account)
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
		if d := &ep.Destinations[i]; s.may(d) && d.Filter.MatchesType(e.Type) && (wanted == nil || wanted[i]) {
			dests = append(dests, d.ID)
		}
	}
	return dests
}
