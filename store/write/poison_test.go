package write_test

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/internal/storetest"
	"github.com/eventrelay/relay/store/write"
)

// poisoned has tables that each refuse a row that says poison, and makes such rows and others.
type poisoned struct {
	*bench
	rows map[string]int  // good ones, by table
	dead map[string]bool // topic and offset of the others
}

func newPoisoned(b *bench) *poisoned {
	for table, column := range map[string]string{
		"events": "type", "deliveries": "reason", "attempts": "error_message", "receipts": "reference", "audit": "actor_name",
		"failure_candidates": "type"} {
		b.Exec("ALTER TABLE " + table + " ADD CONSTRAINT clean CHECK " + column + " != 'poison'")
	}
	return &poisoned{b, map[string]int{}, map[string]bool{}}
}

// add produces a record for each table, of which the one for the named table is refused; "all" names them all.
func (p *poisoned) add(refusing string) {
	p.Helper()
	word := func(table string) string {
		if table == refusing || refusing == "all" {
			return "poison"
		}
		p.rows[table]++
		return "fine"
	}
	note := func(table, topic string, offset int64) {
		if table == refusing || refusing == "all" {
			p.dead[fmt.Sprint(topic, " ", offset)] = true
		}
	}
	e := p.Event(1, func(e *event.Event) { e.Type = word("events") })
	r := e.Record()
	p.Produce(stream.Events, 1, r)
	note("events", stream.Events, r.Offset)

	o := p.Outcome(e, "dst_a", event.Failed, func(o *event.Outcome) {
		o.Reason, o.Attempt.ErrorMessage, o.Type = event.Reason(word("deliveries")), word("attempts"),
			word("failure_candidates")
	})
	r = o.Record()
	p.Produce(stream.Outcomes, 1, r)
	note("deliveries", stream.Outcomes, r.Offset)
	note("attempts", stream.Outcomes, r.Offset)
	note("failure_candidates", stream.Outcomes, r.Offset)

	x := event.Receipt{Event: e.ID, Account: storetest.Account, Endpoint: e.Endpoint, State: event.ProcessingDone,
		Reference: word("receipts"), At: time.Now()}
	r = x.Record()
	p.Produce(stream.Receipts, 1, r)
	note("receipts", stream.Receipts, r.Offset)

	at := time.Now().UTC()
	a := audit.Entry{ID: audit.NewID(at, uint32(len(p.dead)+p.rows["events"]), "p"), Account: storetest.Account, At: at,
		Actor: audit.ActorOf("key_1", word("audit")), Action: "endpoint.updated"}
	r, err := a.Record()
	if err != nil {
		p.Fatal(err)
	}
	p.Produce(stream.AuditLog, 0, r)
	note("audit", stream.AuditLog, r.Offset)
}

// check waits for a writer to have come to the end, and compares tables and dead.
func (p *poisoned) check(w *write.Writer) {
	p.Helper()
	p.WaitCaughtUp(p.Reader(w))
	rows, dead := map[string]int{}, map[string]bool{}
	for table := range p.rows {
		rows[table] = int(p.QuerySum("SELECT count() FROM " + table + " FINAL"))
	}
	if diff := gocmp.Diff(p.rows, rows); diff != "" {
		p.Errorf("rows (-want +got):\n%s", diff)
	}
	for _, d := range slices.Concat(p.bench.DeadLetters(0), p.bench.DeadLetters(1)) {
		head := map[string]string{}
		for _, h := range d.Headers {
			head[h.Key] = string(h.Value)
		}
		at := head[stream.HeaderDeadTopic] + " " + head[stream.HeaderDeadOffset]
		if dead[at] {
			p.Errorf("%s is in dead twice", at)
		}
		dead[at] = true
	}
	if diff := gocmp.Diff(p.dead, dead); diff != "" {
		p.Errorf("dead (-want +got):\n%s", diff)
	}
}

// TestPoisonInEveryTable: one row that ClickHouse refuses, several, and nothing else, in each table. Each is in dead
// once and everything else is stored, also the other rows of a record that one table refused.
func TestPoisonInEveryTable(t *testing.T) {
	b := newBench(t)
	p := newPoisoned(b)
	tables := []string{"events", "deliveries", "attempts", "receipts", "audit", "failure_candidates"}
	p.add("")
	w, stop := b.Writer(write.WriterConfig{})
	p.check(w) // an empty table would take a probe whatever it refuses
	stop()
	for _, poison := range [][]int{{7}, {0, 1, 6, 11}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}} {
		for i := range 12 {
			switch {
			case len(poison) == 12: // a batch of nothing else
				p.add("all")
			case slices.Contains(poison, i):
				for _, table := range tables {
					p.add(table)
				}
			default:
				p.add("")
			}
		}
		w, stop := b.Writer(write.WriterConfig{FlushEvery: 300 * time.Millisecond})
		p.check(w)
		stop()
	}
	if n := len(p.dead); n != 5*len(tables)+12*4 {
		t.Errorf("the test made %d refused records: %v", n, slices.Sorted(maps.Keys(p.dead)))
	}
}

