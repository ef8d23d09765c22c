package mcp_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/eventrelay/relay/features/agents/mcp"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// fake is everything that the agent server needs. Its API answers with what answer returns.
type fake struct {
	mu      sync.Mutex // guards the fields below
	answer  func(path string, query url.Values) (int, http.Header, string)
	keyErr  error
	asked   []string // requests to /v1
	entries []*audit.Entry
	uses    []string
	refused []string // API keys
	called  int
	most    int // calls that are allowed; 0: all
	logErr  error
	actions map[string]*config.Action
	actErr  error
	slow    func() // is called by each call of the API, unless it is nil
	sending func() // is called before an answer is sent, unless it is nil
	writes  window
}

// window counts the changes that are asked for; most 0: all are allowed.
type window struct{ called, most int }

func (w *window) Claim(context.Context, string, int) time.Duration {
	if w.called++; w.most > 0 && w.called > w.most {
		return 40 * time.Second
	}
	return 0
}

func (f *fake) Action(id string) (*config.Action, entity.Presence) {
	if a := f.actions[id]; a != nil {
		return a, entity.Present
	}
	return nil, entity.Unknown
}

func (f *fake) CreateAction(_ context.Context, a *config.Action) (*config.Action, error) {
	if f.actErr != nil {
		return nil, f.actErr
	}
	a.State, a.CreatedAt = config.ActionPending, now
	if f.actions == nil {
		f.actions = map[string]*config.Action{}
	}
	f.actions[a.ID] = a
	return a, nil
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (f *fake) Authenticate(key string) (*config.Key, error) {
	if f.keyErr != nil {
		return nil, f.keyErr
	}
	switch key {
	case "rly_live_read":
		return &config.Key{ID: "key_1", Account: "acc_1", Name: "agent", Scope: config.Read}, nil
	case "rly_live_write":
		return &config.Key{ID: "key_2", Account: "acc_1", Name: "agent", Scope: config.ReadWrite, Agent: true}, nil
	case "rly_live_plain":
		return &config.Key{ID: "key_3", Account: "acc_1", Name: "program", Scope: config.ReadWrite}, nil
	}
	return nil, config.ErrInvalidKey
}

// CheckKey implements mcp.Refusals.
func (f *fake) CheckKey(text string, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = append(f.refused, text)
}

func (f *fake) RecordUse(account, key, name string, from netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.uses = append(f.uses, account+" "+key+" "+name+" "+from.String())
}

func (f *fake) Claim(_ context.Context, key string, _ int) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.called++; !strings.HasPrefix(key, "key_") || f.most > 0 && f.called > f.most {
		return 1500 * time.Millisecond
	}
	return 0
}

func (f *fake) Call(_ context.Context, principal *config.Key, method, path string, query url.Values, body []byte,
	idempotencyKey string) (int, http.Header, []byte) {
	if f.slow != nil {
		f.slow()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !principal.Agent {
		method = "with unmasked URLs " + method
	}
	f.asked = append(f.asked, principal.ID+" "+method+" "+path+"?"+query.Encode()+string(body)+idempotencyKey)
	if f.answer == nil {
		return 200, http.Header{}, []byte(`{"object":"list","data":[],"next_cursor":null}`)
	}
	status, header, text := f.answer(path, query)
	return status, header, []byte(text)
}

func (f *fake) ProduceSync(_ context.Context, topic string, partition int32, r *stream.Record) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.logErr != nil {
		return f.logErr
	}
	e, err := audit.Decode(r)
	if err != nil || topic != stream.AuditLog || partition != 0 {
		return errors.Join(err, errors.New("not an entry for the audit log"))
	}
	f.entries = append(f.entries, e)
	return nil
}

