package apply

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// service stands for the API: it lists two endpoints, and records what is changed.
type service struct {
	mu      sync.Mutex // guards calls
	calls   []string
	answers map[string][]int // statuses of the first calls, by method and path; then 200
	changed bool             // somebody changes each endpoint between reading and writing
	old     bool             // it cannot validate
	warned  []string         // by Options.Warn
	tenant  string           // of the key
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	call := r.Method + " " + r.URL.Path
	if r.Method != http.MethodGet {
		s.calls = append(s.calls, call+" "+string(body))
	}
	if next := s.answers[call]; len(next) > 0 {
		s.answers[call] = next[1:]
		if next[0] != http.StatusOK {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(next[0])
			fmt.Fprint(w, `{"error":{"type":"invalid_request","message":"is wrong","param":"destinations[0].url"}}`)
			return
		}
	}
	endpoint := func(n int) map[string]any {
		return map[string]any{"id": fmt.Sprint("ep_", n), "name": fmt.Sprint("e", n), "enabled": true,
			"verification": map[string]any{"secret_last4": "et-1", "mode": "enforce"},
			"destinations": []any{
				map[string]any{"id": "dst_1", "name": "kept", "url": "https://a.example/h", "headers": map[string]any{
					"X-Shop": "de", "X-Old": "1"}, "auth": map[string]any{
					"type": "basic", "username": "a", "password": "****et-1"},
					"signing": map[string]any{"schemes": []any{map[string]any{"type": "template", "header": "X-Sig",
						"algorithm": "sha256", "secret": "****et-1"}}}},
				map[string]any{"id": "dst_2", "name": nil, "url": "https://b.example/capability"}}}
	}
	ofTenant := func(n int, name string) map[string]any {
		e := endpoint(n)
		e["name"], e["tenant"] = name, "acme"
		return e
	}
	w.Header().Set("ETag", `"1"`)
	switch {
	case r.URL.Path == "/v1/me":
		_ = json.NewEncoder(w).Encode(map[string]any{"tenant": s.tenant})
	case r.URL.Path == "/v1/tenants":
		_ = json.NewEncoder(w).Encode(map[string]any{"data": []any{map[string]any{"tenant": "acme", "name": "Acme"}}})
	case strings.HasPrefix(r.URL.Path, "/v1/tenants/"):
		_ = json.NewEncoder(w).Encode(map[string]any{"tenant": "new"})
	case r.URL.Path == "/v1/endpoints/ep_3":
		_ = json.NewEncoder(w).Encode(ofTenant(3, "e1"))
	case strings.HasSuffix(r.URL.Path, "/validate"):
		if s.old { // it knows no such path
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"type":"not_found","message":"POST is not allowed here"}}`)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"warnings": []any{map[string]any{"param": "name", "message": "is odd"}}})
	case r.Method == http.MethodPatch && s.changed && r.Header.Get("If-Match") == `"1"`:
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":{"type":"conflict","message":"has changed","param":"if-match"}}`)
	case r.URL.Path == "/v1/endpoints" && r.Method == http.MethodGet:
		_ = json.NewEncoder(w).Encode(map[string]any{"data": []any{
			endpoint(1), ofTenant(3, "e1"), ofTenant(4, "e4"), endpoint(2)}})
	case r.Method == http.MethodPost:
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "ep_9", "warnings": []any{
			map[string]any{"param": "destinations[0].url", "message": "resolves to a private address"}}})
	default:
		var n int
		_, _ = fmt.Sscanf(r.URL.Path, "/v1/endpoints/ep_%d", &n)
		_ = json.NewEncoder(w).Encode(endpoint(n))
	}
}

// run applies a file and returns the changes as text.
func (s *service) run(t *testing.T, text string, o Options) (string, error) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	o.BaseURL, o.Key, o.File, o.FileName, o.Sources = server.URL, "key", strings.NewReader(text), "f.yaml", sources()
	o.Show, o.Warn = func(*Change) {}, func(text string) { s.warned = append(s.warned, text) }
	changes, err := Run(t.Context(), o)
	raw := must.Get(json.Marshal(changes))(t)
	is.Lacks(t, string(raw), "planted", "%s", raw)
	return string(raw), err
}

