package bench

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"
)

// The slow destination of hung --same-host. It answers its first quickFirst requests at once, so that its in-flight
// window grows to max_in_flight, and later ones after 10 s: at 100 events a second it holds 1,000 requests.
const (
	slowInFlight = 1000
	quickFirst   = 1100
)

var slowNeighbour = fmt.Sprintf("slow10000after%d", quickFirst)

func hungFlags(o *options, fs *flag.FlagSet) {
	fs.BoolVar(&o.sameHost, "same-host", false,
		"the other destination answers after 10 s, has up to 1,000 requests in flight, and shares host and port")
	fs.IntVar(&o.endpoints, "endpoints", 0,
		"number of healthy destinations, and of hung ones, each of an endpoint of its own; 0 = one of each")
	fs.BoolVar(&o.tls, "tls", false, "the destinations use TLS")
	fs.BoolVar(&o.http2, "http2", false, "with --tls: they use HTTP/2")
}

// settling is how long the start beside hung destinations lasts at most, and is measured by itself: their connections
// are opened, and time out after 15 s.
const settling = 20 * time.Second

// hung measures healthy destinations alone, then next to as many that hang: the start, then as long as alone. Costs are
// those of the second part.
func hung(ctx context.Context, b *benchRun) error {
	n := max(b.o.endpoints, 1)
	healthy, err := b.r.makeEndpoints(ctx, n, object{"destinations": b.destinationAt(0, "ok")})
	if err != nil {
		return err
	}
	other := b.destinationAt(1, "hang")
	if b.o.sameHost {
		other = []object{{"url": b.sink.url(1, slowNeighbour), "max_in_flight": slowInFlight}}
	}
	sick, err := b.r.makeEndpoints(ctx, n, object{"destinations": other})
	if err != nil {
		return err
	}
	to := func(name string, ids []string, arrivesAt ...int) post {
		return b.post(name, b.r.eventsURL(ids[0]), arrivesAt...).roundRobin(ids)
	}
	if err := b.run(ctx, arrivalLimit, to("alone", healthy, 0)); err != nil {
		return err
	}
	alone := b.result
	b.result = alone.newPart()
	if b.o.sameHost {
		if err := b.fillWindow(ctx, b.r.eventsURL(sick[0])); err != nil {
			return err
		}
	}
	beside := func(part string, lasts time.Duration) error {
		posts := []post{to(part+"beside hung ones", healthy, 0), to(part+"hung", sick)}
		for i := range posts {
			posts[i].For = lasts
		}
		return b.measure(ctx, posts, arrivalLimit, nil)
	}
	if err := beside("at the start ", min(settling, b.o.duration)); err != nil {
		return err
	}
	start := b.result
	b.result = alone.newPart()
	if err := beside("", b.o.duration); err != nil {
		return err
	}
	latency := func(stream int) Latency { return b.result.Streams[stream].Arrivals[0].Latency }
	b.result.Streams = slices.Concat(alone.Streams, start.Streams, b.result.Streams)
	b.result.Lost += alone.Lost + start.Lost
	b.result.Duplicates += alone.Duplicates + start.Duplicates
	times := func(name string, a, b float64) Figure { return Figure{name, b / max(a, 0.001), "times that alone"} }
	later := b.result.Streams[3].Arrivals[0]
	b.addFigures(
		times("arrival p99 at the start beside hung ones", latency(0).P99, latency(1).P99),
		times("arrival p50 beside hung ones", latency(0).P50, latency(3).P50),
		times("arrival p99 beside hung ones", latency(0).P99, latency(3).P99),
		Figure{"requests beside hung ones", float64(later.Requests) / float64(max(later.Arrived, 1)), "an event"},
		Figure{"cores that the relay and its engines used alone", alone.cores(), ""},
		Figure{"beside hung ones", b.result.cores(), ""})
	return nil
}

// cores returns how many cores the run used without the benchmark's own processes.
func (r *Result) cores() (n float64) {
	for _, p := range r.CPU {
		if p.Name != "load" && p.Name != "sink" {
			n += p.Cores
		}
	}
	return n
}

// fillWindow sends the slow destination the requests that it answers at once, so that its in-flight window reaches its
// full size.
func (b *benchRun) fillWindow(ctx context.Context, url string) error {
	p := b.postAt(pace{conns: 8, batch: b.o.batch}, "hung", url, 1).limitEvents(quickFirst)
	r, _, err := b.generate(ctx, nil, p)
	if err != nil {
		return err
	}
	arrived, err := b.awaitArrival(ctx, []post{p}, r, arrivalLimit, nil)
	if err == nil && !arrived {
		err = fmt.Errorf("fewer than %d events arrived at %s", quickFirst, b.sink.base)
	}
	return err
}
