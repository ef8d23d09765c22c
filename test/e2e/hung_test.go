package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/must"
)

// quantile returns the q-quantile of sorted values, 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// rss returns the resident memory of the process without its children, in bytes.
func (p *process) rss() int {
	p.t.Helper()
	for line := range strings.Lines(string(readFile(p.t, fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kb := must.Get(strconv.Atoi(fields[1]))(p.t)
			return kb << 10
		}
	}
	p.t.Fatal("no VmRSS")
	return 0
}

// openFiles returns how many file descriptors the process has open.
func (p *process) openFiles() int {
	p.t.Helper()
	entries := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid)))(p.t)
	return len(entries)
}

// hungSink is a destination that does not answer until release is called, and from then on answers at once.
type hungSink struct {
	*httptest.Server
	release func()
	waiting atomic.Int64 // requests without an answer
}

func newHungSink(t *testing.T) *hungSink {
	t.Helper()
	released := make(chan struct{})
	s := &hungSink{release: sync.OnceFunc(func() { close(released) })}
	s.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		<-released
	}))
	t.Cleanup(func() {
		s.release()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// neighbours are healthy and hung destinations of one relay, with as much traffic to each.
type neighbours struct {
	t            *testing.T
	p            *process
	dest         *tally
	rate         int // events a second to the healthy ones, and as many to the others
	span         time.Duration
	healthy, bad []string // ingest URLs
}

// ingest creates endpoints, each with its own path at base.
func (n *neighbours) ingest(base string, endpoints int) (urls []string) {
	n.t.Helper()
	for i := range endpoints {
		_, in, _ := n.p.endpoint(map[string]any{
			"destinations": []any{map[string]any{"url": fmt.Sprintf("%s/%d", base, i), "timeout_seconds": 60}}})
		urls = append(urls, in)
	}
	return urls
}

// measure sends to the healthy destinations for a while, waits until all has arrived, and returns the sorted latencies.
func (n *neighbours) measure(name string) (took []time.Duration) {
	n.t.Helper()
	from := time.Now()
	l := startLoad(n.t, n.rate, 900, n.healthy...)
	time.Sleep(n.span)
	accepted := l.finish()
	// What waits for a hung destination waits for its timeout, a minute.
	eventually(n.t, 10*time.Second, func() string {
		if missing := n.dest.missing(accepted); missing > 0 {
			return fmt.Sprintf("%s: %d of %d events have not arrived\n%s", name, missing, len(accepted), n.p.logs)
		}
		return ""
	})
	n.dest.each(func(_ int64, hits []hit) {
		if hits[0].posted.After(from) {
			took = append(took, hits[0].at.Sub(hits[0].posted))
		}
	})
	slices.Sort(took)
	n.t.Logf("%s: %d accepted and delivered, p50 %v, p99 %v, worst %v; %d MB, %d files", name, len(accepted),
		quantile(took, .5).Round(10*time.Microsecond), quantile(took, .99).Round(10*time.Microsecond),
		quantile(took, 1).Round(time.Millisecond), n.p.rss()>>20, n.p.openFiles())
	return took
}

// Destinations that never answer, as many as healthy ones and with as much traffic, do not stop the healthy ones. Their
// memory and connections are bounded, and freed when they end. With RELAY_TORTURE=1 the test also measures the latency
// without them and with them, while no other test runs.
func TestHungNeighbours(t *testing.T) {
	torture, each := rounds(0, 0, 1) > 0, rounds(0, 50, 500)
	if !torture {
		t.Parallel()
	}
	skipShort(t)
	n := &neighbours{t: t, p: startDevProcess(t, t.TempDir(), allowHTTP), dest: newTally(t, nil),
		rate: rounds(0, 50, 500), span: time.Duration(rounds(0, 2, 60)) * time.Second}
	hung := newHungSink(t)
	n.healthy, n.bad = n.ingest(n.dest.URL, each), n.ingest(hung.URL, each)
	if torture {
		n.measure("warm")
	}
	alone := n.measure("alone")
	before := n.p.openFiles()
	l := startLoad(t, n.rate, 900, n.bad...)
	eventually(t, time.Minute, func() string {
		if waiting := hung.waiting.Load(); waiting < int64(each) {
			return fmt.Sprintf("%d requests hang at %d destinations", waiting, each)
		}
		return ""
	})
	beside := n.measure("beside hung ones")
	besideMB := n.p.rss() >> 20
	if again := n.measure("still beside them"); quantile(again, 1) > quantile(beside, 1) {
		beside = again
	}
	grown := n.p.rss()>>20 - besideMB
	l.finish()
	t.Logf("p99 with %d hung destinations is %.2f times that without, %d requests still hang; memory grew by %d MB in %v",
		each, float64(quantile(beside, .99))/float64(quantile(alone, .99)), hung.waiting.Load(), grown, n.span)
	// A delivery that waits for a hung one takes a minute. What it takes otherwise depends on the machine.
	if worst, most := quantile(beside, 1), max(time.Second, 4*quantile(alone, 1)); worst > most && torture {
		t.Errorf("a healthy delivery took %v, more than %v", worst, most)
	}
	if grown > 150 {
		t.Errorf("memory grew by %d MB while the destinations hung", grown)
	}
	hung.release()
	eventually(t, 5*time.Minute, func() string { // parked deliveries still arrive
		hung.CloseClientConnections() // the relay would keep idle ones for 90 s
		if now := n.p.openFiles(); now > before+100 {
			return fmt.Sprintf("%d files are open, %d before the destinations hung", now, before)
		}
		return ""
	})
}
