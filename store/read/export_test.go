package read

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/store/read/cluster"
)

// StopClock stops the reader's clock at a time.
func (r *Reader) StopClock(at time.Time) {
	r.Now = func() time.Time { return at }
	r.unreported.Now = r.Now
}

// LimitUncommitted bounds what a list reads of the events that the dispatcher has not committed.
func (r *Reader) LimitUncommitted(records int64, bytes int) {
	r.unreported.MaxRecords, r.unreported.MaxBytes = records, bytes
}

// ReportedBound returns the time before which every delivery of every event has an outcome.
func (r *Reader) ReportedBound(ctx context.Context) time.Time {
	return r.unreported.AllReportedBefore(ctx)
}

// HoldSearches takes all search slots of an account until release is called.
func (r *Reader) HoldSearches(ctx context.Context, account string) (release func()) {
	return hold(maxSearches, func() (func(), error) { return r.searches.Acquire(ctx, account) })
}

// HoldReads takes all read slots of an API key until release is called.
func (r *Reader) HoldReads(ctx context.Context, key string) (release func()) {
	return hold(cluster.MaxReads, func() (func(), error) { return r.AcquireSlot(event.WithCaller(ctx, key, "")) })
}

func hold(slots int, acquire func() (release func(), err error)) (release func()) {
	var releases []func()
	for range slots {
		release, err := acquire()
		if err != nil {
			panic(err)
		}
		releases = append(releases, release)
	}
	return func() {
		for _, release := range releases {
			release()
		}
	}
}

// Scan finds an event in the log.
func (r *Reader) Scan(ctx context.Context, account string, d id.ID) (*event.Event, error) {
	return r.scans.find(ctx, account, d)
}

// HoldScans takes all slots to scan the log until release is called. Scans give up after limit.
func (r *Reader) HoldScans(limit time.Duration) (release func()) {
	r.scans.timeout = limit
	for range parallelScans {
		r.scans.slots <- struct{}{}
	}
	return func() {
		r.scans.timeout = scanTimeout
		for range parallelScans {
			<-r.scans.slots
		}
	}
}

// LoseOutcomes makes the reads of outcomes in the log fail.
func (r *Reader) LoseOutcomes() { r.outcomesTimeout = 0 }

// AbsentBelow returns the offset below which the log is known not to hold an event.
func (r *Reader) AbsentBelow(d id.ID) int64 { return r.scans.absent.below(d) }

// RememberAbsent marks ids as absent from the log and returns how many are remembered.
func RememberAbsent(ids []id.ID) int {
	var a absentIDs
	for _, d := range ids {
		a.remember(d, 1)
	}
	return len(a.newer) + len(a.old)
}

// HoldConnections takes all connections of the reader to the first shard until release is called.
func (r *Reader) HoldConnections(ctx context.Context) (release func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var held []driver.Rows
	conn, err := r.ReadPool.Conn(ctx, 0)
	if err != nil {
		cancel()
		return nil, err
	}
	for range r.Config.Connections {
		rows, err := conn.Query(ctx, "SELECT number FROM numbers(1000000000)")
		if err != nil {
			cancel()
			return nil, err
		}
		held = append(held, rows)
	}
	return func() {
		cancel()
		for _, rows := range held {
			for rows.Next() {
			}
			_ = rows.Close() // the context has ended
		}
	}, nil
}

// UsedFilters returns the filters of a query.
func UsedFilters(q event.Query) uint { return uint(newPredicate(&q).used) }

// IncompleteFilters returns the filters that lack a condition or a check which filters of their kind need.
func IncompleteFilters() (missing uint) {
	for _, d := range definitions(&event.Query{}) {
		fixed, changing := d.filter&fixedFilters != 0, d.filter&changingFilters != 0
		if fixed != (d.column != nil) ||
			changing != (d.candidates != nil) || changing != (d.matches != nil) {
			missing |= uint(d.filter)
		}
	}
	return missing
}

// PlanOf returns the name of the plan for a query, and the filters that the plan needs or allows.
func (r *Reader) PlanOf(q event.Query) (name string, takes uint) {
	p := r.newWalk(q, time.Time{}).plan()
	return p.name, uint(p.needsOneOf | p.allows)
}

// PlanNames returns the names of all plans.
func PlanNames() (names []string) {
	for _, p := range plans() {
		names = append(names, p.name)
	}
	return names
}
