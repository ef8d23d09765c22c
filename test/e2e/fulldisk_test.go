package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// With a full disk, requests are answered 503, never a false 2xx, and a node starts. When there is room again the same
// process continues, and every event that was answered 2xx is listed, also after a restart.
func TestFullDiskAnswers503(t *testing.T) {
	t.Parallel()
	skipShort(t)
	dir := t.TempDir()
	kit.SmallDisk(t, dir, "size=256m")
	p := startDevProcess(t, dir)
	ep, in, _ := p.endpoint(map[string]any{
		"destinations": []any{map[string]any{"url": "https://example.com/h", "enabled": false}}})
	var mu sync.Mutex // guards the maps
	stored, statuses := map[string]bool{}, map[int]int{}
	send := func() int {
		res, err := http.Post(in, "application/octet-stream", bytes.NewReader(make([]byte, 10_000)))
		if err != nil {
			t.Errorf("no answer: %v", err)
			return 0
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		mu.Lock()
		defer mu.Unlock()
		statuses[res.StatusCode]++
		if res.StatusCode/100 == 2 {
			stored[res.Header.Get("Relay-Event-Id")] = true
		}
		if res.StatusCode == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
		return res.StatusCode
	}
	for range 20 {
		send()
	}
	must.Equal(t, len(stored), 20, "statuses before the disk is full: %v", statuses)

	filler := filepath.Join(dir, "filler")
	fillDisk(t, filler)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for refused, began := 0, time.Now(); refused < 20 && time.Since(began) < busy*time.Minute; {
				if send() == http.StatusServiceUnavailable { // it accepts events until it needs more room
					refused++
				}
			}
		})
	}
	clients.Wait()
	t.Logf("statuses with a full disk: %v", statuses)
	if statuses[http.StatusServiceUnavailable] == 0 || len(statuses) != 2 {
		t.Errorf("wrong answers with a full disk: %v", statuses)
	}
	p.kill()
	p.start()
	must.Do(t, os.Remove(filler))
	for freed := time.Now(); send() != http.StatusOK; time.Sleep(100 * time.Millisecond) {
		if time.Since(freed) > busy*20*time.Second {
			t.Fatalf("nothing is accepted after there is room again\n%s", p.logs)
		}
	}
	h := &hostile{process: p, t: t}
	check := func(when string) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(200 * time.Millisecond) { // the store must catch up
			rows, missing := h.listStatuses(ep), 0
			for id := range stored {
				if rows[id] == "" {
					missing++
				}
			}
			if missing == 0 {
				t.Logf("%s: all events are listed after %v", when, time.Since(began).Round(time.Millisecond))
				return
			}
			if time.Since(began) > busy*30*time.Second {
				t.Fatalf("%s: %d of %d events that were answered 2xx are not listed\n%s", when, missing, len(stored), p.logs)
			}
		}
	}
	check("after")
	must.Do(t, p.stop(os.Interrupt.(syscall.Signal)), "ended with: %s", p.logs)
	p.start()
	check("after a restart")
	t.Logf("%d requests were answered 2xx; all statuses: %v", len(stored), statuses)
}

