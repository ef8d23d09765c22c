package e2e

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Four days of one machine, in an accelerated form: 500 events a second with claims of 24 hours, while the clock steps
// on by an hour at a time. Each day ends with SIGKILL and a start. The log, the claims, the store with a retention of
// one day, memory and the time of a start stop growing, and no event is lost or delivered as two.
func TestDaysOnOneMachine(t *testing.T) {
	duration := time.Duration(rounds(0, 0, 1200)) * time.Second
	if seconds, err := strconv.Atoi(os.Getenv("RELAY_SECONDS")); err == nil && duration > 0 {
		duration = time.Duration(seconds) * time.Second
	}
	if duration == 0 {
		t.Skip("takes twenty minutes; set RELAY_TORTURE")
	}
	const days, stepsADay, rate = 4, 24, 500
	dir, clock := nodeDir(t), filepath.Join(t.TempDir(), "clock")
	setClock := func(steps int) {
		must.Do(t, os.WriteFile(clock+".new", []byte((time.Duration(steps)*24*time.Hour/stepsADay).String()), 0o600))
		must.Do(t, os.Rename(clock+".new", clock))
	}
	setClock(0)
	dest := newNumberedSink(t)
	p := newProcess(t, dir, []string{"serve", "--data-dir", dir}, "RELAY_FAULT_CLOCK="+clock, "RELAY_RETENTION_DAYS=1",
		"RELAY_LOG_KEEP_MINUTES=15")
	p.start()
	ep, in, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL},
		"dedup": map[string]any{"key": "body:$.n", "window_seconds": 86400}})
	l := &machineLoad{in: in, send: p.url + "/v1/endpoints/" + ep + "/events", key: p.key, ids: map[int]string{},
		waiting: make(chan struct{}, 512),
		client:  http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { l.run(stop, rate) })
	peaks := make([]map[string]int64, days)
	for day := range days {
		peaks[day] = map[string]int64{}
		for step := range stepsADay {
			time.Sleep(duration / days / stepsADay)
			for range cap(l.waiting) { // a request that sees both times would be older than its record
				l.waiting <- struct{}{}
			}
			setClock(day*stepsADay + step + 1)
			for range cap(l.waiting) {
				<-l.waiting
			}
			for name, n := range p.sizes() {
				peaks[day][name] = max(peaks[day][name], n)
			}
		}
		p.signal(syscall.SIGKILL)
		_ = p.awaitExit(arrival)
		began := time.Now()
		p.start()
		peaks[day]["start_ms"] = time.Since(began).Milliseconds()
		t.Logf("day %d: %v", day+1, peaks[day])
	}
	close(stop)
	load.Wait()
	for _, fault := range l.faults {
		t.Error(fault)
	}
	eventually(t, 4*arrival, func() string {
		if n := dest.numbers(); n < len(l.ids) {
			return fmt.Sprintf("%d of %d events were delivered", n, len(l.ids))
		}
		return ""
	})
	for n, events := range dest.as {
		is.Equal(t, len(events), 1, "%d was delivered as … events", n)
	}
	const small = 256 // MB: partitions fill their first files of 16 MiB
	for name, last := range peaks[days-1] {
		if before := peaks[days-2][name]; name != "start_ms" && last > small && last > before*5/4 {
			t.Errorf("%s grows: %d on the last day, %d on the day before", name, last, before)
		}
	}
	t.Logf("%d events and %d repeats in %d days; refused or unanswered %d; the last day %v", len(l.ids), l.repeats, days,
		l.failed, peaks[days-1])
}

// sizes returns how large the parts of a data directory are, and the memory of the node and its ClickHouse, in MB.
func (p *process) sizes() map[string]int64 {
	all := map[string]int64{}
	for name, path := range map[string]string{"log": "log", "claims": "claims.db", "store": "clickhouse"} {
		_ = filepath.WalkDir(filepath.Join(p.dir, path), func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() { // removed meanwhile
				return nil
			}
			if info, err := d.Info(); err == nil {
				all[name] += info.Size()
			}
			return nil
		})
		all[name] /= 1 << 20
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			all["memory"] = kb >> 10
		}
	}
	return all
}

// numberedSink remembers as which events numbers were delivered.
type numberedSink struct {
	*httptest.Server
	mu sync.Mutex // guards as
	as map[int]map[string]bool
}

func newNumberedSink(t *testing.T) *numberedSink {
	s := &numberedSink{as: map[int]map[string]bool{}}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		n := numberOf(body)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.as[n] == nil {
			s.as[n] = map[string]bool{}
		}
		s.as[n][r.Header.Get("Webhook-Id")] = true
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *numberedSink) numbers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.as)
}
