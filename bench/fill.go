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

	"github.com/eventrelay/relay/bench/fill"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/store/write"
)

// mostEndpoints bounds --endpoints: each is made through the API.
const mostEndpoints = 20_000

// fillOptions are those of the scenario fill. One of dir and url is set.
type fillOptions struct {
	relay     string
	dir       string // of a relay dev that does not run
	url       string // of a store whose tables exist
	endpoints int
	fill.Config
}

const fillSummary = "fill a store with many events, for the scenario read"

// fillStore fills a store with many events, for the scenario read.
func fillStore(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := readFillOptions(args, stderr)
	if err != nil {
		return err
	}
	if o.dir == "" {
		return fillTables(ctx, o.url, o.Config, stdout)
	}
	fmt.Fprintf(stdout, "configuring %d endpoints\n", o.endpoints)
	if o.Account, o.Config.Endpoints, err = configure(ctx, o.relay, o.dir, o.endpoints); err != nil {
		return err
	}
	return fillDir(ctx, o, stdout)
}

func readFillOptions(args []string, stderr io.Writer) (o fillOptions, err error) {
	relay, err := relayBeside()
	if err != nil {
		return o, err
	}
	flags := newFlags("fill", "[flags]", fillSummary)
	flags.StringVar(&o.relay, "relay", relay, "binary whose engine holds the store")
	flags.StringVar(&o.dir, "data-dir", "", "data directory of a relay dev that does not run; made when it is missing")
	flags.StringVar(&o.url, "clickhouse-url", "", "fill this store instead, which relay migrate has prepared; "+
		"its endpoints are in no configuration")
	flags.StringVar(&o.Account, "account", "acc_bench", "account of the events, with --clickhouse-url; "+
		"with --data-dir it is the one that is there")
	flags.IntVar(&o.Events, "events", 1_000_000, "how many events")
	flags.IntVar(&o.Outage, "outage", 100_000,
		"how many of them failed one after the other at one endpoint; at most a fifth")
	flags.IntVar(&o.Days, "days", 30, "how many days they are spread over")
	flags.IntVar(&o.endpoints, "endpoints", 1_500, "how many endpoints; the nth gets 1/n of what the first gets")
	flags.IntVar(&o.Batch, "batch", 50_000, "events of one insert")
	flags.BoolVar(&o.Merge, "merge", true, "merge all parts at the end, as they are after a while")
	flags.Uint64Var(&o.Seed, "seed", 1, "changes what happens to the events")
	if err := parse(flags, args, stderr); err != nil {
		return o, err
	}
	if (o.dir == "") == (o.url == "") {
		return o, MisuseError{errors.New("fill: give one of --data-dir and --clickhouse-url")}
	}
	if o.endpoints < 1 || o.endpoints > mostEndpoints {
		return o, MisuseError{fmt.Errorf("fill: endpoints must be 1 to %d, not %d", mostEndpoints, o.endpoints)}
	}
	o.Outage = min(o.Outage, o.Events/5)
	o.Config.Endpoints = inventEndpoints(o.endpoints) // of a data directory they are known later
	if err := o.Validate(); err != nil {
		return o, MisuseError{err}
	}
	return o, nil
}

// fillDir fills the store of a data directory, on the embedded ClickHouse without fsync. No relay can start on the
// directory meanwhile.
func fillDir(ctx context.Context, o fillOptions, stdout io.Writer) error {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	unlock, err := private.LockDir(dir, lockFile)
	if err != nil {
		return err
	}
	defer unlock()
	tables, err := startTables(ctx, options{relay: o.relay, dir: dir})
	if err != nil {
		return err
	}
	defer tables.stop()
	return fillTables(ctx, tablesURL(tables.url, "relay"), o.Config, stdout)
}

func fillTables(ctx context.Context, url string, cfg fill.Config, stdout io.Writer) error {
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
	all := write.TableSize{Table: "all"}
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

// inventEndpoints names endpoints that no configuration has.
func inventEndpoints(n int) []fill.Endpoint {
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
	// fillURL is what filled events were delivered to; nothing is ever sent there, for the name cannot exist.
	fillURL = "https://receiver.bench.invalid/hook"
	// fillName begins the names of the endpoints of a fill.
	fillName = "bench fill "
	// secondDestination says that each fifth endpoint has two destinations.
	secondDestination = 5
)

// configure starts a relay on the data directory, sees to it that n endpoints of a fill are there, and stops it.
func configure(ctx context.Context, binary, dir string, n int) (account string, endpoints []fill.Endpoint, err error) {
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
	there, err := r.filled(ctx)
	if err != nil {
		return "", nil, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(creators)
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
	if there, err = r.filled(ctx); err != nil {
		return "", nil, err
	}
	return me.Account, there[:min(n, len(there))], nil
}

// filled lists the endpoints of a fill, the oldest, which are the busiest, first.
func (r *relay) filled(ctx context.Context) (out []fill.Endpoint, err error) {
	for cursor := ""; ; {
		var page struct {
			Data []struct {
				ID, Name     string
				Destinations []struct{ ID, URL string }
			}
			Next string `json:"next_cursor"`
		}
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
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	slices.Reverse(out) // the list begins with the newest
	return out, nil
}
