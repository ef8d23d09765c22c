package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
	"github.com/eventrelay/relay/test/websites"
)

// What a machine of systemd does for the package, where no systemd runs: sudo changes the user, systemctl starts the
// unit's ExecStart as its user with its settings and its right to low ports.
const (
	fakeSudo = `#!/bin/sh
[ "$1" != -u ] || { user=$2; shift 2; exec setpriv --reuid "$user" --regid "$user" --init-groups "$@"; }
exec "$@"
`
	fakeSystemctl = `#!/bin/sh
set -e
unit=/usr/lib/systemd/system/relay.service
value() { sed -n "s/^$1=//p" "$unit"; }
settings="$(value Environment) $(grep -v '^#' "$(value EnvironmentFile)")"
[ "$*" = "enable --now relay" ] || [ "$*" = "restart relay" ]
rm -f /run/relay.pid
setsid sh -c 'echo $$ >/run/relay.pid; exec "$@"' sh setpriv --reuid "$(value User)" --regid "$(value Group)" \
	--init-groups --inh-caps +net_bind_service --ambient-caps +net_bind_service \
	env -i PATH="$PATH" $settings $(value ExecStart) >>/var/log/relay 2>&1 &
until [ -s /run/relay.pid ]; do sleep 0.1; done
until env $settings relay ready >/dev/null 2>&1; do kill -0 "$(cat /run/relay.pid)"; sleep 0.1; done
`
)

// debian is a fresh system with the package of this program in the directory that is current for run.
type debian struct {
	*testing.T
	root   string
	cgroup string // limits the memory of what run starts; "" where that is not possible
}

func newDebian(t *testing.T) *debian {
	d := &debian{T: t, root: filepath.Join(t.TempDir(), "debian")}
	if out, err := exec.Command("debootstrap", "--variant=minbase", "--include=ca-certificates,systemd", "bookworm",
		d.root).CombinedOutput(); err != nil {
		kit.SkipMissing(t, "debootstrap: %v\n%s", err, out)
	}
	must.Do(t, syscall.Mount("proc", d.root+"/proc", "proc", 0, ""))
	t.Cleanup(func() { _ = syscall.Unmount(d.root+"/proc", syscall.MNT_DETACH) })
	group := "/sys/fs/cgroup/memory/relay-" + filepath.Base(filepath.Dir(d.root))
	if err := os.Mkdir(group, 0o700); err == nil || os.IsExist(err) {
		d.cgroup = group
		must.Do(t, os.WriteFile(group+"/memory.limit_in_bytes", []byte("1073741824"), 0o600))
		t.Cleanup(func() { _ = os.Remove(group) })
	}
	project, work := kit.Root(t), t.TempDir()
	program, licences := filepath.Join(work, "relay-VERSION-linux-amd64"), filepath.Join(work, "LICENCES.txt")
	must.Do(t, os.WriteFile(licences, nil, 0o600))
	for _, step := range [][]string{
		{"tools/release/build.sh", program},
		{"go", "build", "-C", "tools", "-o", work + "/nfpm", "github.com/goreleaser/nfpm/v2/cmd/nfpm"},
		{"tools/release/package.sh", work + "/nfpm", program, kit.ChdbLibrary(t), licences, "amd64", "1.0.0"},
		{"cp", program + ".deb", d.root},
	} {
		cmd := exec.Command(step[0], step[1:]...)
		cmd.Dir, cmd.Env = project, append(os.Environ(), "SOURCE_DATE_EPOCH=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", step, err, out)
		}
	}
	d.write("/usr/local/bin/sudo", fakeSudo, 0o755)
	d.write("/usr/local/bin/systemctl", fakeSystemctl, 0o755)
	d.write("/etc/hosts", "127.0.0.1 localhost\n", 0o644)
	t.Cleanup(d.kill)
	return d
}

func (d *debian) write(path, text string, mode os.FileMode) {
	d.Helper()
	must.Do(d, os.WriteFile(d.root+path, []byte(text), mode))
}

// run runs a command as root of the system.
func (d *debian) run(command string) string {
	d.Helper()
	line := "exec chroot " + d.root + " /bin/sh -ec " + strconv.Quote("cd /; "+command)
	if d.cgroup != "" {
		line = "echo $$ >" + d.cgroup + "/cgroup.procs; " + line
	}
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "HOME=/root"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(d.root + "/var/log/relay")
		d.Fatalf("%s: %v\n%s\n%s", command, err, out, log[max(0, len(log)-4000):])
	}
	return string(out)
}

// kill kills the relay and its ClickHouse, and waits for their end, as systemd does.
func (d *debian) kill() {
	text, err := os.ReadFile(d.root + "/run/relay.pid")
	if err != nil {
		return // it was never started
	}
	group, err := strconv.Atoi(strings.TrimSpace(string(text)))
	for ; err == nil; time.Sleep(50 * time.Millisecond) {
		err = syscall.Kill(-group, syscall.SIGKILL)
	}
}

