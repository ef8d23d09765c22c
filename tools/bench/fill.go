package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/tools/bench/fill"
)

// maxFillEndpoints bounds --endpoints, because each endpoint is created through the API.
const maxFillEndpoints = 20_000

// fillOptions are the options of the scenario fill. Either dir or url is set.
type fillOptions struct {
	relay     string
	dir       string // data directory of a stopped relay dev
	url       string // of a ClickHouse whose tables exist
	endpoints int
	fill.Config
}

const fillSummary = "fills a store with many events, for the scenario read"

// fillStore fills a store with many events, for the scenario read.
func fillStore(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := readFillOptions(args, stderr)
	if err != nil {
		return err
	}
	if o.dir == "" {
		return fillClickHouse(ctx, o.url, o.Config, stdout)
	}
	fmt.Fprintf(stdout, "configuring %d endpoints\n", o.endpoints)
	if o.Account, o.Config.Endpoints, err = createFillEndpoints(ctx, o.relay, o.dir, o.endpoints); err != nil {
		return err
	}
	return fillDataDir(ctx, o, stdout)
}

func readFillOptions(args []string, stderr io.Writer) (o fillOptions, err error) {
	relay, err := relayBeside()
	if err != nil {
		return o, err
	}
	flags := newFlags("fill", "[flags]", fillSummary)
	flags.StringVar(&o.relay, "relay", relay, "binary whose embedded ClickHouse holds the store")
	flags.StringVar(&o.dir, "data-dir", "", "data directory of a stopped relay dev; created if it is missing")
	flags.StringVar(&o.url, "clickhouse-url", "", "fill this ClickHouse instead, whose tables relay migrate has created; "+
		"its endpoints are in no configuration")
	flags.StringVar(&o.Account, "account", "acc_bench", "account of the events, with --clickhouse-url; "+
		"with --data-dir it is the account of the relay")
	flags.IntVar(&o.Events, "events", 1_000_000, "number of events")
	flags.IntVar(&o.Outage, "outage", 100_000,
		"how many events failed one after the other at one endpoint; at most a fifth of all")
	flags.IntVar(&o.Days, "days", 30, "number of days over which the events are spread")
	flags.IntVar(&o.endpoints, "endpoints", 1_500, "number of endpoints; the nth gets 1/n of the events of the first")
	flags.IntVar(&o.Batch, "batch", 50_000, "events per insert")
	flags.BoolVar(&o.Merge, "merge", true, "merge all parts at the end, as ClickHouse does over time")
	flags.Uint64Var(&o.Seed, "seed", 1, "seed of the random events")
	if err := parse(flags, args, stderr); err != nil {
		return o, err
	}
	if (o.dir == "") == (o.url == "") {
		return o, MisuseError{errors.New("fill: use either --data-dir or --clickhouse-url")}
	}
	if o.endpoints < 1 || o.endpoints > maxFillEndpoints {
		return o, MisuseError{fmt.Errorf(
			"fill: --endpoints: %[2]d is out of range, use 1 to %[1]d", maxFillEndpoints, o.endpoints)}
	}
	o.Outage = min(o.Outage, o.Events/5)
	// for the validation; createFillEndpoints replaces those of a data directory
	o.Config.Endpoints = fakeEndpoints(o.endpoints)
	if err := o.Validate(); err != nil {
		return o, MisuseError{err}
	}
	return o, nil
}

// fillDataDir fills the store of a data directory with the embedded ClickHouse, without fsync. It locks the directory,
// so that no relay can start on it meanwhile.
func fillDataDir(ctx context.Context, o fillOptions, stdout io.Writer) error {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	unlock, err := private.LockDir(dir, lockFile)
	if err != nil {
		return err
	}
	defer unlock()
	tables, err := startClickHouse(ctx, options{relay: o.relay, dir: dir})
	if err != nil {
		return err
	}
	defer tables.stop()
	return fillClickHouse(ctx, clickhouseURL(tables.url, "relay"), o.Config, stdout)
}

func fillClickHouse(ctx context.Context, url string, cfg fill.Config, stdout io.Writer) error {
	var next time.Duration
	r, err := fill.Run(ctx, url, cfg, func(now fill.Progress) {
		const every = 5 * time.Second
		if now.Events < now.Of && now.Took < next {
			return
		}
		next = now.Took + every
		fmt.Fprintf(stdout, "%s: %d of %d events, %.0f a second, %v left\n", now.Step, now.Events, now.Of,
			float64(now.Events)/now.Took.Seconds(), now.Left().Round(time.Second))
	})
	if err != nil {
		return err
	}
	printFilled(stdout, r)
	return nil
}

