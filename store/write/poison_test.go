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
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/store/write"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/storetest"
)

// poisonedBench has tables that each reject rows with the word poison, and produces such records and good ones.
type poisonedBench struct {
	*bench
	rows map[string]int  // stored rows, by table
	dead map[string]bool // topic and offset of the dead letters
}

func newPoisonedBench(b *bench) *poisonedBench {
	for table, column := range map[string]string{
		"events": "type", "deliveries": "reason", "attempts": "error_message", "receipts": "reference", "audit": "actor_name",
		"failure_candidates": "type", "findings_hits": "rule", "senders_minute": "platform"} {
		b.Exec("ALTER TABLE " + table + " ADD CONSTRAINT clean CHECK " + column + " != 'poison'")
	}
	return &poisonedBench{b, map[string]int{}, map[string]bool{}}
}

// produceRecords produces a record for each table. The named table will reject its row; "all" names every table.
func (p *poisonedBench) produceRecords(rejecting string) {
	p.Helper()
	word := func(table string) string {
		if table == rejecting || rejecting == "all" {
			return "poison"
		}
		p.rows[table]++
		return "fine"
	}
	expectDeadLetter := func(table, topic string, offset int64) {
		if table == rejecting || rejecting == "all" {
			p.dead[fmt.Sprint(topic, " ", offset)] = true
		}
	}
	e := p.Event(1, func(e *event.Event) { e.Type = word("events") })
	r := e.Record()
	p.Produce(stream.Events, 1, r)
	expectDeadLetter("events", stream.Events, r.Offset)

	o := p.Outcome(e, "dst_a", event.Failed, func(o *event.Outcome) {
		o.Reason, o.Attempt.ErrorMessage, o.Type = event.Reason(word("deliveries")), word("attempts"),
			word("failure_candidates")
	})
	r = o.Record()
	p.Produce(stream.Outcomes, 1, r)
	expectDeadLetter("deliveries", stream.Outcomes, r.Offset)
	expectDeadLetter("attempts", stream.Outcomes, r.Offset)
	expectDeadLetter("failure_candidates", stream.Outcomes, r.Offset)

	x := event.Receipt{Event: e.ID, Account: storetest.Account, Endpoint: e.Endpoint, State: event.ProcessingDone,
		Reference: word("receipts"), At: time.Now()}
	r = x.Record()
	p.Produce(stream.Receipts, 1, r)
	expectDeadLetter("receipts", stream.Receipts, r.Offset)

	at := time.Now().UTC()
	a := audit.Entry{ID: audit.NewID(at, uint32(len(p.dead)+p.rows["events"]), "p"), Account: storetest.Account, At: at,
		Actor: audit.ActorOf("key_1", word("audit")), Action: "endpoint.updated"}
	r = must.Get(a.Record())(p)
	p.Produce(stream.AuditLog, 0, r)
	expectDeadLetter("audit", stream.AuditLog, r.Offset)

	r = &stream.Record{Value: p.Hit(1, func(h *finding.Hit) { h.Rule = word("findings_hits") }).Encode()}
	p.Produce(stream.Findings, 1, r)
	expectDeadLetter("findings_hits", stream.Findings, r.Offset)
	report := p.Counts(0, func(c *finding.Counts) {
		c.Platform, c.Node = word("senders_minute"), fmt.Sprint(p.rows["events"]+len(p.dead)) // a row of its own
	})
	r = &stream.Record{Value: report.Encode()}
	p.Produce(stream.Findings, 1, r)
	expectDeadLetter("senders_minute", stream.Findings, r.Offset)
}

// checkTablesAndDeadLetters waits until a writer has stored everything, and compares the tables and the dead letters.
func (p *poisonedBench) checkTablesAndDeadLetters(w *write.Writer) {
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
			p.Errorf("%s has two dead letters", at)
		}
		dead[at] = true
	}
	if diff := gocmp.Diff(p.dead, dead); diff != "" {
		p.Errorf("dead letters (-want +got):\n%s", diff)
	}
}

