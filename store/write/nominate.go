package write

import (
	"context"
	"math/big"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/pkg/event"
)

// nominee is a table of what few deliveries are looked for by, beside deliveries itself, which answers but for what became of a
// delivery within a run. Most flushes have no row for any, so that the writer writes them rather than views, which take their time
// for nothing too.
type nominee struct {
	*table[*deliveryRow]
	takes func(*deliveryRow) bool
}

func (n nominee) of(rows []*deliveryRow) (out []*deliveryRow) {
	for _, r := range rows {
		if n.takes(r) {
			out = append(out, r)
		}
	}
	return out
}

func nomineeTables() []nominee {
	type r = *deliveryRow
	account, dest := text("account", func(x r) string { return x.Account }), text("dest", func(x r) string { return x.Dest })
	event16, ts := bytes16("id", func(x r) []byte { return x.Event[:] }), when("ts", func(x r) time.Time { return x.Event.Time() })
	endpoint, status := text("endpoint", func(x r) string { return x.Endpoint }), word("status", func(x r) string { return string(x.Status) })
	return []nominee{
		{newTable("delivery_trouble", account, endpoint, event16, dest, ts), r.troubled},
		{
			newTable("troubled", account, event16, dest, ts, endpoint, word("type", func(x r) string { return x.Type }), status,
				col("ver", "UInt128", func(x r) *big.Int { return x.version.Big() })),
			func(x r) bool { return x.again() == 1 || x.troubled() },
		},
		{
			newTable("run_deliveries", account, text("run", func(x r) string { return x.Run }), event16, dest, ts, status,
				word("reason", func(x r) string { return string(x.Reason) }), word("skipped", func(x r) string { return string(x.Skipped) }),
				col("code", "UInt16", func(x r) uint16 { return uint16(x.Code) }), when("last_at", func(x r) time.Time { return x.At }),
				col("ver", "UInt128", r.versionInRun)),
			r.ofRun,
		},
		// A destination may be that of a replay alone.
		{newTable("event_keys", account, text("key", func(x r) string { return "dest:" + x.Dest }), event16, ts), r.ofRun},
	}
}

// troubled reports whether the row says that the delivery failed, waits, or is held.
func (r *deliveryRow) troubled() bool {
	return r.Status != event.Delivered && r.Status != event.Skipped
}

func (r *deliveryRow) ofRun() bool { return r.Run != "" }

// versionInRun lets a failure win over what comes later in the run: a second copy of work that failed may be passed by
// because the failure has stopped its job.
func (r *deliveryRow) versionInRun() *big.Int {
	v := r.version
	if r.Status == event.Failed && r.Skipped == "" {
		v.Lo |= 1 << 63 // above the offset and below the rank
	}
	return v.Big()
}

// nominate writes the rows that the tables of nominees take, and returns those that ClickHouse refuses.
func (w *Writer) nominate(ctx context.Context, s *shard, rows []*deliveryRow) ([]deadRecord, error) {
	refused := make([][]deadRecord, len(s.tables.nominees))
	g, gctx := errgroup.WithContext(ctx)
	for i, n := range s.tables.nominees {
		g.Go(func() (err error) { refused[i], err = writeRows(gctx, w, s, n.table, n.of(rows)); return err })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(refused...), nil
}
