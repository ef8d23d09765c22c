package read

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/ch"
	"github.com/eventrelay/relay/store/read/cluster"
)

// Rows that the writer in this process has read and not stored are merged into what the store has. They are taken
// before the store is read, so a row is in one of them or in both. What is in both counts once: events by id,
// deliveries and receipts by their versions, attempts by destination and id.

// unstoredRows are the rows of some events that the writer has not stored yet. Nil has none.
type unstoredRows struct {
	events     map[id.ID]unstoredEvent
	deliveries map[cluster.DeliveryKey]unstoredDelivery // the newest of each
	attempts   map[attemptKey]*event.Outcome
	receipts   []unstoredReceipt
	flushBegan func() bool // see store.Unstored; nil: nobody knows
}

type unstoredEvent struct {
	*event.Event
	size int
}

type unstoredDelivery struct {
	*event.Outcome
	version event.Version
}

type unstoredReceipt struct {
	*event.Receipt
	offset int64
}

type attemptKey struct {
	cluster.DeliveryKey
	attempt id.ID
}

// unstoredOf returns the rows of the events.
func unstoredOf(all *store.Unstored, account string, ids ...id.ID) *unstoredRows {
	u := &unstoredRows{events: make(map[id.ID]unstoredEvent), deliveries: make(map[cluster.DeliveryKey]unstoredDelivery),
		attempts: make(map[attemptKey]*event.Outcome)}
	if all == nil {
		return u
	}
	u.flushBegan = all.FlushBegan
	wanted := make(map[id.ID]bool, len(ids))
	for _, d := range ids {
		wanted[d] = true
	}
	for e, size := range all.Events {
		if wanted[e.ID] && e.Account == account {
			u.events[e.ID] = unstoredEvent{e, size}
		}
	}
	for o, version := range all.Outcomes {
		if !wanted[o.Event] || o.Account != account {
			continue
		}
		key := cluster.DeliveryKey{Event: o.Event, Dest: o.Dest}
		keepNewest(u.deliveries, o, version)
		if o.Attempt != nil {
			u.attempts[attemptKey{key, o.Attempt.ID}] = o
		}
	}
	for x, offset := range all.Receipts {
		if wanted[x.Event] && x.Account == account {
			u.receipts = append(u.receipts, unstoredReceipt{x, offset})
		}
	}
	return u
}

func keepNewest(of map[cluster.DeliveryKey]unstoredDelivery, o *event.Outcome, version event.Version) {
	key := cluster.DeliveryKey{Event: o.Event, Dest: o.Dest}
	if had, ok := of[key]; !ok || version.Compare(had.version) >= 0 {
		of[key] = unstoredDelivery{o, version}
	}
}

// readInOrder runs reads of deliveries and of their attempts, so that no delivery lacks the attempt that led to it. The
// writer inserts the attempts first, so the deliveries are read first. Both run at once if no flush begins meanwhile:
// the rows of earlier ones are in memory.
func (u *unstoredRows) readInOrder(ctx context.Context, deliveries, attempts func(context.Context) error) error {
	if u == nil || u.flushBegan == nil {
		if err := deliveries(ctx); err != nil {
			return err
		}
		return attempts(ctx)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return deliveries(gctx) })
	g.Go(func() error { return attempts(gctx) })
	if err := g.Wait(); err != nil {
		return err
	}
	if u.flushBegan() {
		return attempts(ctx)
	}
	return nil
}

// event returns a copy of the event and the size of its body; nil if the rows do not have it.
func (u *unstoredRows) event(d id.ID) (*event.Event, int) {
	if u == nil || u.events[d].Event == nil {
		return nil, 0
	}
	e := *u.events[d].Event
	return &e, u.events[d].size
}