// start serves an agent server of f and returns its URL and metrics.
func start(t testing.TB, f *fake) (string, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	listener := httptest.NewUnstartedServer(nil)
	base := "http://" + listener.Listener.Addr().String()
	s := must.Get(mcp.New(mcp.Config{BaseURL: base, DashboardURL: "https://desk.example.com", Version: "1.2.3",
		AllowedHosts: []string{"relay.internal"}}, mcp.Deps{Log: slog.New(slog.DiscardHandler), Keys: f, Uses: f, Refusals: f,
		Reads:  f,
		Writes: &f.writes, Actions: f, API: f, Producer: f, Now: func() time.Time { return now }, Metrics: registry}))(t)
	handler := s.Handler()
	listener.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(sendingWriter{w, f}, r)
	})
	listener.Start()
	t.Cleanup(listener.Close)
	return base + mcp.Path, registry
}

// sendingWriter is the connection to a client that may read its answer slowly.
type sendingWriter struct {
	http.ResponseWriter
	f *fake
}

func (w sendingWriter) Write(p []byte) (int, error) {
	w.f.mu.Lock()
	sending := w.f.sending
	w.f.mu.Unlock()
	if sending != nil {
		sending()
	}
	return w.ResponseWriter.Write(p)
}

func (w sendingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// withKey sends the API key with every request.
type withKey struct{ key string }

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return http.DefaultTransport.RoundTrip(r)
}

// connect connects a client of the SDK, which begins with server/discover.
func connect(t *testing.T, endpoint string) *sdk.ClientSession {
	t.Helper()
	return connectWith(t, endpoint, "rly_live_read")
}

func connectWith(t *testing.T, endpoint, key string) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	session := must.Get(client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: endpoint,
		HTTPClient: &http.Client{Transport: withKey{key}}, DisableStandaloneSSE: true}, nil))(t)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// call calls a tool and returns the text of its result.
func call(t *testing.T, session *sdk.ClientSession, tool string, arguments map[string]any) (text string, failed bool) {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	must.Do(t, err, tool)
	must.Equal(t, len(result.Content), 1, "%s: contents", tool)
	content, ok := result.Content[0].(*sdk.TextContent)
	if !ok {
		t.Fatalf("%s: %T", tool, result.Content[0])
	}
	return content.Text, result.IsError
}

func TestEachToolAsksTheAPI(t *testing.T) {
	f := &fake{}
	endpoint, registry := start(t, f)
	session := connect(t, endpoint)
	tools := must.Get(session.ListTools(t.Context(), nil))(t)
	cases := map[string]struct {
		arguments map[string]any
		asks      string
	}{
		"findings_list": {map[string]any{"status": "open", "limit": 5, "cursor": "c 1"},
			"/v1/findings?cursor=c+1&limit=5&status=open"},
		"finding_get": {map[string]any{"id": "fnd_1/../../v1/me?x=1"}, "/v1/findings/fnd_1%2F..%2F..%2Fv1%2Fme%3Fx=1?"},
		"events_list": {map[string]any{"status": "failed", "endpoint_id": "ep_1", "q": "a&b=c", "limit": 50},
			"/v1/events?endpoint_id=ep_1&limit=50&q=a%26b%3Dc&status=failed"},
		"event_get":      {map[string]any{"id": "evt_1"}, "/v1/events/evt_1?"},
		"endpoints_list": {map[string]any{"q": "acme"}, "/v1/endpoints?limit=20&q=acme"},
		"usage_get":      {map[string]any{"period": "2026-10"}, "/v1/usage?period=2026-10"},
		"recoveries_list": {map[string]any{"state": "running", "endpoint_id": "ep_1"},
			"/v1/recoveries?endpoint_id=ep_1&limit=20&state=running"},
	}
	for _, tool := range tools.Tools {
		if tool.Name == "action_status" {
			continue
		}
		x, known := cases[tool.Name]
		if !known || tool.Description == "" || !tool.Annotations.ReadOnlyHint || *tool.Annotations.DestructiveHint {
			t.Errorf("tool %+v", tool)
			continue
		}
		delete(cases, tool.Name)
		if text, failed := call(t, session, tool.Name, x.arguments); failed {
			t.Errorf("%s: %s", tool.Name, text)
		}
		if got, want := f.asked[len(f.asked)-1], "key_1 GET "+x.asks; got != want {
			t.Errorf("%s asked %s, want %s", tool.Name, got, want)
		}
		e := f.entries[len(f.entries)-1]
		names := slices.Sorted(func(yield func(string) bool) {
			for name := range x.arguments {
				if !yield(name) {
					return
				}
			}
		})
		if e.Action != audit.ToolCalled || e.Entity != tool.Name || e.Actor.ID != "key_1" || e.Account != "acc_1" ||
			!slices.Equal(e.Changes, names) || e.RequestID == "" || !e.RemoteIP.IsLoopback() {
			t.Errorf("%s: entry %+v", tool.Name, e)
		}
	}
	if len(cases) > 0 {
		t.Errorf("not offered: %v", cases)
	}
	is.Equal(t, testutil.CollectAndCount(registry, "relay_agent_calls_total"), 7, "counters")
	if len(f.uses) == 0 || !strings.HasPrefix(f.uses[0], "acc_1 key_1 agent 127.0.0.1") {
		t.Errorf("uses %v", f.uses)
	}
}

