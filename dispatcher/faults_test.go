package dispatcher

import (
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/crash"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
)

const crashEvents = 20

// Environment of the process that is killed.
const (
	envBroker = "RELAY_TEST_BROKER"
	envSink   = "RELAY_TEST_SINK"
)

// TestCrashPoints kills a dispatcher between each pair of {send, follow-up acknowledged, outcome acknowledged, commit}
// and starts another one. Every event ends as delivered, and only what was not committed is repeated.
func TestCrashPoints(t *testing.T) {
	if !crash.Built {
		t.Skip("needs the tag faults: the step faults of test/run.sh runs it")
	}
	if os.Getenv(envBroker) != "" {
		t.Skip("this is the process that is to die")
	}
	// In parallel, since the group waits 30 s for a member that died.
	var all sync.WaitGroup
	for _, point := range []string{"sent:1", "sent:7", "retry:1", "retry:7", "outcome:1", "outcome:27", "commit:1",
		"commit:2"} {
		all.Go(func() { t.Run(point, func(t *testing.T) { crashAt(t, point) }) })
	}
	all.Wait()
}

func crashAt(t *testing.T, point string) {
	w := newWorld(t, 1)
	perEvent := map[string]int{}
	s := &sink{}
	s.answer = func(_ int, r received) int { // 409 for the first request of an event
		s.mu.Lock()
		defer s.mu.Unlock()
		if perEvent[string(r.body)]++; perEvent[string(r.body)] == 1 {
			return 409
		}
		return 200
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	for i := range crashEvents {
		w.accept(w.newEvent(strconv.Itoa(i)))
	}
	child := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	child.Env = append(os.Environ(), "RELAY_FAULT_CRASH="+point, envBroker+"="+w.stream.Brokers[0], envSink+"="+srv.URL)
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the process did not die at %s: %v\n%s", point, err, out)
	}
	before := len(s.all())
	w.endpoint(srv.URL)
	w.patience = 2 * time.Minute
	_, stop := w.start(testConfig())
	delivered := map[string]bool{}
	w.outcomes(func(all []*event.Outcome) bool {
		if o := all[len(all)-1]; o.Status == event.Delivered {
			delivered[o.Event.String()] = true
		}
		return len(delivered) == crashEvents
	})
	time.Sleep(3 * time.Second) // a duplicated delivery sends its second request
	stop()
	// Two requests each. At most what was done before the crash is repeated, and a delivery duplicated
	// there has one more request.
	if n := len(s.all()); n < 2*crashEvents || n > 2*crashEvents+2*before {
		t.Errorf("%d requests for %d events, %d before the crash", n, crashEvents, before)
	}
	is.Equal(t, w.committed(stream.Partition{Topic: stream.Events}), crashEvents, "committed: of %d", crashEvents)
}

func TestCrashChild(t *testing.T) {
	broker := os.Getenv(envBroker)
	if broker == "" {
		t.Skip("TestCrashPoints runs it")
	}
	w := newWorldOn(t, stream.Config{Brokers: []string{broker}}, loopback(t), 1)
	w.endpoint(os.Getenv(envSink))
	w.start(testConfig())
	time.Sleep(time.Minute)
	t.Error("still alive")
}