// The page docs/operate/one-machine.md as it is written, on a fresh Debian with 1 GB of memory for the relay: package,
// certificate, first key. Then a load with repeats, while everything is killed every half minute, and a backup that is
// restored. No event is lost, and no repeated one is delivered as another event.
func TestOneMachine(t *testing.T) {
	duration := time.Duration(rounds(0, 0, 600)) * time.Second
	if seconds, err := strconv.Atoi(os.Getenv("RELAY_SECONDS")); err == nil && duration > 0 {
		duration = time.Duration(seconds) * time.Second
	}
	if duration == 0 {
		t.Skip("takes twelve minutes, ports 80 and 443 and a Debian root; set RELAY_TORTURE")
	}
	const host = "hooks.example.com" // of the page
	d, dest := newDebian(t), newSink(t, nil)
	dns := websites.StartDNS(t)
	dns.SetAddrs(host, "127.0.0.1")
	directory, roots, issued := startPebble(t, 443, dns.StartTCP(t))
	d.write("/etc/test-ca.pem", string(readAll(t, roots))+string(readAll(t, sinkCA)), 0o644)

	const page = "docs/operate/one-machine.md"
	settings := regexp.MustCompile("(?s)```\n *(RELAY_BASE_URL.*?)```").FindSubmatch(readFile(t, page))
	if settings == nil {
		t.Fatal("the page sets no RELAY_BASE_URL")
	}
	var key string
	for _, command := range commandsOf(t, page) {
		command, _, _ = strings.Cut(command, "     #")
		command = strings.Replace(command, "./relay upgrade", "relay upgrade", 1) // no newer version is there
		switch {
		case strings.HasPrefix(command, "sudo dnf"), !strings.HasPrefix(command, "sudo "):
			continue // of another system, or beside a cluster
		case strings.HasPrefix(command, "sudo systemctl enable"):
			d.write("/etc/relay/relay.env", string(settings[1])+fmt.Sprintf("\nRELAY_ACME_URL=%s\n"+
				"RELAY_EGRESS_ALLOW=127.0.0.0/8\nRELAY_EGRESS_CA_FILE=/etc/test-ca.pem\nRELAY_LEDGER_SECONDS=10\n",
				directory), 0o640)
		}
		out := d.run(command)
		if strings.Contains(command, "relay keys create") {
			words := strings.Fields(out)
			key = words[len(words)-1]
		}
		t.Logf("%s\n%s", command, out)
	}
	if mode := d.run("stat -c '%a %U %G' /etc/relay/relay.env /var/lib/relay /var/lib/relay/master.keys"); mode !=
		"640 root relay\n700 relay relay\n600 relay relay\n" {
		t.Errorf("files have the modes and owners %s", mode)
	}

	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: issued}, MaxIdleConnsPerHost: 64,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:443")
		}}
	c := client{t: t, url: "https://" + host, key: key, logs: &tail{}, transport: transport}
	eventually(t, arrival, func() string {
		if _, _, _, err := c.request("GET", "/v1/endpoints", nil); err != nil { // the certificate is ordered meanwhile
			return err.Error()
		}
		return ""
	})
	ep, in, _ := c.endpoint(map[string]any{"destinations": []any{dest.URL},
		"dedup": map[string]any{"key": "body:$.n", "window_seconds": 86400}})
	l := &machineLoad{client: http.Client{Transport: transport, Timeout: 10 * time.Second}, in: in,
		send: c.url + "/v1/endpoints/" + ep + "/events", key: key, ids: map[int]string{}}
	t.Logf("idle: %s", d.memory())
	began, stop := time.Now(), make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { l.run(stop, 200) })
	var starts []time.Duration
	for time.Since(began) < duration {
		time.Sleep(min(30*time.Second, duration/2))
		d.kill()
		at := time.Now()
		d.run("systemctl restart relay")
		starts = append(starts, time.Since(at).Round(10*time.Millisecond))
	}
	close(stop)
	load.Wait()
	slices.Sort(starts)
	t.Logf("%d events, %d repeats, refused or unanswered %d; %d kills, ready again after %v to %v; %s", len(l.ids),
		l.repeats, l.failed, len(starts), starts[0], starts[len(starts)-1], d.memory())
	for _, fault := range l.faults {
		t.Error(fault)
	}
	as := map[int]map[string]int{} // events as which a number was delivered, and how often
	eventually(t, 4*arrival, func() string {
		clear(as)
		for _, r := range dest.received() {
			n := numberOf(r.body)
			if as[n] == nil {
				as[n] = map[string]int{}
			}
			as[n][r.event()]++
		}
		if len(as) < len(l.ids) {
			return fmt.Sprintf("%d of %d events were delivered", len(as), len(l.ids))
		}
		return ""
	})
	again := 0
	for n, events := range as {
		is.Equal(t, len(events), 1, "%d was delivered as … events", n)
		for event, times := range events {
			again += times - 1
			if id := l.ids[n]; n%2 == 1 && id != event { // a repeated request of a provider is an event of its own, skipped
				t.Errorf("%d was accepted as %s and delivered as %s", n, id, event)
			}
		}
	}
	t.Logf("lost 0 of %d, repeats that were delivered 0 of %d, attempts after a lost answer %d", len(l.ids),
		l.repeats, again)

	d.run("install -d -o relay -m 0700 /var/backups/relay; " +
		"sudo -u relay relay backup /var/backups/relay/1 --data-dir /var/lib/relay")
	d.kill()
	d.run("install -d -o relay -m 0700 /var/lib/restored; " +
		"sudo -u relay cp /var/lib/relay/master.keys /var/lib/restored; " +
		"sudo -u relay relay restore /var/backups/relay/1 --data-dir /var/lib/restored; " +
		"mv /var/lib/relay /var/lib/lost; mv /var/lib/restored /var/lib/relay; systemctl restart relay")
	for n, id := range l.ids {
		if n%(1+len(l.ids)/300) == 0 && c.event(id) == nil {
			t.Errorf("the restored relay has no event %s of %d", id, n)
		}
	}
}