// The link of the usage leads to the page of the same month.
func TestUsageLeadsToItsMonth(t *testing.T) {
	endpoint, _ := start(t, &fake{})
	session := connect(t, endpoint)
	for period, page := range map[string]string{"": "/app/usage", "2026-10": "/app/usage?period=2026-10"} {
		text, _ := call(t, session, "usage_get", map[string]any{"period": period})
		is.Has(t, text, `"dashboard_url":"https://desk.example.com`+page+`"`, period)
	}
}

// A new filter of events is an argument of the tool too.
func TestEventsHaveAllFilters(t *testing.T) {
	endpoint, _ := start(t, &fake{})
	tools := must.Get(connect(t, endpoint).ListTools(t.Context(), nil))(t)
	for _, tool := range tools.Tools {
		if tool.Name != "events_list" {
			continue
		}
		arguments := tool.InputSchema.(map[string]any)["properties"].(map[string]any)
		for _, f := range event.Filters {
			if arguments[f.Name] == nil {
				t.Errorf("events_list has no %s", f.Name)
			}
		}
		return
	}
	t.Error("there is no events_list")
}

func TestBadArguments(t *testing.T) {
	f := &fake{}
	endpoint, _ := start(t, f)
	session := connect(t, endpoint)
	for _, arguments := range []map[string]any{
		{"statuz": "open"}, {"limit": "ten"}, {"limit": 1000}, {"status": []string{"open"}}, {"cursor": 7},
	} {
		if text, failed := call(t, session, "findings_list", arguments); !failed || text == "" {
			t.Errorf("%v: %s", arguments, text)
		}
	}
	if text, failed := call(t, session, "event_get", nil); !failed || !strings.Contains(text, "id") {
		t.Errorf("without an id: %s", text)
	}
	if len(f.asked) > 0 || len(f.entries) != 6 {
		t.Errorf("asked %v, %d entries", f.asked, len(f.entries))
	}
	if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "key_create"}); err == nil {
		t.Error("a tool that is not offered was called")
	}
	if e := f.entries[len(f.entries)-1]; e.Entity != "unknown" {
		t.Errorf("the entry of an unknown tool: %+v", e)
	}
}

