package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// traffic posts numbered events to ingest URLs in turn and records which were answered 2xx.
type traffic struct {
	urls     []string
	pause    time.Duration // of each client between two posts
	client   *http.Client
	next     atomic.Int64
	stop     chan struct{}
	wg       sync.WaitGroup
	mu       sync.Mutex // guards accepted
	accepted map[int64]bool
}

func startTraffic(clients int, pause time.Duration, urls ...string) *traffic {
	tr := &traffic{urls: urls, pause: pause, stop: make(chan struct{}), accepted: map[int64]bool{},
		client: &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: clients}}}
	for range clients {
		tr.wg.Go(func() {
			for {
				select {
				case <-tr.stop:
					return
				case <-time.After(tr.pause):
					tr.post()
				}
			}
		})
	}
	return tr
}

func (tr *traffic) post() {
	n := tr.next.Add(1)
	body := fmt.Appendf(nil, `{"n":%d,"pad":%q}`, n, strings.Repeat("x", int(n%900)))
	resp, err := tr.client.Post(tr.urls[n%int64(len(tr.urls))], "application/json", bytes.NewReader(body))
	if err != nil {
		time.Sleep(100 * time.Millisecond) // the relay is down at the moment
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		tr.mu.Lock()
		tr.accepted[n] = true
		tr.mu.Unlock()
	}
}

// count returns how many events were answered 2xx.
func (tr *traffic) count() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.accepted)
}

// awaitCount waits until n events were answered 2xx.
func (tr *traffic) awaitCount(t *testing.T, n int) {
	t.Helper()
	eventually(t, time.Minute, func() string {
		if have := tr.count(); have < n {
			return fmt.Sprintf("%d events were accepted, want %d", have, n)
		}
		return ""
	})
}

// finish stops posting and returns the numbers of the events that were answered 2xx.
func (tr *traffic) finish() map[int64]bool {
	close(tr.stop)
	tr.wg.Wait()
	tr.client.CloseIdleConnections()
	return tr.accepted
}

// arrivals counts the requests that the sink received, by event number.
func arrivals(s *sink) map[int64]int {
	got := map[int64]int{}
	for _, r := range s.received() {
		rest, _ := strings.CutPrefix(string(r.body), `{"n":`)
		digits, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err == nil {
			got[n]++
		}
	}
	return got
}

// awaitDelivered waits until all accepted events have arrived and every event that the query lists is delivered. It
// returns how many requests were duplicates.
func awaitDelivered(t *testing.T, c client, s *sink, query string, accepted map[int64]bool, limit time.Duration) (
	duplicates int) {
	t.Helper()
	deadline := time.Now().Add(busy * limit)
	for ; ; time.Sleep(100 * time.Millisecond) {
		missing := 0
		got := arrivals(s)
		for n := range accepted {
			if got[n] == 0 {
				missing++
			}
		}
		if missing == 0 {
			for _, n := range got {
				duplicates += n - 1
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d accepted events never arrived\n%s", missing, len(accepted), c.logs)
		}
	}
	for ; ; time.Sleep(300 * time.Millisecond) {
		if c.hasOpen(query) && time.Now().Before(deadline) {
			continue // one page, not all of them
		}
		statuses := map[any]int{}
		var other map[string]any
		for _, row := range c.list(query, 100) {
			if statuses[row["status"]]++; row["status"] != "delivered" {
				other = row
			}
		}
		if statuses["delivered"] >= len(accepted) && len(statuses) == 1 {
			return duplicates
		}
		if time.Now().After(deadline) {
			t.Fatalf("statuses %v, want %d or more delivered and nothing else; one of them is %v\n%s", statuses, len(accepted),
				other, c.logs)
		}
	}
}

// outage is a time during which a process or a broker was down.
type outage struct {
	from, to time.Time
	linkCut  bool // the network link was cut: answers may be lost
}

// redelivered counts repeated successful deliveries, and fails the test if an outage does not explain one. An outage
// repeats each attempt at most once, and only if a request for the event arrived after the last commit before the
// outage; commits are made every second. A failed request may be repeated in addition to its retry; then both continue
// as separate retry chains. A delivery that waited for a retry may have been parked again, and exist twice.
func redelivered(t *testing.T, dest *sink, outages ...outage) (n int) {
	t.Helper()
	requests := map[string][]received{}
	for _, r := range dest.received() {
		requests[r.event()] = append(requests[r.event()], r)
	}
	for event, all := range requests {
		unused := map[string][]outage{} // by attempt
		taken := 0
		for i, r := range all {
			if r.status != http.StatusOK {
				continue
			}
			if taken++; taken == 1 {
				continue
			}
			attempt := r.header.Get("Relay-Attempt")
			if unused[attempt] == nil {
				unused[attempt] = slices.Clone(outages)
				if attempt != "1" {
					unused[attempt] = append(unused[attempt], outages...)
				}
			}
			because := slices.IndexFunc(unused[attempt], func(o outage) bool { return o.explainsRepeat(all[:i], r) })
			if because < 0 {
				for _, r := range all {
					t.Logf("%s, attempt %s, answered %d", r.at.Format(time.StampMilli), r.header.Get("Relay-Attempt"), r.status)
				}
				t.Fatalf("event %s was delivered again, and no outage explains it; see its requests above, outages %v",
					event, outages)
			}
			unused[attempt] = slices.Delete(unused[attempt], because, because+1)
			n++
		}
	}
	return n
}

// explainsRepeat reports whether the outage explains the request r after the requests before it.
func (o outage) explainsRepeat(before []received, r received) bool {
	const (
		uncommitted = 3 * time.Second // the commit interval of 1 s, and delays of a busy machine
		onTheWay    = time.Second     // the sink reads what was sent before the outage's end soon after it
	)
	return r.at.After(o.from) && slices.ContainsFunc(before, func(b received) bool {
		return b.at.After(o.from.Add(-uncommitted)) && b.at.Before(o.to.Add(onTheWay))
	})
}

// skipShort skips a test in short runs.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped by -short")
	}
}

