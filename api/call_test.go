package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// person returns a user of the shared configuration in the form in which a session passes it to Call.
func person(t testing.TB, email string, scope config.Scope) *config.Key {
	t.Helper()
	for _, u := range configuration.Users() {
		if u.Email == email {
			return &config.Key{ID: u.ID, Account: u.Account, Name: u.Email, Scope: scope}
		}
	}
	_, u, err := configuration.AddUser(t.Context(), email, scope)
	must.Do(t, err)
	return &config.Key{ID: u.ID, Account: u.Account, Name: u.Email, Scope: scope}
}

// call makes a call in the process for a page's request from 192.0.2.1. target is a path with an optional query.
func (c *client) call(who *config.Key, method, target string, body any, nonce string) *answer {
	c.t.Helper()
	return c.callCtx(c.t.Context(), who, method, target, body, nonce)
}

func (c *client) callCtx(ctx context.Context, who *config.Key, method, target string, body any, nonce string) *answer {
	c.t.Helper()
	text, isText := body.(string)
	if !isText && body != nil {
		raw := must.Get(json.Marshal(body))(c.t)
		text = string(raw)
	}
	path, rawQuery, _ := strings.Cut(target, "?")
	query := must.Get(url.ParseQuery(rawQuery))(c.t)
	a := &answer{t: c.t, call: "Call " + method + " " + path}
	front := &web.Front{}
	w := httptest.NewRecorder()
	front.Wrap(func(_ http.ResponseWriter, r *http.Request) error {
		a.Status, a.Header, a.raw = c.api.Call(r.Context(), who, method, path, query, []byte(text), nonce)
		return nil
	}).ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", "/app/page", nil))
	if id := w.Header().Get("X-Request-Id"); a.Header.Get("X-Request-Id") != id {
		c.t.Errorf("%s: request id %s, the page has %s", a.call, a.Header.Get("X-Request-Id"), id)
	}
	must.Do(c.t, json.Unmarshal(a.raw, &a.Body), "%s: %s", a.call, a.raw)
	a.described(method, path)
	return a
}

// filled returns a path with the ids of existing things.
func filled(path string, ids map[string]string) string {
	if path == "/v1/fixtures/export" {
		path += "?ids={fixture}"
	}
	for name, id := range ids {
		path = strings.ReplaceAll(path, "{"+name+"}", id)
	}
	return path
}

// sameTextOrTime reports whether two texts are equal, or are times of two calls that follow each other.
func sameTextOrTime(a, b string) bool {
	at, err := time.Parse(time.RFC3339Nano, a)
	bt, err2 := time.Parse(time.RFC3339Nano, b)
	return a == b || err == nil && err2 == nil && at.Sub(bt).Abs() < time.Hour
}