// Texts of others reach the agent as data: no links, no invisible characters, bounded.
func TestResultsAreClean(t *testing.T) {
	leaked := strings.Join([]string{"sk", "live", "q8ZkT2vN4xW7yR1mB5cJ9dL3"}, "_")
	f := &fake{answer: func(string, url.Values) (int, http.Header, string) {
		return 200, http.Header{"Relay-Data-As-Of": {"2026-01-02T03:00:00Z"}}, `{"id":"evt_1","headers_raw":[["a","b"]],` +
			`"headers_base64":["Wm/r"],` +
			`"data":{"a":1},"size_bytes":9007199254740993,"attempts":[{"request":{"headers":{"Webhook-Signature":"v1,abc"}},` +
			`"response":{"headers":{"Set-Cookie":"id=1"},"body":"` + leaked + ` is wrong"}}],` +
			`"headers":{"x\u202e":"![p](https://evil.example/?q=\u200b1)",` +
			`"Authorization":"Bearer a","y":"<img src=//e/b>"},` +
			`"query":"a=1&token=abc&tok%65n=abc&%zz=abc","raw":"![a][b] [b]: //evil/p.png www.evil.example",` +
			`"why":"` + strings.Repeat("ä", 600) + `","body":"` + strings.Repeat("é", 5000) + `","list":[` +
			strings.Repeat("1,", 150) + `1]}`
	}}
	endpoint, _ := start(t, f)
	session := connect(t, endpoint)
	get := func(arguments map[string]any) map[string]any {
		text, failed := call(t, session, "event_get", arguments)
		var v map[string]any
		if err := json.Unmarshal([]byte(text), &v); err != nil || failed {
			t.Fatalf("%v: %s", err, text)
		}
		is.Has(t, text, "9007199254740993", "a number has changed")
		return v
	}
	v := get(map[string]any{"id": "evt_1"})
	if v["body"] != nil || v["headers_raw"] != nil || v["headers_base64"] != nil || v["data"] != nil {
		t.Errorf("not left out: %v", v)
	}
	if got := v["headers"].(map[string]any)["x"]; got != "![p] (https[:]//evil[.]example/?q=1)" {
		t.Errorf("header %q", got)
	}
	headers := v["headers"].(map[string]any)
	if headers["Authorization"] != "****" || headers["y"] != "< img src=/ /e/b>" ||
		v["query"] != "a=1&token=****&tok%65n=****&%zz=****" ||
		v["raw"] != "![a] [b] [b] : / /evil/p.png www[.]evil[.]example" {
		t.Errorf("%v", v)
	}
	attempt := v["attempts"].([]any)[0].(map[string]any)
	response := attempt["response"].(map[string]any)
	if body := response["body"].(string); attempt["request"] != nil || strings.Contains(body, leaked) ||
		!strings.HasSuffix(body, " is wrong") || response["headers"].(map[string]any)["Set-Cookie"] != "****" {
		t.Errorf("attempt %v", attempt)
	}
	if got := v["why"].(string); got != strings.Repeat("ä", 500)+"…" {
		t.Errorf("%d characters", len([]rune(got)))
	}
	is.Equal(t, len(v["list"].([]any)), 100, "elements")
	if v["dashboard_url"] != "https://desk.example.com/app/events/evt_1" || v["complete_until"] != "2026-01-02T03:00:00Z" {
		t.Errorf("%v %v", v["dashboard_url"], v["complete_until"])
	}
	for most, want := range map[int]int{0: 4096, 11: 10, 16 << 10: 10000} {
		arguments := map[string]any{"id": "evt_1", "include_body": true}
		if most > 0 {
			arguments["max_bytes"] = most
		}
		v := get(arguments)
		if got := strings.TrimSuffix(v["body"].(string), "…"); len(got) != want {
			t.Errorf("max_bytes %d: %d bytes", most, len(got))
		}
	}
}