func printFilled(w io.Writer, r fill.Result) {
	perSecond := func(d time.Duration) float64 { return float64(r.Events) / d.Seconds() }
	rows := r.Events*2 + r.Deliveries + r.Attempts + r.Receipts
	fmt.Fprintf(w, "%d events from %s to %s, %.1f rows each (%d outcomes, %d attempts, %d receipts)\n", r.Events,
		r.From.Format(time.DateTime), r.To.Format(time.DateTime),
		float64(rows)/float64(r.Events), r.Deliveries, r.Attempts, r.Receipts)
	fmt.Fprintf(w, "written in %v (%.0f a second); usage counted in %v; merged in %v\n", r.Wrote.Round(time.Millisecond),
		perSecond(r.Wrote), r.Counted.Round(time.Millisecond), r.Merged.Round(time.Millisecond))
	all := fill.TableSize{Table: "all"}
	for _, t := range r.Tables {
		all.Rows, all.Bytes, all.Uncompressed, all.Parts = all.Rows+t.Rows, all.Bytes+t.Bytes, all.Uncompressed+
			t.Uncompressed,
			all.Parts+t.Parts
	}
	for _, t := range append(r.Tables, all) {
		fmt.Fprintf(w, "  %-20s %12d rows %8.1f B an event on disk %8.1f raw %6d parts\n", t.Table, t.Rows,
			float64(t.Bytes)/float64(r.Events), float64(t.Uncompressed)/float64(r.Events), t.Parts)
	}
}

// fakeEndpoints returns n endpoints that are in no configuration.
func fakeEndpoints(n int) []fill.Endpoint {
	destination := func(i int) fill.Destination { return fill.Destination{ID: fmt.Sprintf("dst_%026d", i), URL: fillURL} }
	out := make([]fill.Endpoint, n)
	for i := range out {
		out[i] = fill.Endpoint{ID: fmt.Sprintf("ep_%026d", i), Dests: []fill.Destination{destination(2 * i)}}
		if i%secondDestination == 1 {
			out[i].Dests = append(out[i].Dests, destination(2*i+1))
		}
	}
	return out
}

const (
	// fillURL is the destination of filled events. Nothing is ever sent there: names under .invalid never resolve (RFC
	// 6761).
	fillURL = "https://receiver.bench.invalid/hook"
	// fillName is the prefix of the names of a fill's endpoints.
	fillName = "bench fill "
	// secondDestination: every fifth endpoint has two destinations.
	secondDestination = 5
)

// createFillEndpoints starts a relay on the data directory, creates endpoints until n of a fill exist, and stops it.
func createFillEndpoints(ctx context.Context, binary, dir string, n int) (
	account string, endpoints []fill.Endpoint, err error) {
	r, err := startRelay(ctx, options{relay: binary, dir: dir})
	if err != nil {
		return "", nil, err
	}
	defer r.stop()
	var me struct {
		Account string `json:"account_id"`
	}
	if err := r.call(ctx, http.MethodGet, "/v1/me", nil, &me); err != nil {
		return "", nil, err
	}
	there, err := r.filledEndpoints(ctx)
	if err != nil {
		return "", nil, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxCreators)
	for i := len(there); i < n; i++ {
		g.Go(func() error {
			destinations := []object{object{"url": fillURL}}
			if i%secondDestination == 1 {
				destinations = append(destinations, object{"url": fillURL + "/second"})
			}
			body := object{"name": fmt.Sprint(fillName, i), "destinations": destinations}
			return r.call(gctx, http.MethodPost, "/v1/endpoints", body, nil)
		})
	}
	if err := g.Wait(); err != nil {
		return "", nil, err
	}
	if there, err = r.filledEndpoints(ctx); err != nil {
		return "", nil, err
	}
	return me.Account, there[:min(n, len(there))], nil
}

// filledEndpoints lists the endpoints of a fill, oldest first. The oldest are the busiest.
func (r *relay) filledEndpoints(ctx context.Context) (out []fill.Endpoint, err error) {
	for cursor := ""; ; {
		var page wire.List[wire.Endpoint]
		path := "/v1/endpoints?limit=100&cursor=" + url.QueryEscape(cursor)
		if err := r.call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		for _, e := range page.Data {
			if !strings.HasPrefix(e.Name, fillName) {
				continue
			}
			x := fill.Endpoint{ID: e.ID}
			for _, d := range e.Destinations {
				x.Dests = append(x.Dests, fill.Destination{ID: d.ID, URL: fillURL})
			}
			out = append(out, x)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	slices.Reverse(out) // the API lists the newest first
	return out, nil
}
