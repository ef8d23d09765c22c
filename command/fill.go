package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/eventrelay/relay/bench"
	"github.com/eventrelay/relay/node"
	"github.com/eventrelay/relay/pkg/embedded/clickhouse"
	"github.com/eventrelay/relay/store"
	filling "github.com/eventrelay/relay/store/fill"
)

// scenarios are those of bench, with what they need of other rooms.
func scenarios() []bench.Scenario { return append(bench.Scenarios(), bench.Fill(fillStore)) }

// fillStore carries out a plan of relay bench fill.
func fillStore(ctx context.Context, p bench.FillPlan, stdout io.Writer) error {
	if p.DataDir == "" {
		return fillTables(ctx, p.ClickHouseURL, p, stdout)
	}
	dir, err := filepath.Abs(p.DataDir)
	if err != nil {
		return fmt.Errorf("find data directory: %w", err)
	}
	unlock, err := lockDataDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	return onTables(ctx, dir, stdout, func(ctx context.Context, url string) error { return fillTables(ctx, url, p, stdout) })
}

// onTables runs the embedded ClickHouse of a data directory, without fsync, while f works on it.
func onTables(ctx context.Context, dir string, stdout io.Writer, f func(ctx context.Context, url string) error) error {
	log := slog.New(slog.NewTextHandler(stdout, &slog.HandlerOptions{Level: slog.LevelWarn}))
	cfg := clickhouse.DefaultChildConfig()
	cfg.Socket = filepath.Join(dir, socketDir, "clickhouse.sock")
	cfg.Data, cfg.Library, cfg.Fsync = filepath.Join(dir, "clickhouse"), environment("RELAY_CHDB_LIB"), false
	tables, err := clickhouse.NewChild(cfg, clickhouse.ChildDeps{Log: log, Stderr: os.Stderr})
	if err != nil {
		return err
	}
	st := node.NewStack(ctx, log)
	st.Start("embedded clickhouse", tables.Run)
	if err := st.Ready(tables.Ready()); err != nil {
		return st.Abandon(err)
	}
	return errors.Join(f(st.Context(), socketURL(tables.Socket(), "relay")), st.Stop())
}

func fillTables(ctx context.Context, url string, p bench.FillPlan, stdout io.Writer) error {
	cfg := filling.Config{Account: p.Account, Events: p.Events, Days: p.Days, Outage: p.Outage, Batch: p.Batch, Merge: p.Merge, Seed: p.Seed}
	for _, e := range p.Endpoints {
		x := filling.Endpoint{ID: e.ID}
		for _, d := range e.Destinations {
			x.Dests = append(x.Dests, filling.Destination{ID: d, URL: e.URL})
		}
		cfg.Endpoints = append(cfg.Endpoints, x)
	}
	var next time.Duration
	r, err := filling.Run(ctx, url, cfg, func(now filling.Progress) {
		const every = 5 * time.Second
		if now.Events < now.Of && now.Took < next {
			return
		}
		next = now.Took + every
		fmt.Fprintf(stdout, "%s: %d of %d events, %.0f a second, %v left\n", now.Step, now.Events, now.Of, float64(now.Events)/now.Took.Seconds(), now.Left().Round(time.Second))
	})
	if err != nil {
		return err
	}
	report(stdout, r)
	return nil
}

func report(w io.Writer, r filling.Result) {
	perSecond := func(d time.Duration) float64 { return float64(r.Events) / d.Seconds() }
	rows := r.Events*2 + r.Deliveries + r.Attempts + r.Receipts
	fmt.Fprintf(w, "%d events from %s to %s, %.1f rows each (%d outcomes, %d attempts, %d receipts)\n", r.Events, r.From.Format(time.DateTime), r.To.Format(time.DateTime),
		float64(rows)/float64(r.Events), r.Deliveries, r.Attempts, r.Receipts)
	fmt.Fprintf(w, "written in %v (%.0f a second); usage counted in %v; merged in %v\n", r.Wrote.Round(time.Millisecond), perSecond(r.Wrote),
		r.Counted.Round(time.Millisecond), r.Merged.Round(time.Millisecond))
	var all store.TableSize
	for _, t := range append(r.Tables, store.TableSize{Table: "all"}) {
		if t.Table == "all" {
			t.Rows, t.Bytes, t.Raw, t.Parts = all.Rows, all.Bytes, all.Raw, all.Parts
		}
		all.Rows, all.Bytes, all.Raw, all.Parts = all.Rows+t.Rows, all.Bytes+t.Bytes, all.Raw+t.Raw, all.Parts+t.Parts
		fmt.Fprintf(w, "  %-20s %12d rows %8.1f B an event on disk %8.1f raw %6d parts\n", t.Table, t.Rows, float64(t.Bytes)/float64(r.Events), float64(t.Raw)/float64(r.Events), t.Parts)
	}
}
