package read_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/storetest"
)

// history is a random history of events and deliveries, kept twice: as records for the writer, and as a simple model in
// memory.
type history struct {
	*bench
	rnd    *rand.Rand
	clock  time.Time
	events []*modelEvent
	runs   []string
	began  map[string]time.Time // start of each run
	seq    int64
}

// modelEvent is one event with its outcomes, attempts and receipts.
type modelEvent struct {
	*event.Event
	states   map[string][]state // by destination
	attempts int
	receipts []event.Processing
}

type state struct {
	status event.Status
	reason event.Reason
	run    string
	rank   [3]int64 // milliseconds, rank, order: the greatest is current
}

func newHistory(b *bench, seed uint64) *history {
	h := &history{bench: b, rnd: rand.New(rand.NewPCG(seed, 1)), clock: time.Now().Add(-100 * time.Hour),
		began: map[string]time.Time{}}
	b.IDs = id.NewGenerator(func() time.Time { return h.clock })
	for range 3 {
		r, err := b.IDs.New(0)
		if err != nil {
			b.Fatal(err)
		}
		h.runs = append(h.runs, r.Text(id.Run))
		h.began[r.Text(id.Run)] = r.Time()
		h.clock = h.clock.Add(time.Second)
	}
	return h
}

func pick[T any](h *history, of ...T) T { return of[h.rnd.IntN(len(of))] }

// addEvents accepts n events, spread over the time up to now, and produces outcomes and receipts for them.
func (h *history) addEvents(n int) {
	h.Helper()
	step := time.Since(h.clock) / time.Duration(n+1)
	for range n {
		h.clock = h.clock.Add(time.Duration(h.rnd.Int64N(int64(2 * step))))
		if h.clock.After(time.Now()) {
			h.clock = time.Now()
		}
		h.addEvent()
	}
	for range 3 * n {
		h.addOutcome(pick(h, h.events...))
	}
	for range n {
		h.addReceipt(pick(h, h.events...))
	}
	if err := h.Producer.Flush(h.Context()); err != nil {
		h.Fatal(err)
	}
}

func (h *history) addEvent() {
	e := h.Event(h.rnd.IntN(3), func(e *event.Event) {
		e.Type = pick(h, "order.created", "order.paid", "orderly", "user.created", "")
		e.Body = []byte(pick(h, `{"n":1}`, `{"n":2}`))
		e.Source = pick(h, event.SourceProvider, event.SourceAPI, event.SourceTest)
		e.Dests = pick(h, []string{"dst_a"}, []string{"dst_a", "dst_b"}, []string{"dst_b"}, nil)
		if h.rnd.IntN(10) == 0 {
			e.Verdict, e.Reason, e.Dests = event.VerdictRejected, event.SignatureMismatch, nil
		}
	})
	h.events = append(h.events, &modelEvent{Event: e, states: map[string][]state{}})
	h.produce(stream.Events, e.ID.Partition(), e.Record())
}

func (h *history) produce(topic string, partition int32, r *stream.Record) {
	r.Timestamp = time.Time{} // the client counts its delivery timeout from there, and these are days old
	h.Producer.Produce(topic, partition, r, func(_ *stream.Record, err error) {
		if err != nil {
			h.Error(err)
		}
	})
}

