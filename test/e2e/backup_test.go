package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/features/backup"
	"github.com/eventrelay/relay/features/backup/archive"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// A backup of a node under load has everything that was acknowledged before it: a node on the restored directory lists
// and delivers it, and knows its endpoints, API keys and idempotency keys, also when it shares files with an earlier
// backup that was removed. Its ledger has lost no event. A changed file is refused.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	var down sync.Mutex // held while the destination does not answer
	dest := newSink(t, func(received) int {
		if !down.TryLock() {
			return http.StatusServiceUnavailable
		}
		down.Unlock()
		return http.StatusOK
	})
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	p := newProcess(t, dir, []string{"serve", "--data-dir", dir})
	p.start()
	ep, _, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "linear", "interval_seconds": 2, "max_attempts": 50, "jitter": 0}})
	post := func(p *process, i int) (id string) {
		status, answer := tryPost(p.url+"/v1/endpoints/"+ep+"/events", p.key, fmt.Sprintf("order-%d", i),
			fmt.Sprintf(`{"type":"order.paid","data":{"n":%d}}`, i))
		if status != http.StatusAccepted {
			return ""
		}
		return fmt.Sprint(answer["id"])
	}
	var before []string
	send := func(n int) {
		for range n {
			id := post(p, len(before))
			if id == "" {
				t.Fatal("an event is refused")
			}
			before = append(before, id)
		}
	}
	send(100)
	for _, id := range before {
		p.awaitStatus(id, "delivered", arrival)
	}
	down.Lock()
	send(50) // these wait for a retry, or are not stored yet

	stop := make(chan struct{})
	var load sync.WaitGroup
	for w := range 4 {
		load.Go(func() {
			for i := 1000 * (w + 1); ; i++ {
				select {
				case <-stop:
					return
				default:
					post(p, i)
				}
			}
		})
	}
	out, code := runToEnd(t, p.command("backup", copied, "--data-dir", dir))
	close(stop)
	load.Wait()
	if code != cli.ExitDone || !strings.Contains(out, "master keys are not in the backup") {
		t.Fatalf("relay backup ended with %d: %s\n%s", code, out, p.logs)
	}
	if out, code := runToEnd(t, p.command("backup", copied, "--data-dir", dir)); code != cli.ExitRefused ||
		!strings.Contains(out, "not empty") {
		t.Errorf("a second backup into the directory ended with %d: %s", code, out)
	}
	first := copied
	copied = filepath.Join(filepath.Dir(first), "second")
	out, code = runToEnd(t, p.command("backup", copied, "--previous", first, "--data-dir", dir))
	m, err := archive.Verify(copied)
	if code != cli.ExitDone || err != nil || m.Copied == 0 || m.Copied >= m.Bytes() {
		t.Fatalf("a backup after another ended with %d and copied %d of %d bytes: %v %s", code, m.Copied, m.Bytes(), err, out)
	}
	must.Do(t, os.RemoveAll(first))
	p.signal(syscall.SIGKILL)
	_ = p.awaitExit(arrival)

	next := t.TempDir()
	restore := func(words string) {
		t.Helper()
		out, code := runToEnd(t, p.command("restore", copied, "--data-dir", next))
		if want := map[bool]int{true: cli.ExitDone, false: cli.ExitRefused}[words == ""]; code != want ||
			!strings.Contains(out, words) {
			t.Fatalf("relay restore ended with %d, want %d and %q: %s", code, want, words, out)
		}
	}
	restore("master keys")
	keys := must.Get(os.ReadFile(filepath.Join(dir, "master.keys")))(t)
	must.Do(t, os.WriteFile(filepath.Join(next, "master.keys"), keys, 0o600))
	claims := filepath.Join(copied, "claims.db")
	whole := must.Get(os.ReadFile(claims))(t)
	changed := append([]byte{whole[0] ^ 1}, whole[1:]...)
	must.Do(t, os.WriteFile(claims, changed, 0o600))
	restore("has changed")
	must.Do(t, os.WriteFile(claims, whole, 0o600))
	restore("")
	restore("not empty")

	down.Unlock()
	again := newProcess(t, next, []string{"serve", "--data-dir", next})
	again.key = p.key
	again.start()
	for i, id := range before {
		must.Equal(t, post(again, i), id, "a repeat of event %d is", i)
		again.awaitStatus(id, "delivered", arrival)
	}
	var report string
	for began := time.Now(); !strings.Contains(report, " 0 in flight, lost 0, "); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > arrival {
			t.Fatalf("the ledger of the restored node is not even: %s", report)
		}
		report, _ = runToEnd(t, again.command("doctor", "--data-dir", next))
	}
}

