package bench

import (
	"fmt"
	"time"

	"github.com/eventrelay/relay/bench/count"
	"github.com/eventrelay/relay/bench/load"
	"github.com/eventrelay/relay/bench/sink"
)

// watch samples a run each second and says how it goes.
type watch struct {
	b      *benchRun
	posts  []post
	began  time.Time
	series []Sample

	at               time.Time
	accepted         int64
	arrived          int64
	accept, arrivals count.Durations
	used             map[string]time.Duration
	loadCPU          time.Duration
}

func newWatch(b *benchRun, posts []post) (*watch, error) {
	first, err := b.sink.report(sink.Query{Durations: true})
	if err != nil {
		return nil, err
	}
	began := time.Now()
	w := &watch{b: b, posts: posts, began: began, at: began}
	w.arrived, w.arrivals = w.sum(first)
	w.used = b.r.used().byKind
	w.used["sink"] = b.sink.cpu()
	return w, nil
}

// sum is what arrived of all posts, hung and failing destinations excepted.
func (w *watch) sum(r sink.Report) (n int64, d count.Durations) {
	for _, p := range w.posts {
		for _, to := range p.to {
			t := arrived(r, p.Run, to)
			n += t.Arrived
			d.Merge(t.Latency)
		}
	}
	return n, d
}

// second takes one sample and prints a line.
func (w *watch) second(l load.Report, loadCPU time.Duration) error {
	r, err := w.b.sink.report(sink.Query{Durations: true})
	if err != nil {
		return err
	}
	now := time.Now()
	took := now.Sub(w.at).Seconds()
	if took < 0.3 { // the last report of the load comes at any time; a sample of a moment says nothing
		return nil
	}
	var accepted int64
	var accept count.Durations
	for _, s := range l.Streams {
		accepted += s.Accepted
		accept.Merge(s.Latency)
	}
	n, arrivals := w.sum(r)
	used := w.b.r.used().byKind
	used["sink"] = w.b.sink.cpu()
	s := Sample{
		At: now.Sub(w.began).Seconds(), Accepted: float64(accepted-w.accepted) / took, Arrived: float64(n-w.arrived) / took,
		AcceptP99:  newLatency(accept.Since(w.accept)).P99,
		ArrivalP50: newLatency(arrivals.Since(w.arrivals)).P50, ArrivalP99: newLatency(arrivals.Since(w.arrivals)).P99,
		CPU: map[string]float64{}, Memory: w.b.r.memory(),
	}
	for _, n := range s.Memory {
		s.RSS += n
	}
	for k, v := range used {
		s.CPU[k] = (v - w.used[k]).Seconds() / took
	}
	if loadCPU > 0 {
		s.CPU["load"] = (loadCPU - w.loadCPU).Seconds() / took
		w.loadCPU = loadCPU
	}
	w.series = append(w.series, s)
	w.at, w.accepted, w.arrived, w.accept, w.arrivals, w.used = now, accepted, n, accept, arrivals, used
	if !w.b.o.quiet {
		fmt.Fprintf(w.b.stderr, "%6.1f s  accepted %9d (%6.0f/s)  arrived %9d (%6.0f/s)  p99 accept %7.1f ms, arrival "+
			"%7.1f ms  relay %4.2f cores, %4d MB  load %.1f\n",
			s.At, accepted, s.Accepted, n, s.Arrived, s.AcceptP99, s.ArrivalP99, s.CPU["relay"], s.RSS>>20, loadAverage())
	}
	return nil
}

// rss is the mean and the most of the samples, and at least what is there now.
func (w *watch) rss(idle int64) (mean, most int64) {
	now := w.b.r.rss()
	sum, most := now, max(idle, now)
	for _, s := range w.series {
		sum += s.RSS
		most = max(most, s.RSS)
	}
	return sum / int64(len(w.series)+1), most
}

// memoryOf adds the mean and the most of what a process took, as rss does for all of them.
func (w *watch) memoryOf(p *Process, now map[string]int64) {
	p.RSSMax = now[p.Name]
	sum := now[p.Name]
	for _, s := range w.series {
		sum += s.Memory[p.Name]
		p.RSSMax = max(p.RSSMax, s.Memory[p.Name])
	}
	p.RSS = sum / int64(len(w.series)+1)
}
