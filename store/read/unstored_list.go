package read

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/internal/ch"
)

// unstoredList finds the events of a list that match because of rows in memory. The walk through the store finds those
// that match by what is stored, and drops them if their newest state in memory does not match.
type unstoredList struct{ *walk }

// find returns the newest events, up to n, that match because of rows that are not stored yet. It returns false
// if it would have to read too many: the list then waits until they are stored.
func (w unstoredList) find(ctx context.Context, n int) (found []candidate, complete bool, err error) {
	if w.unstored == nil {
		return nil, true, nil
	}
	if !w.has(changingFilters) {
		events := w.events()
		for _, d := range newestFirst(events, n) {
			found = append(found, events[d].candidate())
		}
		return found, true, nil
	}
	changed, err := w.changed(ctx)
	if err != nil {
		return nil, false, err
	}
	rest := newestFirst(changed, maxIDs+1)
	for left, size := maxIDs, n; len(rest) > 0 && len(found) < n; size *= windowGrowth {
		if left == 0 {
			return nil, false, nil
		}
		ids := rest[:min(len(rest), size, left)]
		rest, left = rest[len(ids):], left-len(ids)
		more, err := w.read(ctx, ids)
		if err != nil {
			return nil, false, err
		}
		found = append(found, more...)
	}
	return found[:min(len(found), n)], true, nil
}

// events returns the events in memory that match the fixed filters and lie before the walk.
func (w unstoredList) events() map[id.ID]unstoredEvent {
	events := make(map[id.ID]unstoredEvent)
	for e, size := range w.unstored.Events {
		if e.Account == w.Account && w.reaches(e.ID) && w.holds(e) {
			events[e.ID] = unstoredEvent{e, size}
		}
	}
	return events
}

// changed returns the events that may match a list by status or by receipt because of a row in memory: those with an
// outcome or a receipt in memory that has one of the states, and those in memory, unless memory shows that they do not
// match. Outcomes in memory are newer than stored ones, because one partition has all of an event. A writer that was
// behind may have stored an outcome or a receipt before it has read the event.
func (w unstoredList) changed(ctx context.Context) (map[id.ID]bool, error) {
	changed := make(map[id.ID]bool)
	deliveries := w.byOutcome(changed)
	states, none := w.receiptStates()
	received := w.byReceipt(changed, states)
	unsure := make(map[id.ID]bool)
	for d, e := range w.events() {
		switch mayMatch := w.mayHaveStatus(e, deliveries[d]); {
		case !mayMatch || changed[d]:
		case !w.has(byProcessing), none && !received[d]:
			changed[d] = true
		case states != nil:
			unsure[d] = true
		}
	}
	return changed, w.byStoredReceipt(ctx, changed, unsure, states)
}

// byOutcome adds the events with an outcome in memory that has one of the statuses. It returns the deliveries there.
func (w unstoredList) byOutcome(changed map[id.ID]bool) map[id.ID][]event.Delivery {
	newest := make(map[deliveryKey]unstoredDelivery)
	for o, version := range w.unstored.Outcomes {
		if o.Account == w.Account && w.reaches(o.Event) {
			keepNewest(newest, o, version)
		}
	}
	deliveries := make(map[id.ID][]event.Delivery)
	statuses := w.deliveryStatuses()
	if slices.Contains(w.Processing, event.ProcessingMissing) { // delivered, without a receipt
		statuses = append(statuses, string(event.Delivered))
	}
	for key, o := range newest {
		deliveries[key.event] = append(deliveries[key.event], deliveryOf(o.Outcome))
		if slices.Contains(statuses, string(o.Status)) && (!w.has(byEndpoint) || slices.Contains(w.Endpoints, o.Endpoint)) &&
			(!w.has(byType) || hasType(w.Query, &event.Event{Type: o.Type})) {
			changed[key.event] = true
		}
	}
	return deliveries
}

