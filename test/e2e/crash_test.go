package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// built holds the binaries that tests have built. TestMain sets the directory and removes it.
var built struct {
	dir string
	mu  sync.Mutex // guards of; held during a build, so that other tests wait for it
	of  map[string]string
}

// buildRelay builds the relay binary with build tags, once for all tests. Without the symbols for debuggers, which no
// test reads, the linker takes a third less CPU time.
func buildRelay(t *testing.T, tags string) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if path := built.of[tags]; path != "" {
		return path
	}
	path := filepath.Join(built.dir, "relay-"+tags)
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-tags", tags, "-o", path, ".")
	cmd.Dir, cmd.Env = kit.Root(t), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build with tags %q: %v\n%s", tags, err, out)
	}
	built.of[tags] = path
	return path
}

// restartAfterCrash waits until the process has killed itself at its crash point, and restarts it without a crash
// point.
func (p *process) restartAfterCrash() (died time.Time) {
	p.t.Helper()
	err := p.awaitExit(30 * time.Second)
	died = time.Now()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		p.t.Fatalf("the process ended with %v, not at its crash point\n%s", err, p.logs)
	}
	p.kill() // also its engine, if that still runs
	p.env = append(p.env, "RELAY_FAULT_CRASH=")
	p.start()
	return died
}

// TestCrash kills the process between two of {send, retry acknowledged, outcome acknowledged, commit}. After the
// restart the destination answers with 409 for a while and then with 200. dispatcher.TestCrashPoints has every point;
// RELAY_TORTURE=1 runs every one here too.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, point string
		first, redo int // answers before the crash and, for a while, after it
		after       func(requests []received, statuses map[any]bool) (fault string)
	}{
		{"sent, nothing recorded", "sent", 200, 409, func(requests []received, _ map[any]bool) string {
			return checkDelivered(requests, 1, 1)
		}},
		{"retry acknowledged, no outcome", "retry", 503, 409, func(requests []received, _ map[any]bool) string {
			return checkDelivered(requests, 1, 2) // two retry chains deliver at most twice
		}},
		{"retry and outcome acknowledged, no commit", "outcome", 503, 409, func(requests []received, _ map[any]bool) string {
			return checkDelivered(requests, 1, 2)
		}},
		{"delivered acknowledged, no commit", "outcome", 200, 409, func(requests []received, statuses map[any]bool) string {
			return checkDelivered(requests, 0, 1) + checkStatus(statuses, "delivered")
		}},
		{"delivered acknowledged, no commit, redo refused", "outcome", 200, 410,
			func(requests []received, statuses map[any]bool) string {
				if len(requests) > 1 {
					return fmt.Sprintf("%d requests after the crash, want one at most", len(requests))
				}
				return checkStatus(statuses, "delivered")
			}},
		{"committed", "commit", 200, 409, func(requests []received, statuses map[any]bool) string {
			if len(requests) > 0 {
				return fmt.Sprintf("%d requests after the crash for an event whose offset was committed", len(requests))
			}
			return checkStatus(statuses, "delivered")
		}},
	} {
		if torture := rounds(0, 0, 1) > 0; !torture && c.redo != 410 && c.point != "sent" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			crashOnce(t, c.point, c.first, c.redo, c.after)
		})
	}
	for _, point := range []string{"retry:10", "outcome:50", "sent:50", "commit:2"}[:rounds(0, 2, 4)] {
		t.Run("in traffic at "+point, func(t *testing.T) {
			t.Parallel()
			crashInTraffic(t, point)
		})
	}
}

// checkDelivered returns a fault unless least to most of the requests were answered 200.
func checkDelivered(requests []received, least, most int) string {
	n := 0
	for _, r := range requests {
		if r.status == http.StatusOK {
			n++
		}
	}
	if n < least || n > most {
		return fmt.Sprintf("%d of %d requests after the crash were answered 200, want %d to %d", n, len(requests),
			least, most)
	}
	return ""
}

func checkStatus(statuses map[any]bool, want string) string {
	if len(statuses) != 1 || !statuses[want] {
		return fmt.Sprintf("statuses %v after the crash, want only %s", statuses, want)
	}
	return ""
}

