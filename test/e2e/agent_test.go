package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// agentReads calls tools of the agent server, and finds the calls in the audit log.
func agentReads(t *testing.T, c client) {
	dest := newSink(t, nil)
	ep, _, _ := c.endpoint(map[string]any{"destinations": []any{dest.URL}})
	id := c.send(ep, 1)
	tool := func(name, arguments string) (result map[string]any) {
		answer := c.must(http.StatusOK, "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+
			name+`","arguments":`+arguments+`}}`)
		content := answer["result"].(map[string]any)["content"].([]any)[0].(map[string]any)["text"].(string)
		if err := json.Unmarshal([]byte(content), &result); err != nil {
			t.Fatalf("%s: %v: %s", name, err, content)
		}
		return result
	}
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
	entries := c.must(http.StatusOK, "GET", "/v1/audit?action=tool.called", nil)["data"].([]any)
	if len(entries) != 6 {
		t.Errorf("%d entries of calls: %v", len(entries), entries)
	}
}
