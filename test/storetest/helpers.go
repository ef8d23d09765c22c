package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/eventrelay/relay/features/leaks/findings"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/store"
	"github.com/eventrelay/relay/store/read"
	"github.com/eventrelay/relay/store/read/cluster"
	"github.com/eventrelay/relay/store/schema"
)

// Database returns the name of the bench's database.
func (b *Bench) Database() string { return b.URL[strings.LastIndexByte(b.URL, '/')+1:] }

// DropDatabase drops the bench's database and returns its URL.
func (b *Bench) DropDatabase() string {
	b.Exec("DROP DATABASE " + b.Database())
	return b.URL
}

// TableDefinitions returns the definitions of all tables of the bench's database, without its name.
func (b *Bench) TableDefinitions() (out []string) {
	b.Helper()
	b.ForEachShard(func(conn driver.Conn) error {
		rows, err := conn.Query(b.Context(), "SELECT create_table_query FROM system.tables WHERE database = '"+b.Database()+
			"' ORDER BY name")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var s string
			if err := rows.Scan(&s); err != nil {
				return err
			}
			out = append(out, strings.ReplaceAll(s, b.Database(), "db"))
		}
		return rows.Err()
	})
	return out
}

// hangs is how long tests wait for a condition that holds at once on an idle machine.
const hangs = 5 * time.Minute

// WaitCaughtUp waits until everything in Kafka is stored, for at most 5 minutes.
func (b *Bench) WaitCaughtUp(r *read.Reader) {
	b.Helper()
	for began := time.Now(); ; {
		err := r.CaughtUp(b.Context())
		if err == nil {
			var page audit.Page
			// the topics audit and findings have fences of their own
			var hits finding.Page
			if page, err = r.Audit(b.Context(), audit.Query{Account: Account, Limit: 1}); err == nil && page.AsOf.IsZero() {
				hits, err = findings.Reader{Cluster: r.Cluster}.Findings(b.Context(), finding.Query{IDs: []string{}})
			}
			if err == nil && page.AsOf.IsZero() && hits.AsOf.IsZero() {
				return
			}
		}
		if time.Since(began) > hangs {
			b.Fatalf("the store is behind after %v: %v", hangs, err)
		}
		_ = wait.For(b.Context(), 20*time.Millisecond) // an unavailable store returns its error at once
	}
}

// ProduceCommand produces the command of a run.
func (b *Bench) ProduceCommand(e *event.Event, dest, run string) {
	b.Helper()
	r, err := (&event.Work{Event: e, Dest: dest, Trigger: event.TriggerReplay, Attempt: 1, Run: run}).Record()
	if err != nil {
		b.Fatal(err)
	}
	b.Produce(stream.Commands, e.ID.Partition(), r)
}

// Eventually waits until holds returns true, for at most 5 minutes.
func Eventually(t *testing.T, holds func() bool) {
	t.Helper()
	EventuallyWithin(t, hangs, holds)
}

// EventuallyWithin waits until holds returns true, for at most the limit. The pauses grow, because a condition is often
// a statement, and those of a long wait would keep a core busy.
func EventuallyWithin(t *testing.T, limit time.Duration, holds func() bool) {
	t.Helper()
	pauses, end := wait.Backoff{First: 2 * time.Millisecond, Longest: 50 * time.Millisecond}, time.Now().Add(limit)
	for tries := 0; !holds(); tries++ {
		if time.Now().After(end) {
			t.Fatalf("the condition does not hold within %v", limit)
		}
		_ = wait.For(t.Context(), pauses.After(tries))
	}
}

// Metric returns the value of a gauge or a counter without labels.
func Metric(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue() // one of the two is 0
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// BuildIndexes waits until all events are stored and merges them, which builds the skip indexes.
func (b *Bench) BuildIndexes(r *read.Reader) {
	b.Helper()
	b.WaitCaughtUp(r)
	b.Exec("OPTIMIZE TABLE events FINAL")
}

// RecoveryItems returns the items of a recovery job, read page by page.
func (b *Bench) RecoveryItems(r *read.Reader, job event.RecoveryJob, total, limit int, states ...event.Status) (
	all []event.RecoveryItem) {
	b.Helper()
	job.Total = total
	for before := 0; ; {
		page, err := r.RecoveryItems(b.Context(), job, before, limit, states)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, page.Rows...)
		if !page.More {
			return all
		}
		if len(page.Rows) != limit {
			b.Fatalf("a page of %d items is followed by another", len(page.Rows))
		}
		before = page.Rows[limit-1].Seq
	}
}