// Every route gives the same status and JSON over HTTP and in the process: reads of what exists, and the refusals of
// every write, for a wrong body and for an unknown id.
func TestCallAnswersAsHTTPDoes(t *testing.T) {
	c := newClient(t)
	who := person(t, "routes@example.com", config.ReadWrite)
	ep := c.endpoint(nil)
	job := c.do("POST", "/v1/recoveries",
		map[string]any{"endpoint_id": ep.text("id"), "since": since(), "rate_per_second": 1})
	run := c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep.text("id"), "since": since()}).want(200)
	_, received := c.receive("github", time.Now(), "{}", func(*event.Event) {})
	known := map[string]string{"endpoint": ep.text("id"), "destination": ep.text("destinations.0.id"),
		"event": received.Text(id.Event), "recovery": job.want(201).text("id"), "run": run.text("run_id"),
		"drain": c.drain("routes").text("id"), "finding": c.finding(),
		"domain": c.domain("routes.example.com").text("id"),
		"scan":   c.scan("scan.example.com").text("id"),
		"dsn":    c.dsn("routes").text("id"),
		"tenant": c.tenant("routes"), "event_type": c.eventType("routes"), "issue": c.issue("http_500"),
		"key": "nope", "link": "nope",
		"fixture": c.fixture(`{}`).text("id"), "tripwire": c.tripwire("key").text("id")}
	unknown := map[string]string{}
	for name := range known {
		unknown[name] = "nope"
	}
	compare := func(method, target, body string) int {
		t.Helper()
		over := c.do(method, target, body)
		in := c.call(who, method, target, body, "")
		for _, a := range []*answer{over, in} {
			if e, ok := a.Body["error"].(map[string]any); ok {
				delete(e, "request_id")
			}
			delete(a.Body, "suite_id") // each export has its own
		}
		if diff := gocmp.Diff(over.Body, in.Body, gocmp.Comparer(sameTextOrTime)); over.Status != in.Status || diff != "" {
			t.Errorf("%s %s: %d over HTTP, %d in the process\n%s", method, target, over.Status, in.Status, diff)
		}
		return in.Status
	}
	for path, methods := range api.Routes(c.api) {
		for _, method := range methods {
			switch {
			case path == "/v1/endpoints/{endpoint}/stream":
				c.call(who, "GET", filled(path, known), nil, "").wantError(400, "invalid_request", "")
			case strings.HasSuffix(path, "/pull"):
				c.call(who, "GET", filled(path, known), nil, "").wantError(400, "invalid_request", "consumer")
			case path == "/v1/me":
				me := c.call(who, "GET", path, nil, "").want(200)
				if me.text("key_id") != who.ID || me.text("key_name") != who.Name || me.text("scope") != "read_write" {
					t.Errorf("%s", me.raw)
				}
			case method == "GET":
				is.Equal(t, compare(method, filled(path, known), ""), 200, "%s %s", method, path)
			case method != "DELETE":
				if status := compare(method, filled(path, known), "{"); status != 400 && path != "/v1/alerts/test" {
					t.Errorf("%s %s with half a body: %d", method, path, status)
				}
			}
			if path != "/v1/endpoints/{endpoint}/stream" && method != "PUT" && strings.Contains(path, "{") {
				is.Equal(t, compare(method, filled(path, unknown), "{}"), 404, "%s %s of an unknown id", method, path)
			}
		}
	}
	for _, path := range []string{"/healthz", "/v1", "/v1/nope", "/v1/events%2f..", "/docs"} {
		if status, _, body := c.api.Call(t.Context(), who, "GET", path, nil, nil, ""); status != 404 {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	c.call(who, "PUT", "/v1/events", nil, "").wantError(404, "not_found", "")
	c.call(who, "GET", "/v1/events?limit=x", nil, "").wantError(400, "invalid_request", "limit")
	if len(c.fake.uses) == 0 || strings.Contains(strings.Join(c.fake.uses, " "), who.ID) {
		t.Errorf("a session counts as the use of a key: %q", c.fake.uses)
	}
}

// A nonce is an Idempotency-Key: a form that is sent twice does its work once, and only the person who sent it sees
// its secret again.
func TestCallRepeats(t *testing.T) {
	c := newClient(t)
	who, other := person(t, "one@example.com", config.ReadWrite), person(t, "two@example.com", config.ReadWrite)
	body := map[string]any{"destinations": []string{"https://example.com/h"}}
	nonce := strconv.FormatInt(time.Now().UnixNano(), 36)
	first := c.call(who, "POST", "/v1/endpoints", body, nonce).want(201)
	again := c.call(who, "POST", "/v1/endpoints", body, nonce).want(201)
	if string(again.raw) != string(first.raw) || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%v %s\n%s", again.Header, again.raw, first.raw)
	}
	secret := first.text("destinations.0.signing.secret")
	if a := c.call(other, "POST", "/v1/endpoints", body, nonce).want(201); strings.Contains(string(a.raw), secret) ||
		a.text("id") != first.text("id") {
		t.Errorf("%s", a.raw)
	}
	c.call(who, "POST", "/v1/endpoints", map[string]any{}, nonce).wantError(400, "idempotency_mismatch", "Idempotency-Key")
	c.call(who, "POST", "/v1/endpoints", body, "\n").wantError(400, "invalid_request", "Idempotency-Key")
}

// The audit log shows a change through a page with the person, and the request id and address of the page's request.
func TestCallIsAudited(t *testing.T) {
	c := newClient(t)
	who := person(t, "audited@example.com", config.ReadWrite)
	ep := c.endpoint(nil).text("id")
	changed := c.call(who, "PATCH", "/v1/endpoints/"+ep, `{"name":"x"}`, "").want(200)
	a := c.do("GET", "/v1/audit?entity_id="+ep, nil).want(200)
	if a.text("data.0.actor.type") != "user" || a.text("data.0.actor.id") != who.ID ||
		a.text("data.0.actor.name") != "audited@example.com" || a.text("data.0.remote_ip") != "192.0.2.1" ||
		a.text("data.0.request_id") != changed.Header.Get("X-Request-Id") {
		t.Errorf("%s", a.raw)
	}
	job := c.call(who, "POST", "/v1/recoveries",
		map[string]any{"endpoint_id": ep, "since": since(), "rate_per_second": 1}, "")
	is.Equal(t, job.want(201).text("created_by"), who.ID, "%s", job.raw)
}

