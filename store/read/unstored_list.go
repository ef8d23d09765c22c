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
	"github.com/eventrelay/relay/store/read/cluster"
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
	changed, complete, err := w.changed(ctx)
	if err != nil || !complete {
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

// changed returns the events that may match a list by status or by receipt because of a row in memory. It returns false
// if they are too many. A writer that was behind may have stored an outcome or a receipt before it has read the event,
// and of a delivery or a processing state the highest version counts, which need not be the last in the log. So where
// memory alone does not decide, the store is asked.
func (w unstoredList) changed(ctx context.Context) (changed map[id.ID]bool, complete bool, err error) {
	changed, deliveries := w.byOutcome()
	unsure := make(map[id.ID]bool)
	for d, e := range w.events() {
		if w.mayHaveStatus(e, deliveries[d]) {
			changed[d] = true
		} else if !changed[d] {
			unsure[d] = true
		}
	}
	complete, err = w.addStored(ctx, changed, unsure, tableDeliveries, "status", w.statusesOfDeliveries())
	if err != nil || !complete {
		return nil, complete, err
	}
	if !w.has(byProcessing) {
		return changed, true, nil
	}
	return w.byReceipt(ctx, changed)
}

// statusesOfDeliveries returns statuses of deliveries of which each matching event has one, unless it has no outcome.
func (w unstoredList) statusesOfDeliveries() []string {
	statuses := w.deliveryStatuses()
	if slices.Contains(w.Processing, event.ProcessingMissing) { // delivered, without a receipt
		statuses = append(statuses, string(event.Delivered))
	}
	return statuses
}

// byOutcome returns the events with an outcome in memory that has one of the statuses, and the deliveries in memory.
func (w unstoredList) byOutcome() (changed map[id.ID]bool, deliveries map[id.ID][]event.Delivery) {
	newest := make(map[cluster.DeliveryKey]unstoredDelivery)
	for o, version := range w.unstored.Outcomes {
		if o.Account == w.Account && w.reaches(o.Event) {
			keepNewest(newest, o, version)
		}
	}
	changed, deliveries = make(map[id.ID]bool), make(map[id.ID][]event.Delivery)
	statuses := w.statusesOfDeliveries()
	for key, o := range newest {
		deliveries[key.Event] = append(deliveries[key.Event], deliveryOf(o.Outcome))
		if slices.Contains(statuses, string(o.Status)) && w.atEndpoint(o.Endpoint) &&
			(!w.has(byType) || hasType(w.Query, &event.Event{Type: o.Type})) {
			changed[key.Event] = true
		}
	}
	return changed, deliveries
}

func (w unstoredList) atEndpoint(endpoint string) bool {
	return !w.has(byEndpoint) || slices.Contains(w.Endpoints, endpoint)
}

// mayHaveStatus reports whether an event in memory may match the statuses by its deliveries there.
func (w unstoredList) mayHaveStatus(e unstoredEvent, known []event.Delivery) bool {
	isUnknown := func(dest string) bool {
		return !slices.ContainsFunc(known, func(of event.Delivery) bool { return of.Destination == dest })
	}
	if slices.ContainsFunc(e.Dests, isUnknown) {
		return true
	}
	c := e.candidate()
	c.deliveries, c.summary = known, summarize(e.Event, known, e.size)
	if w.has(byStatus) {
		return matchesStatus(w.Query, &c)
	}
	notMissing := func(p event.Processing) bool { return p != event.ProcessingMissing }
	return slices.ContainsFunc(w.Processing, notMissing) || c.summary.Status == event.Delivered
}

// byReceipt leaves those of the events out whose receipts do not match, and adds those with a receipt in memory that
// does.
func (w unstoredList) byReceipt(ctx context.Context, of map[id.ID]bool) (
	changed map[id.ID]bool, complete bool, err error) {
	states, none := w.receiptStates()
	changed, unsure := make(map[id.ID]bool), make(map[id.ID]bool)
	newest := w.newestReceipts()
	for d, x := range newest {
		if slices.Contains(states, string(x.State)) {
			changed[d] = true
		}
	}
	for d := range of {
		switch _, received := newest[d]; {
		case changed[d]:
		case none && !received:
			changed[d] = true
		case states != nil:
			unsure[d] = true
		}
	}
	complete, err = w.addStored(ctx, changed, unsure, tableReceipts, "state", states)
	return changed, complete, err
}

// newestReceipts returns the current receipt in memory of each event.
func (w unstoredList) newestReceipts() map[id.ID]unstoredReceipt {
	newest := make(map[id.ID]unstoredReceipt)
	for x, offset := range w.unstored.Receipts {
		if x.Account != w.Account || !w.reaches(x.Event) || !w.atEndpoint(x.Endpoint) {
			continue
		}
		if had, ok := newest[x.Event]; !ok || x.Version(offset) > had.Version(had.offset) {
			newest[x.Event] = unstoredReceipt{x, offset}
		}
	}
	return newest
}

// addStored adds those of the events that have or had one of the words in a column of a table of the store. It returns
// false if that would read too many rows.
func (w unstoredList) addStored(ctx context.Context, changed, of map[id.ID]bool, t table, column ch.SQL,
	words []string) (complete bool, err error) {
	if len(of) == 0 || len(words) == 0 {
		return true, nil
	}
	ids := newestFirst(of, len(of))
	highest, lowest := ids[0], ids[len(ids)-1]
	q := w.where(new(ch.Query).Add("SELECT DISTINCT id FROM ").Add(t.name), t,
		timeRange{from: lowest.Time(), until: highest.Time().Add(time.Millisecond), lowest: lowest, before: w.before})
	q.Add(" AND ").Add(column).Add(" IN ", words).Add(" LIMIT ", maxIDs)
	read := 0
	err = w.r.Each(ctx, q, func(rows driver.Rows) error {
		d, err := cluster.ScanID(rows)
		read++
		if of[d] {
			changed[d] = true
		}
		return err
	})
	return read < maxIDs, err
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
	if len(found) == 0 {
		return nil, nil
	}
	if err := w.rows.addStates(ctx, w.walk, found); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(c candidate) bool { return !w.matches(&c) }), nil
}

// reaches reports whether the walk has not passed an id yet.
func (w unstoredList) reaches(d id.ID) bool {
	return d.Compare(id.Lowest(w.since)) >= 0 && d.Compare(w.before) < 0
}

// newestFirst returns the n newest of the keys.
func newestFirst[V any](of map[id.ID]V, n int) []id.ID {
	ids := slices.SortedFunc(maps.Keys(of), id.NewestFirst)
	return ids[:min(len(ids), n)]
}

// candidate returns the event as it is read from the table of events.
func (e unstoredEvent) candidate() candidate {
	return candidate{size: uint32(e.size), Event: event.Event{ID: e.ID, Account: e.Account, Endpoint: e.Endpoint,
		Type: e.Type, Source: e.Source, Verdict: e.Verdict, Reason: e.Reason, DuplicateOf: e.DuplicateOf, Dests: e.Dests}}
}
