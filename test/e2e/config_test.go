package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/eventrelay/relay/command"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Disaster recovery: an export that is imported into a new log with the same master keys restores the service, with the
// same answers, API keys, ingest URLs and signatures.
func TestConfigMovesToANewLog(t *testing.T) {
	t.Parallel()
	skipShort(t)
	master := "RELAY_MASTER_KEYS=" + seal.GenerateKey("main")
	old := startDevProcess(t, t.TempDir(), master)
	dest := newSink(t, nil)
	ep, in, secret := old.endpoint(map[string]any{
		"name": "kept", "provider": "github",
		"verification": map[string]any{"type": "github", "secret": "planted-provider-secret"},
		"destinations": []any{map[string]any{"url": dest.URL, "headers": map[string]any{"X-Planted": "planted-header"}}},
	})
	old.endpoint(map[string]any{"destinations": []any{"https://example.com/second"}})
	old.must(http.StatusOK, "PATCH", "/v1/alerts",
		map[string]any{"slack_webhook_url": "https://hooks.slack.com/services/planted-webhook-path"})
	out, code := runToEnd(t, old.command(
		"keys", "create", "--name", "app", "--scope", "read_write", "--data-dir", old.dir))
	app := strings.Fields(out)
	if code != command.ExitDone || len(app) != 3 {
		t.Fatalf("%d %s", code, out)
	}
	file := filepath.Join(t.TempDir(), "configuration.json")
	out, code = runToEnd(t, old.command("config", "export", "--file", file, "--data-dir", old.dir, "--json"))
	var said command.Exported
	if code != command.ExitDone || json.Unmarshal([]byte(out), &said) != nil || said.Entities < 5 ||
		len(said.MasterKeys) != 1 || !strings.HasPrefix(said.MasterKeys[0], "main:") {
		t.Fatalf("%d %s", code, out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	doc, err := os.ReadFile(file)
	if err != nil || !json.Valid(doc) || strings.Contains(string(doc), "planted") ||
		strings.Contains(string(doc), secret) || strings.Contains(string(doc), app[2]) {
		t.Fatalf("%s, %v", doc, err)
	}

	young := startDevProcess(t, t.TempDir(), master)
	load := func(want int, words string, flags ...string) {
		t.Helper()
		out, code := runToEnd(t, young.command(append([]string{"config", "import", "--data-dir", young.dir}, flags...)...))
		if code != want || !strings.Contains(out, words) {
			t.Fatalf("import ended with %d: %s", code, out)
		}
	}
	damaged := filepath.Join(t.TempDir(), "damaged.json")
	must.Do(t, os.WriteFile(damaged, []byte(strings.Replace(string(doc), "kept", "Kept", 1)), 0o600))
	load(command.ExitRefused, "checksum", damaged)
	load(command.ExitDone, fmt.Sprintf("imported %d entities", said.Entities), file)
	as, before := young.withKey(app[2]), old.withKey(app[2])
	for _, path := range []string{"/v1/endpoints", "/v1/endpoints/" + ep, "/v1/alerts", "/v1/me"} {
		want := before.must(http.StatusOK, "GET", path, nil)
		got := as.must(http.StatusOK, "GET", path, nil)
		text := func(v any, url string) string { // ingest URLs differ only in the process's address
			raw, _ := json.Marshal(v)
			return strings.ReplaceAll(string(raw), url, "")
		}
		if a, b := text(want, old.url), text(got, young.url); !reflect.DeepEqual(a, b) {
			t.Errorf("%s after the import: %s\nbefore: %s", path, b, a)
		}
	}
	young.awaitStatus(young.send(ep, 1), "delivered", arrival)
	got := dest.wait(t, 1, arrival)[0]
	verifyDelivery(t, secret, got)
	is.Equal(t, got.header.Get("X-Planted"), "planted-header", "the delivery has lost its header")
	token := in[strings.LastIndex(in, "/in/"):]
	if resp := young.post(young.url+token, map[string]string{"X-Hub-Signature-256": "sha256=" + strings.Repeat("0", 64)},
		[]byte("{}")); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong signature was answered %s", resp.Status)
	}
	young.endpoint(map[string]any{"destinations": []any{"https://example.com/later"}})
	load(command.ExitRefused, "there is a configuration already", file)
	load(command.ExitDone, "removed 1 that were there before", "--replace", file)
}

func TestConfigRejectsMisuse(t *testing.T) {
	f := func(want string, code int, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		got := run(t.Context(), append([]string{"config"}, args...), func(string) string { return "" }, &out, &errs)
		if text := out.String() + errs.String(); got != code || !strings.Contains(text, want) {
			t.Errorf("%q: %d, want %d\n%s", args, got, code, text)
		}
	}
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	f("Exit codes", command.ExitDone, "--help")
	f(`unexpected argument "x"`, command.ExitMisused, "export", "x")
	f("import takes one file", command.ExitMisused, "import")
	f("import takes one file", command.ExitMisused, "import", "a", "b")
	f("no such file", command.ExitRefused, "import", nowhere)
	f("no running process", command.ExitNoProcess, "export", "--data-dir", nowhere)
}
