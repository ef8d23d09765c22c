package read

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
)

// Stop stops the reader's clock at a time.
func (r *Reader) Stop(at time.Time) { r.now = func() time.Time { return at } }

// HoldSearches takes all turns of an account until the returned function is called.
func (r *Reader) HoldSearches(ctx context.Context, account string) (release func()) {
	return r.searches.hold(ctx, account)
}

// HoldReads takes all turns of an API key until the returned function is called.
func (r *Reader) HoldReads(ctx context.Context, key string) (release func()) {
	return r.reads.hold(ctx, key)
}

func (t *slotPools) hold(ctx context.Context, who string) (release func()) {
	var leaves []func()
	for range t.size {
		leave, err := t.acquire(ctx, who)
		if err != nil {
			panic(err)
		}
		leaves = append(leaves, leave)
	}
	return func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

// Scan finds an event in the log.
func (r *Reader) Scan(ctx context.Context, account string, d id.ID) (*event.Event, error) {
	return r.scans.find(ctx, account, d)
}

// AbsentBelow is the offset below which the log is known not to hold an event.
func (r *Reader) AbsentBelow(d id.ID) int64 { return r.scans.absent.below(d) }

// NoteAbsent notes ids as absent and returns how many are remembered.
func NoteAbsent(ids []id.ID) int {
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
	conn, err := r.pool.Conn(ctx, 0)
	if err != nil {
		cancel()
		return nil, err
	}
	for range r.cfg.Connections {
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
			_ = rows.Close() // it was broken off
		}
	}, nil
}

// Asked are the filters of a query.
func Asked(q event.Query) uint { return uint(newPredicate(&q).used) }

// Incomplete are the filters that have not all that filters of their kind have.
func Incomplete() (missing uint) {
	for _, d := range definitions(&event.Query{}) {
		fixed, changing := d.filter&fixedFilters != 0, d.filter&changingFilters != 0
		if fixed != (d.column != nil) || changing != (d.candidates != nil) || changing != (d.matches != nil) {
			missing |= uint(d.filter)
		}
	}
	return missing
}

// PlanOf is the name of the plan for a query, with the filters that it finds events by or lets stand beside.
func (r *Reader) PlanOf(q event.Query) (name string, takes uint) {
	p := r.newWalk(q, time.Time{}).plan()
	return p.name, uint(p.needsOneOf | p.allows)
}

// PlanNames are those of all plans.
func PlanNames() (names []string) {
	for _, p := range plans() {
		names = append(names, p.name)
	}
	return names
}
