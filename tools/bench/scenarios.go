package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// definitions returns the table of scenarios.
func definitions() []definition {
	fast := []string{"batch=1000", "posters=2"}
	return []definition{
		{name: "flat", run: flat, flags: manyFlags, peers: true,
			summary: "posts events as fast as the connections allow, or at a rate: throughput and cost per event"},
		{name: "steady", run: flat, flags: manyFlags, presets: []string{"rate=500"}, peers: true,
			summary: "posts events at a rate: latency"},
		{name: "accept", run: accept, flags: manyFlags,
			summary: "flat to endpoints whose destination is disabled: the cost of accepting an event"},
		{name: "fanout", run: fanout, presets: []string{"rate=200"},
			summary: "delivers each event to five destinations, at a rate"},
		{name: "transform", run: transformed, presets: []string{"rate=2000"},
			summary: "changes the body of each event with five operations, at a rate"},
		{name: "rules", run: conditions,
			summary: "flat to an endpoint with ten destinations, whose conditions let one of them have each event"},
		{name: "hung", run: hung, flags: hungFlags, presets: []string{"rate=50"},
			summary: "a healthy destination next to one that never answers, both at a rate: how much slower is it?"},
		{name: "retrystorm", run: retryStorm, flags: stormFlags, presets: []string{"batch=500", "posters=2"},
			summary: "posts events to a destination that fails half of all requests, until all are delivered"},
		{name: "batch", run: flat, flags: manyFlags, presets: fast,
			summary: "flat in batches, as NDJSON"},
		{name: "tls", run: flat, flags: tlsFlags,
			summary: "flat to a destination with TLS, on kept-alive connections"},
		{name: "drain", run: drain, flags: drainFlags, presets: fast,
			summary: "posts events to a paused endpoint, then resumes it: how fast is a backlog delivered?"},
		{name: "mixed", run: mixed, presets: []string{"rate=200"},
			summary: "single events, batches, a fan-out, a failing and a slow destination at the same time"},
		{name: "capacity", run: capacity, flags: capacityFlags, presets: []string{"serve=3", "rate=300"},
			summary: "posts events that differ to nodes of one role each: CPU by role, bytes in the log and in ClickHouse"},
		{name: "soak", run: flat, flags: manyFlags, presets: []string{"rate=1000", "duration=30m"},
			summary: "steady for half an hour: does memory grow?"},
		{name: "floor", run: floorRequests, start: startFloor("pipe"),
			summary: "flat on a bare pipeline of the same libraries instead of the relay: the lower bound of an event's cost"},
		{name: "floor-http", run: floorRequests, start: startFloor("http"),
			summary: "the bare pipeline's HTTP requests alone, without a log"},
		{name: "floor-log", run: floorLog, start: startFloor("log"),
			summary: "the bare pipeline's log alone: records through the embedded broker and its barrier, without HTTP"},
		{name: "floor-row", run: floorRows, start: startClickHouse,
			summary: "inserts rows of an event's size into the embedded ClickHouse, without a relay"},
	}
}

// arrivalLimit is how long to wait for the last event before it counts as lost.
const arrivalLimit = 30 * time.Second

// flat posts to endpoints with one destination each.
func flat(ctx context.Context, b *benchRun) error {
	return postToEndpoints(ctx, b, b.destinations("ok"), 0)
}

// transformed posts to an endpoint with a transformation, whose operations keep what the sink counts.
func transformed(ctx context.Context, b *benchRun) error {
	id, err := b.r.makeEndpoint(ctx, object{"destinations": b.destinations("ok"), "transformation": object{"ops": []object{
		{"op": "rename", "from": "/timestamp", "to": "/meta/sent_at"},
		{"op": "drop", "paths": []string{"/data/internal", "/data/items/*/cost"}},
		{"op": "add", "path": "/meta/attempt", "from": "attempt.number"},
		{"op": "pick", "paths": []string{"/id", "/type", "/meta", "/data"}},
		{"op": "wrap", "key": "payload"},
	}}})
	if err != nil {
		return err
	}
	return b.run(ctx, arrivalLimit, b.post("events", b.r.eventsURL(id), 0))
}

