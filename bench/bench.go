// Package bench measures a relay on this machine. A scenario starts what it needs, posts numbered
// events, receives them at a destination of its own, and prints what it cost.
//
// The load generator and the destination run on the same cores as the relay; CPU figures count the
// relay's processes only, its engines included. Every event is numbered, so losses and duplicates are
// counted in every run.
package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// Scenario is one thing to measure.
type Scenario struct {
	Name, Summary string
	// Run parses its own flags and prints its figures; an error of the command line is a [MisuseError].
	Run func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

// Scenarios are all that this package knows, in the order in which help lists them.
func Scenarios() []Scenario {
	return []Scenario{
		{"flat", "events as fast as some connections can post them, or at a rate; what one costs", flat},
	}
}

// MisuseError is an error of whoever typed the command.
type MisuseError struct{ error }

func (e MisuseError) Unwrap() error { return e.error }

type options struct {
	relay    string
	dir      string
	posters  int
	rate     int
	duration time.Duration
	size     int
	batch    int
	fsync    bool
	idle     time.Duration
	profile  string
}

func flat(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	var o options
	flags := flag.NewFlagSet("relay bench flat", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.relay, "relay", own, "binary under test")
	flags.StringVar(&o.dir, "data-dir", "", "data directory; empty = a new one, removed afterwards")
	flags.IntVar(&o.posters, "posters", 32, "connections that post in a closed loop")
	flags.IntVar(&o.rate, "rate", 0, "events a second, sent on time whatever the answers do; 0 = as fast as the posters can")
	flags.DurationVar(&o.duration, "duration", 10*time.Second, "how long to post")
	flags.IntVar(&o.size, "size", 1024, "bytes of an event's data")
	flags.IntVar(&o.batch, "batch", 0, "events a request, to the batch route; 0 = one by one to the send route")
	flags.BoolVar(&o.fsync, "fsync", true, "acknowledge only what is on disk")
	flags.DurationVar(&o.idle, "idle", 0, "also measure this long without any work, before the load")
	flags.StringVar(&o.profile, "profile", "", "write a CPU profile of the relay under load to this file")
	if err := flags.Parse(args); err != nil {
		return MisuseError{err}
	}
	return run(ctx, o, stdout)
}

func run(ctx context.Context, o options, stdout io.Writer) (err error) {
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "relay-bench"); err != nil {
			return err
		}
		defer os.RemoveAll(o.dir)
	}
	dest, err := newSink()
	if err != nil {
		return err
	}
	defer dest.close()
	r, err := startRelay(ctx, o)
	if err != nil {
		return err
	}
	defer r.stop()
	endpoint, err := r.createEndpoint(ctx, dest.url())
	if err != nil {
		return err
	}
	rest, err := r.rest(ctx, o.idle)
	if err != nil {
		return err
	}
	idle := r.rss()
	l := newLoad(o, r.url+"/v1/endpoints/"+endpoint+"/events", r.key, dest)
	if err := l.warm(ctx); err != nil {
		return err
	}
	before, err := r.cost(ctx)
	if err != nil {
		return err
	}
	started := time.Now()
	var profile errgroup.Group
	if o.profile != "" {
		profile.Go(func() error { return r.profile(ctx, o.profile, o.duration) })
	}
	l.run(ctx)
	accepted := time.Since(started)
	lost := dest.drain(l.accepted.Load(), 30*time.Second)
	delivered := dest.last.Sub(started)
	after, err := r.cost(ctx)
	if err := errors.Join(err, profile.Wait()); err != nil {
		return err
	}
	report(stdout, o, l, dest, figures{
		accepted: accepted, delivered: delivered, cost: after.since(before), rest: rest, lost: lost,
		ready: r.ready, idle: idle, loaded: r.rss(), disk: diskUse(o.dir),
	})
	if lost > 0 {
		return errors.New("events were lost")
	}
	return nil
}

type figures struct {
	accepted, delivered time.Duration
	cost, rest          cost
	lost                int64
	ready               time.Duration
	idle, loaded, disk  int64
}

func report(w io.Writer, o options, l *load, dest *sink, f figures) {
	n := l.accepted.Load()
	mode := fmt.Sprintf("%d posters", o.posters)
	if o.batch > 0 {
		mode += fmt.Sprintf(", batches of %d", o.batch)
	}
	if o.rate > 0 {
		mode = fmt.Sprintf("%d/s", o.rate)
	}
	fmt.Fprintf(w, "%s, %d B, fsync %t: %d accepted, %d refused, %d lost, %d duplicates\n", mode, o.size, o.fsync, n, l.refused.Load(), f.lost, dest.duplicates.Load())
	each := func(total float64) float64 { return total / float64(max(n, 1)) }
	micros := func(d time.Duration) float64 { return each(float64(d.Microseconds())) }
	fmt.Fprintf(w, "  accepted/s %.0f   delivered/s %.0f   CPU µs/event %.0f (relay %.0f, engines %.0f)   mallocs/event %.0f   B/event %.0f\n",
		float64(n)/f.accepted.Seconds(), float64(n)/f.delivered.Seconds(), micros(f.cost.own+f.cost.engines),
		micros(f.cost.own), micros(f.cost.engines), each(f.cost.mallocs), each(f.cost.bytes))
	fmt.Fprintf(w, "  accept       p50 %v  p99 %v  max %v\n", l.latency.quantile(0.5), l.latency.quantile(0.99), l.latency.quantile(1))
	fmt.Fprintf(w, "  post→arrival p50 %v  p99 %v  max %v\n", dest.latency.quantile(0.5), dest.latency.quantile(0.99), dest.latency.quantile(1))
	fmt.Fprintf(w, "  ready in %v   RSS idle %d MB, loaded %d MB   disk %d B/event\n", f.ready.Round(time.Millisecond), f.idle>>20, f.loaded>>20, f.disk/max(n, 1))
	if o.idle > 0 {
		fmt.Fprintf(w, "  idle: relay %.2f %%, engines %.2f %% of a core\n", 100*f.rest.own.Seconds()/o.idle.Seconds(), 100*f.rest.engines.Seconds()/o.idle.Seconds())
	}
}

func diskUse(dir string) int64 {
	var total int64
	_ = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return nil
	})
	return total
}

// createEndpoint makes an endpoint with one destination and returns its id.
func (r *relay) createEndpoint(ctx context.Context, url string) (string, error) {
	body, err := json.Marshal(map[string]any{"destinations": []any{map[string]any{"url": url, "max_in_flight": 256}}})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/v1/endpoints", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+r.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var made struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil {
		return "", fmt.Errorf("create endpoint: %w", err)
	}
	if made.ID == "" {
		return "", fmt.Errorf("create endpoint: %s", resp.Status)
	}
	return made.ID, nil
}

// rest is what the relay costs in a time without work; nothing is measured when it is 0.
func (r *relay) rest(ctx context.Context, d time.Duration) (cost, error) {
	if d <= 0 {
		return cost{}, nil
	}
	settle := time.NewTimer(idleSettle)
	defer settle.Stop()
	<-settle.C
	before, err := r.cost(ctx)
	if err != nil {
		return cost{}, err
	}
	settle.Reset(d)
	<-settle.C
	after, err := r.cost(ctx)
	return after.since(before), err
}

// idleSettle is how long what the start has set going may take before the idle time is measured.
const idleSettle = 3 * time.Second
