package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// sdkApplication logs a key, which comes in two parts because no file may hold one.
const sdkApplication = `import { flush } from '@eventrelay/sdk'
function charge() {
  console.log('charging with ' + process.env.KEY_START + process.env.KEY_END)
}
charge()
process.exitCode = await flush() ? 0 : 1
`

// An application with the SDK, installed from /tools without a network, logs a Stripe key: its line is masked, and the
// key becomes a finding with file and line, of which people are notified. The same key in a drain is the same finding.
func TestSDK(t *testing.T) {
	t.Parallel()
	skipShort(t)
	messages := newMessages(t)
	p := startDevProcess(t, nodeDir(t))
	p.must(http.StatusOK, "PATCH", "/v1/alerts", map[string]any{"webhook_url": messages.url})
	application := p.installSDK(t)

	dsn := p.must(http.StatusCreated, "POST", "/v1/dsns", map[string]any{"name": "shop", "platform": "server"})
	key := leakOf(3)
	mask := "sk_live_***" + key[len(key)-4:]
	began := time.Now()
	run := exec.CommandContext(t.Context(), "node", "--import", "@eventrelay/sdk/register", "app.mjs")
	run.Dir = application
	run.Env = append(os.Environ(), "RELAY_DSN="+dsn["dsn"].(string), "KEY_START="+key[:5], "KEY_END="+key[5:])
	out, err := run.CombinedOutput()
	if err != nil || strings.Contains(string(out), key[8:16]) || !strings.Contains(string(out), "charging with "+mask) {
		t.Fatalf("%v\n%s", err, strings.ReplaceAll(string(out), key, "the key"))
	}
	var finding map[string]any
	p.eventuallyFinding("/v1/findings?source=sdk", func(f map[string]any) bool { finding = f; return true })
	t.Logf("%v from the start of the application to the finding", time.Since(began))
	location := finding["locations"].([]any)[0].(map[string]any)
	if finding["masked"] != mask || finding["unverified"] != false || location["file"] != "app.mjs" ||
		location["line"] != 3.0 || location["function"] != "charge" || location["dsn_id"] != dsn["id"] {
		t.Errorf("%v", finding)
	}
	messages.await("alert.finding.opened", 1)

	sendLines(p.url+p.drain("production"), []byte("failed with "+key), nil)
	p.eventuallyFinding("/v1/findings?source=drain", func(f map[string]any) bool {
		return f["id"] == finding["id"] && fmt.Sprint(f["sources"]) == "[drain sdk]"
	})
	eventually(t, arrival, func() string {
		d := p.must(http.StatusOK, "GET", "/v1/dsns/"+dsn["id"].(string), nil)
		if d["reports_24h"] != 1.0 || !strings.HasPrefix(fmt.Sprint(d["sdk"]), "relay.javascript ") {
			return fmt.Sprint(d)
		}
		return ""
	})
	p.forgeReports(t, messages)
}

// forgeReports sends made-up reports with the DSN of a browser: they open 20 findings and a flood, cost nothing, and
// make one message.
func (p *process) forgeReports(t *testing.T, messages *messages) {
	t.Helper()
	usage := func() any { return p.must(http.StatusOK, "GET", "/v1/usage", nil)["events"] }
	before := fmt.Sprint(usage())
	made := p.must(http.StatusCreated, "POST", "/v1/dsns", map[string]any{"name": "pages", "platform": "browser"})
	_, rest, _ := strings.Cut(made["dsn"].(string), "://")
	key, _, _ := strings.Cut(rest, "@")
	url := p.url + "/api/" + made["id"].(string) + "/reports?v=1&k=" + key
	batches := rounds(4, 4, 200) // of 50 reports
	for i := range batches {
		var reports []any
		for k := range 50 {
			reports = append(reports, forgedReport(k))
		}
		body := must.Get(json.Marshal(map[string]any{"id": fmt.Sprintf("%022d", i), "sent_at": "2026-08-21T22:24:36.123Z",
			"sdk": map[string]any{"name": "relay.javascript", "version": "0.1.0"}, "reports": reports}))(t)
		resp := p.post(url, map[string]string{"Origin": "https://any.example"}, body)
		if resp.StatusCode != http.StatusAccepted || resp.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Fatalf("%d %v", resp.StatusCode, resp.Header)
		}
	}
	var list []any
	eventually(t, arrival, func() string {
		list = nil
		for _, f := range p.must(http.StatusOK, "GET", "/v1/findings?limit=100", nil)["data"].([]any) {
			if f.(map[string]any)["unverified"] == true {
				list = append(list, f)
			}
		}
		d := p.must(http.StatusOK, "GET", "/v1/dsns/"+made["id"].(string), nil)
		if len(list) < 21 || d["reports_24h"] != float64(50*batches) {
			return fmt.Sprintf("%d findings of %v reports", len(list), d["reports_24h"])
		}
		return ""
	})
	rules := map[string]int{}
	for _, f := range list {
		f := f.(map[string]any)
		rules[f["rule"].(string)]++
		if f["severity"] == "critical" {
			t.Errorf("%v", f)
		}
	}
	if len(list) != 21 || rules["flood"] != 1 || rules["stripe-secret-live"] != 15 || rules["other"] != 5 {
		t.Errorf("%d findings: %v", len(list), rules)
	}
	messages.await("alert.finding.unverified", 1)
	is.Equal(t, fmt.Sprint(usage()), before, "usage was %s and is", before)
}