// conditions posts to an endpoint with ten destinations, each with a condition, that hold for the first alone.
func conditions(ctx context.Context, b *benchRun) error {
	all := b.destinations(slices.Repeat([]string{"ok"}, 10)...)
	for i := range all {
		all[i]["filter"] = object{"when": fmt.Sprintf(`body.type.startsWith("bench.") == %t && type != "x%d"`, i == 0, i)}
	}
	id, err := b.r.makeEndpoint(ctx, object{"destinations": all})
	if err != nil {
		return err
	}
	return b.run(ctx, arrivalLimit, b.post("events", b.r.eventsURL(id), 0))
}

// accept posts to endpoints whose destination is disabled, so that nothing is delivered.
func accept(ctx context.Context, b *benchRun) error {
	none := b.destinations("ok")
	none[0]["enabled"] = false
	return postToEndpoints(ctx, b, none)
}

// postToEndpoints posts to endpoints in turn, after the backlog is in the log.
func postToEndpoints(ctx context.Context, b *benchRun, destinations []object, to ...int) error {
	posts, err := b.endpointPosts(ctx, destinations, to...)
	if err != nil {
		return err
	}
	if err := b.postBacklog(ctx); err != nil {
		return err
	}
	if b.o.peer != nil {
		b.o.peer.apply(&posts[0], b.o.size)
	}
	return b.run(ctx, arrivalLimit, posts...)
}

// manyFlags declares --endpoints and --backlog.
func manyFlags(o *options, fs *flag.FlagSet) {
	fs.IntVar(&o.endpoints, "endpoints", 0,
		"number of endpoints that get requests in turn; 0 = one, or four per node with --serve")
	fs.IntVar(&o.backlog, "backlog", 0, "number of events of other, paused endpoints that wait in the log")
	fs.Func("certificate", "rsa or ecdsa: post over TLS, to a relay with such a certificate", func(kind string) error {
		if kind != "rsa" && kind != "ecdsa" {
			return errors.New("use rsa or ecdsa")
		}
		o.certificate = kind
		return nil
	})
	fs.BoolVar(&o.handshake, "handshake", false, "open a connection for each post")
}

func stormFlags(o *options, fs *flag.FlagSet) {
	fs.IntVar(&o.events, "events", 10_000, "number of events to post")
	fs.IntVar(&o.probe, "probe", 100,
		"single events per second to a healthy endpoint meanwhile, for --duration")
}

func drainFlags(o *options, fs *flag.FlagSet) {
	fs.IntVar(&o.events, "events", 20_000, "number of events to post")
	fs.BoolVar(&o.stopped, "stopped", false,
		"instead of pausing the endpoint, run no dispatcher while events are posted")
}

func tlsFlags(o *options, fs *flag.FlagSet) {
	o.tls = true
	manyFlags(o, fs)
	fs.BoolVar(&o.http2, "http2", false, "the destination uses HTTP/2")
}

// destinations returns an endpoint's destinations with the sink's behaviour at each.
func (b *benchRun) destinations(behaviours ...string) []object {
	out := make([]object, len(behaviours))
	for i, what := range behaviours {
		out[i] = object{"url": b.sink.url(i, what), "max_in_flight": 256}
	}
	return out
}

// destinationAt returns a single destination with the number n.
func (b *benchRun) destinationAt(n int, behaviour string) []object {
	return []object{{"url": b.sink.url(n, behaviour), "max_in_flight": 256}}
}

// retryDelay is when a retry of exactRetries is due after a failure.
const retryDelay = time.Second

// exactRetries is quickRetries without jitter, so that delays can be measured.
var exactRetries = object{
	"strategy": "schedule", "schedule_seconds": []int{int(retryDelay / time.Second)}, "max_attempts": 50, "jitter": 0,
}