// TestPoisonIsFoundByHalves: one refused row among thousands costs a few inserts, not thousands.
func TestPoisonIsFoundByHalves(t *testing.T) {
	b := newBench(t)
	g := storetest.NewFaultProxy(b.Bench)
	b.Exec("ALTER TABLE events ADD CONSTRAINT clean CHECK type != 'poison'")
	const n = 2_000
	for i := range n {
		e := b.Event(1)
		if i == 1_234 {
			e.Type = "poison"
		}
		b.Producer.Produce(stream.Events, 1, e.Record(), func(_ *stream.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := b.Producer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	inserts := g.CountInserts("events")
	w, _ := b.Writer(g.WriterConfig(write.WriterConfig{FlushEvery: time.Hour, FlushRows: n}))
	b.WaitCaughtUp(b.Reader(w))
	// The whole batch, two halves at each step, the row by itself, and four probes; the same again if the batch came in
	// two pieces.
	if got, most := inserts(), 2*(6+2*bits.Len(n)); got > most || got < bits.Len(n) {
		t.Errorf("%d inserts for one refused row of %d, want %d at most", got, n, most)
	}
	if got := b.QuerySum("SELECT uniqExact(id) FROM events"); got != n-1 {
		t.Errorf("%d of %d events are stored", got, n-1)
	}
}

// TestServerFaultIsNotTheRows: an error that nobody has heard of spoils inserts into a table that is empty, or begins
// while a refused row is being looked for. It ends, and nothing but the refused row is in dead.
func TestServerFaultIsNotTheRows(t *testing.T) {
	into := func(table, statement string) bool {
		return strings.HasPrefix(statement, "INSERT INTO "+table+" ")
	}
	t.Run("an empty table", func(t *testing.T) {
		b := newBench(t)
		g := storetest.NewFaultProxy(b.Bench)
		g.RefusalCode = 40 // CHECKSUM_DOESNT_MATCH, of which the writer knows nothing
		failed := 0
		g.SetRule(func(_ int, statement string) storetest.Fault {
			// To copy a row that is not there works.
			if into("receipts", statement) && !strings.Contains(statement, "SELECT * FROM receipts") && failed < 12 {
				failed++
				return storetest.Refused
			}
			return storetest.NoFault
		})
		e := b.Event(1)
		b.ProduceEvents(e)
		for range 4 {
			b.ProduceReceipt(e, event.ProcessingFailed, time.Now())
			e = b.Event(1)
			b.ProduceEvents(e)
		}
		w, _ := b.Writer(g.WriterConfig(write.WriterConfig{}))
		b.WaitCaughtUp(b.Reader(w))
		if dead := append(b.DeadLetters(0), b.DeadLetters(1)...); len(dead) > 0 || failed < 12 {
			t.Errorf("%d records are in dead after %d faults: %s", len(dead), failed, dead[0].Headers)
		}
		if n := b.QuerySum("SELECT uniqExact(id) FROM receipts WHERE account = '" + storetest.Account + "'"); n != 4 {
			t.Errorf("%d of 4 receipts are stored", n)
		}
	})
	whileLookedFor := func(t *testing.T, from, until int) {
		b := newBench(t)
		g := storetest.NewFaultProxy(b.Bench)
		g.RefusalCode = 40
		b.Exec("ALTER TABLE events ADD CONSTRAINT clean CHECK type != 'poison'")
		const n = 16
		var es []*event.Event
		for i := range n {
			es = append(es, b.Event(1, func(e *event.Event) {
				if i == 10 {
					e.Type = "poison"
				}
			}))
		}
		b.ProduceEvents(es...)
		inserts := 0
		g.SetRule(func(_ int, statement string) storetest.Fault {
			if !into("events", statement) {
				return storetest.NoFault
			}
			if inserts++; inserts >= from && inserts < until {
				return storetest.Refused
			}
			return storetest.NoFault
		})
		w, _ := b.Writer(g.WriterConfig(write.WriterConfig{FlushEvery: time.Second}))
		b.WaitCaughtUp(b.Reader(w))
		if got := b.QuerySum("SELECT uniqExact(id) FROM events WHERE account = '" + storetest.Account + "'"); got != n-1 ||
			inserts < until {
			t.Errorf("%d of %d events are stored after %d inserts", got, n-1, inserts)
		}
		if dead := append(b.DeadLetters(0), b.DeadLetters(1)...); len(dead) != 1 {
			t.Errorf("%d records are in dead, want that of the refused row", len(dead))
		}
	}
	// The first insert is of all rows, the second a probe, then come two halves and so on.
	t.Run("from when a row begins to be looked for", func(t *testing.T) { whileLookedFor(t, 3, 40) })
	t.Run("longer than a row is looked for", func(t *testing.T) { whileLookedFor(t, 6, 24) })
	t.Run("while a row is looked for", func(t *testing.T) { whileLookedFor(t, 6, 12) })
}