// forgedReport returns a valid report of a made-up secret, with a script for a file name.
func forgedReport(n int) map[string]any {
	hash := make([]byte, 32)
	rand.Read(hash)
	rule := []string{"stripe-secret-live", "rule-of-a-newer-sdk"}[n%2]
	return map[string]any{"type": "log", "rule": rule, "masked": "sk_live_***aB3d", "count": 1_000_000,
		"fp1": base64.RawURLEncoding.EncodeToString(hash), "first_at": "2026-08-21T22:24:36.123Z",
		"last_at": "2026-08-21T22:24:36.123Z",
		"where":   map[string]any{"file": "<script>alert(1)</script>", "function": "<img src=x onerror=alert(1)>"}}
}

// installSDK installs the package of the SDK into a new application, without a network, and returns its folder.
func (p *process) installSDK(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			kit.SkipMissing(t, "%s is not installed", program)
		}
	}
	resp := must.Get(http.Get(p.url + "/tools/eventrelay-sdk.tgz"))(t)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusNotFound {
		kit.SkipMissing(t, "the program was built without the SDK: run tools/sdk/build.sh")
	}
	tarball := must.Get(io.ReadAll(resp.Body))(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"eventrelay-sdk.tgz": string(tarball), "app.mjs": sdkApplication,
		"package.json": `{"name":"shop","version":"1.0.0"}`} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	install := exec.CommandContext(t.Context(), "npm", "install", "--offline", "--no-audit", "--no-fund",
		"./eventrelay-sdk.tgz")
	install.Dir = dir
	install.Env = append(os.Environ(), "npm_config_cache="+t.TempDir())
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// eventuallyFinding waits for a list of findings with one that is as wanted.
func (c client) eventuallyFinding(path string, wanted func(map[string]any) bool) {
	c.t.Helper()
	eventually(c.t, arrival, func() string {
		list := c.must(http.StatusOK, "GET", path, nil)["data"].([]any)
		for _, f := range list {
			if wanted(f.(map[string]any)) {
				return ""
			}
		}
		return fmt.Sprint("findings: ", list)
	})
}

// messages are the alerts that a webhook has received, by type.
type messages struct {
	t   *testing.T
	url string
	mu  sync.Mutex // guards ids
	ids map[string]map[string]bool
}

func newMessages(t *testing.T) *messages {
	t.Helper()
	m := &messages{t: t, ids: map[string]map[string]bool{}}
	m.url = newSink(t, func(r received) int {
		var body struct{ ID, Type string }
		if json.Unmarshal(r.body, &body) == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.ids[body.Type] == nil {
				m.ids[body.Type] = map[string]bool{}
			}
			m.ids[body.Type][body.ID] = true
		}
		return http.StatusOK
	}).URL + "/hook"
	return m
}

// await waits for messages of a type. There must not be more.
func (m *messages) await(kind string, want int) {
	m.t.Helper()
	eventually(m.t, arrival, func() string {
		m.mu.Lock()
		defer m.mu.Unlock()
		if n := len(m.ids[kind]); n != want {
			return fmt.Sprintf("%d messages %s, want %d: %v", n, kind, want, m.ids)
		}
		return ""
	})
}