// byReceipt adds the events with a receipt in memory that has one of the states. It returns all with a receipt there.
func (w unstoredList) byReceipt(changed map[id.ID]bool, states []string) (received map[id.ID]bool) {
	received = make(map[id.ID]bool)
	if !w.has(byProcessing) {
		return received
	}
	for x := range w.unstored.Receipts {
		if x.Account == w.Account && w.reaches(x.Event) {
			received[x.Event] = true
			if slices.Contains(states, string(x.State)) {
				changed[x.Event] = true
			}
		}
	}
	return received
}

// mayHaveStatus reports whether an event in memory with these deliveries there may match the statuses.
func (w unstoredList) mayHaveStatus(e unstoredEvent, known []event.Delivery) bool {
	isUnknown := func(dest string) bool {
		return !slices.ContainsFunc(known, func(of event.Delivery) bool { return of.Destination == dest })
	}
	if slices.ContainsFunc(e.Dests, isUnknown) {
		return true
	}
	c := e.candidate()
	c.deliveries, c.summary = known, summarize(e.Event, known, e.size)
	return !w.has(byStatus) || matchesStatus(w.Query, &c)
}

// byStoredReceipt adds those of the events in memory of which a stored receipt has or had one of the states.
func (w unstoredList) byStoredReceipt(ctx context.Context, changed, of map[id.ID]bool, states []string) error {
	if len(of) == 0 {
		return nil
	}
	ids := newestFirst(of, len(of))
	highest, lowest := ids[0], ids[len(ids)-1]
	q := w.where(new(ch.Query).Add("SELECT DISTINCT id FROM receipts"), tableReceipts,
		timeRange{from: lowest.Time(), until: highest.Time().Add(time.Millisecond), lowest: lowest, before: w.before})
	return w.r.each(ctx, q.Add(" AND state IN ", states), func(rows driver.Rows) error {
		d, err := scanID(rows)
		if of[d] {
			changed[d] = true
		}
		return err
	})
}

// read returns those of the events that match, newest first.
func (w unstoredList) read(ctx context.Context, ids []id.ID) ([]candidate, error) {
	var inMemory []candidate
	events := unstoredOf(w.unstored, w.Account, ids...).events
	for _, e := range events {
		if w.holds(e.Event) {
			inMemory = append(inMemory, e.candidate())
		}
	}
	stored := slices.DeleteFunc(slices.Clone(ids), func(d id.ID) bool { return events[d].Event != nil })
	found, err := w.rows.readByID(ctx, w.walk, stored)
	if err != nil {
		return nil, err
	}
	found = mergeNewestFirst(found, inMemory)
	w.rows.unstored = unstoredOf(w.unstored, w.Account, idsOf(found)...)
	if err := w.rows.addStatuses(ctx, w.Account, found); err != nil {
		return nil, err
	}
	if w.has(byProcessing) && len(found) > 0 {
		if err := w.rows.addReceiptStates(ctx, w.Account, found); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(found, func(c candidate) bool { return !w.matches(&c) }), nil
}

// reaches reports whether the walk has not passed an id yet.
func (w unstoredList) reaches(d id.ID) bool {
	lowest := id.Lowest(w.since)
	return slices.Compare(d[:], lowest[:]) >= 0 && slices.Compare(d[:], w.before[:]) < 0
}

// newestFirst returns the n newest of the keys.
func newestFirst[V any](of map[id.ID]V, n int) []id.ID {
	ids := slices.SortedFunc(maps.Keys(of), func(a, b id.ID) int { return slices.Compare(b[:], a[:]) })
	return ids[:min(len(ids), n)]
}

// candidate returns the event as it is read from the table of events.
func (e unstoredEvent) candidate() candidate {
	return candidate{size: uint32(e.size), Event: event.Event{ID: e.ID, Account: e.Account, Endpoint: e.Endpoint,
		Type: e.Type, Source: e.Source, Verdict: e.Verdict, Reason: e.Reason, DuplicateOf: e.DuplicateOf, Dests: e.Dests}}
}
