package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/eventrelay/relay/bench/load"
	"github.com/eventrelay/relay/bench/sink"
	"github.com/eventrelay/relay/pkg/private"
	"github.com/eventrelay/relay/pkg/wait"
)

// post is a stream of events and the destinations that are to get all of it.
type post struct {
	load.Stream
	name string
	to   []int
}

// benchRun is one run of a scenario: the relay, the sink, and the figures so far.
type benchRun struct {
	o      options
	r      *relay
	sink   *destination
	stderr io.Writer
	result Result

	runs   int  // of marks, given out so far
	remove bool // the data directory, when closed

	engine *http.Client // of the embedded ClickHouse, where that is what is measured; see tablesClient
}

// openBed starts sink and relay. The sink is first, for a relay must know its certificate.
func openBed(
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
	} else if err := private.EnsureDir(o.dir, lockFile); err != nil { // before the sink's certificate is written there
		return nil, err
	}
	if b.sink, err = startSink(ctx, b.o, stderr); err == nil {
		b.o.deliver = b.sink.url(0, "ok")
		b.r, err = start(ctx, b.o)
	}
	if err == nil {
		err = b.configure(ctx)
	}
	if err != nil {
		b.close()
		return nil, err
	}
	b.result.ReadyMS = b.r.ready.Milliseconds()
	return b, nil
}

// close ends all processes: the sink first, or deliveries that hang would hold the relay up.
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

// pace is how a stream is posted.
type pace struct{ conns, rate, batch int }

// post makes a stream at the pace of the command line. Its events go to a URL and are to arrive at destinations.
func (b *benchRun) post(name, url string, to ...int) post {
	return b.postAt(pace{b.o.posters, b.o.rate, b.o.batch}, name, url, to...)
}

// postAt makes a stream with a run of marks of its own.
func (b *benchRun) postAt(at pace, name, url string, to ...int) post {
	p := post{name: name, to: to}
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
	return p
}

// warm sends one event of a post to each of its endpoints through the whole path, so that connections, lanes and
// tables exist.
func (b *benchRun) warm(ctx context.Context, p post) error {
	n := max(len(p.Paths), 1)
	p.Run, p.Conns, p.Rate, p.For, p.Events = b.runs, min(n, creators), 0, 0, int64(n)
	p.Batch = min(p.Batch, 1)
	b.runs++
	r, _, err := b.generate(ctx, nil, p)
	if err != nil {
		return err
	}
	if t := r.Streams[0]; t.Accepted != p.Events {
		return fmt.Errorf("%s: the first event was refused (%d of %d); answers by status: %v %s", p.name, t.Refused, p.Events,
			t.Answers, t.NoAnswer)
	}
	arrived, err := b.arrive(ctx, []post{p}, r, arriveWithin, nil)
	if err == nil && !arrived {
		err = fmt.Errorf("%s: the first event did not arrive at %s", p.name, b.sink.base)
	}
	return err
}

// measureIdle measures the relay before the load.
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

// run measures the relay at rest, sends an event of each post ahead and measures the posts.
func (b *benchRun) run(ctx context.Context, patience time.Duration, posts ...post) error {
	if err := b.measureIdle(ctx); err != nil {
		return err
	}
	for _, p := range posts {
		if err := b.warm(ctx, p); err != nil {
			return err
		}
	}
	return b.measure(ctx, posts, patience, nil)
}

// measure posts, waits at most so long until all has arrived, and adds what it cost to the result. meanwhile,
// if there is one, is called once the posts are done.
func (b *benchRun) measure(
	ctx context.Context, posts []post, patience time.Duration, meanwhile func(context.Context) error,
) error {
	before, err := b.r.cost(ctx)
	if err != nil {
		return err
	}
	w, err := newWatch(b, posts)
	if err != nil {
		return err
	}
	sinkBefore, began := b.sink.cpu(), w.began
	profiles := b.takeProfiles(ctx, posts)
	done, loadCPU, err := b.generate(ctx, w.second, posts...)
	if err == nil && meanwhile != nil {
		err = meanwhile(ctx)
	}
	if err == nil {
		_, err = b.arrive(ctx, posts, done, patience, w)
	}
	if err == nil {
		err = b.stored(ctx)
	}
	if err = errors.Join(err, profiles.taken.Wait()); err != nil {
		return err
	}
	after, err := b.r.cost(ctx)
	if err != nil {
		return err
	}
	spent := after.since(before)
	spent.byKind["load"], spent.byKind["sink"] = loadCPU, b.sink.cpu()-sinkBefore
	if err := wait.For(ctx, afterwards); err != nil {
		return err
	}
	if err := b.tally(posts, done, began); err != nil {
		return err
	}
	b.account(spent, w, time.Since(began))
	return b.classify(profiles)
}

