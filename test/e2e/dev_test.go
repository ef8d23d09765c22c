package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

func TestDevPipeline(t *testing.T) {
	t.Parallel()
	p := startDevProcess(t, t.TempDir(), "RELAY_ALLOWANCE_EVENTS=5")
	testPipeline(t, p, p, rounds(5, 5, 500))
	t.Run("allowance is used up", func(t *testing.T) { allowanceIsUsedUp(t, p.forTest(t)) })
	t.Run("what comes twice is delivered once", func(t *testing.T) { repeatedEvents(t, p.forTest(t), p.forTest(t)) })
	t.Run("events are streamed", func(t *testing.T) { eventStreams(t, p, p) })
	t.Run("an agent reads", func(t *testing.T) { agentReads(t, p) })
	t.Run("a payload is erased", func(t *testing.T) { payloadIsErased(t, p.forTest(t)) })
	t.Run("the log is trimmed", func(t *testing.T) {
		is.Has(t, p.admin("/metrics"), "relay_log_unread_age_ratio{group=\"store\"} 0\n", "the ledger does not run")
		if !strings.Contains(p.admin("/metrics"), "relay_store_dropped_partitions_total{table=\"events\"} 0\n") {
			t.Error("the retention does not run")
		}
		eventually(t, time.Minute, func() string {
			if p.metric("relay_log_trim_last_timestamp_seconds") == 0 {
				return "the log has not been checked yet"
			}
			return ""
		})
	})
}

// A process that is told to stop, or whose terminal is closed, answers /readyz with 503, and takes and delivers events
// until its delay is over. Ctrl-C ends it before that.
func TestStoppingNodeTakesRequests(t *testing.T) {
	t.Parallel()
	dest := newSink(t, nil)
	p := startDevProcess(t, t.TempDir(), "RELAY_SHUTDOWN_DELAY_SECONDS=60")
	_, in, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	if signal.Ignored(syscall.SIGHUP) { // the tests run under nohup
		p.signal(syscall.SIGTERM)
	} else {
		p.signal(syscall.SIGHUP)
	}
	eventually(t, arrival, func() string {
		if status, answer, _ := p.call("GET", "/readyz", nil); status != http.StatusServiceUnavailable {
			return fmt.Sprintf("/readyz is answered %d %v", status, answer)
		}
		return ""
	})
	if resp := p.post(in, nil, []byte("{}")); resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("an event is answered %s, and its connection is closed: %t", resp.Status, resp.Close)
	}
	dest.wait(t, 1, arrival)
	began := time.Now()
	if err := p.stop(syscall.SIGINT); err == nil || time.Since(began) > 30*time.Second {
		t.Errorf("Ctrl-C while it stops: %v after %v, want its end by the signal at once", err, time.Since(began))
	}
}

// After Ctrl-C the process exits with 0, and a second start continues where the first stopped.
func TestDevRestart(t *testing.T) {
	t.Parallel()
	dest := newSink(t, nil)
	p := startDevProcess(t, t.TempDir())
	ep, _, secret := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	id := p.send(ep, 1)
	p.awaitStatus(id, "delivered", arrival)
	link := p.signInLink(1)
	must.Do(t, p.stop(syscall.SIGINT), "Ctrl-C ended with: %s", p.logs)
	if logs := fmt.Sprint(p.logs); !strings.Contains(logs, "stopping") || !strings.Contains(logs, "msg=stopped") {
		t.Errorf("the log does not say that it stops, and that it has:\n%s", logs)
	}
	started := time.Now()
	p.start()
	t.Logf("the second start took %v", time.Since(started).Round(time.Millisecond))
	if again := p.signInLink(2); again == link { // nobody has a password
		t.Errorf("the second start printed the sign-in link of the first: %s", link)
	}
	if e := p.event(id); e["status"] != "delivered" {
		t.Fatalf("after the restart the event is %v", e)
	}
	next := p.send(ep, 2)
	if _, _, h := p.call("GET", "/v1/events/"+next, nil); h.Get("Relay-Data-As-Of") != "" {
		t.Errorf("the store is behind, as of %s, right after the start", h.Get("Relay-Data-As-Of"))
	}
	got := dest.wait(t, 2, arrival)[1]
	must.Equal(t, got.event(), next, "after the restart … was delivered")
	verifyDelivery(t, secret, got)
}

// signInLink waits until the process has printed n links for dev@localhost, and returns the last.
func (p *process) signInLink(n int) string {
	p.t.Helper()
	line := regexp.MustCompile(`Dashboard, as dev@localhost, once within 10 minutes: (` + p.url + `/app/link/\S{43})\n`)
	var found [][]string
	eventually(p.t, arrival, func() string {
		if found = line.FindAllStringSubmatch(p.printed.String(), -1); len(found) != n {
			return "printed " + p.printed.String()
		}
		return ""
	})
	return found[n-1][1]
}

func TestSecondProcessOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	p := sharedDev(t)
	out, err := p.command(append(p.args, "--listen", "127.0.0.1:0")...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use by another relay process") {
		t.Fatalf("%v: %s", err, out)
	}
}

// The commands of the banner work when they are pasted into a shell, as they are printed.
func TestBannerCommandsWork(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		kit.SkipMissing(t, "curl is not installed")
	}
	p := startDevProcess(t, t.TempDir())
	var script string
	eventually(t, 5*time.Second, func() string {
		_, rest, _ := strings.Cut(p.printed.String(), "read the event.\n")
		var whole bool
		if script, _, whole = strings.Cut(rest, "Ctrl-C"); !whole {
			return "printed " + p.printed.String()
		}
		return ""
	})
	is.Lacks(t, p.printed.String(), testKey, "a key that was given is printed")
	bash := exec.Command("bash", "-c", "set -e\n"+script)
	bash.Env = append(bash.Environ(), "RELAY_BOOTSTRAP_KEY="+testKey)
	out, err := bash.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"received":true`) || !strings.Contains(string(out), `"type":null`) ||
		!strings.Contains(string(out), `order.paid`) {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// A data directory whose path is too long for the command socket is refused before the engines start.
func TestDataDirTooLongForItsSocket(t *testing.T) {
	var out, errs bytes.Buffer
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	code := run(t.Context(), []string{"dev", "--data-dir", dir}, func(string) string { return "" }, &out, &errs)
	if code != command.ExitMisused || !strings.Contains(errs.String(), "RELAY_DATA_DIR: the path of the command socket") {
		t.Errorf("%d %s", code, errs.String())
	}
}