// A person with the scope read changes nothing and sees the masks of a read key.
func TestCallOfAReader(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(map[string]any{"destinations": []string{"https://example.com/h?token=0123456789wxyz"}})
	reader, writer := person(t, "reader@example.com", config.Read), person(t, "writer@example.com", config.ReadWrite)
	target := "/v1/endpoints/" + ep.text("id")
	if in, over := c.call(reader, "GET", target, nil, ""), c.as(readKey).do("GET", target, nil); in.want(200).text(
		"ingest_url") != over.text("ingest_url") || in.text("destinations.0.url") != "https://example.com/****" {
		t.Errorf("%s", in.raw)
	}
	if a := c.call(writer, "GET", target, nil, "").want(200); a.text("ingest_url") != ep.text("ingest_url") {
		t.Errorf("%s", a.raw)
	}
	for path, methods := range api.Routes(c.api) {
		for _, method := range methods {
			if method != "GET" && !strings.HasSuffix(path, "/preview") {
				c.call(reader, method, filled(path, map[string]string{"endpoint": "nope"}), "{", "n").wantError(
					403, "insufficient_scope", "")
			}
		}
	}
}

// A person has rate limits of their own, with the headers of a key's.
func TestCallIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, withRates(2, 2, 2), withConfig(fixedKeys{}))
		who := &config.Key{ID: "usr_1", Account: "acc_1", Scope: config.Read}
		for range 2 {
			h := c.call(who, "GET", "/v1/me", nil, "").want(200).Header
			is.Equal(t, h.Get("X-RateLimit-Limit"), "2", h)
		}
		a := c.call(who, "GET", "/v1/me", nil, "").wantError(429, "rate_limited", "")
		if a.Header.Get("Retry-After") != "1" || !strings.HasPrefix(a.text("error.message"), "you may make 2 requests") {
			t.Errorf("%v %s", a.Header, a.raw)
		}
		c.call(&config.Key{ID: "usr_2", Account: "acc_1", Scope: config.Read}, "GET", "/v1/me", nil, "").want(200)
		c.do("GET", "/v1/me", nil).want(200)
	})
}

// A handler that panics answers 500, and the page goes on.
func TestCallSurvivesAPanic(t *testing.T) {
	c := newClient(t)
	c.fake.EventsFunc = func(context.Context, event.Query) (event.Page, error) { panic("hunter2") }
	a := c.call(person(t, "panics@example.com", config.Read), "GET", "/v1/events", nil, "").wantError(500, "internal", "")
	if strings.Contains(c.log.String()+string(a.raw), "hunter2") || !strings.Contains(c.log.String(), "handler panicked") {
		t.Errorf("%s %s", c.log, a.raw)
	}
}

// A replay checks the session before each page: it ends when the session ended or may only read.
func TestCallReplayChecksTheSession(t *testing.T) {
	c := newClient(t)
	who := person(t, "replays@example.com", config.ReadWrite)
	ep := c.endpoint(nil).text("id")
	for range 501 {
		c.send(ep)
	}
	body := map[string]any{"endpoint_id": ep, "since": since()}
	if a := c.call(who, "POST", "/v1/replays", body, "").want(200); a.get("queued") != 501.0 {
		t.Errorf("%s", a.raw)
	}
	f := func(status int, kind string, second func() (*config.Key, error)) {
		t.Helper()
		checks := 0
		ctx := config.WithSessionCheck(t.Context(), func() (*config.Key, error) {
			if checks++; checks > 1 {
				return second()
			}
			return who, nil
		})
		a := c.callCtx(ctx, who, "POST", "/v1/replays", body, "").wantError(status, kind, "")
		if a.get("error.queued") != 500.0 {
			t.Errorf("%s", a.raw)
		}
	}
	f(401, "authentication_required", func() (*config.Key, error) { return nil, config.ErrNotFound })
	f(403, "insufficient_scope", func() (*config.Key, error) { return person(t, "replays@example.com", config.Read), nil })
}

