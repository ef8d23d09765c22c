package bench

import (
	"context"
	"flag"
	"net/http"
	"os/exec"
	"strings"
	"time"
)

// definitions is the table of scenarios.
func definitions() []definition {
	fast := []string{"batch=1000", "posters=2"}
	return []definition{
		{name: "flat", run: flat, flags: manyFlags, peers: true,
			summary: "events as fast as some connections can post them, or at a rate; what one costs"},
		{name: "steady", run: flat, flags: manyFlags, presets: []string{"rate=500"}, peers: true,
			summary: "events at a rate: how long they take"},
		{name: "accept", run: accept, flags: manyFlags,
			summary: "flat to endpoints whose destination is disabled: what taking an event costs by itself"},
		{name: "fanout", run: fanout, presets: []string{"rate=200"},
			summary: "each event to five destinations, at a rate"},
		{name: "hung", run: hung, flags: hungFlags, presets: []string{"rate=50"},
			summary: "a destination beside one that never answers, both at a rate: what the healthy one notices"},
		{name: "retrystorm", run: retryStorm, flags: stormFlags, presets: []string{"batch=500", "posters=2"},
			summary: "events to a destination that fails half of all requests, until all are delivered"},
		{name: "batch", run: flat, flags: manyFlags, presets: fast,
			summary: "flat in batches, as NDJSON"},
		{name: "tls", run: flat, flags: tlsFlags,
			summary: "flat to a destination that speaks TLS, on kept-alive connections"},
		{name: "drain", run: drain, flags: drainFlags, presets: fast,
			summary: "events posted while the endpoint is paused, then delivered: how fast a backlog goes"},
		{name: "mixed", run: mixed, presets: []string{"rate=200"},
			summary: "single events, batches, a fan-out, a failing and a slow destination at the same time"},
		{name: "soak", run: flat, flags: manyFlags, presets: []string{"rate=1000", "duration=30m"},
			summary: "steady for half an hour: whether memory grows"},
		{name: "floor", run: bare, start: startFloor("pipe"),
			summary: "flat on a bare pipeline of the same libraries, in place of the relay: how cheap an event could be"},
		{name: "floor-http", run: bare, start: startFloor("http"),
			summary: "of that the requests alone, in and out, without a log"},
		{name: "floor-log", run: bareLog, start: startFloor("log"),
			summary: "of that the log alone: records through the embedded broker and its barrier, without a request"},
		{name: "floor-row", run: bareRows, start: startTables,
			summary: "rows of an event's size inserted into the embedded ClickHouse, without a relay"},
	}
}

// arriveWithin is how long to wait for the last event before it counts as lost.
const arriveWithin = 30 * time.Second

// flat posts to endpoints with one destination each.
func flat(ctx context.Context, b *benchRun) error { return several(ctx, b, b.to("ok"), 0) }

// accept posts to endpoints whose destination is disabled: nothing is to be delivered.
func accept(ctx context.Context, b *benchRun) error {
	none := b.to("ok")
	none[0]["enabled"] = false
	return several(ctx, b, none)
}

// several posts to endpoints in turn, behind what waits in the log.
func several(ctx context.Context, b *benchRun, destinations []object, to ...int) error {
	posts, err := b.sources(ctx, destinations, to...)
	if err != nil {
		return err
	}
	if err := b.wait(ctx); err != nil {
		return err
	}
	if b.o.peer != nil {
		b.o.peer.apply(&posts[0], b.o.size)
	}
	return b.run(ctx, arriveWithin, posts...)
}

// manyFlags adds the flags of what there is many of.
func manyFlags(o *options, fs *flag.FlagSet) {
	fs.IntVar(&o.endpoints, "endpoints", 0,
		"endpoints that requests go to in turn; 0 = one, with --serve four for each node")
	fs.IntVar(&o.backlog, "backlog", 0, "so many events of other endpoints, which are paused, wait in the log")
}

func stormFlags(o *options, fs *flag.FlagSet) {
	fs.IntVar(&o.events, "events", 10_000, "how many to post")
	fs.IntVar(&o.probe, "probe", 100,
		"single events a second to an endpoint that works, meanwhile and for --duration")
}