// quickRetries waits a second after each failure. With 50 attempts no delivery fails finally by chance.
var quickRetries = object{"strategy": "schedule", "schedule_seconds": []int{1}, "max_attempts": 50, "jitter": 0.1}

// fanout posts to one endpoint with five destinations.
func fanout(ctx context.Context, b *benchRun) error {
	id, err := b.r.makeEndpoint(ctx, object{"destinations": b.destinations("ok", "ok", "ok", "ok", "ok")})
	if err != nil {
		return err
	}
	return b.run(ctx, arrivalLimit, b.post("events", b.r.eventsURL(id), 0, 1, 2, 3, 4))
}

// newPart returns an empty result for another part of the same run.
func (r *Result) newPart() Result {
	return Result{
		Scenario: r.Scenario, Settings: r.Settings, Version: r.Version, Began: r.Began, Machine: r.Machine,
		RSSIdle: r.RSSIdle, ReadyMS: r.ReadyMS, Idle: r.Idle,
	}
}

// limitEvents returns a post of n events, however long they take.
func (p post) limitEvents(n int) post {
	p.Events, p.For = int64(n), 0
	return p
}

// retryStorm posts events to a failing destination and waits until the last one is delivered. Single events to another
// endpoint show the effect on others.
func retryStorm(ctx context.Context, b *benchRun) error {
	id, err := b.r.makeEndpoint(ctx, object{"destinations": b.destinationAt(0, "fail50"), "retry_policy": exactRetries})
	if err != nil {
		return err
	}
	posts := []post{b.post("events", b.r.eventsURL(id), 0).limitEvents(b.o.events)}
	if b.o.probe > 0 {
		neighbour, err := b.r.makeEndpoint(ctx, object{"destinations": b.destinationAt(1, "ok")})
		if err != nil {
			return err
		}
		posts = append(posts, b.postAt(pace{b.o.posters, b.o.probe, 0}, "neighbour", b.r.eventsURL(neighbour), 1))
	}
	if err := b.run(ctx, retryLimit(b.o.events), posts...); err != nil {
		return err
	}
	a := b.result.Streams[0].Arrivals[0]
	late := func(ms float64) float64 { return ms - float64(retryDelay.Milliseconds()) }
	b.addFigures(
		Figure{"requests per event", float64(a.Requests) / float64(max(a.Arrived, 1)), ""},
		Figure{"requests per second", rate(a.Requests, b.result.AllSeconds), ""},
		Figure{"retry lateness p50", late(a.Retry.P50), "ms"}, Figure{"retry lateness p99", late(a.Retry.P99), "ms"},
		Figure{"retry lateness max", late(a.Retry.Max), "ms"})
	return nil
}

// retryLimit returns how long the retries or the backlog of that many events may take: 5 min plus 1 ms per event.
func retryLimit(events int) time.Duration {
	return 5*time.Minute + time.Duration(events)*time.Millisecond
}

// drain posts events to a paused endpoint, then resumes it.
func drain(ctx context.Context, b *benchRun) error {
	if b.o.stopped {
		return drainLog(ctx, b)
	}
	id, err := b.r.makeEndpoint(ctx, object{"destinations": b.destinations("ok")})
	if err != nil {
		return err
	}
	if err := b.measureIdle(ctx); err != nil {
		return err
	}
	p := b.post("events", b.r.eventsURL(id), 0).limitEvents(b.o.events)
	if err := b.warmUp(ctx, p); err != nil {
		return err
	}
	path := "/v1/endpoints/" + id
	if err := b.r.call(ctx, http.MethodPatch, path, object{"paused": true}, nil); err != nil {
		return err
	}
	var released time.Time
	release := func(ctx context.Context) error {
		released = time.Now()
		return b.r.call(ctx, http.MethodPatch, path, object{"paused": false}, nil)
	}
	began := time.Now()
	if err := b.measure(ctx, []post{p}, retryLimit(b.o.events), release); err != nil {
		return err
	}
	took := b.result.AllSeconds - released.Sub(began).Seconds()
	b.addFigures(Figure{"drained after", took, "s"}, Figure{"drained", rate(b.result.Delivered, took), "a second"})
	return nil
}