// memory says what the relay takes, with ClickHouse.
func (d *debian) memory() string {
	text := ""
	if d.cgroup != "" {
		for _, name := range []string{"memory.max_usage_in_bytes", "memory.failcnt"} {
			b, err := os.ReadFile(d.cgroup + "/" + name)
			text += fmt.Sprintf("%s %s%v ", name, bytes.TrimSpace(b), err)
		}
	}
	pid := strings.TrimSpace(string(must.Get(os.ReadFile(d.root + "/run/relay.pid"))(d)))
	out, err := exec.Command("ps", "-o", "rss=", "-g", pid).Output()
	sum := 0
	for _, kb := range strings.Fields(string(out)) {
		n, _ := strconv.Atoi(kb)
		sum += n
	}
	return text + fmt.Sprintf("resident %d MB %v", sum/1024, err)
}

func readAll(t *testing.T, path string) []byte { return must.Get(os.ReadFile(path))(t) }

// numberOf returns the number of an event that machineLoad has sent.
func numberOf(body []byte) (n int) {
	_, digits, _ := bytes.Cut(body, []byte(`"n":`))
	_, _ = fmt.Sscanf(string(digits), "%d", &n)
	return n
}

// machineLoad posts numbered events, the even ones as a provider and the odd ones as an application. Like those it
// posts each until it is accepted, and every fifth once more.
type machineLoad struct {
	client        http.Client
	in, send, key string
	waiting       chan struct{} // bounds the events that wait for their answers; nil: no bound

	mu              sync.Mutex // guards what follows
	ids             map[int]string
	repeats, failed int
	faults          []string
}

func (l *machineLoad) run(stop <-chan struct{}, rate int) {
	var posts sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-stop:
			posts.Wait()
			return
		case <-tick.C:
			if l.waiting != nil {
				l.waiting <- struct{}{}
			}
			posts.Go(func() {
				if l.waiting != nil {
					defer func() { <-l.waiting }()
				}
				id := l.post(n)
				l.mu.Lock()
				l.ids[n] = id
				l.mu.Unlock()
				if n%5 != 0 {
					return
				}
				again := l.post(n)
				l.mu.Lock()
				defer l.mu.Unlock()
				if l.repeats++; n%2 == 1 && again != id {
					l.faults = append(l.faults, fmt.Sprintf("a repeat of %d was answered with %s instead of %s", n, again, id))
				}
			})
		}
	}
}

// post posts an event until it is accepted, and returns the id in the answer.
func (l *machineLoad) post(n int) string {
	pad := strings.Repeat("x", 1000)
	url, body := l.in, fmt.Sprintf(`{"n":%d,"pad":%q}`, n, pad)
	if n%2 == 1 {
		url, body = l.send, fmt.Sprintf(`{"type":"order.paid","data":{"n":%d,"pad":%q}}`, n, pad)
	}
	for ; ; time.Sleep(time.Second) {
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			return err.Error()
		}
		req.Header.Set("Content-Type", "application/json")
		if n%2 == 1 {
			req.Header.Set("Authorization", "Bearer "+l.key)
			req.Header.Set("Idempotency-Key", fmt.Sprintf("n-%d", n))
		}
		resp, err := l.client.Do(req)
		if err == nil {
			var answer struct {
				ID string `json:"id"`
			}
			text, readErr := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode/100 == 2 && readErr == nil {
				_ = json.Unmarshal(text, &answer)
				if id := resp.Header.Get("Relay-Event-Id"); id != "" {
					return id
				}
				return answer.ID
			}
		}
		l.mu.Lock()
		l.failed++
		l.mu.Unlock()
	}
}