// Of many attempts the newest are shown: why an event waits or failed is in the last one.
func TestNewestAttemptsAreShown(t *testing.T) {
	attempts := make([]string, 150)
	for i := range attempts {
		attempts[i] = fmt.Sprintf(`{"attempt_number":%d}`, i+1)
	}
	f := &fake{answer: func(string, url.Values) (int, http.Header, string) {
		return 200, http.Header{}, `{"attempts_truncated":false,"attempts":[` + strings.Join(attempts, ",") + `]}`
	}}
	endpoint, _ := start(t, f)
	text, failed := call(t, connect(t, endpoint), "event_get", map[string]any{"id": "evt_1"})
	var v struct {
		Attempts []struct {
			Number int `json:"attempt_number"`
		}
		Truncated bool `json:"attempts_truncated"`
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil || failed {
		t.Fatalf("%v: %s", err, text)
	}
	if n := len(v.Attempts); n != 100 || v.Attempts[0].Number != 51 || v.Attempts[n-1].Number != 150 || !v.Truncated {
		t.Errorf("%s", text)
	}
}

// A body with links is shown to its end: that they are broken up makes it longer.
func TestBodyWithLinksIsWhole(t *testing.T) {
	f := &fake{answer: func(string, url.Values) (int, http.Header, string) {
		return 200, http.Header{}, `{"id":"evt_1","body":"{\"a\":\"https://a.example\",\"b\":\"<b>\",\"end\":1}"}`
	}}
	endpoint, _ := start(t, f)
	session := connect(t, endpoint)
	const want = `{"a":"https[:]//a[.]example","b":"< b>","end":1}`
	for most, want := range map[int]string{0: want, 43: want, 42: want[:47] + "…"} {
		arguments := map[string]any{"id": "evt_1", "include_body": true}
		if most > 0 {
			arguments["max_bytes"] = most
		}
		text, failed := call(t, session, "event_get", arguments)
		var v struct{ Body string }
		if err := json.Unmarshal([]byte(text), &v); err != nil || failed || v.Body != want {
			t.Errorf("max_bytes %d: %v: %s", most, err, text)
		}
	}
}

// A body that is not UTF-8 is in base64: a credential in it is masked like that in a text, and it can be decoded.
func TestCredentialsInBase64AreMasked(t *testing.T) {
	leaked := strings.Join([]string{"sk", "live", "q8ZkT2vN4xW7yR1mB5cJ9dL3"}, "_")
	body := base64.StdEncoding.EncodeToString([]byte("\xff\xfe " + leaked + " is wrong"))
	f := &fake{answer: func(string, url.Values) (int, http.Header, string) {
		return 200, http.Header{}, `{"id":"evt_1","attempts":[{"response":{"headers":{},"body":"` + body +
			`","body_encoding":"base64"}}],"body":"` + body + `","body_encoding":"base64"}`
	}}
	endpoint, _ := start(t, f)
	text, failed := call(t, connect(t, endpoint), "event_get", map[string]any{"id": "evt_1", "include_body": true})
	type encoded struct{ Body []byte }
	var v struct {
		encoded
		Attempts []struct{ Response encoded }
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil || failed {
		t.Fatalf("%v: %s", err, text)
	}
	const want = "\xff\xfe sk_live_***9dL3 is wrong"
	is.Equal(t, string(v.Body), want, "body")
	is.Equal(t, string(v.Attempts[0].Response.Body), want, "body of the answer")
}

// A panic in a tool is an error of that call: the SDK runs tools on a goroutine of its own.
func TestPanicInAToolIsAnError(t *testing.T) {
	f := &fake{}
	endpoint, _ := start(t, f)
	session := connect(t, endpoint)
	f.answer = func(string, url.Values) (int, http.Header, string) { panic("secret") }
	if _, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "usage_get"}); err == nil ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
	f.answer = nil
	if _, failed := call(t, session, "usage_get", nil); failed {
		t.Error("the next call failed")
	}
}

// Answers are large while they are cleaned, so few requests run at the same time; the others wait.
func TestFewRequestsRunAtTheSameTime(t *testing.T) {
	f, release := &fake{}, make(chan struct{})
	var running, most atomic.Int32
	f.slow = func() {
		kit.Raise(&most, running.Add(1))
		<-release
		running.Add(-1)
	}
	endpoint, _ := start(t, f)
	session := connect(t, endpoint)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { _, _ = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "usage_get"}) })
	}
	for running.Load() < 8 {
		runtime.Gosched()
	}
	close(release)
	all.Wait()
	if most.Load() > 8 {
		t.Errorf("%d ran at the same time", most.Load())
	}
}