// drainLog posts events to a relay without a dispatcher, then restarts it with one. Costs are those of the second
// process, including its start.
func drainLog(ctx context.Context, b *benchRun) error {
	id, err := b.r.makeEndpoint(ctx, object{"destinations": b.destinations("ok")})
	if err != nil {
		return err
	}
	if err := b.measureIdle(ctx); err != nil {
		return err
	}
	p := b.post("events", b.r.eventsURL(id), 0).limitEvents(b.o.events)
	posting := time.Now()
	done, _, err := b.generate(ctx, b.postedProgress("%d of %d posted", b.o.events), p)
	if err != nil {
		return err
	}
	posted := time.Since(posting)
	if err := b.awaitIdle(ctx); err != nil {
		return err
	}
	b.r.stop()
	b.o.stopped = false
	began := time.Now()
	if b.r, err = startRelay(ctx, b.o); err != nil {
		return err
	}
	w, err := newWatch(b, []post{p})
	if err != nil {
		return err
	}
	w.began, w.at = began, began // includes the start of the second process
	sinkBefore := b.sink.cpu()
	if _, err := b.awaitArrival(ctx, []post{p}, done, retryLimit(b.o.events), w); err != nil {
		return err
	}
	spent, err := b.r.readCost(ctx)
	if err != nil {
		return err
	}
	spent.byKind["sink"] = b.sink.cpu() - sinkBefore
	if err := b.countArrivals([]post{p}, done, began); err != nil {
		return err
	}
	b.result.PostSeconds = posted.Seconds()
	b.addCosts(spent, w, time.Since(began))
	took := b.result.AllSeconds - b.r.ready.Seconds()
	b.addFigures(Figure{"ready again after", b.r.ready.Seconds(), "s"}, Figure{"drained after", took, "s"},
		Figure{"drained", rate(b.result.Delivered, took), "a second"})
	return nil
}

// mixed posts several kinds of traffic at the same time; --rate is the rate of the single events.
func mixed(ctx context.Context, b *benchRun) error {
	kinds := []struct {
		name         string
		destinations []object
		rate, batch  int
		to           []int
	}{
		{"single", b.destinationAt(0, "ok"), b.o.rate, 0, []int{0}},
		{"batches of 100", b.destinationAt(1, "ok"), 2 * b.o.rate, 100, []int{1}},
		{"fan-out to 3", []object{b.destinationAt(2, "ok")[0], b.destinationAt(3, "ok")[0], b.destinationAt(4, "ok")[0]},
			b.o.rate / 4, 0, []int{2, 3, 4}},
		{"a fifth fails", b.destinationAt(5, "fail20"), b.o.rate / 4, 0, []int{5}},
		{"slow, 200 ms", b.destinationAt(6, "slow200"), b.o.rate / 4, 0, []int{6}},
	}
	var posts []post
	for _, k := range kinds {
		id, err := b.r.makeEndpoint(ctx, object{"destinations": k.destinations, "retry_policy": quickRetries})
		if err != nil {
			return err
		}
		posts = append(posts, b.postAt(pace{b.o.posters, max(k.rate, 1), k.batch}, k.name, b.r.eventsURL(id), k.to...))
	}
	return b.run(ctx, 2*arrivalLimit, posts...)
}

// eventsURL returns the send URL of an endpoint.
func (r *relay) eventsURL(endpoint string) string { return r.url + eventsPath(endpoint) }

func eventsPath(endpoint string) string { return "/v1/endpoints/" + endpoint + "/events" }

// versionOf returns the version of a binary, "" if it does not print one.
func versionOf(ctx context.Context, binary string) string {
	out, err := exec.CommandContext(ctx, binary, "version").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
