package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The clock of one machine steps an hour forward and back. Forward, everything goes on: retries, API keys, claims.
// Back, new events are refused until the clock has caught up or the node is restarted. Nothing accepted is lost or
// accepted twice.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	skipShort(t)
	dir, clock := t.TempDir(), filepath.Join(t.TempDir(), "clock")
	step := func(offset string) {
		must.Do(t, os.WriteFile(clock+".new", []byte(offset), 0o600))
		must.Do(t, os.Rename(clock+".new", clock))
	}
	step("0s")
	dest := newSink(t, func(r received) int {
		if r.earlier == 0 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	p := newProcess(t, dir, []string{"serve", "--data-dir", dir}, "RELAY_FAULT_CLOCK="+clock)
	p.start()
	ep, _, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 2, "max_attempts": 50, "jitter": 0}})
	var ids []string
	post := func(n int) (status int, id string) {
		t.Helper()
		status, answer := tryPost(p.url+"/v1/endpoints/"+ep+"/events", p.key, fmt.Sprintf("order-%d", n),
			`{"type":"order.paid","data":{}}`)
		return status, fmt.Sprint(answer["id"])
	}
	send := func() {
		t.Helper()
		for range 10 {
			eventually(t, arrival, func() string { // until a heartbeat has renewed the lease on the configuration
				status, id := post(len(ids))
				if status != http.StatusAccepted {
					return fmt.Sprintf("an event is answered %d", status)
				}
				ids = append(ids, id)
				return ""
			})
		}
	}
	check := func() {
		t.Helper()
		for n, want := range ids {
			p.awaitStatus(want, "delivered", arrival)
			if _, id := post(n); id != want {
				t.Errorf("a repeat of %s is answered with %s", want, id)
			}
		}
	}
	send()
	step("1h") // while retries wait
	send()
	check()

	step("0s")
	if status, _ := post(len(ids)); status != http.StatusServiceUnavailable {
		t.Errorf("an event after the clock was set back is answered %d", status)
	}
	if _, answer, _ := p.call("GET", "/readyz", nil); !strings.Contains(fmt.Sprint(answer), "clock") {
		t.Errorf("/readyz says %v", answer)
	}
	for _, id := range ids { // the API key is valid
		p.awaitStatus(id, "delivered", arrival)
	}
	p.signal(syscall.SIGTERM)
	_ = p.awaitExit(arrival)
	p.start()
	send()
	step("-1h") // while retries wait, which take an hour more
	step("0s")
	check()
	report, _ := runToEnd(t, p.command("doctor", "--data-dir", dir))
	is.Has(t, report, "lost 0")
}
