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

// openFiles returns how many file descriptors the process has open.
func (p *process) openFiles() int {
	p.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(entries)
}

// hungSink starts a destination that does not answer until release is called, and from then on answers at once.
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

// Destinations that never answer, as many as healthy ones and with as much traffic, barely slow the healthy ones: the
// test measures without them first, then with them. Their memory and connections are bounded, and freed when they end;
// this last check runs in parallel with other tests.
func TestHungNeighbours(t *testing.T) {
	skipShort(t)
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
			quantile(took, 1).Round(time.Millisecond), p.rss()>>20, p.openFiles())
		return took
	}
	measure("warm")
	alone := measure("alone")
	before := p.openFiles()
	l := startLoad(t, rate/2, 900, bad...)
	time.Sleep(3 * time.Second) // their lanes fill up
	beside := measure("beside hung ones")
	besideMB := p.rss() >> 20
	if again := measure("still beside them"); quantile(again, 1) > quantile(beside, 1) {
		beside = again
	}
	grown := p.rss()>>20 - besideMB
	l.finish()
	ratio := float64(quantile(beside, .99)) / float64(quantile(alone, .99))
	t.Logf("p99 with %d hung destinations is %.2f times that without; memory grew by %d MB in %v", neighbours, ratio,
		grown, span)
	if worst := quantile(beside, 1); worst > time.Second {
		t.Errorf("a healthy delivery took %v", worst)
	}
	if grown > 150 {
		t.Errorf("memory grew by %d MB while the destinations hung", grown)
	}
	release()
	// Only the measurement needs the machine alone; other tests need not wait until the connections have ended.
	t.Parallel()
	eventually(t, 5*time.Minute, func() string { // idle connections are kept for 90 s, and parked deliveries still arrive
		if now := p.openFiles(); now > before+100 {
			return fmt.Sprintf("%d files are open, %d before the destinations hung", now, before)
		}
		return ""
	})
}