// Tenants that are missing are created before their endpoints, which cannot be validated before; others stay as they
// are.
func TestMissingTenantsAreCreated(t *testing.T) {
	const text = `tenants:
  - {tenant: acme, name: other}
  - {tenant: new, name: New Ltd, limits: {endpoints: 3}}
endpoints:
  - {name: new, tenant: new, destinations: [{name: kept, url: "https://a.example/h"}]}
`
	var s service
	out, err := s.run(t, text, Options{DryRun: true})
	must.Do(t, err)
	is.List(t, s.calls, []string{"POST /v1/endpoints/validate {}"}) // whether it can validate
	is.Has(t, strings.Join(s.warned, ""), "tenants that are not there yet")
	is.Has(t, out, `"action":"create","name":"","tenant":"new"`)
	s.calls = nil
	_, err = s.run(t, text, Options{})
	must.Do(t, err)
	must.Equal(t, len(s.calls), 2, s.calls)
	is.Equal(t, s.calls[0], `PUT /v1/tenants/new {"limits":{"endpoints":3},"name":"New Ltd"}`)
	is.Has(t, s.calls[1], `POST /v1/endpoints {"destinations"`)
}

const small = `endpoints:
  - name: e1
    verification: {secret: env:SECRET}
    destinations:
      - {name: kept, url: https://a.example/h, headers: {X-Shop: at}}
`

// Without Prune nothing is deleted; with it, endpoints, destinations and headers that the file does not name are.
func TestNothingIsDeletedWithoutPrune(t *testing.T) {
	var s service
	out, err := s.run(t, small, Options{DryRun: true})
	if err != nil || strings.Contains(strings.Join(s.calls, ""), "PATCH") || !strings.Contains(out,
		`"path":"destinations[kept].headers.X-Shop","old":"\"de\"",`+
			`"new":"\"at\""`) {
		t.Fatalf("dry run: %v %v\n%s", err, s.calls, out)
	}
	s.calls = nil
	if _, err = s.run(t, small, Options{}); err != nil {
		t.Fatal(err)
	}
	want := `PATCH /v1/endpoints/ep_1 {"destinations":[{"headers":{"X-Shop":"at"},"id":"dst_1"},{"id":"dst_2"}],` +
		`"verification":{"secret":"planted-secret-1"}}`
	if len(s.calls) != 1 || s.calls[0] != want {
		t.Errorf("%q, want %q", s.calls, want)
	}
	s = service{}
	if out, err = s.run(t, small, Options{Prune: true}); err != nil {
		t.Fatal(err)
	}
	want = `PATCH /v1/endpoints/ep_1 {"destinations":[{"headers":{"X-Old":null,"X-Shop":"at"},"id":"dst_1"}],` +
		`"verification":{"secret":"planted-secret-1"}}|DELETE /v1/endpoints/ep_2 `
	if got := strings.Join(s.calls, "|"); got != want || strings.Contains(out, "capability") {
		t.Errorf("%s, want %s\n%s", got, want, out)
	}
}

// A tenant chooses the names of its endpoints: none of them is taken for one of the account, or of another tenant.
func TestEndpointsOfTenants(t *testing.T) {
	const other = "endpoints:\n  - {name: e1, description: x}\n  - {name: e2, tenant: globex}\n"
	for _, c := range []struct{ key, text, want string }{
		{"", other, "PATCH /v1/endpoints/ep_1|POST /v1/endpoints|DELETE /v1/endpoints/ep_2"},
		{"", "endpoints:\n  - {name: e1, tenant: acme, description: x}\n  - {name: e1}\n",
			"PATCH /v1/endpoints/ep_3|DELETE /v1/endpoints/ep_2|DELETE /v1/endpoints/ep_4"},
		{"acme", "endpoints:\n  - {name: e1, description: x}\n", "PATCH /v1/endpoints/ep_3|DELETE /v1/endpoints/ep_4"},
	} {
		s := service{tenant: c.key}
		out, err := s.run(t, c.text, Options{Prune: true})
		var calls []string
		for _, call := range s.calls {
			calls = append(calls, strings.Join(strings.Fields(call)[:2], " "))
		}
		if got := strings.Join(calls, "|"); err != nil || got != c.want {
			t.Errorf("%q with the key of %q: %v %s, want %s\n%s", c.text, c.key, err, got, c.want, out)
		}
	}
}