// A backup goes to a bucket and comes back. The next one sends only what is new, and needs the first no more. A command
// that is killed during the upload leaves nothing that the next one fails on, and relay doctor knows the last backup.
func TestBackupInBucket(t *testing.T) {
	t.Parallel()
	dest := newSink(t, func(received) int { return http.StatusOK })
	uploads, hang := make(chan struct{}, 1000), make(chan struct{})
	var hung atomic.Bool
	bucketEnv := kit.BucketServer(t, func(r *http.Request) bool {
		if r.Method == http.MethodPut && hung.Load() {
			uploads <- struct{}{}
			<-hang
		}
		return true
	})
	t.Cleanup(func() { close(hang) })
	dir := t.TempDir()
	p := newProcess(t, dir, []string{"serve", "--data-dir", dir}, bucketEnv...)
	p.start()
	doctor := func(words string) {
		t.Helper()
		out, _ := runToEnd(t, p.command("doctor", "--data-dir", dir))
		is.Has(t, out, words, "relay doctor says")
	}
	doctor("no backup was ever made")
	ep, _, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	var ids []string
	send := func() {
		for range 20 {
			status, answer := tryPost(p.url+"/v1/endpoints/"+ep+"/events", p.key, fmt.Sprint("order-", len(ids)),
				`{"type":"order.paid","data":{}}`)
			if status != http.StatusAccepted {
				t.Fatal(status, answer)
			}
			ids = append(ids, fmt.Sprint(answer["id"]))
			p.awaitStatus(ids[len(ids)-1], "delivered", arrival)
		}
	}
	backUp := func(args ...string) backup.Done {
		t.Helper()
		out, code := runToEnd(t, p.command(append([]string{"backup", "--data-dir", dir, "--json"}, args...)...))
		var done backup.Done
		if err := json.Unmarshal([]byte(out), &done); err != nil || code != cli.ExitDone {
			t.Fatalf("relay backup %q ended with %d: %v %s", args, code, err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "backup.upload")); err == nil {
			t.Error("the copy in the data directory is left")
		}
		return done
	}
	send()
	hung.Store(true)
	killed := p.command("backup", "s3://backups/one", "--data-dir", dir)
	must.Do(t, killed.Start())
	<-uploads
	must.Do(t, killed.Process.Kill())
	_ = killed.Wait()
	hung.Store(false)
	if done := backUp("s3://backups/two"); done.Copied != done.Bytes {
		t.Errorf("%+v", done)
	}
	send()
	done := backUp("s3://backups/three", "--previous", "s3://backups/two")
	if done.Copied == 0 || done.Copied >= done.Bytes {
		t.Errorf("%+v", done)
	}
	doctor("the last backup began")
	p.signal(syscall.SIGKILL)
	_ = p.awaitExit(arrival)

	next := t.TempDir()
	must.Do(t, os.Chmod(next, 0o700))
	keys := must.Get(os.ReadFile(filepath.Join(dir, "master.keys")))(t)
	must.Do(t, os.WriteFile(filepath.Join(next, "master.keys"), keys, 0o600))
	for _, from := range []string{"s3://backups/one", "s3://backups/three"} {
		want := map[bool]int{true: cli.ExitDone, false: cli.ExitRefused}[from == "s3://backups/three"]

		if out, code := runToEnd(t, p.command("restore", from, "--data-dir", next)); code != want {
			t.Fatalf("relay restore %s ended with %d, want %d: %s", from, code, want, out)
		}
	}
	again := newProcess(t, next, []string{"serve", "--data-dir", next})
	again.key = p.key
	again.start()
	for _, id := range ids {
		again.awaitStatus(id, "delivered", arrival)
	}
}