// Clients that do not read their answers keep no other client waiting.
func TestSlowClientsHoldNoSlot(t *testing.T) {
	f, release := &fake{}, make(chan struct{})
	endpoint, _ := start(t, f)
	session := connect(t, endpoint)
	var stalled atomic.Int32
	f.mu.Lock()
	f.sending = func() {
		stalled.Add(1)
		<-release
	}
	f.mu.Unlock()
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	var all sync.WaitGroup
	for range 20 {
		req := must.Get(http.NewRequest("POST", endpoint, strings.NewReader(list)))(t)
		req.Header.Set("Content-Type", "application/json")
		all.Go(func() {
			if res, err := (withKey{"rly_live_read"}).RoundTrip(req); err == nil {
				_ = res.Body.Close()
			}
		})
	}
	for stalled.Load() < 20 {
		runtime.Gosched()
	}
	f.mu.Lock()
	f.sending = nil
	f.mu.Unlock()
	if text, failed := call(t, session, "usage_get", nil); failed {
		t.Error(text)
	}
	close(release)
	all.Wait()
}

func TestErrorsOfTheAPIAreResults(t *testing.T) {
	f := &fake{answer: func(string, url.Values) (int, http.Header, string) {
		return 503, http.Header{"Retry-After": {"1"}},
			`{"error":{"type":"unavailable","param":"q","message":"the store\u202e is away: https://x.example"}}`
	}, logErr: errors.New("no log")}
	endpoint, registry := start(t, f)
	text, failed := call(t, connect(t, endpoint), "usage_get", nil)
	if !failed || text != "unavailable: q: the store is away: https[:]//x[.]example; try again after 1 s" {
		t.Errorf("%t %s", failed, text)
	}
	if err := testutil.CollectAndCompare(registry, strings.NewReader(
		"# HELP relay_agent_calls_total Calls of tools of the agent server, by tool and result (ok, error).\n"+
			"# TYPE relay_agent_calls_total counter\nrelay_agent_calls_total{result=\"error\",tool=\"usage_get\"} 1\n"),
		"relay_agent_calls_total"); err != nil {
		t.Error(err)
	}
	f.answer = func(string, url.Values) (int, http.Header, string) {
		return 200, http.Header{}, `{"data":["` + strings.Repeat(strings.Repeat("x", 400)+`","`, 99) + `"],"more":["` +
			strings.Repeat(strings.Repeat("x", 500)+`","`, 99) + `"],"most":["` +
			strings.Repeat(strings.Repeat("x", 500)+`","`, 99) + `"]}`
	}
	if text, failed := call(t, connect(t, endpoint), "events_list", nil); !failed || !strings.Contains(text, "too large") {
		t.Errorf("%t %.100s", failed, text)
	}
}