// addOutcome produces one outcome of one delivery.
func (h *history) addOutcome(e *modelEvent) {
	if e.Verdict == event.VerdictRejected {
		return
	}
	dest := pick(h, "dst_a", "dst_b", "dst_c")
	name, began := "", int64(0) // automatic attempts
	if h.rnd.IntN(4) == 0 || !slices.Contains(e.Dests, dest) {
		name = pick(h, h.runs...)
		began = h.began[name].UnixMilli()
	}
	h.seq++
	if name != "" && h.rnd.IntN(2) == 0 {
		w := &event.Work{Event: e.Event, Dest: dest, Trigger: event.TriggerReplay, Attempt: 1, Run: name}
		r, err := w.Record()
		if err != nil {
			h.Fatal(err)
		}
		h.produce(stream.Commands, e.ID.Partition(), r)
		e.states[dest] = append(e.states[dest], state{event.Pending, event.Queued, name, [3]int64{began, 0, 0}})
		return
	}
	o := h.Outcome(e.Event, dest,
		pick(h, event.Delivered, event.Delivered, event.Failed, event.Retrying, event.Held, event.Pending, event.Skipped))
	o.Run = name
	// Around the times of the runs, so that a delivery is older than some runs and newer than others.
	o.At = h.began[h.runs[0]].Add(time.Duration(h.rnd.Int64N(int64(4 * time.Second)))).Truncate(time.Millisecond)
	rank := int64(0)
	switch o.Status {
	case event.Delivered:
		rank, began = 2, max(began, o.At.UnixMilli())
	case event.Failed, event.Skipped:
		rank, o.Reason = 1, event.AttemptsExhausted
	}
	if o.Status != event.Delivered && o.Status != event.Failed && o.Status != event.Retrying {
		o.Attempt = nil
	}
	if o.Attempt != nil {
		e.attempts++
	}
	h.produce(stream.Outcomes, e.ID.Partition(), o.Record())
	e.states[dest] = append(e.states[dest], state{o.Status, o.Reason, name, [3]int64{began, rank, h.seq}})
}

// addReceipt produces a receipt of an event.
func (h *history) addReceipt(e *modelEvent) {
	r := &event.Receipt{
		Event: e.ID, Account: e.Account, Endpoint: e.Endpoint, At: time.Now(),
		State: pick(h, event.ProcessingRunning, event.ProcessingRunning, event.ProcessingFailed, event.ProcessingDone),
	}
	h.produce(stream.Receipts, e.ID.Partition(), r.Record())
	e.receipts = append(e.receipts, r.State)
}

// processing returns the current state of the receipts: the last one, unless one of them is processed.
func (e *modelEvent) processing() event.Processing {
	switch {
	case len(e.receipts) == 0:
		return event.ProcessingNone
	case slices.Contains(e.receipts, event.ProcessingDone):
		return event.ProcessingDone
	}
	return e.receipts[len(e.receipts)-1]
}

// newest returns the current state of a delivery.
func (e *modelEvent) newest(dest string) state {
	return slices.MaxFunc(e.states[dest], func(a, b state) int { return slices.Compare(a.rank[:], b.rank[:]) })
}

func (e *modelEvent) deliveries() (ds []event.Delivery) {
	for dest := range e.states {
		s := e.newest(dest)
		ds = append(ds, event.Delivery{Destination: dest, Status: s.status, Reason: s.reason, Run: s.run})
	}
	slices.SortFunc(ds, func(a, b event.Delivery) int { return cmp.Compare(a.Destination, b.Destination) })
	return ds
}

// shownDeliveries returns the deliveries with outcomes, and one that is queued for each other destination of the event.
func (e *modelEvent) shownDeliveries(ds []event.Delivery) []event.Delivery {
	ds = slices.Clone(ds)
	for _, dest := range e.Dests {
		if len(e.states[dest]) == 0 && e.Verdict != event.VerdictRejected {
			ds = append(ds, event.Delivery{Destination: dest, Status: event.Pending, Reason: event.Queued})
		}
	}
	return ds
}

