package write

import (
	"math/big"
	"time"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/internal/column"
)

// candidateTables returns the tables with one row for each of the few deliveries that failed, wait or belong to a run.
// Lists read them to find rows that may match, then the table deliveries decides; only run_deliveries is an answer by
// itself. Most flushes have no row for any of them, so the writer inserts them instead of a materialised view, which
// would cost time in every insert.
func candidateTables() []*table[*deliveryRow] {
	type r = *deliveryRow
	account := column.Text("account", func(x r) string { return x.Account })
	eventID := column.ID("id", func(x r) []byte { return x.Event[:] })
	ts := column.Timestamp("ts", func(x r) time.Time { return x.Event.Time() })
	dest := column.Text("dest", func(x r) string { return x.Dest })
	endpoint := column.Text("endpoint", func(x r) string { return x.Endpoint })
	eventType := column.LowCardinality("type", func(x r) string { return x.Type })
	status := column.LowCardinality("status", func(x r) string { return string(x.Status) })
	return []*table[*deliveryRow]{
		newTable("failure_candidates_by_endpoint", account, endpoint, eventID, dest, ts).of(r.isUndelivered),
		newTable("failure_candidates", account, eventID, dest, ts, endpoint, eventType, status,
			column.Typed("ver", "UInt128", func(x r) *big.Int { return x.version.Big() }),
		).of(func(x r) bool { return !x.isFirstOutcome() || x.isUndelivered() }),
		newTable("run_deliveries", account, column.Text("run", func(x r) string { return x.Run }), eventID, dest, ts, status,
			column.LowCardinality("reason", func(x r) string { return string(x.Reason) }),
			column.LowCardinality("skipped", func(x r) string { return string(x.SkipReason) }),
			column.Typed("code", "UInt16", func(x r) uint16 { return uint16(x.Code) }),
			column.Timestamp("last_at", func(x r) time.Time { return x.At }),
			column.Typed("ver", "UInt128", r.versionInRun),
		).of(r.isOfRun),
		// A replay may send to a destination that the event itself did not have.
		newTable("event_keys", account, column.Text("key", func(x r) string { return "dest:" + x.Dest }), eventID, ts).
			of(r.isOfRun),
	}
}

// isUndelivered reports whether the delivery failed, waits, or is held.
func (r *deliveryRow) isUndelivered() bool {
	return r.Status != event.Delivered && r.Status != event.Skipped
}

func (r *deliveryRow) isOfRun() bool { return r.Run != "" }

// versionInRun lets a failure outrank every later row of the same run. A copy of the command may be skipped later
// because the failure has stopped the run; that must not hide the failure.
func (r *deliveryRow) versionInRun() *big.Int {
	v := r.version
	if r.Status == event.Failed && r.SkipReason == "" {
		v.Lo |= 1 << 63 // above the offset and below the rank
	}
	return v.Big()
}