func drainFlags(o *options, fs *flag.FlagSet) {
	fs.IntVar(&o.events, "events", 20_000, "how many to post")
	fs.BoolVar(&o.stopped, "stopped", false,
		"nothing is paused, but the dispatcher does not run while events are posted: they lie in the log")
}

func tlsFlags(o *options, fs *flag.FlagSet) {
	o.tls = true
	manyFlags(o, fs)
	fs.BoolVar(&o.http2, "http2", false, "the destination speaks HTTP/2")
}

// to describes an endpoint's destinations by what the sink does at each.
func (b *benchRun) to(behaviours ...string) []object {
	out := make([]object, len(behaviours))
	for i, what := range behaviours {
		out[i] = object{"url": b.sink.url(i, what), "max_in_flight": 256}
	}
	return out
}

// one is a single destination with a number of its own.
func (b *benchRun) one(n int, behaviour string) []object {
	return []object{{"url": b.sink.url(n, behaviour), "max_in_flight": 256}}
}

// nextRetry is when a retry of exactRetries is due after its failure.
const nextRetry = time.Second

// exactRetries is quickRetries to the moment, so that lateness can be measured.
var exactRetries = object{
	"strategy": "schedule", "schedule_seconds": []int{int(nextRetry / time.Second)}, "max_attempts": 50, "jitter": 0,
}

// quickRetries waits a second after each failure; a chain ends after so many that it never does by chance.
var quickRetries = object{"strategy": "schedule", "schedule_seconds": []int{1}, "max_attempts": 50, "jitter": 0.1}

// fanout posts to one endpoint with five destinations.
func fanout(ctx context.Context, b *benchRun) error {
	id, err := b.r.makeEndpoint(ctx, object{"destinations": b.to("ok", "ok", "ok", "ok", "ok")})
	if err != nil {
		return err
	}
	return b.run(ctx, arriveWithin, b.post("events", b.r.events(id), 0, 1, 2, 3, 4))
}

// again is a result for another part of the same run.
func (r *Result) again() Result {
	return Result{
		Scenario: r.Scenario, Settings: r.Settings, Version: r.Version, Began: r.Began, Machine: r.Machine,
		RSSIdle: r.RSSIdle, ReadyMS: r.ReadyMS, Idle: r.Idle,
	}
}

// count makes a post one of so many events, however long they take.
func (p post) count(n int) post {
	p.Events, p.For = int64(n), 0
	return p
}

// retryStorm posts a number of events and waits until the last one has passed. Single events to a neighbour say what
// others notice of it.
func retryStorm(ctx context.Context, b *benchRun) error {
	id, err := b.r.makeEndpoint(ctx, object{"destinations": b.one(0, "fail50"), "retry_policy": exactRetries})
	if err != nil {
		return err
	}
	posts := []post{b.post("events", b.r.events(id), 0).count(b.o.events)}
	if b.o.probe > 0 {
		neighbour, err := b.r.makeEndpoint(ctx, object{"destinations": b.one(1, "ok")})
		if err != nil {
			return err
		}
		posts = append(posts, b.postAt(pace{b.o.posters, b.o.probe, 0}, "neighbour", b.r.events(neighbour), 1))
	}
	if err := b.run(ctx, stormWithin(b.o.events), posts...); err != nil {
		return err
	}
	a := b.result.Streams[0].Arrivals[0]
	late := func(ms float64) float64 { return ms - float64(nextRetry.Milliseconds()) }
	b.add(
		Figure{"requests an event", float64(a.Requests) / float64(max(a.Arrived, 1)), ""},
		Figure{"requests a second", rate(a.Requests, b.result.AllSeconds), ""},
		Figure{"retries late p50", late(a.Retry.P50), "ms"}, Figure{"retries late p99", late(a.Retry.P99), "ms"},
		Figure{"retries late, most", late(a.Retry.Max), "ms"})
	return nil
}

// stormWithin is how long retries, or a backlog, of so many events may take: a thousand a second.
func stormWithin(events int) time.Duration {
	return 5*time.Minute + time.Duration(events)*time.Millisecond
}