const (
	// afterwards is how long duplicates are waited for when all has arrived: a request whose answer was lost is made again
	// after a second.
	afterwards = 1200 * time.Millisecond
	// storedWithin is how long the store may take to catch up.
	storedWithin = 10 * time.Minute
)

// stored waits until the store has what was accepted and delivered: its rows belong to the cost of an event. The newest
// page says so, for it waits for them, or tells that they are not all there. What has no such page, as the bare
// pipeline, has no store.
func (b *benchRun) stored(ctx context.Context) error {
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
			b.add(Figure{"all stored, after the last arrival", time.Since(began).Seconds(), "s"})
			return nil
		case time.Since(began) > storedWithin:
			return fmt.Errorf("the store is still behind %v after the last event arrived: %d as of %q", storedWithin,
				status, asOf)
		}
		if err := wait.For(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// arrive waits until all that was accepted has arrived, and reports whether it has.
func (b *benchRun) arrive(
	ctx context.Context, posts []post, done load.Report, patience time.Duration, w *watch,
) (bool, error) {
	deadline, next := time.Now().Add(patience), time.Now()
	for {
		r, err := b.sink.report(query(done))
		if err != nil {
			return false, err
		}
		missing := int64(0)
		for i, p := range posts {
			for _, to := range p.to {
				t := arrived(r, p.Run, to)
				missing += max(done.Streams[i].Accepted-(t.Arrived-t.Refused), 0)
			}
		}
		if missing == 0 || time.Now().After(deadline) {
			return missing == 0, nil
		}
		if w != nil && time.Now().After(next) {
			next = time.Now().Add(time.Second)
			if err := w.second(done, 0); err != nil {
				return false, err
			}
		}
		if err := wait.For(ctx, 20*time.Millisecond); err != nil {
			return false, err
		}
	}
}

func query(done load.Report) sink.Query {
	q := sink.Query{Refused: map[int][]int64{}}
	for _, s := range done.Streams {
		q.Refused[s.Run] = s.RefusedNumbers
	}
	return q
}

func arrived(r sink.Report, run, to int) sink.Tally {
	i := slices.IndexFunc(r.Tallies, func(t sink.Tally) bool { return t.Run == run && t.Destination == to })
	if i < 0 {
		return sink.Tally{Run: run, Destination: to}
	}
	return r.Tallies[i]
}

// tally adds what became of the posts to the result.
func (b *benchRun) tally(posts []post, done load.Report, began time.Time) error {
	q := query(done)
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
		for _, to := range p.to {
			t := arrived(r, p.Run, to)
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

// add adds figures that only some scenarios have.
func (b *benchRun) add(figures ...Figure) { b.result.Figures = append(b.result.Figures, figures...) }

// account adds what was spent.
func (b *benchRun) account(spent cost, w *watch, took time.Duration) {
	res := &b.result
	n := max(res.Accepted, 1)
	res.CPU = processes(spent.byKind, took, n)
	res.Mallocs, res.Bytes = spent.mallocs/float64(n), spent.bytes/float64(n)
	res.RSSLoaded, res.RSSMax = w.rss(res.RSSIdle)
	memory := b.r.memory()
	for i := range res.CPU {
		w.memoryOf(&res.CPU[i], memory)
	}
	if b.o.target == "" && b.o.peer == nil {
		res.Disk = diskUse(b.o.dir) / n
	}
	res.Batches = batches(spent.metrics, n)
	res.Series = w.series
	b.add(slopes(w.series)...)
	b.add(behind(w.series, spent.metrics)...)
	res.Machine.LoadAfter = loadAverage()
}

// processes makes a table of CPU times, the relay first, then its engines, then the benchmark's own.
func processes(byKind map[string]time.Duration, took time.Duration, events int64) []Process {
	var out []Process
	for _, name := range []string{"relay", "clickhouse", "kafka", "redis", "load", "sink"} {
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

// ratios of metrics that say how many things went together.
var ratios = []struct{ name, over, under string }{
	{"rows a store insert", "relay_store_rows_total", "relay_store_flush_seconds_count"},
	{"files synced a barrier", "relay_embedded_kafka_synced_files_total", "relay_embedded_kafka_barrier_seconds_count"},
}

// perEvent are metrics of which an event takes a share.
var perEvent = []struct{ name, under string }{
	{"events a barrier of events", `relay_embedded_kafka_barrier_seconds_count{topics="durable"}`},
	{"events a produce request", `relay_embedded_kafka_requests_total{kind="produce"}`},
	{"events a fetch", `relay_embedded_kafka_requests_total{kind="fetch"}`},
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

// eventBody is one event with so many bytes of data besides its mark; all of a run have the same.
func eventBody(size int) string {
	return `{"type":"bench.event","data":{"mark":"{{mark}}","filler":"` + filler(size) + `"}}`
}

// filler is text that does not repeat itself, so that compression says little about it.
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
