package read_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/kit"
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

// writerStatements are the beginnings of the statements that a writer runs.
var writerStatements = []string{
	"INSERT INTO events ", "INSERT INTO attempts ", "INSERT INTO deliveries ", "INSERT INTO receipts ",
	"INSERT INTO audit ",
	"INSERT INTO failure_candidates_by_endpoint ", "INSERT INTO failure_candidates ", "INSERT INTO run_deliveries ",
	"INSERT INTO event_keys ", "INSERT INTO findings_hits ", "INSERT INTO senders_minute ",
	"INSERT INTO usage_hour ", "INSERT INTO usage_day (account, t, endpoint, findings",
}

// countStatements is how many of writerStatements, the last ones, count usage.
const countStatements = 2

// kindOf returns the index of a statement in writerStatements, -1 for others.
func kindOf(statement string) int {
	return slices.IndexFunc(writerStatements, func(w string) bool { return strings.HasPrefix(statement, w) })
}

// faultHistory is a history with the other records that the writer stores: audit entries and undecodable ones.
type faultHistory struct {
	*history
	found   *findingsModel
	audited int
	poison  map[string]bool // topic and offset of undecodable records
}

func newFaultHistory(b *bench, seed uint64) *faultHistory {
	h := newHistory(b, seed)
	return &faultHistory{h, newFindingsModel(b, h.rnd), 0, map[string]bool{}}
}

// extend adds n events and their outcomes, some duplicate and some undecodable records, audit entries, and n hits of
// findings.
func (h *faultHistory) extend(n int) {
	h.Helper()
	h.clock = time.Now().Add(-time.Duration(h.rnd.Int64N(int64(100 * time.Hour)))) // so that old hours are counted again
	h.IDs = id.NewGenerator(func() time.Time { return h.clock })
	h.addEvents(n)
	h.found.add(n)
	for range n {
		e := pick(h.history, h.events...)
		switch h.rnd.IntN(8) {
		case 0: // accepted once, produced twice
			h.produce(stream.Events, e.ID.Partition(), e.Record())
		case 1:
			topic := pick(h.history, stream.Events, stream.Commands, stream.Outcomes, stream.Receipts,
				stream.Findings)
			r := &stream.Record{Key: []byte("ep_1"), Value: []byte{0xff, 1}}
			h.Produce(topic, 1, r)
			h.poison[fmt.Sprint(topic, " ", r.Offset)] = true
		case 2:
			at := time.Now().UTC().Truncate(time.Millisecond)
			h.ProduceAudit(audit.Entry{
				ID: audit.NewID(at, uint32(h.audited), "h"), Account: storetest.Account, At: at,
				Actor:      audit.ActorOf("key_1", "name"),
				EntityType: "endpoint", Action: "endpoint.updated", Entity: "ep_1",
			})
			h.audited++
		}
	}
	if err := h.Producer.Flush(h.Context()); err != nil {
		h.Fatal(err)
	}
}

// compareAll compares everything that can be read with the history.
func (h *faultHistory) compareAll(w *write.Writer, lists int) {
	h.Helper()
	r := h.Reader(w)
	for i := range lists {
		q := event.Query{Account: storetest.Account, Limit: 1000}
		if i > 0 {
			q = h.randomQuery()
			q.Limit = pick(h.history, 3, 10, 100)
		}
		got, want := storetest.ListEvents(h, r, q, 5), h.want(q)
		want = want[:min(len(want), 5*q.Limit)]
		if diff := gocmp.Diff(want, untimed(got), cmpopts.EquateEmpty()); diff != "" {
			h.Fatalf("list %+v (-want +got):\n%s", q, diff)
		}
	}
	for range lists {
		e := pick(h.history, h.events...)
		d, err := r.Event(h.Context(), storetest.Account, e.ID)
		if err != nil {
			h.Fatal(err)
		}
		if diff := gocmp.Diff(e.Event, d.Event, storetest.CompareIPs, cmpopts.EquateEmpty()); diff != "" ||
			d.Processing != e.processing() || len(d.Attempts) != e.attempts {
			h.Fatalf("event %s: %s, %d attempts, want %s, %d\n%s", e.ID.Text(id.Event), d.Processing, len(d.Attempts),
				e.processing(), e.attempts, diff)
		}
	}
	counts, asOf, err := r.RecoveryCounts(h.Context(), storetest.Account, h.runs...)
	if err != nil || !asOf.IsZero() {
		h.Fatal(err, asOf)
	}
	if diff := gocmp.Diff(h.runCounts(), counts); diff != "" {
		h.Fatalf("counters of runs (-want +got):\n%s", diff)
	}
	h.found.compare(r)
	use := &usageHistory{bench: h.bench, rnd: h.rnd, found: h.found}
	for _, e := range h.events {
		use.events = append(use.events, e.Event)
	}
	use.compareUsage(r, 2)
	page, err := r.Audit(h.Context(), audit.Query{Account: storetest.Account, Limit: 1000})
	if err != nil || len(page.Rows) != h.audited {
		h.Fatalf("%d entries of the audit log, want %d: %v", len(page.Rows), h.audited, err)
	}
	h.compareDeadLetters()
}