// readDeliveries runs a statement of cluster.SelectVersions. It adds the deliveries that are stored, or the newer ones
// of the rows, and those that are missing. of returns the deliveries of an event.
func (u *unstoredRows) readDeliveries(ctx context.Context, r *Reader, q *ch.Query,
	of func(id.ID) *[]event.Delivery) error {
	versions := make(map[cluster.DeliveryKey]event.Version)
	err := r.Each(ctx, q, func(rows driver.Rows) error {
		var version big.Int
		d, e, err := cluster.ScanDelivery(rows, &version)
		if err == nil {
			all := of(e)
			*all = append(*all, d)
			versions[cluster.DeliveryKey{Event: e, Dest: d.Destination}] = event.VersionOf(&version)
		}
		return err
	})
	if err != nil || u == nil {
		return err
	}
	for key, o := range u.deliveries {
		all := of(key.Event)
		newest := deliveryOf(o.Outcome)
		stored, ok := versions[key]
		switch {
		case !ok:
			*all = append(*all, newest)
		case o.version.Compare(stored) >= 0: // of equal rows ClickHouse keeps the one that is inserted last
			i := slices.IndexFunc(*all, func(d event.Delivery) bool { return d.Destination == o.Dest })
			(*all)[i] = newest
		}
	}
	return nil
}

func deliveryOf(o *event.Outcome) event.Delivery {
	return event.Delivery{Destination: o.Dest, Status: o.Status, Reason: o.Reason, Code: o.Code,
		Behind: o.Behind, NextAttemptAt: o.NextAt, LastAt: o.At, Run: o.Run}
}

// exceptAttempts appends a condition that leaves the attempts out, so that they can be counted here.
func (u *unstoredRows) exceptAttempts(q *ch.Query) {
	if u == nil || len(u.attempts) == 0 {
		return
	}
	ids := make([]id.ID, 0, len(u.attempts))
	for key := range u.attempts {
		ids = append(ids, key.attempt)
	}
	q.Add(" AND attempt NOT IN ", ids)
}

// attemptsBelow returns the attempts older than an id; the zero id returns all.
func (u *unstoredRows) attemptsBelow(below id.ID) iter.Seq2[attemptKey, *event.Outcome] {
	return func(yield func(attemptKey, *event.Outcome) bool) {
		if u == nil {
			return
		}
		for key, o := range u.attempts {
			if (below.IsZero() || key.attempt.Compare(below) < 0) && !yield(key, o) {
				return
			}
		}
	}
}

// addAttempts adds the attempts of a page to the stored ones, newest first.
func (u *unstoredRows) addAttempts(list []event.AttemptRow, page attemptRange) []event.AttemptRow {
	stored := make(map[attemptKey]bool, len(list))
	for key, o := range u.attemptsBelow(page.before) {
		if len(stored) == 0 {
			for _, a := range list {
				stored[attemptKey{cluster.DeliveryKey{Event: key.Event, Dest: a.Destination}, a.ID}] = true
			}
		}
		if !stored[key] {
			list = append(list, attemptRow(o, page.maxBody))
		}
	}
	slices.SortFunc(list, func(a, b event.AttemptRow) int {
		return cmp.Or(b.ID.Compare(a.ID), cmp.Compare(a.Destination, b.Destination))
	})
	return list
}

// attemptRow returns the row of an attempt as the store would: times in milliseconds, and at most maxBody bytes of the
// response.
func attemptRow(o *event.Outcome, maxBody int) event.AttemptRow {
	a := event.AttemptRow{
		Attempt: *o.Attempt, Endpoint: o.Endpoint, Destination: o.Dest, Run: o.Run, NextAt: o.NextAt}
	a.Duration, a.TTFB = a.Duration.Truncate(time.Millisecond), a.TTFB.Truncate(time.Millisecond)
	if len(a.ResponseBody) > maxBody {
		a.ResponseBody, a.Truncated = a.ResponseBody[:maxBody], true
	}
	return a
}

func (u *unstoredRows) eachReceipt(f func(x *event.Receipt, offset int64)) {
	if u == nil {
		return
	}
	for _, x := range u.receipts {
		f(x.Receipt, x.offset)
	}
}

// mergeNewestFirst merges candidates of the store and of memory, each newest first.
func mergeNewestFirst(stored, inMemory []candidate) []candidate {
	if len(inMemory) == 0 {
		return stored
	}
	all := slices.Concat(stored, inMemory)
	slices.SortStableFunc(all, func(a, b candidate) int { return b.ID.Compare(a.ID) })
	return slices.CompactFunc(all, func(a, b candidate) bool { return a.ID == b.ID })
}

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
