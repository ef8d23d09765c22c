package mcp_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// Any message gets an answer below 500, and only tools of changes write anything.
func FuzzMessage(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"events_list","arguments":{"limit":1,"q":"a"}}}`,
		`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"event_replay","arguments":{"id":"evt_1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"id":{}}`, "null", "",
		`{"jsonrpc":"2.0","id":1,"method":1}`, `{"jsonrpc":"2.0","id":1,"method":["tools/list"]}`,
	} {
		f.Add("2025-06-18", "application/json", []byte(body))
	}
	server := &fake{}
	endpoint, _ := start(f, server)
	f.Fuzz(func(t *testing.T, version, contentType string, body []byte) {
		req := must.Get(http.NewRequestWithContext(t.Context(), "POST", endpoint, strings.NewReader(string(body))))(t)
		req.Header.Set("Authorization", "Bearer rly_live_read")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Content-Type", contentType)
		req.Header.Set("Mcp-Protocol-Version", version)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Skip("net/http does not send this") // a header with a control character
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= 500 {
			t.Fatalf("%d %v: %s", res.StatusCode, err, answer)
		}
		server.mu.Lock()
		defer server.mu.Unlock()
		if len(server.actions) > 0 {
			t.Fatalf("a read key asked for a change: %s", body)
		}
		server.entries, server.uses, server.asked = nil, nil, nil
	})
}