func rounds(short, normal, torture int) int {
	switch {
	case os.Getenv("RELAY_TORTURE") != "":
		return torture
	case testing.Short():
		return short
	}
	return normal
}

// Every event that was answered 2xx is delivered, however often the whole process tree is killed at random times.
func TestKillEverything(t *testing.T) {
	t.Parallel()
	dest := newSink(t, nil)
	p := startDevProcess(t, t.TempDir(), "RELAY_LEDGER_SECONDS=10")
	endpoint, in, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	// With more kills or traffic the log outgrows what it keeps of completed work, which the ledger counts.
	tr := startTraffic(rounds(16, 16, 64), time.Duration(rounds(50, 50, 80))*time.Millisecond, in)
	kills := rounds(2, 3, 20)
	var worst time.Duration
	random := kit.Rand(t)
	for range kills {
		time.Sleep(time.Duration(300+random.IntN(1200)) * time.Millisecond)
		p.kill()
		began := time.Now()
		p.start()
		worst = max(worst, time.Since(began))
		checkNothingLost(t, p.streamConfig)
	}
	time.Sleep(300 * time.Millisecond)
	accepted := tr.finish()
	duplicates := awaitDelivered(t, p.client, dest, "&endpoint_id="+endpoint, accepted, 2*time.Minute)
	p.awaitLedgerMetrics(t, awaitAllDelivered(t, p.streamConfig, len(accepted), dest))
	t.Logf("%d kills: %d accepted, 0 lost, %d duplicates, worst start %v", kills, len(accepted), duplicates,
		worst.Round(time.Millisecond))
	// A kill repeats what was finished since the last commit, 0.25 s ago or more, and what was on its way.
	if bound := kills * 5000; duplicates > bound {
		t.Errorf("%d duplicates, at most %d", duplicates, bound)
	}
}

// Delivery goes on while the ClickHouse process is killed, and nothing is missing from it afterwards.
func TestKillClickHouse(t *testing.T) {
	t.Parallel()
	dest := newSink(t, nil)
	p := startDevProcess(t, t.TempDir())
	endpoint, in, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	tr := startTraffic(8, time.Duration(rounds(10, 10, 0))*time.Millisecond, in)
	kills := rounds(1, 2, 25)
	random := kit.Rand(t)
	for range kills {
		time.Sleep(time.Duration(300+random.IntN(900)) * time.Millisecond)
		must.Do(t, syscall.Kill(childOf(t, p.cmd.Process.Pid), syscall.SIGKILL))
	}
	accepted := tr.finish()
	duplicates := awaitDelivered(t, p.client, dest, "&endpoint_id="+endpoint, accepted, time.Minute)
	awaitAllDelivered(t, p.streamConfig, len(accepted), dest)
	t.Logf("%d kills: %d accepted, 0 lost, %d duplicates", kills, len(accepted), duplicates)
	if duplicates > 0 {
		t.Errorf("%d duplicates, though only the store died", duplicates)
	}
}

// childOf returns the pid of a process's only child, and waits for a child that is being started.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	for deadline := time.Now().Add(busy * 10 * time.Second); time.Now().Before(deadline); time.Sleep(
		10 * time.Millisecond) {
		tasks := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)))(t)
		for _, task := range tasks {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
			if fields := strings.Fields(string(b)); len(fields) > 0 {
				child := must.Get(strconv.Atoi(fields[0]))(t)
				return child
			}
		}
	}
	t.Fatal("the engine's process is not there")
	return 0
}
