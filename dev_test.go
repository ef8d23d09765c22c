package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventrelay/relay/pkg/testkit"
)

func post(t *testing.T, url string, header map[string]string, body []byte) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp
}

// One event, from a provider's signed request to the API's account of its delivery, twice over a restart.
func TestDevEndToEnd(t *testing.T) {
	dest := newSink(t, nil)
	dir := t.TempDir()
	p := startDevProcess(t, dir, dest.env())
	ep, in, secret := p.endpoint(map[string]any{
		"provider": "github", "verification": map[string]any{"type": "github", "secret": "it's a secret to everybody"},
		"destinations": []any{map[string]any{"url": dest.URL + "/hook"}},
	})
	body := []byte(`{"action":"opened","number":1}`)
	mac := hmac.New(sha256.New, []byte("it's a secret to everybody"))
	mac.Write(body)
	signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	resp := post(t, in, map[string]string{"X-Hub-Signature-256": signature, "X-GitHub-Event": "pull_request", "Content-Type": "application/json"}, body)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("ingest answered %s\n%s", resp.Status, p.logs)
	}
	got := dest.wait(t, 1, 10*time.Second)[0]
	if !bytes.Equal(got.body, body) {
		t.Fatalf("delivered %q", got.body)
	}
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.Verify(got.body, got.header); err != nil {
		t.Fatalf("the delivery does not verify: %v", err)
	}
	id := got.header.Get("Webhook-Id")
	e := p.waitStatus(id, "delivered", 10*time.Second)
	if e["endpoint_id"] != ep || e["type"] != "pull_request" || e["body"] != string(body) {
		t.Fatalf("read %v", e)
	}
	if resp := post(t, in, map[string]string{"X-Hub-Signature-256": "sha256=" + strings.Repeat("0", 64)}, body); resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("a forged request was answered %s", resp.Status)
	}
	list := p.must(http.StatusOK, "GET", "/v1/events?endpoint_id="+ep, nil)["data"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["status"] != "rejected" || list[0].(map[string]any)["reason"] != "signature_mismatch" || list[1].(map[string]any)["id"] != id {
		t.Fatalf("list %v", list)
	}

	if err := p.interrupt(); err != nil {
		t.Fatalf("Ctrl-C ended with %v\n%s", err, p.logs)
	}
	started := time.Now()
	p.start()
	t.Logf("second start took %v", time.Since(started).Round(time.Millisecond))
	if e := p.must(http.StatusOK, "GET", "/v1/events/"+id, nil); e["status"] != "delivered" {
		t.Fatalf("after the restart %v", e)
	}
	p.must(http.StatusAccepted, "POST", "/v1/endpoints/"+ep+"/events", map[string]any{"type": "a.b", "data": map[string]any{"n": 1}})
	again := dest.wait(t, 2, 10*time.Second)[1]
	if again.header.Get("Webhook-Id") == id {
		t.Fatal("the first event was delivered again")
	}
	if err := verifier.Verify(again.body, again.header); err != nil {
		t.Fatal(err)
	}
}

// What arrives, what is stored and what is delivered are the same bytes.
func TestByteIdentity(t *testing.T) {
	dest := newSink(t, nil)
	p := startDevProcess(t, t.TempDir(), dest.env())
	_, in, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL}})
	random := make([]byte, 1<<20)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	f := func(name string, body []byte, chunked bool) {
		t.Helper()
		var reader io.Reader = bytes.NewReader(body)
		if chunked {
			reader = io.MultiReader(reader) // hides the length
		}
		before := len(dest.received())
		resp, err := http.Post(in, "application/octet-stream", reader)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: answered %s\n%s", name, resp.Status, p.logs)
		}
		got := dest.wait(t, before+1, 20*time.Second)[before]
		if sum(got.body) != sum(body) {
			t.Errorf("%s: delivered other bytes (%d, want %d)", name, len(got.body), len(body))
		}
		e := p.must(http.StatusOK, "GET", "/v1/events/"+got.header.Get("Webhook-Id"), nil)
		stored := []byte(e["body"].(string))
		if e["body_encoding"] == "base64" {
			if stored, err = base64.StdEncoding.DecodeString(e["body"].(string)); err != nil {
				t.Fatal(err)
			}
		}
		if sum(stored) != sum(body) {
			t.Errorf("%s: stored other bytes (%d, want %d)", name, len(stored), len(body))
		}
	}
	f("empty", nil, false)
	f("1 MiB of random bytes", random, false)
	f("1 MiB of random bytes, chunked", random, true)
	f("invalid UTF-8", []byte("a\xff\xfe\x80b"), false)
	f("CRLF", []byte("a\r\nb\r\n\r\n"), false)
	f("duplicate keys", []byte(`{"a":1,"a":2, "b" : 1.0 }`), false)
	f("chunked", []byte(`{"a":1}`), true)
	if resp := post(t, in, nil, append(random, 'x')); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("1 MiB + 1 was answered %s", resp.Status)
	}
}