// runCounts returns the expected results of the deliveries of each run.
func (h *faultHistory) runCounts() map[string]event.RecoveryCounts {
	out := map[string]event.RecoveryCounts{}
	for _, e := range h.events {
		for _, states := range e.states {
			for _, run := range h.runs {
				var newest state
				var rank [4]int64 // state.rank, with failed above later states
				for _, s := range states {
					r := [4]int64{s.rank[0], s.rank[1], 0, s.rank[2]}
					if s.status == event.Failed {
						r[2] = 1
					}
					if s.run == run && (newest.status == "" || slices.Compare(r[:], rank[:]) > 0) {
						newest, rank = s, r
					}
				}
				if newest.status != "" {
					c := out[run]
					c.Add(newest.status, "", 1)
					out[run] = c
				}
			}
		}
	}
	return out
}

// compareDeadLetters checks that the dead letter topic has every undecodable record at least once, and nothing else.
func (h *faultHistory) compareDeadLetters() {
	h.Helper()
	got := map[string]bool{}
	for _, d := range h.DeadLetters(1) {
		head := map[string]string{}
		for _, x := range d.Headers {
			head[x.Key] = string(x.Value)
		}
		got[head[stream.HeaderDeadTopic]+" "+head[stream.HeaderDeadOffset]] = true
	}
	if diff := gocmp.Diff(h.poison, got); diff != "" {
		h.Fatalf("in dead (-want +got):\n%s", diff)
	}
}

// TestEveryWriteUnderFaults injects every kind of fault (two in an ordinary run, one of them random) into the first
// statements of every kind that a writer runs. In the end every row is stored once, and only undecodable records are
// dead letters.
func TestEveryWriteUnderFaults(t *testing.T) {
	b := newBench(t)
	h, g := newFaultHistory(b, kit.Seed(t)), storetest.NewFaultProxy(b.Bench)
	w, _ := b.Writer(g.WriterConfig(write.WriterConfig{InsertTimeout: time.Second}))
	others := []storetest.Fault{storetest.Refused, storetest.Stuck, storetest.Cut, storetest.Torn, storetest.Half}
	h.rnd.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	for _, f := range append([]storetest.Fault{storetest.Lost}, others[:storetest.Rounds(0, 1, len(others))]...) {
		most := 2
		if f == storetest.Stuck {
			most = 1 // each takes a second until the writer tries again
		}
		faults := make([]int, len(writerStatements)) // guarded by the gate
		g.SetRule(func(_ int, statement string) storetest.Fault {
			kind := kindOf(statement)
			if kind < 0 || faults[kind] >= most || f == storetest.Stuck && kind >= len(writerStatements)-countStatements {
				return storetest.NoFault
			}
			faults[kind]++
			return f
		})
		h.extend(20)
		h.resend(h.events[len(h.events)-1].Event)
		h.ProduceAudit(audit.Entry{
			ID: audit.NewID(time.Now(), uint32(h.audited), "w"), Account: storetest.Account, At: time.Now(),
			Action: "endpoint.updated"})
		h.audited++
		h.WaitCaughtUp(h.Reader(w))
		for try := 0; w.CountUsage(t.Context()) != nil; try++ {
			if try == 3 {
				t.Fatalf("%v: usage is not counted", f)
			}
		}
		g.SetRule(nil)
		for kind, n := range faults {
			if n < most && (f != storetest.Stuck || kind < len(writerStatements)-countStatements) {
				t.Errorf("%v: %d statements that begin with %s got the fault", f, n, writerStatements[kind])
			}
		}
		h.compareAll(w, 2)
	}
}

