package mcp_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

var update = flag.Bool("update", false, "write the golden files and the transcript in docs/start/agents.md")

// tape sends requests with an API key and records them with their answers, as they are on the wire.
type tape struct {
	key string
	mu  sync.Mutex // guards log
	log bytes.Buffer
}

// recorded are the headers that a golden file shows.
var recorded = []string{"Host", "Origin", "Authorization", "Accept", "Content-Type", "Mcp-Protocol-Version",
	"Mcp-Method", "Mcp-Name", "Www-Authenticate", "Retry-After", "Mcp-Session-Id"}

func (x *tape) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	if x.key != "" {
		r.Header.Set("Authorization", "Bearer "+x.key)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(answer))
	x.mu.Lock()
	defer x.mu.Unlock()
	write := func(mark, first string, h http.Header, body []byte) {
		fmt.Fprintf(&x.log, "%s %s\n", mark, first)
		for _, name := range recorded {
			if v := h.Get(name); v != "" {
				fmt.Fprintf(&x.log, "%s %s: %s\n", mark, name, v)
			}
		}
		if len(body) > 1000 && bytes.Contains(body, []byte("aaaaaaaa")) {
			body = []byte(fmt.Sprintf("(%d bytes)", len(body)))
		}
		fmt.Fprintf(&x.log, "%s\n%s %s\n", mark, mark, bytes.TrimSpace(body))
	}
	sent := r.Header.Clone()
	if r.Host != "" && r.Host != r.URL.Host {
		sent.Set("Host", r.Host)
	}
	write(">", r.Method+" "+r.URL.Path, sent, body)
	write("<", res.Status, res.Header, answer)
	x.log.WriteString("\n")
	return res, err
}

var (
	randomIDs   = regexp.MustCompile(`(act|req)_[0-9a-z]{20,}`)
	randomHosts = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// stable returns a recording without what differs from run to run.
func stable(text string) string {
	return randomHosts.ReplaceAllString(randomIDs.ReplaceAllString(text, "${1}_1"), "relay.example.com")
}

// compareGolden compares a text with a file in testdata.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
	is.Equal(t, got, string(want), "%s is not what is sent now: go test ./features/agents/mcp -update shows the "+
		"difference", path)
}

// What the SDK's client of 2026-07-28 sends and gets, with a key that reads, one of an agent, and one of a program that
// may write under /v1: here it asks too.
func TestGoldenOfTheSDKsClient(t *testing.T) {
	for name, key := range map[string]string{"sdk-read-key.txt": "rly_live_read", "sdk-agent-key.txt": "rly_live_write",
		"sdk-read-write-key.txt": "rly_live_plain"} {
		f := &fake{answer: resources}
		endpoint, _ := start(t, f)
		x := &tape{key: key}
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		session := must.Get(client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: endpoint,
			HTTPClient: &http.Client{Transport: x}, DisableStandaloneSSE: true}, nil))(t)
		must.Get(session.ListTools(t.Context(), nil))(t)
		call(t, session, "event_get", map[string]any{"id": "evt_1"})
		text, _ := call(t, session, "event_replay", map[string]any{"id": "evt_1"})
		if i := strings.Index(text, "act_"); i >= 0 {
			call(t, session, "action_status", map[string]any{"action_id": text[i : i+strings.IndexByte(text[i:], '"')]})
		}
		compareGolden(t, name, stable(x.log.String()))
	}
}

// Messages of every revision as they are on the wire, and each refusal. A program that holds the key cannot answer for
// the person, whatever it sends.
func TestGoldenMessages(t *testing.T) {
	const (
		list  = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		usage = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"usage_get"}}`
		yes   = `"inputResponses":{"confirm":{"action":"accept","content":{"confirm":true}}},"requestState":"e30"`
		self  = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"event_replay","arguments":{"id":"evt_1"},` +
			yes + `}}`
		more = `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"event_replay","arguments":{"id":"evt_1",` +
			`"approved":true}}}`
	)
	begin := func(version string) string {
		return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version +
			`","capabilities":{"elicitation":{}},"clientInfo":{"name":"test","version":"1"}}}`
	}
	type message struct {
		key, body string
		header    []string
	}
	for name, messages := range map[string][]message{
		"older-revisions.txt": {
			{"rly_live_read", begin("2025-03-26"), nil}, {"rly_live_read", begin("2025-06-18"), nil},
			{"rly_live_read", begin("2025-11-25"), nil}, {"rly_live_read", begin("1999-01-01"), nil},
			{"rly_live_read", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil},
			{"rly_live_read", usage, []string{"Mcp-Protocol-Version", "2025-06-18"}},
		},
		"self-answered.txt": {{"rly_live_write", self, nil}, {"rly_live_write", more, nil}, {"rly_live_plain", self, nil},
			{"rly_live_read", self, nil}},
		"refusals.txt": {
			{"", list, nil}, {"rly_live_revoked", list, nil},
			{"rly_live_read", list, []string{"Origin", "https://evil.example"}},
			{"rly_live_read", list, []string{"Host", "evil.example"}},
			{"rly_live_read", `{"x":"` + strings.Repeat("a", 256<<10) + `"}`, nil},
			{"rly_live_read", "[" + list + "]", nil},
			{"rly_live_read", list, []string{"Mcp-Protocol-Version", "1999-01-01"}},
			{"rly_live_read", `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, nil},
			{"rly_live_read", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"key_create"}}`, nil},
		},
	} {
		f := &fake{answer: resources}
		endpoint, _ := start(t, f)
		var all strings.Builder
		for _, m := range messages {
			x := &tape{key: m.key}
			r := must.Get(http.NewRequestWithContext(t.Context(), "POST", endpoint, strings.NewReader(m.body)))(t)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			for i := 0; i < len(m.header); i += 2 {
				r.Header.Set(m.header[i], m.header[i+1])
				if m.header[i] == "Host" {
					r.Host = m.header[i+1]
				}
			}
			res := must.Get((&http.Client{Transport: x}).Do(r))(t)
			_ = res.Body.Close()
			all.WriteString(x.log.String())
		}
		compareGolden(t, name, stable(all.String()))
		for _, a := range f.actions {
			if a.State != config.ActionPending || a.Approved {
				t.Errorf("%s: approved without a person: %+v", name, a)
			}
		}
		for _, asked := range f.asked {
			is.Has(t, asked, " GET ", name)
		}
	}
}