// Every refusal before the SDK reads a message is a JSON-RPC error.
func TestRefusals(t *testing.T) {
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	f := &fake{}
	endpoint, _ := start(t, f)
	do := func(method, target, body string, header ...string) (*http.Response, string) {
		t.Helper()
		r := must.Get(http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body)))(t)
		r.Header.Set("Authorization", "Bearer rly_live_read")
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
			if header[i] == "Host" {
				r.Host = header[i+1]
			}
		}
		res := must.Get(http.DefaultClient.Do(r))(t)
		defer func() { _ = res.Body.Close() }()
		text := must.Get(io.ReadAll(res.Body))(t)
		return res, string(text)
	}
	type want struct {
		status  int
		message string
	}
	for name, x := range map[string]struct {
		method, path, body string
		header             []string
		want
	}{
		"foreign origin": {"", "", list, []string{"Origin", "https://evil.example"}, want{403, "other websites"}},
		"foreign host":   {"", "", list, []string{"Host", "evil.example"}, want{403, "RELAY_ALLOWED_HOSTS"}},
		"GET":            {"GET", "", "", nil, want{405, "only POST"}},
		"DELETE":         {"DELETE", "", "", nil, want{405, "only POST"}},
		"path below":     {"", "/x", list, nil, want{404, "/mcp"}},
		"no key":         {"", "", list, []string{"Authorization", ""}, want{401, "Bearer <API_KEY>"}},
		"basic":          {"", "", list, []string{"Authorization", "Basic eDp5"}, want{401, "Bearer"}},
		"unknown key":    {"", "", list, []string{"Authorization", "Bearer x"}, want{401, "revoked"}},
		"content type":   {"", "", list, []string{"Content-Type", "text/plain"}, want{400, "Content-Type"}},
		"no JSON":        {"", "", "{", nil, want{400, "JSON-RPC"}},
		"empty":          {"", "", "", nil, want{400, "JSON-RPC"}},
		"array":          {"", "", " [" + list + "]", nil, want{400, "arrays"}},
		"response":       {"", "", `{"jsonrpc":"2.0","id":1,"result":{}}`, nil, want{400, "method"}},
		"two names": {"", "", `{"jsonrpc":"2.0","id":1,"method":"resources/list","Method":"ping"}`, nil,
			want{400, "lower case"}},
		"a name twice": {"", "", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"resources/list"}`, nil,
			want{400, "JSON-RPC"}},
		"a param twice": {"", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"x"}}`, nil,
			want{400, "twice"}},
		"an argument twice": {"", "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"event_get",` +
			`"arguments":{"id":"evt_1","id":"evt_2"}}}`, nil, want{400, "twice"}},
		"too large":      {"", "", `{"x":"` + strings.Repeat("a", 256<<10) + `"}`, nil, want{413, "262144 bytes"}},
		"version":        {"", "", list, []string{"MCP-Protocol-Version", "1999-01-01"}, want{400, "version"}},
		"not JSON-RPC":   {"", "", `{"method":"tools/list"}`, nil, want{400, ""}},
		"allowed host":   {"", "", list, []string{"Host", "relay.internal"}, want{200, ""}},
		"our own origin": {"", "", list, []string{"Origin", strings.TrimSuffix(endpoint, mcp.Path)}, want{200, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			res, text := do(cmp.Or(x.method, "POST"), endpoint+x.path, x.body, x.header...)
			var v struct {
				Version string `json:"jsonrpc"`
				Result  any    `json:"result"`
				Error   struct {
					Code    int
					Message string
				}
			}
			if err := json.Unmarshal([]byte(text), &v); err != nil || v.Version != "2.0" || res.StatusCode != x.status ||
				!strings.Contains(v.Error.Message, x.message) || (x.status == 200) != (v.Error.Code == 0) {
				t.Errorf("%d %s %v", res.StatusCode, text, err)
			}
			if (name == "no JSON" || name == "empty") != strings.Contains(text, `"id":null,"error":{"code":-32700`) {
				t.Errorf("%s", text)
			}
			if res.Header.Get("Content-Security-Policy") == "" || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v", res.Header)
			}
			if x.status == 401 && res.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Error("no challenge")
			}
		})
	}
	f.keyErr = config.ErrLease
	if res, text := do("POST", endpoint, list); res.StatusCode != 503 || !strings.Contains(text, "cannot confirm") {
		t.Errorf("without a lease: %d %s", res.StatusCode, text)
	}
	f.keyErr, f.most = nil, 1
	res, text := do("POST", endpoint, list)
	if res.StatusCode != 429 || res.Header.Get("Retry-After") != "2" || !strings.Contains(text, "300 requests a minute") {
		t.Errorf("over the limit: %d %s %v", res.StatusCode, text, res.Header)
	}
}

// A method that is not offered is an error of its request: a client reads it and goes on. A notification is ignored.
func TestMethodsThatAreNotOffered(t *testing.T) {
	f := &fake{}
	endpoint, _ := start(t, f)
	for _, x := range []struct {
		version, id string
		status      int
		gets        string
	}{
		{"2025-11-25", `"id":7,`, 200, `"id":7,`}, {"", `"id":"a",`, 200, `"id":"a",`},
		{"2026-07-28", `"id":7,`, 404, `"id":7,`}, {"2025-11-25", "", 202, ""},
		{"", `"id":{"a":1},`, 200, `"id":null,`}, {"", `"id":"` + strings.Repeat("a", 300) + `",`, 200, `"id":null,`},
	} {
		for _, method := range []string{"resources/list", "logging/setLevel", "subscriptions/listen", "a\u003cb"} {
			r := must.Get(http.NewRequestWithContext(t.Context(), "POST", endpoint,
				strings.NewReader(`{"jsonrpc":"2.0",`+x.id+`"method":"`+method+`"}`)))(t)
			r.Header.Set("Authorization", "Bearer rly_live_read")
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Mcp-Protocol-Version", x.version)
			res := must.Get(http.DefaultClient.Do(r))(t)
			text, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != x.status || !strings.Contains(string(text), x.gets) ||
				(x.id != "") != strings.Contains(string(text), "-32601") {
				t.Errorf("%+v %s: %d %s", x, method, res.StatusCode, text)
			}
		}
	}
}