// TestHistoriesUnderFaults produces random histories of events, outcomes, replays and receipts. The writers see random
// faults of ClickHouse, die between an insert and the commit, and restart from earlier offsets. Lists, statuses,
// counters and usage agree with a model without faults.
func TestHistoriesUnderFaults(t *testing.T) {
	seed := kit.Seed(t)
	for i := range storetest.Rounds(1, 1, 60) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { playHistory(t, seed+uint64(i)) })
	}
}

func playHistory(t *testing.T, seed uint64) {
	t.Logf("RELAY_SEED=%d", seed)
	b := newBench(t)
	h, g := newFaultHistory(b, seed), storetest.NewFaultProxy(b.Bench)
	tables := []string{"events", "events_by_endpoint", "deliveries", "failure_candidates_by_endpoint",
		"failure_candidates",
		"attempts", "receipts", "run_deliveries", "usage_hour", "findings_hits", "findings", "usage_day"}
	if merges := h.rnd.IntN(2) == 0; !merges { // duplicate rows stay
		for _, table := range tables {
			b.Exec("SYSTEM STOP MERGES " + table)
		}
		t.Log("merges are stopped")
	}
	for life := range 3 {
		h.extend(10 + h.rnd.IntN(25))
		dies := h.rnd.IntN(2) == 0
		rule, hung := h.randomFaults(g, dies)
		g.SetRule(rule)
		w, stop := b.Writer(g.WriterConfig(
			write.WriterConfig{FlushRows: 10 + h.rnd.IntN(100), FlushEvery: 20 * time.Millisecond, Drain: time.Millisecond,
				InsertTimeout: 10 * time.Second}))
		r := b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: 30, FenceWait: 100 * time.Millisecond}, w)
		storetest.Eventually(t, func() bool {
			if h.rnd.IntN(3) == 0 && !hung.Load() { // it would wait for the statement that hangs
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_ = w.CountUsage(ctx) // a fault may hit it
				cancel()
			}
			return len(g.StuckStatement) > 0 || r.CaughtUp(t.Context()) == nil
		})
		if life%2 == 1 {
			g.SetRule(nil)
			if !hung.Load() { // otherwise a statement hangs until its time-out, maybe one that no read waits for
				b.WaitCaughtUp(r) // after a fault reads say at once that they are behind
				h.compareAll(w, 2)
			}
		}
		stop()
		g.SetRule(nil)
		select {
		case <-g.StuckStatement:
		default:
		}
		if h.rnd.IntN(3) > 0 {
			b.RewindOffsets(func(_ stream.Partition, committed int64) int64 { return h.rnd.Int64N(max(committed, 0) + 1) })
		}
	}
	w, _ := b.Writer(write.WriterConfig{})
	h.compareAll(w, 2)
	b.countUsage(w)
	for _, table := range tables {
		b.Exec("SYSTEM START MERGES " + table)
		b.Exec("OPTIMIZE TABLE " + table + " FINAL")
	}
	h.compareAll(w, 2)
}

// randomFaults returns a rule for the writer's statements: no faults, a few or many. With dies a late statement hangs,
// so that the writer ends in the middle of it; hung says that one does.
func (h *faultHistory) randomFaults(g *storetest.FaultProxy, dies bool) (
	rule func(int, string) storetest.Fault, hung *atomic.Bool) {
	rnd := rand.New(rand.NewPCG(h.rnd.Uint64(), 1)) // guarded by the gate
	percent := pick(h.history, 0, 3, 20)
	last := -1
	if dies {
		last = h.rnd.IntN(30)
	}
	g.RefusalCode = pick(h.history, 243, 252, 241, 210, 999)
	hung = new(atomic.Bool)
	return func(nth int, statement string) storetest.Fault {
		switch {
		case kindOf(statement) < 0:
		case last >= 0 && nth >= last:
			hung.Store(true)
			return storetest.Stuck
		case rnd.IntN(100) < percent:
			return []storetest.Fault{
				storetest.Refused, storetest.Cut, storetest.Torn, storetest.Lost, storetest.Half}[rnd.IntN(5)]
		}
		return storetest.NoFault
	}, hung
}
