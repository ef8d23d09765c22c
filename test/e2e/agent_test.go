package e2e

import (
	"encoding/json"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// agentReads calls tools of the agent server, and finds the calls in the audit log.
func agentReads(t *testing.T, p *process) {
	c := p.forTest(t)
	dest := newSink(t, nil)
	ep, _, _ := c.endpoint(map[string]any{"destinations": []any{dest.URL}})
	id := c.send(ep, 1)
	tool := c.tool
	if e := tool("event_get", `{"id":"`+id+`","include_body":true}`); e["id"] != id ||
		!strings.Contains(e["body"].(string), "order.paid") {
		t.Errorf("event %v", e)
	}
	if rows := tool("events_list", `{"endpoint_id":"`+ep+`"}`)["data"].([]any); len(rows) != 1 {
		t.Errorf("events %v", rows)
	}
	if row := tool("endpoints_list", `{"limit":1}`)["data"].([]any)[0].(map[string]any); row["id"] == nil {
		t.Errorf("endpoint %v", row)
	}
	for _, name := range []string{"findings_list", "recoveries_list"} {
		if list := tool(name, `{}`); list["data"] == nil {
			t.Errorf("%s: %v", name, list)
		}
	}
	if usage := tool("usage_get", `{}`); usage["period_start"] == nil {
		t.Errorf("usage %v", usage)
	}
	agentAsksForAReplay(t, p, c, id, tool)
	entries := c.must(http.StatusOK, "GET", "/v1/audit?action=tool.called", nil)["data"].([]any)
	is.Equal(t, len(entries), 8, "entries of calls: %v", entries)
}

// tool calls a tool of the agent server and returns its result.
func (c client) tool(name, arguments string) (result map[string]any) {
	c.t.Helper()
	content := ""
	eventually(c.t, arrival, func() string { // an agent asks again, too
		answer := c.must(http.StatusOK, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+
			name+`","arguments":`+arguments+`}}`)
		content = answer["result"].(map[string]any)["content"].([]any)[0].(map[string]any)["text"].(string)
		if strings.HasPrefix(content, "unavailable: ") {
			return content
		}
		return ""
	})
	must.Do(c.t, json.Unmarshal([]byte(content), &result), "%s: %s", name, content)
	return result
}

// agentAsksForAReplay asks for a replay of an event, approves it in the dashboard twice, and finds one run.
func agentAsksForAReplay(t *testing.T, p *process, c client, id string,
	tool func(name, arguments string) map[string]any) {
	t.Helper()
	c.awaitStatus(id, "delivered", arrival)
	asked := tool("event_replay", `{"id":"`+id+`","note":"the receiver lost it"}`)
	path, ok := strings.CutPrefix(asked["confirm_url"].(string), p.url)
	if !ok || asked["status"] != "confirmation_required" {
		t.Fatalf("asked %v", asked)
	}
	b := newBrowser(t, p.url)
	b.want(c, 303, "/app/password", "", "POST", addPerson(t, p, "agents@example.com"), nil)
	b.want(c, 303, "/app", "", "POST", "/app/password", newPassword)
	decision := b.decisionOn(c, path)
	replays := func() (runs []string) {
		for _, run := range c.must(http.StatusOK, "GET", "/v1/replays", nil)["data"].([]any) {
			if run := run.(map[string]any); run["filter"].(map[string]any)["event_id"] == id {
				runs = append(runs, run["run_id"].(string))
			}
		}
		return runs
	}
	if runs := replays(); len(runs) != 0 {
		t.Fatalf("replayed before the approval: %v", runs)
	}
	for range 2 {
		b.want(c, 303, path, "", "POST", path+"/approve", decision)
	}
	b.want(c, 200, "", "Done, approved", "GET", path, nil)
	runs := replays()
	done := tool("action_status", `{"action_id":"`+asked["action_id"].(string)+`"}`)
	if len(runs) != 1 || done["state"] != "done" || done["result"] != runs[0] {
		t.Errorf("runs %v, the act %v", runs, done)
	}
}

// decisionOn opens the page of a change that an agent asks for, and returns the form that decides on it.
func (b *browser) decisionOn(to client, path string) url.Values {
	b.t.Helper()
	res, body, err := b.send(to, http.MethodGet, path, nil)
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(body, "Nothing has been changed") {
		b.t.Fatalf("%s: %v %s", path, err, body)
	}
	_, text, _ := strings.Cut(body, path+`/approve"><input type="hidden" name="nonce" value="`)
	nonce, _, _ := strings.Cut(text, `"`)
	return url.Values{"nonce": {nonce}}
}