// What the service shows is compared with what it stores: values that a user chose are compared whole.
func TestValuesThatAreTheSame(t *testing.T) {
	value := func(text string) (v any) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		must.Do(t, d.Decode(&v))
		return v
	}
	for _, c := range []struct {
		k          kind
		want, have string
		same       bool
	}{
		{plain, `{"a":"EUR","live":false}`, `{"a":"EUR"}`, false},
		{plain, `{"a":"EUR"}`, `{"a":"EUR","live":null}`, false},
		{plain, `[]`, `null`, true},
		{plain, `{}`, `null`, true},
		{plain, `{"a":[]}`, `{"a":null}`, false},
		{operations, `{"ops":[]}`, `null`, true},
		{plain, `{"n":1.0}`, `{"n":1}`, true},
		{plain, `{"n":9007199254740993}`, `{"n":9007199254740992}`, false},
		{operations, `{"ops":[{"op":"add","value":{"a":1,"b":false}}]}`, `{"ops":[{"op":"add","value":{"a":1}}]}`, false},
		{operations, `{"ops":[{"op":"add","value":null}]}`, `{"ops":[{"op":"add"}]}`, false},
		{operations, `{"ops":[{"op":"drop","required":false}]}`, `{"ops":[{"op":"drop"}]}`, true},
		{address, `"https://bücher.example/h?shop=Müller"`, `"https://xn--bcher-kva.example/h?shop=M%C3%BCller"`, true},
		{address, `"https://A.example:443/h"`, `"https://a.example/h"`, true},
		{address, `"http://a.example:443/h"`, `"http://a.example/h"`, false},
		{plain, `{"n":9007199254740993}`, `{"n":"9007199254740993"}`, false},
		{timestamp, `"2026-12-01t08:00:00"`, `"2026-12-01T08:00:00.000Z"`, true},
		{timestamp, `"2026-12-01"`, `"2026-12-01T00:00:00.000Z"`, true},
	} {
		if got := same(value(c.want), value(c.have), c.k); got != c.same {
			t.Errorf("%s and %s: %v, want %v", c.want, c.have, got, c.same)
		}
	}
}

// The secrets of a destination's settings are compared with their masks, and sent with each run.
func TestSettingsOfADestination(t *testing.T) {
	for auth, want := range map[string]string{
		"{type: basic, username: a, password: env:SECRET}": `"unchanged","name":"e1"`,
		"{type: basic, username: b, password: env:SECRET}": `"path":"destinations[kept].auth.username","old":"\"a\""`,
		"{type: basic, username: a, password: file:/run/token}": `"path":"destinations[kept].auth.password",` +
			`"old":"\"****et-1\"","new":"file:/run/token"`,
	} {
		var s service
		out, err := s.run(t, "endpoints:\n  - name: e1\n    destinations:\n      - {name: kept, auth: "+auth+"}\n",
			Options{})
		sent := strings.Join(s.calls, "")
		if err != nil || !strings.Contains(out, want) || !strings.Contains(sent, `"password":"planted-`) {
			t.Errorf("%s: %v %s %s", auth, err, out, s.calls)
		}
	}
}

// Of the schemes of a signature the file names some members. Their secrets are references, and never shown.
func TestSigningSchemes(t *testing.T) {
	scheme := "{type: template, header: X-Sig, secret: env:SECRET}"
	for schemes, want := range map[string]string{
		"[" + scheme + "]":                  `"unchanged","name":"e1"`,
		"[{type: svix}, " + scheme + "]":    `"path":"destinations[kept].signing.schemes"`,
		"[{type: template, header: X-New}]": `"path":"destinations[kept].signing.schemes"`,
	} {
		var s service
		out, err := s.run(t, "endpoints:\n  - name: e1\n    destinations:\n      - {name: kept, signing: {schemes: "+
			schemes+"}}\n", Options{})
		if err != nil || !strings.Contains(out, want) || strings.Contains(out, "planted-secret") {
			t.Errorf("%s: %v %s", schemes, err, out)
		}
	}
	var s service
	_, err := s.run(t, "endpoints:\n  - name: e1\n    destinations:\n      - {name: kept, signing: {schemes: "+
		"[{type: template, header: X-Sig, secret: plain}]}}\n", Options{})
	if err == nil || !strings.Contains(err.Error(), "schemes[0].secret is a secret and must be a reference") {
		t.Error(err)
	}
}

// A refused value is shown with its place. What was made before is marked, what comes after is not made, and the same
// file then finishes.
func TestAFailureSaysWhereAndWhatIsDone(t *testing.T) {
	text := "endpoints:\n  - {name: new, destinations: [https://c.example]}\n  - name: e2\n    enabled: false\n" +
		"    destinations:\n      - url: https://d.example\n  - {name: e1, enabled: false}\n"
	s := service{answers: map[string][]int{"PATCH /v1/endpoints/ep_2": {400}}}
	out, err := s.run(t, text, Options{})
	if err == nil || !strings.HasPrefix(err.Error(),
		"f.yaml:6:14: change endpoint e2 (ep_2): destinations[0].url: is wrong") {
		t.Errorf("%v", err)
	}
	if strings.Count(out, `"done":true`) != 1 || len(s.calls) != 2 || !strings.Contains(out,
		"resolves to a private address") {
		t.Errorf("%s\n%v", out, s.calls)
	}
	s.answers = nil
	if out, err = s.run(t, text, Options{}); err != nil || strings.Count(out, `"done":true`) != 3 {
		t.Errorf("%v\n%s", err, out)
	}
}