// After a 202, the read and the list on the same node find the event, every time.
func TestReadYourWrites(t *testing.T) {
	p := startDevProcess(t, t.TempDir())
	ep, _, _ := p.endpoint(map[string]any{"destinations": []any{map[string]any{"url": "https://example.com/h", "enabled": false}}})
	rounds := 500
	if testing.Short() {
		rounds = 50
	}
	for i := range rounds {
		id := p.must(http.StatusAccepted, "POST", "/v1/endpoints/"+ep+"/events", map[string]any{"type": "a.b", "data": map[string]any{"n": i}})["id"]
		p.must(http.StatusOK, "GET", "/v1/events/"+id.(string), nil)
		if first := p.must(http.StatusOK, "GET", "/v1/events?limit=1&endpoint_id="+ep, nil)["data"].([]any)[0].(map[string]any); first["id"] != id {
			t.Fatalf("round %d: the list begins with %v, want %v", i, first["id"], id)
		}
	}
}

func TestSecondProcessOnTheSameDataIsRefused(t *testing.T) {
	dir := t.TempDir()
	startDevProcess(t, dir)
	second := exec.Command(os.Args[0], "dev", "--data-dir", dir, "--listen", "127.0.0.1:0")
	second.Env = append(os.Environ(), "RELAY_CHDB_LIB="+testkit.ChdbLibrary(t))
	out, err := second.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use by another relay process") {
		t.Fatalf("%v: %s", err, out)
	}
}

// The commands of the banner work when they are pasted into a shell.
func TestBannerCommandsWork(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		testkit.Absent(t, "curl is not installed")
	}
	p := startDevProcess(t, t.TempDir())
	script := banner(p.url, p.key)
	_, script, _ = strings.Cut(script, "read the event.\n")
	script, _, _ = strings.Cut(script, "Ctrl-C")
	out, err := exec.Command("bash", "-c", "set -e\n"+script).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"received":true`) || !strings.Contains(string(out), `"type":null`) || !strings.Contains(string(out), `order.paid`) {
		t.Fatalf("%v:\n%s", err, out)
	}
}

func TestKeysCommands(t *testing.T) {
	dir := t.TempDir()
	p := startDevProcess(t, dir)
	relay := func(args ...string) (string, int) {
		t.Helper()
		var out, errs bytes.Buffer
		code := run(t.Context(), append([]string{"keys"}, args...), func(string) string { return "" }, &out, &errs)
		return out.String() + errs.String(), code
	}
	out, code := relay("create", "--name", "ci", "--scope", "read", "--data-dir", dir)
	lines := strings.Fields(out)
	if code != exitOK || len(lines) != 3 || lines[1] != "read" || !strings.HasPrefix(lines[2], "rly_live_") {
		t.Fatalf("create: %d %q", code, out)
	}
	as := &process{t: t, url: p.url, key: lines[2], logs: p.logs}
	as.must(http.StatusOK, "GET", "/v1/me", nil)
	as.must(http.StatusForbidden, "POST", "/v1/endpoints", map[string]any{"destinations": []any{"https://example.com"}})
	if out, code := relay("list", "--data-dir", dir, "--json"); code != exitOK || !strings.Contains(out, lines[0]) || strings.Contains(out, lines[2]) {
		t.Fatalf("list: %d %s", code, out)
	}
	if out, code := relay("revoke", lines[0], "--data-dir", dir); code != exitOK {
		t.Fatalf("revoke: %d %s", code, out)
	}
	as.must(http.StatusUnauthorized, "GET", "/v1/me", nil)
	if _, code := relay("revoke", "key_nope", "--data-dir", dir); code != exitRefused {
		t.Fatalf("revoking an unknown key ended with %d", code)
	}
	if _, code := relay("create", "--data-dir", dir); code != exitUsage {
		t.Fatalf("create without a name ended with %d", code)
	}
	if _, code := relay("list", "--data-dir", filepath.Join(dir, "nowhere")); code != exitNoPeer {
		t.Fatalf("without a process it ended with %d", code)
	}
}