// TestPoisonInEveryTable: each table rejects one row, several, or every row of a batch. Each rejected record becomes
// one dead letter, and everything else is stored, also the rows of that record in other tables.
func TestPoisonInEveryTable(t *testing.T) {
	b := newBench(t)
	p := newPoisonedBench(b)
	tables := []string{"events", "deliveries", "attempts", "receipts", "audit", "failure_candidates", "findings_hits",
		"senders_minute"}
	p.produceRecords("")
	w, stop := b.Writer(write.WriterConfig{})
	p.checkTablesAndDeadLetters(w) // the probe of an empty table would not violate the constraint
	stop()
	for _, poison := range [][]int{{4}, {0, 1, 5}, {0, 1, 2, 3, 4, 5}} {
		for i := range 6 {
			switch {
			case len(poison) == 6: // a batch of nothing else
				p.produceRecords("all")
			case slices.Contains(poison, i):
				for _, table := range tables {
					p.produceRecords(table)
				}
			default:
				p.produceRecords("")
			}
		}
		w, stop := b.Writer(write.WriterConfig{FlushEvery: 300 * time.Millisecond})
		p.checkTablesAndDeadLetters(w)
		stop()
	}
	if n := len(p.dead); n != 4*len(tables)+6*6 {
		t.Errorf("the test produced %d rejected records: %v", n, slices.Sorted(maps.Keys(p.dead)))
	}
}

// TestPoisonIsFoundByBisection: finding one rejected row among 2,000 takes a few inserts, not thousands.
func TestPoisonIsFoundByBisection(t *testing.T) {
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
			is.OK(t, err)
		})
	}
	must.Do(t, b.Producer.Flush(t.Context()))
	inserts := g.CountInserts("events")
	w, _ := b.Writer(g.WriterConfig(write.WriterConfig{FlushEvery: time.Hour, FlushRows: n}))
	b.WaitCaughtUp(b.Reader(w))
	// The whole batch, two halves per step, the row by itself, and four probes; twice that if the batch came in two
	// pieces.
	if got, most := inserts(), 2*(6+2*bits.Len(n)); got > most || got < bits.Len(n) {
		t.Errorf("%d inserts for one rejected row of %d, want %d at most", got, n, most)
	}
	if got := b.QuerySum("SELECT uniqExact(id) FROM events"); got != n-1 {
		t.Errorf("%d of %d events are stored", got, n-1)
	}
}

// TestServerFaultMakesNoDeadLetters: an unknown error code fails inserts into an empty table, or begins while the
// writer looks for a rejected row. Once it ends, only the rejected row is a dead letter.
func TestServerFaultMakesNoDeadLetters(t *testing.T) {
	into := func(table, statement string) bool {
		return strings.HasPrefix(statement, "INSERT INTO "+table+" ")
	}
	t.Run("an empty table", func(t *testing.T) {
		b := newBench(t)
		g := storetest.NewFaultProxy(b.Bench)
		g.RefusalCode = 40 // CHECKSUM_DOESNT_MATCH, which is not in ch.IsServerError
		failed := 0
		g.SetRule(func(_ int, statement string) storetest.Fault {
			// Copying a row of an empty table succeeds.
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
			t.Errorf("%d dead letters after %d faults: %s", len(dead), failed, dead[0].Headers)
		}
		is.Equal(t, b.QuerySum("SELECT uniqExact(id) FROM receipts WHERE account = '"+storetest.Account+"'"), 4,
			"of 4 receipts are stored")
	})
	duringBisection := func(t *testing.T, from, until int) {
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
			t.Errorf("%d dead letters, want that of the rejected row", len(dead))
		}
	}
	// The first insert has all rows, the second is a probe, then come two halves and so on.
	t.Run("from the beginning of the bisection", func(t *testing.T) { duringBisection(t, 3, 40) })
	t.Run("longer than the bisection", func(t *testing.T) { duringBisection(t, 6, 24) })
	t.Run("during the bisection", func(t *testing.T) { duringBisection(t, 6, 12) })
}
