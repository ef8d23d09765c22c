package dashboard

import (
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/config"
)

func TestAgentIsConnected(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	page := b.get(frame.AgentsPath).want(200, "no key yet", "Claude Code", origin+"/mcp", "action=tool.called")
	form := url.Values{"nonce": {page.nonceOf(frame.AgentsPath)}, "name": {" claude <b>"},
		"scope": {"read_write"}, "expires": {"90"}}
	b.post(frame.AgentsPath, form).want(200, "rly_live_secretkey_1", "claude &lt;b&gt;", "only time it is shown",
		"1 active key")
	if k := r.account.keys[0]; !k.Agent || k.Scope != config.ReadWrite || k.Name != "claude <b>" ||
		!k.ExpiresAt.Equal(r.now.AddDate(0, 0, 90)) {
		t.Errorf("created %+v", k)
	}
	again := b.post(frame.AgentsPath, form).want(200, "was sent before")
	if strings.Contains(again.body, "rly_live_secret") || len(r.account.keys) != 1 {
		t.Errorf("the second submission made or showed a key: %s", again.main())
	}
	r.now = r.now.AddDate(0, 0, 91)
	b = r.signedIn()
	b.get(frame.AgentsPath).want(200, "no key yet")
	form["expires"], form["nonce"] = []string{"31"}, []string{b.get(frame.AgentsPath).nonceOf(frame.AgentsPath)}
	b.post(frame.AgentsPath, form).want(400, `href="#f-expires"`)
	form["expires"], form["name"] = []string{""}, []string{" "}
	b.post(frame.AgentsPath, form).want(400, `href="#f-name"`)
}
