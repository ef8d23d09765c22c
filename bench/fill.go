package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"
)

// FillPlan says what a store is to be filled with. One of DataDir and ClickHouseURL is set.
type FillPlan struct {
	DataDir       string // of a relay dev that does not run
	ClickHouseURL string // of a store whose tables exist
	Account       string
	Endpoints     []FillEndpoint // the busiest first
	Events, Days  int
	Outage        int // failed events of the second endpoint, one after the other
	Batch         int
	Merge         bool
	Seed          uint64
}

// FillEndpoint is an endpoint with the ids of its destinations.
type FillEndpoint struct {
	ID           string
	Destinations []string
	URL          string
}

// Fill is the scenario that fills a store. The store itself is another room's, so whoever runs the scenario says how
// a plan is carried out.
func Fill(carryOut func(ctx context.Context, plan FillPlan, stdout io.Writer) error) Scenario {
	return Scenario{"fill", "fill a store with many events, for the scenario read", func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
		return fill(ctx, args, stdout, stderr, carryOut)
	}}
}

// Bounds of what may be asked for.
const (
	mostFilled    = 1_000_000_000
	mostEndpoints = 20_000
)

func fill(ctx context.Context, args []string, stdout, stderr io.Writer, carryOut func(context.Context, FillPlan, io.Writer) error) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	var p FillPlan
	var endpoints int
	flags := flag.NewFlagSet("relay bench fill", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&p.DataDir, "data-dir", "", "data directory of a relay dev that does not run; made when it is missing")
	flags.StringVar(&p.ClickHouseURL, "clickhouse-url", "", "fill this store instead, which relay migrate has prepared; its endpoints are in no configuration")
	flags.StringVar(&p.Account, "account", "acc_bench", "account of the events, with --clickhouse-url; with --data-dir it is the one that is there")
	flags.IntVar(&p.Events, "events", 1_000_000, "how many events")
	flags.IntVar(&p.Outage, "outage", 100_000, "how many of them failed one after the other at one endpoint; at most a fifth")
	flags.IntVar(&p.Days, "days", 30, "how many days they are spread over")
	flags.IntVar(&endpoints, "endpoints", 1_500, "how many endpoints; the nth gets 1/n of what the first gets")
	flags.IntVar(&p.Batch, "batch", 50_000, "events of one insert")
	flags.BoolVar(&p.Merge, "merge", true, "merge all parts at the end, as they are after a while")
	flags.Uint64Var(&p.Seed, "seed", 1, "changes what happens to the events")
	if err := flags.Parse(args); err != nil {
		return MisuseError{err}
	}
	switch {
	case (p.DataDir == "") == (p.ClickHouseURL == ""):
		return MisuseError{errors.New("relay bench fill: give one of --data-dir and --clickhouse-url")}
	case p.Events < 1 || p.Events > mostFilled:
		return MisuseError{fmt.Errorf("relay bench fill: --events must be 1 to %d", mostFilled)}
	case endpoints < 1 || endpoints > mostEndpoints:
		return MisuseError{fmt.Errorf("relay bench fill: --endpoints must be 1 to %d", mostEndpoints)}
	case p.Outage < 0:
		return MisuseError{errors.New("relay bench fill: --outage must not be negative")}
	}
	p.Outage = min(p.Outage, p.Events/5)
	if p.DataDir == "" {
		p.Endpoints = inventEndpoints(endpoints)
		return carryOut(ctx, p, stdout)
	}
	fmt.Fprintf(stdout, "configuring %d endpoints\n", endpoints)
	if p.Account, p.Endpoints, err = configure(ctx, own, p.DataDir, endpoints); err != nil {
		return err
	}
	return carryOut(ctx, p, stdout)
}

// inventEndpoints names endpoints that no configuration has.
func inventEndpoints(n int) []FillEndpoint {
	out := make([]FillEndpoint, n)
	for i := range out {
		out[i] = FillEndpoint{ID: fmt.Sprintf("ep_%026d", i), Destinations: []string{fmt.Sprintf("dst_%026d", 2*i)}, URL: fillURL}
		if i%secondDestination == 1 {
			out[i].Destinations = append(out[i].Destinations, fmt.Sprintf("dst_%026d", 2*i+1))
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
func configure(ctx context.Context, binary, dir string, n int) (account string, endpoints []FillEndpoint, err error) {
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
			return r.call(gctx, http.MethodPost, "/v1/endpoints", object{"name": fmt.Sprint(fillName, i), "destinations": destinations}, nil)
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
func (r *relay) filled(ctx context.Context) (out []FillEndpoint, err error) {
	for cursor := ""; ; {
		var page struct {
			Data []struct {
				ID, Name     string
				Destinations []struct{ ID, URL string }
			}
			Next string `json:"next_cursor"`
		}
		if err := r.call(ctx, http.MethodGet, "/v1/endpoints?limit=100&cursor="+url.QueryEscape(cursor), nil, &page); err != nil {
			return nil, err
		}
		for _, e := range page.Data {
			if !strings.HasPrefix(e.Name, fillName) {
				continue
			}
			x := FillEndpoint{ID: e.ID, URL: fillURL}
			for _, d := range e.Destinations {
				x.Destinations = append(x.Destinations, d.ID)
			}
			out = append(out, x)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 { // the list begins with the newest
		out[i], out[j] = out[j], out[i]
	}
	return out, nil
}