// BenchmarkCall compares a read over HTTP, without the network, with a call in the process.
func BenchmarkCall(b *testing.B) {
	c := newClient(b)
	who := person(b, "bench@example.com", config.ReadWrite)
	b.Run("ServeHTTP", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := must.Get(http.NewRequestWithContext(b.Context(), "GET", "/v1/me", nil))(b)
			r.Host, r.RemoteAddr = "relay.example.com", "192.0.2.1:1234"
			r.Header.Set("Authorization", "Bearer "+writeKey)
			w := httptest.NewRecorder()
			if c.api.Handler().ServeHTTP(w, r); w.Code != 200 {
				b.Fatal(w.Code, w.Body)
			}
		}
	})
	b.Run("Call", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if status, _, body := c.api.Call(b.Context(), who, "GET", "/v1/me", nil, nil, ""); status != 200 {
				b.Fatal(status, string(body))
			}
		}
	})
}

// Each tool has a plain and a versioned name and a checksum beside each; a browser saves it and never runs it.
func TestToolsAreServed(t *testing.T) {
	c := newClient(t, func(cfg *api.Config, _ *api.Deps) { cfg.Version = "1.2.3-dev+a6d2758" }).as("")
	for file, source := range map[string]string{
		"relay-forward.mjs":               "../sdk/forward/relay-forward.mjs",
		"relay-forward-1.2.3-dev.mjs":     "../sdk/forward/relay-forward.mjs",
		"relay-fixture-run.mjs":           "../sdk/fixture-run/relay-fixture-run.mjs",
		"relay-fixture-run-1.2.3-dev.mjs": "../sdk/fixture-run/relay-fixture-run.mjs",
	} {
		want := must.Get(os.ReadFile(source))(t)
		sum := fmt.Sprintf("%x  %s\n", sha256.Sum256(want), file)
		for name, content := range map[string]string{file: string(want), file + ".sha256": sum} {
			a := c.do("GET", "/tools/"+name, nil).want(http.StatusOK)
			is.Equal(t, string(a.raw), content, "%s is served with other content: %.100q", name, a.raw)
			again := c.do("GET", "/tools/"+name, nil, "If-None-Match", a.Header.Get("ETag")).want(http.StatusNotModified)
			for _, h := range []http.Header{a.Header, again.Header} {
				if h.Get("Content-Security-Policy") != "sandbox; default-src 'none'" ||
					h.Get("X-Content-Type-Options") != "nosniff" ||
					h.Get("Content-Disposition") != `attachment; filename="`+name+`"` {
					t.Errorf("%s is served with %v", name, h)
				}
			}
		}
	}
	for _, path := range []string{"/tools", "/tools/relay-forward-1.2.4.mjs", "/tools/../sdk/sdk.go"} {
		c.do("GET", path, nil).want(http.StatusNotFound)
	}
}

// The folder has a page that lists the files with their checksums. It is no page of the dashboard.
func TestToolsAreListed(t *testing.T) {
	c := newClient(t, func(cfg *api.Config, _ *api.Deps) { cfg.Version = "1.2.3" }).as("")
	a := c.do("GET", "/tools/", nil).want(http.StatusOK)
	sum, _, _ := strings.Cut(string(c.do("GET", "/tools/relay-forward-1.2.3.mjs.sha256", nil).want(200).raw), " ")
	text := strings.ReplaceAll(string(a.raw), "<wbr>", "")
	if !strings.Contains(text, `href="/tools/relay-forward-1.2.3.mjs"`) || !strings.Contains(text, sum) ||
		a.Header.Get("Content-Security-Policy") != "sandbox; default-src 'none'" {
		t.Errorf("%v %s", a.Header, a.raw)
	}
	for _, path := range []string{"/tools", "/tools/relay-forward-0.9.9.mjs"} {
		if a := c.do("GET", path, nil).want(404); !strings.Contains(string(a.raw), "/tools/ lists") {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	missing := strings.Contains(text, "built without npm")
	if tarball := c.do("GET", "/tools/eventrelay-sdk-1.2.3.tgz", nil); missing != (tarball.Status == 404) {
		t.Errorf("the package of the SDK: %d\n%s", tarball.Status, a.raw)
	}
}
