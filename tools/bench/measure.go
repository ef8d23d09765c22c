package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/wait"
	"github.com/eventrelay/relay/tools/bench/load"
	"github.com/eventrelay/relay/tools/bench/sink"
)

// post is a stream of events and the destinations that shall receive all of them.
type post struct {
	load.Stream
	name         string
	destinations []int
}

// benchRun is one run of a scenario: the relay, the sink, and the figures so far.
type benchRun struct {
	o      options
	r      *relay
	sink   *destination
	stderr io.Writer
	result Result

	runs   int  // number of the next run of marks
	remove bool // whether close removes the data directory

	engine *http.Client // of the embedded ClickHouse, if that is measured; see clickhouseClient
}

// newBenchRun starts sink and relay. The sink is first, because the relay needs its certificate.
func newBenchRun(
	ctx context.Context, o options, name string, stderr io.Writer, start func(context.Context, options) (*relay, error),
) (*benchRun, error) {
	b := &benchRun{o: o, stderr: stderr}
	b.result = Result{Scenario: name, Settings: o.settings(), Began: time.Now(), Machine: thisMachine()}
	var err error
	if o.dir == "" {
		if b.o.dir, err = os.MkdirTemp("", "relay-bench"); err != nil {
			return nil, err
		}
		b.remove = true
	} else if err := private.EnsureDir(o.dir, lockFile); err != nil { // before the sink writes its certificate there
		return nil, err
	}
	if b.o.dir, err = filepath.Abs(b.o.dir); err != nil {
		return nil, err
	}
	if b.result.Machine.Disk, err = tryDisk(b.o.dir); err != nil {
		b.close()
		return nil, fmt.Errorf("try the disk: %w", err)
	}
	if o.stored > 0 {
		if err := fillStored(ctx, b.o); err != nil {
			b.close()
			return nil, fmt.Errorf("fill the store: %w", err)
		}
	}
	if b.sink, err = startSink(ctx, b.o, stderr); err == nil {
		b.o.deliver = b.sink.url(0, "ok")
		b.r, err = start(ctx, b.o)
	}
	if err == nil {
		err = b.createIdleEndpoints(ctx)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	b.result.ReadyMS = b.r.ready.Milliseconds()
	return b, nil
}

// close ends all processes, the sink first: hanging deliveries would delay the end of the relay.
func (b *benchRun) close() {
	if b.sink != nil {
		_ = b.sink.close()
	}
	if b.r != nil {
		b.r.stop()
	}
	if b.remove {
		_ = os.RemoveAll(b.o.dir)
	}
}

// pace is how a stream is posted: connections, events per second, events per request.
type pace struct{ conns, rate, batch int }

// post returns a stream at the pace of the command line. Its events are posted to url and shall arrive at the
// destinations.
func (b *benchRun) post(name, url string, to ...int) post {
	return b.postAt(pace{b.o.posters, b.o.rate, b.o.batch}, name, url, to...)
}

// postAt returns a stream with its own run of marks, at a pace.
func (b *benchRun) postAt(at pace, name, url string, to ...int) post {
	p := post{name: name, destinations: to}
	p.Run, p.URL, p.Conns, p.Rate, p.Batch = b.runs, url, at.conns, float64(at.rate), at.batch
	b.runs++
	p.Header = map[string]string{"Authorization": "Bearer " + b.r.key, "Content-Type": "application/json"}
	if p.Batch > 0 {
		p.URL += "/batch"
		p.Header["Content-Type"] = "application/x-ndjson"
	}
	if p.Rate > 0 {
		p.Conns = max(p.Conns, 256) // an open loop must not wait for answers
	}
	p.For, p.Expect, p.Body = b.o.duration, []int{202}, eventBody(b.o.size)
	p.Fresh, p.CA = b.o.handshake, b.r.ca
	return p
}

// warmUp sends one event of a post to each of its endpoints and waits until it has arrived, so that connections, lanes
// and tables exist.
func (b *benchRun) warmUp(ctx context.Context, p post) error {
	n := max(len(p.Paths), 1)
	p.Run, p.Conns, p.Rate, p.For, p.Events = b.runs, min(n, maxCreators), 0, 0, int64(n)
	p.Batch = min(p.Batch, 1)
	b.runs++
	r, _, err := b.generate(ctx, nil, p)
	if err != nil {
		return err
	}
	if t := r.Streams[0]; t.Accepted != p.Events {
		return fmt.Errorf("%s: %d of %d first events were refused; answers by status: %v %s", p.name, t.Refused, p.Events,
			t.Answers, t.NoAnswer)
	}
	arrived, err := b.awaitArrival(ctx, []post{p}, r, arrivalLimit, nil)
	if err == nil && !arrived {
		err = fmt.Errorf("%s: the first event did not arrive at %s", p.name, b.sink.base)
	}
	return err
}

// measureIdle measures the idle relay before the load.
func (b *benchRun) measureIdle(ctx context.Context) error {
	c, err := b.r.idleCost(ctx, b.o.idle)
	if err != nil {
		return err
	}
	if b.o.idle > 0 {
		b.result.Idle = processes(c.byKind, b.o.idle, 0)
	}
	b.result.RSSIdle = b.r.rss()
	return nil
}

// run measures the idle relay, warms up each post and measures the posts.
func (b *benchRun) run(ctx context.Context, patience time.Duration, posts ...post) error {
	if err := b.measureIdle(ctx); err != nil {
		return err
	}
	for _, p := range posts {
		if err := b.warmUp(ctx, p); err != nil {
			return err
		}
	}
	return b.measure(ctx, posts, patience, nil)
}

// measure posts, waits at most patience until all events have arrived, and adds the costs to the result. meanwhile,
// unless nil, is called after the posts.
func (b *benchRun) measure(
	ctx context.Context, posts []post, patience time.Duration, meanwhile func(context.Context) error,
) error {
	before, err := b.r.readCost(ctx)
	if err != nil {
		return err
	}
	w, err := newWatch(b, posts)
	if err != nil {
		return err
	}
	sinkBefore, began := b.sink.cpu(), w.began
	profiles := b.takeProfiles(ctx, posts)
	done, loadCPU, err := b.generate(ctx, w.sample, posts...)
	if err == nil && meanwhile != nil {
		err = meanwhile(ctx)
	}
	if err == nil {
		_, err = b.awaitArrival(ctx, posts, done, patience, w)
	}
	if err == nil {
		err = b.awaitStored(ctx)
	}
	if err = errors.Join(err, profiles.taken.Wait()); err != nil {
		return err
	}
	after, err := b.r.readCost(ctx)
	if err != nil {
		return err
	}
	spent := after.since(before)
	spent.byKind["load"], spent.byKind["sink"] = loadCPU, b.sink.cpu()-sinkBefore
	if err := wait.For(ctx, duplicateWait); err != nil {
		return err
	}
	if err := b.countArrivals(posts, done, began); err != nil {
		return err
	}
	b.addCosts(spent, w, time.Since(began))
	return b.addStages(profiles)
}

const (
	// duplicateWait is how long to wait for duplicates after the last arrival: a request whose answer was lost is
	// repeated after a second.
	duplicateWait = 1200 * time.Millisecond
	// storeLimit bounds how long the store may take to catch up.
	storeLimit = 10 * time.Minute
)

// awaitStored waits until the store has all accepted and delivered events: writing their rows belongs to the cost of an
// event. The newest page of the events list waits for them, or says in Relay-Data-As-Of that it is behind. A service
// without that page, such as the bare pipeline, has no store.
func (b *benchRun) awaitStored(ctx context.Context) error {
	if b.o.peer != nil {
		return nil
	}
	began := time.Now()
	for {
		resp, err := b.r.request(ctx, http.MethodGet, "/v1/events?limit=1", nil)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		status, asOf := resp.StatusCode, resp.Header.Get("Relay-Data-As-Of")
		switch {
		case status != http.StatusOK && status != http.StatusServiceUnavailable:
			return nil
		case status == http.StatusOK && asOf == "":
			b.addFigures(Figure{"all events stored after the last arrival", time.Since(began).Seconds(), "s"})
			return nil
		case time.Since(began) > storeLimit:
			return fmt.Errorf("the store is still behind %v after the last event arrived: GET /v1/events answers %d as of %q",
				storeLimit,
				status, asOf)
		}
		if err := wait.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// awaitArrival waits until all accepted events have arrived, and reports whether they have.
func (b *benchRun) awaitArrival(
	ctx context.Context, posts []post, done load.Report, patience time.Duration, w *watch,
) (bool, error) {
	deadline, next := time.Now().Add(patience), time.Now()
	for {
		r, err := b.sink.report(refusedQuery(done))
		if err != nil {
			return false, err
		}
		missing := int64(0)
		for i, p := range posts {
			for _, to := range p.destinations {
				t := tallyOf(r, p.Run, to)
				missing += max(done.Streams[i].Accepted-(t.Arrived-t.Refused), 0)
			}
		}
		if missing == 0 || time.Now().After(deadline) {
			return missing == 0, nil
		}
		if w != nil && time.Now().After(next) {
			next = time.Now().Add(time.Second)
			if err := w.sample(done, 0); err != nil {
				return false, err
			}
		}
		if err := wait.For(ctx, 20*time.Millisecond); err != nil {
			return false, err
		}
	}
}

func refusedQuery(done load.Report) sink.Query {
	q := sink.Query{Refused: map[int][]int64{}}
	for _, s := range done.Streams {
		q.Refused[s.Run] = s.RefusedNumbers
	}
	return q
}

func tallyOf(r sink.Report, run, to int) sink.Tally {
	i := slices.IndexFunc(r.Tallies, func(t sink.Tally) bool { return t.Run == run && t.Destination == to })
	if i < 0 {
		return sink.Tally{Run: run, Destination: to}
	}
	return r.Tallies[i]
}

// countArrivals adds the accepted, arrived, lost and duplicate events of the posts to the result.
func (b *benchRun) countArrivals(posts []post, done load.Report, began time.Time) error {
	q := refusedQuery(done)
	q.Durations = true
	r, err := b.sink.report(q)
	if err != nil {
		return err
	}
	res := &b.result
	ended, last := began, began
	for i, p := range posts {
		l := done.Streams[i]
		s := Stream{Name: p.name, Accepted: l.Accepted, Refused: l.Refused, Late: l.Late, Answers: l.Answers,
			NoAnswer: l.NoAnswer, Accept: newLatency(l.Latency)}
		for _, to := range p.destinations {
			t := tallyOf(r, p.Run, to)
			a := Arrival{
				Destination: to, Arrived: t.Arrived, Duplicates: t.Duplicates, Requests: t.Requests, Latency: newLatency(t.Latency),
				Retry: newLatency(t.Retry),
				Lost:  max(l.Accepted-(t.Arrived-t.Refused), 0),
			}
			s.Arrivals = append(s.Arrivals, a)
			res.Delivered += a.Arrived
			res.Lost += a.Lost
			res.Duplicates += a.Duplicates
			if t.Last.After(last) {
				last = t.Last
			}
		}
		res.Accepted += s.Accepted
		res.Refused += s.Refused
		res.Streams = append(res.Streams, s)
		if l.Ended.After(ended) {
			ended = l.Ended
		}
	}
	res.PostSeconds += ended.Sub(began).Seconds()
	res.AllSeconds += max(last.Sub(began), ended.Sub(began)).Seconds()
	return nil
}

// addFigures adds figures that only some scenarios have.
func (b *benchRun) addFigures(figures ...Figure) {
	b.result.Figures = append(b.result.Figures, figures...)
}

// addCosts adds CPU, memory, disk and batch sizes to the result.
func (b *benchRun) addCosts(spent cost, w *watch, took time.Duration) {
	res := &b.result
	n := max(res.Accepted, 1)
	res.CPU = processes(spent.byKind, took, n)
	res.Mallocs, res.Bytes = spent.mallocs/float64(n), spent.bytes/float64(n)
	res.RSSLoaded, res.RSSMax = w.rss(res.RSSIdle)
	memory := b.r.memory()
	for i := range res.CPU {
		w.addMemory(&res.CPU[i], memory)
	}
	if b.o.target == "" && b.o.peer == nil {
		res.Disk = diskUse(b.o.dir) / n
	}
	res.Batches = batches(spent.metrics, n)
	res.Series = w.series
	b.addFigures(slopes(w.series)...)
	b.addFigures(consumerLags(w.series, spent.metrics)...)
	res.Machine.LoadAfter = loadAverage()
}

// processes lists the CPU times by process: the relay, its engines, the benchmark's own processes.
func processes(byKind map[string]time.Duration, took time.Duration, events int64) []Process {
	var out []Process
	kinds := append([]string{"relay"}, nodeKinds...)
	for _, name := range append(kinds, "clickhouse", "kafka", "redis", "load", "sink") {
		if used, ok := byKind[name]; ok {
			p := Process{Name: name, Seconds: used.Seconds(), Cores: used.Seconds() / took.Seconds()}
			if events > 0 {
				p.PerEvent = float64(used.Microseconds()) / float64(events)
			}
			out = append(out, p)
		}
	}
	return out
}

// ratios are quotients of metrics: average batch sizes.
var ratios = []struct{ name, over, under string }{
	{"rows per store insert", "relay_store_rows_total", "relay_store_flush_seconds_count"},
	{"rows per ClickHouse insert", "clickhouse_InsertedRows", "clickhouse_InsertQuery"},
	{"rows merged per row inserted", "clickhouse_MergedRows", "clickhouse_InsertedRows"},
	{"files synced at a time", "relay_embedded_log_synced_files_total", "relay_embedded_log_sync_seconds_count"},
}

// perEvent are counters by which the number of events is divided.
var perEvent = []struct{ name, under string }{
	{"events per sync of events", `relay_embedded_log_sync_seconds_count{topics="durable"}`},
}

func batches(metrics map[string]float64, events int64) []Batch {
	var out []Batch
	for _, r := range ratios {
		if metrics[r.under] > 0 {
			out = append(out, Batch{r.name, metrics[r.over] / metrics[r.under]})
		}
	}
	for _, r := range perEvent {
		if metrics[r.under] > 0 {
			out = append(out, Batch{r.name, float64(events) / metrics[r.under]})
		}
	}
	return out
}

// eventBody returns the body of an event with size bytes of data in addition to its mark. All events of a run share it.
func eventBody(size int) string {
	return `{"type":"bench.event","data":{"mark":"{{mark}}","filler":"` + filler(size) + `"}}`
}

// filler returns pseudo-random hexadecimal text, which compresses badly.
func filler(size int) string {
	var b strings.Builder
	for x := uint32(2463534242); b.Len() < size; {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		fmt.Fprintf(&b, "%08x", x)
	}
	return b.String()[:max(size, 0)]
}
