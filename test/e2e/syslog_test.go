package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// syslogConfig makes syslog-ng follow a file and send its lines to a drain, in batches that it sends again until they
// are accepted. It is that of the drain's page.
const syslogConfig = `@version: 3.35
source lines { file("%s" follow-freq(0.1) flags(no-parse) log-fetch-limit(1000) log-iw-size(10000)); };
destination drain {
  http(url("%s") method("POST") headers("Content-Type: text/plain") body("${MESSAGE}") delimiter("\n")
    batch-lines(500) batch-bytes(512Kb) batch-timeout(1000) timeout(10) time-reopen(1) retries(100000)
    log-fifo-size(20000));
};
log { source(lines); destination(drain); flags(flow-control); };
`

// An hour of log lines comes from syslog-ng, whose relay is killed once on the way. Every key in them is found, and
// counted at least as often as it was written.
func TestSyslogNGSendsAnHourOfLogs(t *testing.T) {
	if os.Getenv("RELAY_TORTURE") == "" {
		t.Skip("set RELAY_TORTURE; it needs syslog-ng with its HTTP module")
	}
	const lines, every, secrets = 3600 * 20, 500, 12
	program, err := exec.LookPath("syslog-ng")
	if err != nil {
		t.Fatal("install the Debian packages syslog-ng-core and syslog-ng-mod-http: ", err)
	}
	p := startDevProcess(t, nodeDir(t))
	dir := t.TempDir()
	log, conf := filepath.Join(dir, "app.log"), filepath.Join(dir, "syslog-ng.conf")
	text := fmt.Sprintf(syslogConfig, log, p.url+p.drain("syslog-ng"))
	must.Do(t, os.WriteFile(conf, []byte(text), 0o600))
	file := must.Get(os.Create(log))(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	sender := exec.Command(program, "--foreground", "--no-caps", "--cfgfile", conf, "--persist-file", at("persist"),
		"--control", at("control"), "--pidfile", at("pid"))
	sender.Stdout, sender.Stderr = os.Stderr, os.Stderr
	must.Do(t, sender.Start())
	defer func() {
		_ = sender.Process.Signal(syscall.SIGTERM)
		_ = sender.Wait()
	}()
	planted, started := map[string]float64{}, time.Now()
	out := bufio.NewWriter(file)
	for i := range lines {
		when := time.Unix(1_795_341_600, 0).Add(time.Duration(i) * time.Hour / lines).UTC().Format(time.RFC3339)
		fmt.Fprintf(out, `%s app=web-%d level=info msg="request %d served in %d ms" path=/orders/%d`, when, i%3, i, i%90, i)
		if i%every == 0 {
			key := leakOf(i / every % secrets)
			planted["sk_live_***"+key[len(key)-4:]]++
			fmt.Fprintf(out, ` authorization="%s"`, key)
		}
		_ = out.WriteByte('\n')
		if i == lines/2 {
			must.Do(t, out.Flush())
			occurrences(t, p, 1) // some lines have arrived, others are on the way
			p.kill()
			p.start()
		}
	}
	must.Do(t, out.Flush())
	found := occurrences(t, p, lines/every)
	total := 0.0
	for mask, n := range planted {
		if found[mask] < n || found[mask] > n+2 { // the batch on the way at the kill may be cut otherwise when sent again
			t.Errorf("%s was found %v times, and written %v times", mask, found[mask], n)
		}
		total += found[mask]
	}
	is.Equal(t, len(found), len(planted), "findings of %d keys", len(planted))
	t.Logf("%d lines, %d secrets of %d keys found as %v, one kill, in %v", lines, lines/every, len(planted), total,
		time.Since(started).Round(time.Second))
}

// occurrences waits until at least that many hits are listed, and returns them by the mask of their finding.
func occurrences(t *testing.T, p *process, least float64) (found map[string]float64) {
	t.Helper()
	eventually(t, 5*time.Minute, func() string {
		found = map[string]float64{}
		total := 0.0
		for _, f := range p.must(http.StatusOK, "GET", "/v1/findings?limit=100", nil)["data"].([]any) {
			f := f.(map[string]any)
			found[f["masked"].(string)] += f["occurrences"].(float64)
			total += f["occurrences"].(float64)
		}
		if total < least {
			return fmt.Sprintf("%v of %v hits are listed", total, least)
		}
		return ""
	})
	return found
}