// SelectRecovery runs the selection of a new recovery job.
func (b *Bench) SelectRecovery(r *read.Reader, s event.Selection) (event.RecoveryJob, event.SelectionTotals) {
	b.Helper()
	job := event.RecoveryJob{Account: Account, ID: b.IDs.NewUnbounded(0).Text(id.Recovery), Selection: id.Random("")}
	sel, err := r.SelectRecovery(b.Context(), s, job.Selection)
	if err != nil {
		b.Fatal(err)
	}
	return job, sel
}

// Selection returns a selection of the last hour of endpoint 1.
func (b *Bench) Selection(groups ...event.SelectionGroup) event.Selection {
	return event.Selection{Account: Account, Endpoint: "ep_1", Since: time.Now().Add(-time.Hour),
		Until: time.Now().Add(time.Second), Groups: groups}
}

// ReaderWithSmallPages is a reader that selects for recovery jobs in pages of three candidates.
func (b *Bench) ReaderWithSmallPages(w store.FlushRequester) *read.Reader {
	return b.ReaderWith(cluster.Config{URL: b.URL, RetentionDays: retentionDays, SelectPage: 3}, w)
}

// ProduceReceipt produces a receipt and returns it with its offset.
func (b *Bench) ProduceReceipt(e *event.Event, state event.Processing, at time.Time) (*event.Receipt, int64) {
	b.Helper()
	x := &event.Receipt{Event: e.ID, Account: e.Account, Endpoint: e.Endpoint, State: state,
		Reference: fmt.Sprint(at.UnixMilli()), At: at.UTC()}
	r := x.Record()
	b.Produce(stream.Receipts, e.ID.Partition(), r)
	return x, r.Offset
}

// ProduceAudit produces audit entries.
func (b *Bench) ProduceAudit(entries ...audit.Entry) {
	b.Helper()
	for i := range entries {
		r, err := entries[i].Record()
		if err == nil {
			err = b.Producer.ProduceSync(b.Context(), stream.AuditLog, 0, r)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// DeadLetters returns the records of a partition of the dead letter topic.
func (b *Bench) DeadLetters(partition int32) (records []*stream.Record) {
	b.Helper()
	reader, err := stream.NewReader(b.Stream, "test")
	if err != nil {
		b.Fatal(err)
	}
	defer reader.Close()
	ends, err := reader.Ends(b.Context(), stream.Dead)
	if err != nil {
		b.Fatal(err)
	}
	p := stream.Partition{Topic: stream.Dead, Index: partition}
	if ends[p] == 0 {
		return nil
	}
	err = reader.Read(b.Context(), p, 0, func(r *stream.Record) error {
		if records = append(records, r); int64(len(records)) == ends[p] {
			return stream.ErrStop
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return records
}

// ListEvents reads a list to its end, or for at most maxPages pages.
func ListEvents(t testing.TB, r *read.Reader, q event.Query, maxPages int) (rows []event.Summary) {
	t.Helper()
	for range maxPages {
		page, err := r.Events(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if !page.AsOf.IsZero() {
			t.Fatalf("the store is behind: as of %v", page.AsOf)
		}
		rows = append(rows, page.Rows...)
		if !page.More {
			return rows
		}
		if len(page.Rows) != q.Limit {
			t.Fatalf("a page of %d rows is followed by another, limit %d", len(page.Rows), q.Limit)
		}
		q.Before = page.Rows[len(page.Rows)-1].ID
	}
	return rows
}

// SelectEvents returns everything that a replay with this query selects.
func SelectEvents(t testing.TB, r *read.Reader, q event.Query) (all []event.Match) {
	t.Helper()
	err := r.Select(t.Context(), q, func(page []event.Match) error {
		if len(page) == 0 {
			t.Fatal("an empty page")
		}
		all = append(all, page...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Migrate creates the tables on servers that are no cluster.
func Migrate(ctx context.Context, url string, days int) error {
	_, err := schema.Migrate(ctx, schema.Config{URL: url, RetentionDays: days})
	return err
}

// Cost is the work of statements in ClickHouse.
type Cost struct{ Statements, Rows, Marks, Bytes, Micros uint64 }

// QueryCost returns the cost of all statements since the engine started. It runs one statement itself.
func (b *Bench) QueryCost() (c Cost) {
	b.Helper()
	b.ForEachShard(func(conn driver.Conn) error {
		return conn.QueryRow(b.Context(), "SELECT sumIf(value, event = 'SelectQuery'), sumIf(value, event = "+
			"'SelectedRows'), sumIf(value, event = 'SelectedMarks'), "+
			"sumIf(value, event = 'SelectedBytes'), sumIf(value, event = 'OSCPUVirtualTimeMicroseconds') FROM system.events").
			Scan(&c.Statements, &c.Rows, &c.Marks, &c.Bytes, &c.Micros)
	})
	return c
}
