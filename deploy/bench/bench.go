// Command bench measures a relay on this machine: it starts `relay dev`, posts numbered events to the
// send route, receives them at a destination of its own, and prints what it cost.
//
// The load generator and the destination run in this process, on the same cores as the relay; CPU
// figures count the relay's processes only, its engines included. Every event is numbered, so losses
// and duplicates are counted in every run.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

type options struct {
	relay    string
	dir      string
	posters  int
	rate     int
	duration time.Duration
	size     int
	fsync    bool
}

func main() {
	var o options
	flag.StringVar(&o.relay, "relay", "bin/relay", "binary under test")
	flag.StringVar(&o.dir, "data-dir", "", "data directory; empty = a new one, removed afterwards")
	flag.IntVar(&o.posters, "posters", 32, "connections that post in a closed loop")
	flag.IntVar(&o.rate, "rate", 0, "events a second, sent on time whatever the answers do; 0 = as fast as the posters can")
	flag.DurationVar(&o.duration, "duration", 10*time.Second, "how long to post")
	flag.IntVar(&o.size, "size", 1024, "bytes of an event's data")
	flag.BoolVar(&o.fsync, "fsync", true, "acknowledge only what is on disk")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
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
	idle := r.rss()
	l := newLoad(o, r.url+"/v1/endpoints/"+endpoint+"/events", r.key, dest)
	if err := l.warm(ctx); err != nil {
		return err
	}
	before, started := r.cpu(), time.Now()
	l.run(ctx)
	accepted := time.Since(started)
	lost := dest.drain(l.accepted.Load(), 30*time.Second)
	delivered := dest.last.Sub(started)
	cpu := r.cpu() - before
	report(o, l, dest, figures{
		accepted: accepted, delivered: delivered, cpu: cpu, lost: lost, ready: r.ready, idle: idle, loaded: r.rss(),
		disk: diskUse(o.dir),
	})
	if lost > 0 {
		return errors.New("events were lost")
	}
	return nil
}

type figures struct {
	accepted, delivered, cpu time.Duration
	lost                     int64
	ready                    time.Duration
	idle, loaded, disk       int64
}

func report(o options, l *load, dest *sink, f figures) {
	n := l.accepted.Load()
	mode := fmt.Sprintf("%d posters", o.posters)
	if o.rate > 0 {
		mode = fmt.Sprintf("%d/s", o.rate)
	}
	fmt.Printf("%s, %d B, fsync %t: %d accepted, %d refused, %d lost, %d duplicates\n", mode, o.size, o.fsync, n, l.refused.Load(), f.lost, dest.duplicates.Load())
	fmt.Printf("  accepted/s %.0f   delivered/s %.0f   CPU µs/event %.0f\n", float64(n)/f.accepted.Seconds(), float64(n)/f.delivered.Seconds(), float64(f.cpu.Microseconds())/float64(n))
	fmt.Printf("  accept       p50 %v  p99 %v  max %v\n", l.latency.quantile(0.5), l.latency.quantile(0.99), l.latency.quantile(1))
	fmt.Printf("  post→arrival p50 %v  p99 %v  max %v\n", dest.latency.quantile(0.5), dest.latency.quantile(0.99), dest.latency.quantile(1))
	fmt.Printf("  ready in %v   RSS idle %d MB, loaded %d MB   disk %d B/event\n", f.ready.Round(time.Millisecond), f.idle>>20, f.loaded>>20, f.disk/max(n, 1))
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
