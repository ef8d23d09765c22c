package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/test/must"
)

// everyMember is a file with every member of an endpoint and of a destination.
const everyMember = `
endpoints:
  - name: orders
    description: all orders
    provider: hmac
    verification: {type: hmac, secret: "env:PROVIDER_SECRET", tolerance_seconds: 60, mode: observe, header: X-Sig,
      algorithm: sha512, encoding: base64, prefix: "v=", signed_content: "{timestamp}.{body}"}
    type_source: header:X-Type
    dedup: {key: "body:$.id", window_seconds: 3600}
    ingest_limit: {events_per_second: 100, bytes_per_second: 1048576}
    destinations:
      - {name: shop, url: "HTTPS://Shop.example.com:443/in", enabled: false, paused: true, timeout_seconds: 5,
        headers: {Authorization: "file:TOKENFILE", X-Shop: de}, rate_limit: {per_second: 2.5},
        max_in_flight: 2, filter: {types: ["order.*"], body: {data.total: 5, data.kind: a}},
        signing: {scheme: standard_webhooks, secret: "env:SIGNING_SECRET"}}
      - https://archive.example.com/in
    retry_policy: {strategy: schedule, schedule_seconds: [1, 2], max_attempts: 3, jitter: 0.50,
      respect_retry_after: false, max_retry_after_seconds: 10, retry_on: ["404", 3xx]}
    alerts: {enabled: false, channels: [slack], consecutive_failures: 5, failure_rate_percent: 70,
      muted_until: 2030-01-01T01:00:00+01:00}
    transformation:
      - {op: rename, from: /data/a, to: /data/b, on_conflict: replace, required: true}
      - {op: pick, paths: [/data, /type], required: false}
      - {op: add, path: /data/n, value: {x: 1.0, y: [true, null]}}
    response: {status: 202, content_type: text/plain, body: ok}
    enabled: true
    paused: true
    scan_payloads: false
    metadata: {team: billing, old: x}
`

// A file with every member is applied once; again it changes nothing. Differences are shown before they are made,
// secrets never, and a changed one is noticed although the service does not show it.
func TestApply(t *testing.T) {
	t.Parallel()
	skipShort(t)
	const key = "a-key-for-relay-apply"
	relay := startDevProcess(t, t.TempDir(), "RELAY_BOOTSTRAP_KEY="+key)
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	must.Do(t, os.WriteFile(token, []byte("Bearer planted-header-token\n"), 0o600))
	text := strings.ReplaceAll(everyMember, "TOKENFILE", token)
	provider := "planted-provider-secret"
	apply := func(code int, want string, flags ...string) {
		t.Helper()
		file := filepath.Join(dir, "endpoints.yaml")
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		cmd := relay.command(append([]string{"apply", "-f", file}, flags...)...)
		cmd.Env = append(cmd.Env, "RELAY_BASE_URL="+relay.url, "RELAY_API_KEY="+key, "PROVIDER_SECRET="+provider,
			"SIGNING_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		out, got := runToEnd(t, cmd)
		for part := range strings.SplitSeq(want, "|") {
			if got != code || !strings.Contains(out, part) {
				t.Fatalf("ended with %d, without %q:\n%s", got, part, out)
			}
		}
		if strings.Contains(out, "planted") || strings.Contains(out, "MfKQ") || strings.Contains(out, key) {
			t.Fatalf("a secret is shown:\n%s", out)
		}
	}
	orders := func() map[string]any {
		t.Helper()
		list := relay.withKey(key).must(http.StatusOK, "GET", "/v1/endpoints", nil)["data"].([]any)
		for _, e := range list {
			if e := e.(map[string]any); e["name"] == "orders" {
				return e
			}
		}
		t.Fatalf("no endpoint orders: %v", list)
		return nil
	}
	apply(cli.ExitDone, "create endpoint orders|verification.secret: env:PROVIDER_SECRET|to create 1", "--dry-run")
	apply(cli.ExitDone, "created 1, changed 0, deleted 0, unchanged 0|signing secret is generated")
	created := orders()
	apply(cli.ExitDone, "to change 0, to delete 0, unchanged 1", "--dry-run")
	apply(cli.ExitDone, "created 0, changed 0, deleted 0, unchanged 1")
	if again := orders(); again["updated_at"] != created["updated_at"] {
		t.Errorf("a second run has changed the endpoint: %v, before %v", again, created)
	}

	text = strings.Replace(text, "max_attempts: 3", "max_attempts: 4", 1)
	apply(cli.ExitDone, "retry_policy.max_attempts: 3 -> 4|to change 1", "--dry-run")
	apply(cli.ExitDone, "changed 1")
	provider = "another-planted-provider-secret"
	apply(cli.ExitDone, "unchanged 1", "--dry-run")
	apply(cli.ExitDone, "secrets: (others, which the service does not show)|changed 1")

	text = strings.Replace(text, "max_attempts: 4", "max_attempts: 400", 1)
	for last, flags := range map[string][]string{"0 of 1 changes": nil, "nothing was done (--dry-run)": {"--dry-run"}} {
		apply(cli.ExitRefused,
			"endpoints.yaml:17:|: change endpoint orders (|retry_policy.max_attempts: must be|"+last, flags...)
	}
	text = strings.Replace(text, "max_attempts: 400", "max_attempts: 4", 1)

	for _, cut := range []string{"      - https://archive.example.com/in\n", ", X-Shop: de", ", old: x"} {
		text = strings.Replace(text, cut, "", 1)
	}
	relay.withKey(key).endpoint(map[string]any{"name": "other", "destinations": []any{"https://example.com/h"}})
	apply(cli.ExitDone, "unchanged 1")
	apply(cli.ExitDone, "destinations[https://archive.example.com/…]: dst_|headers.X-Shop: \"de\" -> (none)|"+
		"metadata.old|delete endpoint other|changed 1, deleted 1", "--prune")
	apply(cli.ExitDone, "changed 0, deleted 0, unchanged 1", "--prune")

	again := relay.withKey(key).must(http.StatusCreated, "POST", "/v1/endpoints",
		map[string]any{"name": "orders", "url": "https://example.com/h"})
	apply(cli.ExitRefused, `2 endpoints of the service have the name "orders": |`+again["id"].(string)+"|"+
		created["id"].(string))
}