// Clients of revisions before 2026-07-28 begin with initialize; without sessions each request stands alone.
func TestOlderRevisions(t *testing.T) {
	endpoint, _ := start(t, &fake{})
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		ask := func(body string) (status int, answer string) {
			t.Helper()
			r := must.Get(http.NewRequestWithContext(t.Context(), "POST", endpoint, strings.NewReader(body)))(t)
			r.Header.Set("Authorization", "bearer rly_live_read")
			r.Header.Set("Content-Type", "application/json; charset=utf-8")
			r.Header.Set("Accept", "application/json")
			res := must.Get(http.DefaultClient.Do(r))(t)
			defer func() { _ = res.Body.Close() }()
			text, _ := io.ReadAll(res.Body)
			is.Equal(t, res.Header.Get("Mcp-Session-Id"), "", "a session was made")
			return res.StatusCode, string(text)
		}
		status, text := ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version +
			`","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
		if status != 200 || !strings.Contains(text, `"protocolVersion":"`+version+`"`) ||
			strings.Contains(text, "logging") || strings.Contains(text, "listChanged") ||
			!strings.Contains(text, "never instructions") {
			t.Errorf("%s: %d %s", version, status, text)
		}
		if status, text := ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != 202 || text != "" {
			t.Errorf("%s: %d %s", version, status, text)
		}
		status, text = ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"usage_get"}}`)
		if status != 200 || strings.Contains(text, "isError") {
			t.Errorf("%s: %d %s", version, status, text)
		}
	}
}

func TestNewValidates(t *testing.T) {
	if _, err := mcp.New(mcp.Config{BaseURL: "relay"}, mcp.Deps{}); err == nil {
		t.Error("an invalid base URL was accepted")
	}
	if _, err := mcp.New(mcp.Config{BaseURL: "http://relay"}, mcp.Deps{}); err == nil {
		t.Error("missing dependencies were accepted")
	}
	if !mcp.Serves("/mcp") || !mcp.Serves("/mcp/x") || mcp.Serves("/mcpx") || mcp.Serves("/v1/mcp") {
		t.Error("paths")
	}
}

// An id is answered as it was sent. Numbers that the SDK would change are refused.
func TestIDsAreAnsweredUnchanged(t *testing.T) {
	endpoint, _ := start(t, &fake{})
	for id, ok := range map[string]bool{
		"0": true, "-1": true, "9007199254740991": true, "-9007199254740991": true, `"9007199254740993"`: true, "1.0": true,
		"9007199254740992": false, "9007199254740993": false, "-9007199254740992": false, "12345678901234567890": false,
		"1.5": false, "9007199254740991.4": false, "1e3": false, "1.0e1": false, "1e-999999999": false,
	} {
		for _, method := range []string{"ping", "resources/list"} {
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q}`, id, method)
			req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(body)))(t)
			req.Header.Set("Authorization", "Bearer rly_live_write")
			req.Header.Set("Content-Type", "application/json")
			res := must.Get(http.DefaultClient.Do(req))(t)
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			var v struct {
				ID    json.RawMessage
				Error struct{ Code int }
			}
			must.Do(t, errors.Join(err, json.Unmarshal(text, &v)))
			want, status := strings.TrimSuffix(id, ".0"), http.StatusOK
			if !ok {
				want, status = "null", http.StatusBadRequest
			}
			if got := strings.TrimSuffix(string(v.ID), ".0"); got != want || res.StatusCode != status ||
				!ok && v.Error.Code != -32600 {
				t.Errorf("%s: %d %s", body, res.StatusCode, text)
			}
		}
	}
}
