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
	"testing"
	"time"
)

// quantile of sorted values; 0 when there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// rss is the resident memory of the process itself, in bytes.
func (p *process) rss() int {
	p.t.Helper()
	for line := range strings.Lines(string(readFile(p.t, fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kb, err := strconv.Atoi(fields[1])
			if err != nil {
				p.t.Fatal(err)
			}
			return kb << 10
		}
	}
	p.t.Fatal("no VmRSS")
	return 0
}

// files is how many file descriptors a process has open.
func (p *process) files() int {
	p.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(entries)
}

// hungSink takes requests and does not answer until it is released; from then on it answers at once.
func hungSink(t *testing.T) (s *httptest.Server, release func()) {
	t.Helper()
	released := make(chan struct{})
	s = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(func() {
		release()
		s.CloseClientConnections()
		s.Close()
	})
	return s, release
}

// Destinations that never answer, as many as there are healthy ones and with as much traffic, cost the
// healthy ones next to nothing: measured without them first, then beside them. What the hung ones cost in
// memory and connections is bounded, and gone when they are: that is looked at beside the tests that run in parallel.
func TestHungNeighbours(t *testing.T) {
	long(t)
	neighbours, rate := rounds(0, 100, 500), rounds(0, 200, 1000)
	span := time.Duration(rounds(0, 8, 60)) * time.Second
	dest := newTally(t, nil)
	hung, release := hungSink(t)
	p := startDevProcess(t, t.TempDir(), allowHTTP)
	ingest := func(base string) (urls []string) {
		for i := range neighbours {
			_, in, _ := p.endpoint(map[string]any{
				"destinations": []any{map[string]any{"url": fmt.Sprintf("%s/%d", base, i), "timeout_seconds": 10}}})
			urls = append(urls, in)
		}
		return urls
	}
	healthy, bad := ingest(dest.URL), ingest(hung.URL)
	measure := func(name string) []time.Duration {
		from := time.Now()
		l := startLoad(t, rate/2, 900, healthy...)
		time.Sleep(span)
		accepted := l.finish()
		eventually(t, time.Minute, func() string {
			if n := dest.missing(accepted); n > 0 {
				return fmt.Sprintf("%s: %d of %d events have not arrived\n%s", name, n, len(accepted), p.logs)
			}
			return ""
		})
		var took []time.Duration
		dest.each(func(_ int64, hits []hit) {
			if hits[0].posted.After(from) {
				took = append(took, hits[0].at.Sub(hits[0].posted))
			}
		})
		slices.Sort(took)
		t.Logf("%s: %d accepted and delivered, p50 %v, p99 %v, worst %v; %d MB, %d files", name, len(accepted),
			quantile(took, .5).Round(10*time.Microsecond), quantile(took, .99).Round(10*time.Microsecond),
			quantile(took, 1).Round(time.Millisecond), p.rss()>>20, p.files())
		return took
	}
	measure("warm")
	alone := measure("alone")
	before := p.files()
	l := startLoad(t, rate/2, 900, bad...)
	time.Sleep(3 * time.Second) // until their lanes are full
	beside := measure("beside hung ones")
	besideMB := p.rss() >> 20
	if again := measure("still beside them"); quantile(again, 1) > quantile(beside, 1) {
		beside = again
	}
	grown := p.rss()>>20 - besideMB
	l.finish()
	ratio := float64(quantile(beside, .99)) / float64(quantile(alone, .99))
	t.Logf("p99 beside %d hung ones is %.2f of that without; memory grew by %d MB in %v", neighbours, ratio, grown, span)
	if worst := quantile(beside, 1); worst > time.Second {
		t.Errorf("a healthy delivery took %v", worst)
	}
	if grown > 150 {
		t.Errorf("memory grew by %d MB while the destinations hung", grown)
	}
	release()
	// What was measured needed the machine alone; that the connections end, nobody else need wait for.
	t.Parallel()
	eventually(t, 5*time.Minute, func() string { // connections are kept for 90 s, and what was parked still comes
		if now := p.files(); now > before+100 {
			return fmt.Sprintf("%d files are open, %d before the destinations hung", now, before)
		}
		return ""
	})
}
