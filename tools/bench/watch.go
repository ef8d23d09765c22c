package bench

import (
	"fmt"
	"time"

	"github.com/eventrelay/relay/tools/bench/count"
	"github.com/eventrelay/relay/tools/bench/load"
	"github.com/eventrelay/relay/tools/bench/sink"
)

// watch samples a run each second and prints its progress.
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
	w.arrived, w.arrivals = w.sumArrivals(first)
	w.used = b.r.currentCost().byKind
	w.used["sink"] = b.sink.cpu()
	return w, nil
}

// sumArrivals returns the number and latencies of arrived events of all posts, at the destinations that shall receive
// them.
func (w *watch) sumArrivals(r sink.Report) (n int64, d count.Durations) {
	for _, p := range w.posts {
		for _, to := range p.destinations {
			t := tallyOf(r, p.Run, to)
			n += t.Arrived
			d.Merge(t.Latency)
		}
	}
	return n, d
}

// sample takes one sample and prints a line.
func (w *watch) sample(l load.Report, loadCPU time.Duration) error {
	r, err := w.b.sink.report(sink.Query{Durations: true})
	if err != nil {
		return err
	}
	now := time.Now()
	took := now.Sub(w.at).Seconds()
	if took < 0.3 { // the last report comes at any time, and a sample needs some time to be meaningful
		return nil
	}
	var accepted int64
	var accept count.Durations
	for _, s := range l.Streams {
		accepted += s.Accepted
		accept.Merge(s.Latency)
	}
	n, arrivals := w.sumArrivals(r)
	used := w.b.r.currentCost().byKind
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

// rss returns the mean and the maximum of the samples and of the current resident memory, in bytes.
func (w *watch) rss(idle int64) (mean, most int64) {
	now := w.b.r.rss()
	sum, most := now, max(idle, now)
	for _, s := range w.series {
		sum += s.RSS
		most = max(most, s.RSS)
	}
	return sum / int64(len(w.series)+1), most
}

// addMemory adds the mean and the maximum of a process's memory, as rss does for all processes.
func (w *watch) addMemory(p *Process, now map[string]int64) {
	p.RSSMax = now[p.Name]
	sum := now[p.Name]
	for _, s := range w.series {
		sum += s.Memory[p.Name]
		p.RSSMax = max(p.RSSMax, s.Memory[p.Name])
	}
	p.RSS = sum / int64(len(w.series)+1)
}