// want returns the expected list for a query, all pages together.
func (h *history) want(q event.Query) (want []event.Summary) {
	// Ids of one millisecond are ordered by their partition first, not in the order of acceptance.
	slices.SortFunc(h.events, func(a, b *modelEvent) int { return slices.Compare(b.ID[:], a.ID[:]) })
	for _, e := range h.events {
		ds := e.deliveries()
		s := event.Summary{
			ID: e.ID, Account: e.Account, Endpoint: e.Endpoint, Type: e.Type, Source: e.Source, Attempts: e.attempts,
			Processing: e.processing(), Size: len(e.Body), Proof: e.Proof(), Deliveries: e.shownDeliveries(ds),
		}
		s.Status, s.Reason, s.Counts = event.Summarize(e.Event, ds)
		dests, runs, held := slices.Clone(e.Dests), []string{}, false
		for _, d := range ds {
			dests, held = append(dests, d.Destination), held || d.Status == event.Held
			for _, x := range e.states[d.Destination] {
				runs = append(runs, x.run) // also the runs before the newest one
			}
		}
		overlaps := func(wanted, have []string) bool {
			return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(have, w) })
		}
		isType := func(t string) bool {
			prefix, ok := strings.CutSuffix(t, ".*")
			return t == e.Type || ok && strings.HasPrefix(e.Type, prefix+".")
		}
		isProcessing := func(p event.Processing) bool {
			return p == s.Processing || p == event.ProcessingMissing && s.Status == event.Delivered && len(e.receipts) == 0
		}
		isStatus := func(x event.Status) bool { return x == s.Status || x == event.Held && held }
		at := e.ID.Time()
		if overlaps(q.Endpoints, []string{e.Endpoint}) && overlaps(q.Destinations, dests) && overlaps(q.Runs, runs) &&
			(len(q.Types) == 0 || slices.ContainsFunc(q.Types, isType)) &&
			(len(q.Statuses) == 0 || slices.ContainsFunc(q.Statuses, isStatus)) &&
			(len(q.Processing) == 0 || slices.ContainsFunc(q.Processing, isProcessing)) &&
			(len(q.Sources) == 0 || slices.Contains(q.Sources, e.Source)) &&
			(q.Search == nil || matchesModel(e.Event, q.Search)) &&
			!at.Before(q.Since) && (q.Until.IsZero() || at.Before(q.Until)) {
			want = append(want, s)
		}
	}
	return want
}

// randomQuery returns a query with random filters.
func (h *history) randomQuery() event.Query {
	q := event.Query{Account: storetest.Account}
	maybe := func(f func()) {
		if h.rnd.IntN(3) == 0 {
			f()
		}
	}
	maybe(func() { q.Since = h.clock.Add(-time.Duration(h.rnd.Int64N(int64(100 * time.Hour)))) })
	maybe(func() { q.Until = h.clock.Add(-time.Duration(h.rnd.Int64N(int64(100 * time.Hour)))) })
	words := []event.Processing{
		event.ProcessingNone, event.ProcessingRunning, event.ProcessingDone, event.ProcessingFailed, event.ProcessingMissing}
	h.rnd.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	words = words[:1+h.rnd.IntN(2)]
	if h.rnd.IntN(8) == 0 { // alone: it has a plan of its own
		q.Processing = words
		return q
	}
	maybe(func() { q.Endpoints = pick(h, []string{"ep_0"}, []string{"ep_1", "ep_2"}, []string{"ep_none"}) })
	maybe(func() { q.Destinations = pick(h, []string{"dst_a"}, []string{"dst_c"}, []string{"dst_b", "dst_c"}) })
	maybe(func() { q.Runs = pick(h, []string{h.runs[0]}, h.runs[1:]) })
	maybe(func() {
		q.Types = pick(h, []string{"order.*"}, []string{"orderly", "user.*"}, []string{"user.created"})
	})
	maybe(func() {
		q.Sources = pick(h, []event.Source{event.SourceAPI}, []event.Source{event.SourceTest, event.SourceProvider})
	})
	maybe(func() { q.Processing = words })
	all := []event.Status{event.Pending, event.Retrying, event.Held, event.Delivered, event.Failed, event.Skipped,
		event.Rejected}
	if h.rnd.IntN(3) > 0 {
		h.rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		q.Statuses = all[:1+h.rnd.IntN(2)]
	}
	return q
}

// untimed clears the fields that the model does not have.
func untimed(rows []event.Summary) []event.Summary {
	for i := range rows {
		rows[i].LastAttemptAt, rows[i].NextAttemptAt = time.Time{}, time.Time{}
		for j, d := range rows[i].Deliveries {
			rows[i].Deliveries[j] = event.Delivery{Destination: d.Destination, Status: d.Status, Reason: d.Reason, Run: d.Run}
		}
	}
	return rows
}
