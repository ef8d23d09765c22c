package write

import (
	"context"
	"math/big"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/store/internal/column"
)

// candidateTable has what few deliveries are looked for by. Its rows may belong to an answer; deliveries itself
// decides, but for what became of a delivery within a run. Most flushes have no row for any, so that the writer writes
// them rather than views, which take their time for nothing too.
type candidateTable struct {
	*table[*deliveryRow]
	takes func(*deliveryRow) bool
}

func (c candidateTable) of(rows []*deliveryRow) (out []*deliveryRow) {
	for _, r := range rows {
		if c.takes(r) {
			out = append(out, r)
		}
	}
	return out
}

func candidateTables() []candidateTable {
	type r = *deliveryRow
	account := column.Text("account", func(x r) string { return x.Account })
	event16 := column.ID("id", func(x r) []byte { return x.Event[:] })
	ts := column.Timestamp("ts", func(x r) time.Time { return x.Event.Time() })
	dest := column.Text("dest", func(x r) string { return x.Dest })
	endpoint := column.Text("endpoint", func(x r) string { return x.Endpoint })
	kind := column.LowCardinality("type", func(x r) string { return x.Type })
	status := column.LowCardinality("status", func(x r) string { return string(x.Status) })
	return []candidateTable{
		{newTable("failure_candidates_by_endpoint", account, endpoint, event16, dest, ts), r.isFailing},
		{
			newTable("failure_candidates", account, event16, dest, ts, endpoint, kind, status,
				column.Typed("ver", "UInt128", func(x r) *big.Int { return x.version.Big() })),
			func(x r) bool { return !x.isFirst() || x.isFailing() },
		},
		{
			newTable("run_deliveries", account, column.Text("run", func(x r) string { return x.Run }), event16, dest, ts, status,
				column.LowCardinality("reason", func(x r) string { return string(x.Reason) }),
				column.LowCardinality("skipped", func(x r) string { return string(x.SkipReason) }),
				column.Typed("code", "UInt16", func(x r) uint16 { return uint16(x.Code) }),
				column.Timestamp("last_at", func(x r) time.Time { return x.At }),
				column.Typed("ver", "UInt128", r.versionInRun)),
			r.isOfRun,
		},
		// A destination may be that of a replay alone.
		{
			newTable("event_keys", account, column.Text("key", func(x r) string { return "dest:" + x.Dest }), event16, ts),
			r.isOfRun,
		},
	}
}

// isFailing reports whether the row says that the delivery failed, waits, or is held.
func (r *deliveryRow) isFailing() bool {
	return r.Status != event.Delivered && r.Status != event.Skipped
}

func (r *deliveryRow) isOfRun() bool { return r.Run != "" }

// versionInRun lets a failure win over what comes later in the run: a second copy of work that failed may be passed by
// because the failure has stopped its job.
func (r *deliveryRow) versionInRun() *big.Int {
	v := r.version
	if r.Status == event.Failed && r.SkipReason == "" {
		v.Lo |= 1 << 63 // above the offset and below the rank
	}
	return v.Big()
}

// writeCandidates writes the rows that the candidate tables take, and returns those that ClickHouse refuses.
func (w *Writer) writeCandidates(ctx context.Context, s *shard, rows []*deliveryRow) ([]deadRecord, error) {
	refused := make([][]deadRecord, len(s.tables.candidates))
	g, gctx := errgroup.WithContext(ctx)
	for i, c := range s.tables.candidates {
		g.Go(func() (err error) { refused[i], err = writeRows(gctx, w, s, c.table, c.of(rows)); return err })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(refused...), nil
}
