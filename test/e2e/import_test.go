package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/eventrelay/relay/command/cli"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// What relay import writes of an export, relay apply creates: tenants, endpoints and destinations with their secrets,
// headers, filters. An event that is sent to a tenant goes there. A second relay apply changes nothing.
func TestImportAndApply(t *testing.T) {
	t.Parallel()
	skipShort(t)
	const key = "a-key-for-relay-import"
	relay := startDevProcess(t, t.TempDir(), "RELAY_BOOTSTRAP_KEY="+key)
	dir := t.TempDir()
	for name, answer := range map[string]string{
		"tenants": `{"models":[{"id":"customer-1","metadata":{"plan":"pro"}},{"id":"customer 2"}],
			"pagination":{"next":null}}`,
		"tenants/customer-1/destinations": `[{"id":"des_1","type":"webhook","topics":["order.*"],"disabled_at":null,
			"config":{"url":"https://shop.example.com/in","custom_headers":"{\"Authorization\":\"Bearer planted\"}"},
			"filter":{"data":{"amount":{"$gte":100}}},
			"credentials":{"secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}]`,
		"tenants/customer%202/destinations": `[]`,
		"topics":                            `["order.paid"]`,
	} {
		file := filepath.Join(dir, "answers", name+".json")
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must.Do(t, os.WriteFile(file, []byte(answer), 0o600))
	}
	run := func(want string, args ...string) {
		t.Helper()
		cmd := relay.command(args...)
		cmd.Dir = dir
		cmd.Env = append(cmd.Env, "RELAY_BASE_URL="+relay.url, "RELAY_API_KEY="+key)
		out, code := runToEnd(t, cmd)
		must.Equal(t, code, cli.ExitDone, "%v: %s", args, out)
		is.Has(t, out, want)
		is.Lacks(t, out, "planted")
		is.Lacks(t, out, "MfKQ")
	}
	run("destination: 1 read = 1 written + 0 listed", "import", "outpost", "--export", "answers", "--webhook-mode",
		"standard")
	run("create tenant customer-1", "apply", "-f", "outpost.yaml", "--dry-run")
	run("created 3, changed 0", "apply", "-f", "outpost.yaml")
	run("created 0, changed 0, deleted 0, unchanged 1", "apply", "-f", "outpost.yaml")

	client := relay.withKey(key)
	sent := client.must(http.StatusAccepted, "POST", "/v1/tenants/customer-1/events",
		map[string]any{"type": "order.paid", "data": map[string]any{"amount": 5}})
	e := client.must(http.StatusOK, "GET", "/v1/endpoints/"+sent["endpoint_id"].(string), nil)
	d := e["destinations"].([]any)[0].(map[string]any)
	is.Equal(t, d["name"].(string), "des_1")
	is.Equal(t, d["signing"].(map[string]any)["secret_last4"].(string), "LaSw")
	types := must.Get(os.ReadFile(filepath.Join(dir, "outpost.event-types.json")))(t)
	is.Has(t, string(types), `"order.paid"`)
}