func crashOnce(t *testing.T, point string, first, redo int, after func([]received, map[any]bool) string) {
	refusing := time.Duration(rounds(1, 1, 3)) * time.Second
	var since atomic.Pointer[time.Time] // of the first request after the crash
	var died atomic.Bool
	dest := newSink(t, func(r received) int {
		if !died.Load() {
			time.Sleep(300 * time.Millisecond) // so that the sender gets its answer before the crash
			return first
		}
		if since.CompareAndSwap(nil, &r.at) || r.at.Sub(*since.Load()) < refusing {
			return redo
		}
		return http.StatusOK
	})
	p := newDevProcess(t, nodeDir(t), "RELAY_FAULT_CRASH="+point)
	p.start()
	ep, _, _ := p.endpoint(map[string]any{
		"destinations": []any{dest.URL}, "retry_policy": map[string]any{
			"strategy": "schedule", "schedule_seconds": []any{1}, "max_attempts": 20, "jitter": 0},
	})
	id := p.send(ep, 1)
	select {
	case <-p.done:
	case <-time.After(busy * 30 * time.Second):
	}
	died.Store(true)
	before := len(dest.received())
	p.restartAfterCrash()
	checkNothingLost(t, p.streamConfig)
	statuses := map[any]bool{}
	const calm = 2500 * time.Millisecond // longer than a retry after 1 s takes
	for quiet, n := time.Now(), 0; time.Since(quiet) < calm; time.Sleep(50 * time.Millisecond) {
		code, e, header := p.call("GET", "/v1/events/"+id, nil)
		must.Equal(t, code, http.StatusOK, e)
		if header.Get("Relay-Data-As-Of") == "" { // otherwise the store is behind
			statuses[e["status"]] = true
		}
		if now := len(dest.received()); now != n || e["status"] != "delivered" {
			quiet, n = time.Now(), now
		}
	}
	requests := dest.received()[before:]
	is.Equal(t, after(requests, statuses), "")
	if r := awaitSettledLedger(t, p.streamConfig); r.Accepted != 1 || r.Delivered != 1 {
		t.Errorf("one event was sent, but the ledger counts %v", r.Counts)
	}
	t.Logf("%d requests after the crash", len(requests))
}

// crashInTraffic crashes the process under traffic. All accepted events are delivered, and the crash repeats no more
// deliveries than allowed.
func crashInTraffic(t *testing.T, point string) {
	dest := newSink(t, func(r received) int {
		if r.earlier == 0 && r.event()[len(r.event())-1]%4 == 0 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	p := newDevProcess(t, nodeDir(t), "RELAY_FAULT_CRASH="+point)
	p.start()
	endpoint, in, _ := p.endpoint(map[string]any{
		"destinations": []any{dest.URL}, "retry_policy": map[string]any{
			"strategy": "schedule", "schedule_seconds": []any{1}, "max_attempts": 20, "jitter": 0},
	})
	tr := startTraffic(8, 10*time.Millisecond, in)
	died := p.restartAfterCrash()
	checkNothingLost(t, p.streamConfig)
	time.Sleep(500 * time.Millisecond)
	accepted := tr.finish()
	awaitDelivered(t, p.client, dest, "&endpoint_id="+endpoint, accepted, time.Minute)
	awaitAllDelivered(t, p.streamConfig, len(accepted), dest)
	t.Logf("%d accepted, 0 lost, %d delivered twice", len(accepted), redelivered(t, dest, outage{from: died, to: died}))
}

// A release binary has no crash points and no adjustable clock: it does not read the settings of the fault tests.
func TestReleaseHasNoFaults(t *testing.T) {
	t.Parallel()
	skipShort(t)
	release := readFile(t, buildRelay(t, ""))
	if bytes.Contains(release, []byte("RELAY_FAULT_")) {
		t.Error("the release binary reads RELAY_FAULT_… settings")
	}
	if !bytes.Contains(readFile(t, os.Args[0]), []byte("RELAY_FAULT_")) {
		t.Error("this binary does not contain the names of the settings: this test searches for the wrong text")
	}
}

// Outages explain repeated requests for an event, depending on when each request arrived. Times are in seconds.
func TestOutagesExplainRepeats(t *testing.T) {
	began := time.Now()
	at := func(second float64) time.Time { return began.Add(time.Duration(second * float64(time.Second))) }
	request := func(second float64, attempt int) hit {
		return hit{posted: began, at: at(second), attempt: attempt, status: http.StatusOK}
	}
	killed, cut := outage{from: at(1), to: at(13)}, outage{from: at(1), to: at(13), linkCut: true}
	for _, c := range []struct {
		what string
		o    outage
		hits []hit
		want int
	}{
		{"repeated after the outage", killed, []hit{request(0.8, 1), request(8, 1)}, 1},
		{"repeated without an outage", killed, []hit{request(0.2, 1), request(0.8, 1)}, 0},
		{"continues after an answer that arrived", killed, []hit{request(0.8, 1), request(8, 1), request(16, 2)}, 1},
		{"continues after an answer that was lost", cut, []hit{request(0.8, 1), request(8, 1), request(16, 2)}, 2},
		{"continues after an answer from long before the outage", cut, []hit{request(0.1, 1), request(16, 2)}, 0},
		{"continues after an answer from after the outage", cut, []hit{request(14, 1), request(16, 2)}, 0},
	} {
		is.Equal(t, countExplained(c.hits, []outage{c.o}), c.want, "%s: repeats are explained", c.what)
	}
}