// drain posts a number of events to a paused destination, then lets them go.
func drain(ctx context.Context, b *benchRun) error {
	if b.o.stopped {
		return drainLog(ctx, b)
	}
	id, err := b.r.makeEndpoint(ctx, object{"destinations": b.to("ok")})
	if err != nil {
		return err
	}
	if err := b.measureIdle(ctx); err != nil {
		return err
	}
	p := b.post("events", b.r.events(id), 0).count(b.o.events)
	if err := b.warm(ctx, p); err != nil {
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
	if err := b.measure(ctx, []post{p}, stormWithin(b.o.events), release); err != nil {
		return err
	}
	took := b.result.AllSeconds - released.Sub(began).Seconds()
	b.add(Figure{"drained after", took, "s"}, Figure{"drained", rate(b.result.Delivered, took), "a second"})
	return nil
}

// drainLog posts a number of events to a relay that has no dispatcher, then starts one that has. Costs are of the
// second, its start included.
func drainLog(ctx context.Context, b *benchRun) error {
	id, err := b.r.makeEndpoint(ctx, object{"destinations": b.to("ok")})
	if err != nil {
		return err
	}
	if err := b.measureIdle(ctx); err != nil {
		return err
	}
	p := b.post("events", b.r.events(id), 0).count(b.o.events)
	posting := time.Now()
	done, _, err := b.generate(ctx, b.postedProgress("%d of %d posted", b.o.events), p)
	if err != nil {
		return err
	}
	posted := time.Since(posting)
	if err := b.settle(ctx); err != nil {
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
	w.began, w.at = began, began // the start of the second one is a part of it
	sinkBefore := b.sink.cpu()
	if _, err := b.arrive(ctx, []post{p}, done, stormWithin(b.o.events), w); err != nil {
		return err
	}
	spent, err := b.r.cost(ctx)
	if err != nil {
		return err
	}
	spent.byKind["sink"] = b.sink.cpu() - sinkBefore
	if err := b.tally([]post{p}, done, began); err != nil {
		return err
	}
	b.result.PostSeconds = posted.Seconds()
	b.account(spent, w, time.Since(began))
	took := b.result.AllSeconds - b.r.ready.Seconds()
	b.add(Figure{"ready again after", b.r.ready.Seconds(), "s"}, Figure{"drained after", took, "s"},
		Figure{"drained", rate(b.result.Delivered, took), "a second"})
	return nil
}

// mixed is several kinds of traffic at the same time; --rate is that of the single events.
func mixed(ctx context.Context, b *benchRun) error {
	kinds := []struct {
		name         string
		destinations []object
		rate, batch  int
		to           []int
	}{
		{"single", b.one(0, "ok"), b.o.rate, 0, []int{0}},
		{"batches of 100", b.one(1, "ok"), 2 * b.o.rate, 100, []int{1}},
		{"fan-out to 3", []object{b.one(2, "ok")[0], b.one(3, "ok")[0], b.one(4, "ok")[0]}, b.o.rate / 4, 0, []int{2, 3, 4}},
		{"a fifth fails", b.one(5, "fail20"), b.o.rate / 4, 0, []int{5}},
		{"slow, 200 ms", b.one(6, "slow200"), b.o.rate / 4, 0, []int{6}},
	}
	var posts []post
	for _, k := range kinds {
		id, err := b.r.makeEndpoint(ctx, object{"destinations": k.destinations, "retry_policy": quickRetries})
		if err != nil {
			return err
		}
		posts = append(posts, b.postAt(pace{b.o.posters, max(k.rate, 1), k.batch}, k.name, b.r.events(id), k.to...))
	}
	return b.run(ctx, 2*arriveWithin, posts...)
}

// events is the send route of an endpoint.
func (r *relay) events(endpoint string) string { return r.url + eventsPath(endpoint) }

func eventsPath(endpoint string) string { return "/v1/endpoints/" + endpoint + "/events" }

// versionOf asks a binary for its version; empty when it does not say.
func versionOf(ctx context.Context, binary string) string {
	out, err := exec.CommandContext(ctx, binary, "version").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