// A backup for which there is no space is refused before it copies, and one whose disk fills meanwhile leaves nothing.
// One whose node is killed has no manifest and is not restored. The node then makes a complete one.
func TestBackupFaults(t *testing.T) {
	t.Parallel()
	skipShort(t)
	small := func(options string) string {
		dir := t.TempDir()
		kit.SmallDisk(t, dir, options)
		return filepath.Join(dir, "full")
	}
	dir, above := small("size=1g"), t.TempDir()
	p := newProcess(t, dir, []string{"serve", "--data-dir", dir}, kit.BucketServer(t, nil)...)
	p.start()
	ep, in, _ := p.endpoint(map[string]any{
		"destinations": []any{map[string]any{"url": "https://example.com/h", "enabled": false}}})
	body, sent := make([]byte, 100_000), 0
	_, _ = rand.Read(body)
	send := func(n int) {
		t.Helper()
		for range n {
			res := must.Get(http.Post(in, "application/octet-stream", bytes.NewReader(body)))(t)
			res.Body.Close()
			must.Equal(t, res.StatusCode, http.StatusOK, res.Status)
			sent++
		}
	}
	send(300)
	refused := func(to, words string) {
		t.Helper()
		for began := time.Now(); ; { // a merge may have failed on the full disk; then ClickHouse restarts
			out, code := runToEnd(t, p.command("backup", to, "--data-dir", dir))
			if fits := strings.Contains(out, words); fits && code == cli.ExitRefused {
				return
			} else if code != cli.ExitRefused || time.Since(began) > arrival {
				t.Fatalf("relay backup %s ended with %d, want %q: %s", to, code, words, out)
			}
		}
	}
	const found, unseen = "MB free; this needs", "no space left"
	for options, words := range map[string]string{"size=150m": found, "size=1g,nr_inodes=40": unseen} {
		full := small(options)
		refused(full, words)
		if left := must.Get(os.ReadDir(full))(t); len(left) > 0 {
			t.Errorf("%d files are left", len(left))
		}
	}
	filler := filepath.Join(filepath.Dir(dir), "filler")
	fillDisk(t, filler)
	must.Do(t, os.Truncate(filler, must.Get(os.Stat(filler))(t).Size()-150<<20))
	refused("s3://backups/full", found)
	must.Do(t, os.Remove(filler))
	send(1)

	cut := filepath.Join(above, "cut")
	for try := 1; ; try++ { // again if it has ended before the node is killed, which then was too late
		must.Do(t, os.RemoveAll(cut))
		backup := p.command("backup", cut, "--data-dir", dir)
		must.Do(t, backup.Start())
		for began := time.Now(); ; { // until it copies the log
			if logs, _ := os.ReadDir(filepath.Join(cut, "log")); len(logs) > 0 {
				break
			}
			if time.Since(began) > arrival {
				t.Fatal("no backup begins")
			}
		}
		p.signal(syscall.SIGKILL)
		_ = p.awaitExit(arrival)
		_ = backup.Wait()
		if code := backup.ProcessState.ExitCode(); code == cli.ExitRefused {
			break
		} else if code != cli.ExitDone || try == 10 {
			t.Fatalf("relay backup %d of a node that was killed ended with %d", try, code)
		}
		p.start()
	}
	p.start()
	whole, next := filepath.Join(above, "whole"), t.TempDir()
	if out, code := runToEnd(t, p.command("backup", whole, "--data-dir", dir)); code != cli.ExitDone {
		t.Fatalf("relay backup after a kill ended with %d: %s", code, out)
	}
	p.signal(syscall.SIGKILL)
	_ = p.awaitExit(arrival)
	must.Do(t, os.Chmod(next, 0o700))
	keys := must.Get(os.ReadFile(filepath.Join(dir, "master.keys")))(t)
	must.Do(t, os.WriteFile(filepath.Join(next, "master.keys"), keys, 0o600))
	if out, code := runToEnd(t, p.command("restore", cut, "--data-dir", next)); code != cli.ExitRefused ||
		!strings.Contains(out, "was interrupted") {
		t.Errorf("the interrupted backup is restored with %d: %s", code, out)
	}
	if out, code := runToEnd(t, p.command("restore", whole, "--data-dir", next)); code != cli.ExitDone {
		t.Fatalf("relay restore ended with %d: %s", code, out)
	}
	again := newProcess(t, next, []string{"serve", "--data-dir", next})
	again.start()
	h := &hostile{process: again, t: t}
	for began := time.Now(); len(h.listStatuses(ep)) != sent; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > arrival {
			t.Fatalf("%d of %d events are listed", len(h.listStatuses(ep)), sent)
		}
	}
}