// After a full disk the repeat of an Idempotency-Key is accepted as soon as there is room.
func TestRepeatsAfterAFullDisk(t *testing.T) {
	t.Parallel()
	skipShort(t)
	dir := t.TempDir()
	kit.SmallDisk(t, dir, "size=256m")
	p := startDevProcess(t, dir)
	ep, _, _ := p.endpoint(map[string]any{
		"destinations": []any{map[string]any{"url": "https://example.com/h", "enabled": false}}})
	body := fmt.Sprintf(`{"type":"a.b","data":{"x":%q}}`, strings.Repeat("x", 100_000))
	send := func(key string) int {
		req := must.Get(http.NewRequest(http.MethodPost, p.url+"/v1/endpoints/"+ep+"/events", strings.NewReader(body)))(t)
		req.Header.Set("Authorization", "Bearer "+testKey)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		res := must.Get(http.DefaultClient.Do(req))(t)
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	must.Equal(t, send("first"), http.StatusAccepted, "with room")
	filler := filepath.Join(dir, "filler")
	fillDisk(t, filler)
	var refused []string
	for n, began := 0, time.Now(); len(refused) < 20 && time.Since(began) < busy*time.Minute; n++ {
		if key := fmt.Sprint(n); send(key) == http.StatusServiceUnavailable { // it accepts events until it needs more room
			refused = append(refused, key)
		}
	}
	must.Equal(t, len(refused), 20, "keys refused")
	must.Do(t, os.Remove(filler))
	for _, key := range refused {
		began := time.Now()
		must.Equal(t, send(key), http.StatusAccepted, "with room again, key %s", key)
		if took := time.Since(began); took > busy*time.Second {
			t.Errorf("key %s was answered after %v", key, took)
		}
	}
}

// fillDisk writes a file until the file system is full.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f := must.Get(os.Create(path))(t)
	defer f.Close()
	for block := make([]byte, 1<<20); ; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// When only the store's disk is full, deliveries continue. Single events are read from the log; lists say how far they
// reach or answer 503. When there is room again the same process stores everything.
func TestFullDiskOfTheStore(t *testing.T) {
	skipShort(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	tables := filepath.Join(dir, "clickhouse")
	// a non-empty directory that others can enter is refused
	must.Do(t, os.MkdirAll(tables, 0o700))
	kit.SmallDisk(t, tables, "size=64m")
	dest := newSink(t, nil)
	p := startDevProcess(t, dir)
	endpoint, in, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	tr := startTraffic(4, 5*time.Millisecond, in)
	tr.awaitCount(t, 100)
	filler := filepath.Join(tables, "filler")
	fillDisk(t, filler)
	full := tr.count()
	tr.awaitCount(t, full+300)
	eventually(t, time.Minute, func() string {
		if !strings.Contains(p.admin("/metrics"), "relay_store_unavailable_shards 1") {
			return "the metrics do not say that the store takes no rows"
		}
		return ""
	})
	sent := p.must(http.StatusAccepted, "POST", "/v1/endpoints/"+endpoint+"/events",
		map[string]any{"type": "a.b", "data": map[string]any{"n": -1}})["id"].(string)
	if e := p.must(http.StatusOK, "GET", "/v1/events/"+sent, nil); e["id"] != sent {
		t.Errorf("an event by its id: %v", e)
	}
	answers := map[int]int{}
	for _, filter := range []string{"", "&status=failed", "&status=delivered", "&endpoint_id=" + endpoint, "&q=pad"} {
		status, answer, header := p.call("GET", "/v1/events?limit=10"+filter, nil)
		switch answers[status]++; {
		case status == http.StatusOK && header.Get("Relay-Data-As-Of") != "":
		case status == http.StatusServiceUnavailable && header.Get("Retry-After") != "" &&
			answer["error"].(map[string]any)["type"] == "unavailable":
		default:
			t.Errorf("a list (%q) while the store's disk is full is answered %d %v %v", filter, status, header, answer)
		}
	}
	delivered := len(arrivals(dest))
	eventually(t, time.Minute, func() string {
		if now := len(arrivals(dest)); now < delivered+100 {
			return fmt.Sprintf("%d deliveries since the store's disk is full", now-delivered)
		}
		return ""
	})
	must.Do(t, os.Remove(filler))
	accepted := tr.finish()
	duplicates := awaitDelivered(t, p.client, dest, "&endpoint_id="+endpoint+"&source=provider", accepted, time.Minute)
	t.Logf("%d accepted, %d before the store's disk was full, %d duplicates; lists meanwhile: %v", len(accepted), full,
		duplicates, answers)
	if duplicates > 0 {
		t.Errorf("%d duplicates, though only the store's disk was full", duplicates)
	}
}

// When the kernel makes the disk read-only, as after an error of the disk, nothing is answered 2xx and the node says
// why. After a repair, a new process has everything that was answered 2xx.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	skipShort(t)
	above := t.TempDir()
	image, mounted := filepath.Join(above, "image"), filepath.Join(above, "disk")
	must.Do(t, os.WriteFile(image, nil, 0o600))
	must.Do(t, os.Truncate(image, 512<<20))
	must.Do(t, os.Mkdir(mounted, 0o700))
	run := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			kit.SkipMissing(t, "cannot use a disk of its own: %s %v: %v %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run("mkfs.ext4", "-q", image)
	device := run("losetup", "--find", "--show", image)
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", device).Run() })
	mount := func() { run("mount", "-o", "errors=remount-ro", device, mounted) }
	mount()
	t.Cleanup(func() { _ = syscall.Unmount(mounted, syscall.MNT_DETACH) })
	dir := filepath.Join(mounted, "data")
	p := newProcess(t, dir, []string{"serve", "--data-dir", dir})
	p.start()
	ep, in, _ := p.endpoint(map[string]any{
		"destinations": []any{map[string]any{"url": "https://example.com/h", "enabled": false}}})
	const sent = 100
	send := func() (status int) {
		res, err := http.Post(in, "text/plain", strings.NewReader("event"))
		if err == nil {
			status = res.StatusCode
			res.Body.Close()
		}
		return status
	}
	for range sent {
		must.Equal(t, send(), http.StatusOK, "a request is answered")
	}
	must.Do(t, os.WriteFile("/sys/fs/ext4/"+filepath.Base(device)+"/trigger_fs_error", []byte("1"), 0o200))
	for began, status := time.Now(), 1; status != 0 && time.Since(began) < 5*time.Second; {
		if status = send(); status != 0 && status != http.StatusServiceUnavailable {
			t.Errorf("a request is answered %d on a read-only disk", status)
		}
	}
	p.kill() // it has ended if a sync failed: that is final
	logs := p.logs.String()
	if !strings.Contains(logs, "read-only file system") && !strings.Contains(logs, "input/output error") {
		t.Errorf("the node does not say why it refuses: %s", p.logs)
	}
	if out, code := runToEnd(t, p.command("serve", "--data-dir", dir)); code != cli.ExitRefused ||
		!strings.Contains(out, "read-only file system") {
		t.Errorf("a start on a read-only disk ended with %d: %s", code, out)
	}
	// The kernel may close the files of a killed process a moment after it has said that it ended.
	eventually(t, arrival, func() string {
		if err := syscall.Unmount(mounted, 0); err != nil {
			return err.Error()
		}
		return ""
	})
	_ = exec.Command("e2fsck", "-fy", device).Run() // 1: it has repaired the disk
	mount()
	p.start()
	h := &hostile{process: p, t: t}
	eventually(t, arrival, func() string {
		if n := len(h.listStatuses(ep)); n != sent {
			return fmt.Sprintf("%d of %d events are listed", n, sent)
		}
		return ""
	})
}