// A dry run has the service validate all changes with the bodies of the real ones, and changes nothing. It reports
// every refused value.
func TestADryRunValidates(t *testing.T) {
	text := "endpoints:\n  - {name: new, destinations: [https://c.example]}\n  - name: e2\n    enabled: false\n" +
		"    destinations:\n      - url: https://d.example\n  - {name: e1, verification: {secret: env:SECRET}}\n"
	s := service{answers: map[string][]int{
		"POST /v1/endpoints/validate": {400, 400}, "POST /v1/endpoints/ep_2/validate": {400}}}
	out, err := s.run(t, text, Options{DryRun: true})
	if err == nil || !strings.HasPrefix(err.Error(), "f.yaml:2:32: create endpoint new: destinations[0].url: is wrong") ||
		!strings.Contains(err.Error(), "\nf.yaml:6:14: change endpoint e2 (ep_2): destinations[0].url: is wrong") {
		t.Errorf("%v\n%s", err, out)
	}
	want := "POST /v1/endpoints/validate {}|" +
		`POST /v1/endpoints/validate {"destinations":[{"url":"https://c.example"}],"name":"new"}|` +
		`POST /v1/endpoints/ep_2/validate {"destinations":[{"url":"https://d.example"},{"id":"dst_1"},{"id":"dst_2"}],` +
		`"enabled":false}|POST /v1/endpoints/ep_1/validate {"verification":{"secret":"planted-secret-1"}}`
	if got := strings.Join(s.calls, "|"); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if len(s.warned) != 0 || strings.Contains(out, `"done":true`) || !strings.Contains(out, "name is odd") {
		t.Errorf("%q\n%s", s.warned, out)
	}
}

// Without a service that validates, or the right to have it validate, a dry run says so and compares.
func TestADryRunSaysThatItDoesNotValidate(t *testing.T) {
	for want, s := range map[string]*service{
		"older than this program": {old: true},
		"is wrong":                {answers: map[string][]int{"POST /v1/endpoints/validate": {403}}},
	} {
		out, err := s.run(t, small, Options{DryRun: true})
		if err != nil || len(s.calls) != 1 || len(s.warned) != 1 || !strings.Contains(s.warned[0], want) ||
			!strings.Contains(out, "headers.X-Shop") {
			t.Errorf("%s: %v %q %q\n%s", want, err, s.calls, s.warned, out)
		}
	}
}

// A dry run does not go on asking a service that is not there, and shows all changes.
func TestADryRunEndsWithTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, refusals := range [][]int{{503, 503, 503, 503, 503, 503}, {400, 503, 503, 503, 503, 503, 503}} {
			s := &service{answers: map[string][]int{"POST /v1/endpoints/validate": refusals}}
			shown := 0
			c := &client{base: "http://relay", http: &http.Client{Transport: transport{s}}}
			changes := []*Change{{Action: Create, Name: "a"}, {Action: Create, Name: "b"}}
			f := &file{endpoints: []*entry{{}, {}}}
			err := validate(t.Context(), c, f, Options{Show: func(*Change) { shown++ }}, changes)
			if err == nil || shown != 2 || len(s.calls) != len(refusals) {
				t.Errorf("%v, %d shown, %d calls", err, shown, len(s.calls))
			}
		}
	})
}

// What somebody else has changed since it was compared is not overwritten.
func TestAStaleComparisonIsAConflict(t *testing.T) {
	s := service{changed: true}
	_, err := s.run(t, "endpoints:\n  - {name: e1, enabled: false}", Options{})
	is.Failed(t, err, "somebody else has changed this endpoint")
}

// An overloaded service is asked again after the time that it names.
func TestAnOverloadedServiceIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{answers: map[string][]int{"POST /v1/endpoints": {503, 429}}}
		c := &client{base: "http://relay", http: &http.Client{Transport: transport{s}}}
		began := time.Now()
		must.Get(c.do(t.Context(), http.MethodPost, "/v1/endpoints", map[string]any{}, ""))(t)
		if took := time.Since(began); took != 6*time.Second || len(s.calls) != 3 {
			t.Errorf("%v, %q", took, s.calls)
		}
	})
}

// transport answers without a network.
type transport struct{ http.Handler }

func (h transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// No proxy of the environment reads the key and the secrets.
func TestProxyIsIgnored(t *testing.T) {
	asked := make(chan string, 10)
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Host }))
	defer proxy.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		t.Setenv(name, proxy.URL) // net/http reads it once in a process
	}
	c := must.Get(newClient("http://relay.invalid", "key"))(t)
	if _, _, err := c.try(t.Context(), http.MethodGet, "/v1/endpoints", nil, "", ""); err == nil || len(asked) > 0 {
		t.Errorf("%v, %d requests to the proxy", err, len(asked))
	}
	if c.http.Transport.(*http.Transport).Proxy != nil { // it may have been read before
		t.Error("the client has a proxy")
	}
}
