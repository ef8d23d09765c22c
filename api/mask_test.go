package api_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/seal"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// capabilities are the secret parts of an endpoint's URLs: anyone who knows one can post to it or authenticate with
// it.
type capabilities struct{ token, path, query, bare, credential, drain, dsn string }

func (x capabilities) url() string {
	return "https://hooks.example.com/services/" + x.path + "/in?channel=" + x.query + "&" + x.bare + "&api_key=" +
		x.credential
}

// createWithCapabilities creates an endpoint with capabilities in all of its URLs, and an event with attempts.
func (c *client) createWithCapabilities() (ep *answer, evt string, x capabilities) {
	c.t.Helper()
	x = capabilities{
		path: "Tr3asure" + id.Random(""), query: "Qu3ry" + id.Random(""), bare: "B4re" + id.Random(""), credential: "K3y" +
			id.Random(""),
	}
	ep = c.endpoint(map[string]any{"destinations": []any{map[string]any{"url": x.url()}}})
	_, x.token, _ = strings.Cut(ep.text("ingest_url"), "/in/")
	evt = c.send(ep.text("id"))
	ev := must.Get(id.Parse(id.Event, evt))(c.t)
	dst := ep.text("destinations.0.id")
	e := c.fake.events[ev] // a provider and a destination may repeat the URL that was called
	e.Type, e.Query, e.IdempotencyKey = "a."+x.token, "callback=https%3A%2F%2Frelay%2Fin%2F"+x.token, x.ingest()
	e.Header = []event.Field{{Name: "Referer", Value: x.ingest()}, {Name: "X-Original-Url", Value: "/in/" + x.token},
		{Name: "X-Forwarded-Uri", Value: "%2fin%2f" + x.token + "%3fa"}, {Name: x.token, Value: "x"},
		{Name: "X-High", Value: x.ingest() + "\xff"}} // also in base64
	e.Body = []byte(x.ingest() + "\xff") // base64 in answers
	c.fake.details[ev] = func(d *event.Detail) {
		row := event.AttemptRow{Endpoint: ep.text("id"), Destination: dst, Number: 1}
		row.ID, row.URL, row.Method, row.Code, row.Trigger, row.StartedAt = ev, x.url(), "POST", 301,
			event.TriggerInitial, time.Now()
		row.ResponseHeader = event.Lines("Location: " + x.url() + "\n" +
			"Content-Location: " + "/services/" + x.path + "/in?channel=" + x.query + "&" + x.bare + "\n")
		row.ResponseBody, row.ErrorMessage = e.Body, "cannot send "+x.ingest()
		row.RequestHeader = event.Lines("X-Forwarded-Uri: /in/" + x.token + "\n")
		d.Attempts = []event.AttemptRow{row}
		d.Deliveries = []event.Delivery{{Destination: dst, Status: event.Failed, Attempts: 1}}
	}
	return ep, evt, x
}

// ingest returns the ingest URL.
func (x capabilities) ingest() string { return "https://relay.example.com/in/" + x.token }

var inBase64 = regexp.MustCompile(`"[A-Za-z0-9+/]{32,}={0,2}"`)

// in returns the capabilities in a text and in what it has in base64.
func (x capabilities) in(text string) (found []string) {
	for _, encoded := range inBase64.FindAllString(text, -1) {
		decoded, _ := base64.StdEncoding.DecodeString(strings.Trim(encoded, `"`))
		text += string(decoded)
	}
	for _, part := range []string{x.token, x.path, x.query, x.bare, x.credential, x.drain, x.dsn} {
		if part != "" && strings.Contains(text, part) {
			found = append(found, part)
		}
	}
	return found
}

// Read-only keys and agent keys find no capability in any answer.
func TestCapabilitiesAreMaskedForReaders(t *testing.T) {
	agent, _, err := configuration.CreateKey(t.Context(), config.NewKey{
		Name: "agent", Scope: config.ReadWrite, Agent: true})
	must.Do(t, err)
	s := newStreamServer(t, withJobsOf(3))
	c := s.client
	ep, evt, x := c.createWithCapabilities()
	drain := c.drain("masked")
	x.drain = drain.text("url")[strings.LastIndexByte(drain.text("url"), '/')+1:]
	dsn := c.dsn("masked")
	_, rest, _ := strings.Cut(dsn.text("dsn"), "://")
	x.dsn, _, _ = strings.Cut(rest, "@")
	name := ep.text("id")
	c.do("PATCH", "/v1/endpoints/"+name, `{"destinations":[{"id":"`+ep.text("destinations.0.id")+`","url":"`+x.url()+
		`&more=1"},"`+x.url()+`&second=1"]}`).want(200)
	run := c.do("POST", "/v1/replays", map[string]any{"endpoint_id": name, "since": since()}).want(200).text("run_id")
	in := map[string]string{
		"{endpoint_id}": name, "{event_id}": evt, "{run_id}": run, "{recovery_id}": c.recovery(name).text("id"),
		"{destination_id}": ep.text("destinations.0.id"), "{drain_id}": drain.text("id"),
		"{scan_id}":    c.scan("scan.example.com").text("id"),
		"{domain_id}":  c.domain("masked.example.com").text("id"),
		"{dsn_id}":     dsn.text("id"),
		"{finding_id}": c.finding(), "{fixture_id}": c.fixture(`{}`).text("id"),
		"{tripwire_id}": c.tripwire("url").text("id"), "{tenant_name}": c.tenant("masked"),
		"{event_type_name}": c.eventType("masked"), "{issue_id}": c.issue("http_501"),
	}
	// Twilio signs the ingest URL, so the explanation of a signature contains it.
	c.do("PATCH", "/v1/endpoints/"+name,
		`{"provider":"twilio","verification":{"secret":"a secret of the test"}}`).want(200)
	received := must.Get(id.Parse(id.Event, evt))(t)
	c.fake.events[received].Source = event.SourceProvider
	c.fake.entries = append(c.fake.entries,
		audit.Entry{Action: "endpoint.updated", Changes: []string{"destinations"}, EntityType: "endpoint", Entity: name})
	var paths []string
	for path, item := range readYAML(t, documentFile(t))["paths"].(map[string]any) {
		if _, reads := item.(map[string]any)["get"]; reads && strings.HasPrefix(path, "/v1/") {
			if path == "/v1/fixtures/export" {
				path += "?ids={fixture_id}"
			}
			for placeholder, value := range in {
				path = strings.ReplaceAll(path, placeholder, value)
			}
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	if len(paths) < 15 {
		t.Fatalf("only %v can be read", paths)
	}
	for _, key := range []string{readKey, agent} {
		c := c.as(key)
		for _, path := range paths {
			if strings.HasSuffix(path, "/stream") {
				if found := x.in(s.readStreamStart(name, key, x.ingest())); len(found) > 0 {
					t.Errorf("GET %s shows %v", path, found)
				}
				continue
			}
			if strings.HasSuffix(path, "/pull") {
				c.do("GET", path, nil).wantError(403, "insufficient_scope", "")
				continue
			}
			a := c.do("GET", path, nil).want(200)
			if found := x.in(string(a.raw) + fmt.Sprint(a.Header)); len(found) > 0 {
				t.Errorf("GET %s shows %v:\n%s", path, found, a.raw)
			}
		}
	}
	// A preview is a POST that a reader may make, and its operations may cut a text.
	source := c.send(name)
	sent := must.Get(id.Parse(id.Event, source))(t)
	c.fake.events[sent].Body = []byte(`{"a":"` + strings.Repeat("-", 158) + x.ingest() + `"}`) // 200 bytes are shown
	preview := map[string]any{"sample": source, "ops": []any{map[string]any{"op": "drop", "paths": []any{"/a"}}}}
	for _, key := range []string{readKey, agent} {
		a := c.as(key).do("POST", "/v1/endpoints/"+name+"/transformation/preview", preview).want(200)
		if text := string(a.raw); strings.Contains(text, x.token[:8]) || !strings.Contains(text, "/in/****") {
			t.Errorf("a preview shows a part of the token:\n%s", a.raw)
		}
	}
	if stream := s.readStreamStart(name, writeKey, x.ingest()); len(x.in(stream)) != 1 {
		t.Errorf("a stream shows %v to a key that may write", x.in(stream))
	}
	// Counter-check: a read-write key sees the same capabilities, in attempts without the credential.
	for path, want := range map[string]int{
		"/v1/endpoints/" + name: 5, "/v1/events/" + evt: 4, "/v1/events/" + evt + "/attempts": 4, "/v1/events": 1,
		"/v1/events/" + evt + "/signature": 1, "/v1/drains/" + drain.text("id"): 1,
		"/v1/dsns/" + dsn.text("id"): 1} {
		if a := c.do("GET", path, nil).want(200); len(x.in(string(a.raw))) != want {
			t.Errorf("GET %s shows %v to a key that may write:\n%s", path, x.in(string(a.raw)), a.raw)
		}
	}
	// GitHub signs the body, which is in base64 here.
	c.do("PATCH", "/v1/endpoints/"+name,
		`{"provider":"github","verification":{"secret":"a secret of the test"}}`).want(200)
	for key, want := range map[string]int{readKey: 0, writeKey: 1} {
		a := c.as(key).do("GET", "/v1/events/"+evt+"/signature", nil).want(200)
		if len(x.in(string(a.raw))) != want || a.get("signed_content_masked") != (want == 0) {
			t.Errorf("the signature shows %v:\n%s", x.in(string(a.raw)), a.raw)
		}
	}
}

// readStreamStart returns the start of a stream with one event, which has a text in a header and in its body.
func (s *streamServer) readStreamStart(endpoint, key, content string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	r := must.Get(http.NewRequestWithContext(ctx, "GET", s.url+"/v1/endpoints/"+endpoint+"/stream", nil))(s.t)
	r.Header.Set("Authorization", "Bearer "+key)
	resp := must.Get(s.http.Do(r))(s.t)
	defer resp.Body.Close()
	var text strings.Builder
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		switch lines.Text() {
		case "event: ready":
			ep, _ := configuration.Endpoint(endpoint)
			s.put(ep, []byte(content), func(e *event.Event) {
				e.Header = append(e.Header, event.Field{Name: "Referer", Value: content})
			})
			s.flush()
		case "event: event":
			lines.Scan()
			return text.String() + lines.Text()
		}
	}
	s.t.Fatalf("the stream ends: %s", text.String())
	return ""
}

// A read-write key can send back what a read-only key has read: masks mean unchanged.
func TestMaskedEndpointIsSentBack(t *testing.T) {
	c := newClient(t)
	ep, _, x := c.createWithCapabilities()
	route := "/v1/endpoints/" + ep.text("id")
	before := c.do("GET", route, nil).want(200)
	read := c.as(readKey).do("GET", route, nil).want(200)
	if got, want := read.text("ingest_url"), baseURL+"/in/****"+x.token[len(x.token)-4:]; got != want {
		t.Errorf("ingest_url is %s, want %s", got, want)
	}
	equalEndpoints(t, before, c.do("PATCH", route, string(read.raw)).want(200))
	masked := read.text("destinations.0.url")
	one := route + "/destinations/" + ep.text("destinations.0.id")
	if a := c.do("PATCH", one, map[string]any{"url": masked}).want(200); a.text("url") != x.url() {
		t.Errorf("the URL is %s after its mask was sent", a.text("url"))
	}
	// The mask also matches an entry without an id.
	a := c.do("PATCH", route, map[string]any{"destinations": []any{map[string]any{"url": masked, "name": "by its mask"}}}).
		want(200)
	if a.text("destinations.0.id") != ep.text("destinations.0.id") || a.text("destinations.0.url") != x.url() ||
		a.get("destinations.1") != nil {
		t.Errorf("%s", a.raw)
	}
	// A mask that matches no destination is refused: deliveries would go to a wrong URL.
	c.do("PATCH", one, map[string]any{"url": "https://other.example.com/****abcd"}).wantError(
		400, "invalid_request", "url")
	c.do("PATCH", route, map[string]any{"destinations": []any{"https://other.example.com/h?x=****"}}).
		wantError(400, "invalid_request", "destinations[0].url")
	c.do("POST", "/v1/endpoints", map[string]any{"url": masked}).wantError(400, "invalid_request", "url")
	c.do("POST", route+"/destinations", map[string]any{"url": masked}).wantError(400, "invalid_request", "url")
	// A mask that two destinations share is refused.
	twins := []any{"https://example.com/hook?token=first-of-two-1234", "https://example.com/hook?token=other-of-two-1234"}
	c.do("PATCH", route, map[string]any{"destinations": twins}).want(200)
	c.do("PATCH", route, map[string]any{"destinations": []any{"https://example.com/hook?token=****1234"}}).
		wantError(400, "invalid_request", "destinations[0].url")
}

func TestRotateToken(t *testing.T) {
	now := time.Date(2026, 8, 21, 22, 0, 0, 0, time.UTC)
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Now = func() time.Time { return now } })
	ep := c.endpoint(nil)
	name := ep.text("id")
	target := "/v1/endpoints/" + name + "/rotate-token"
	token := func(a *answer) string {
		_, token, _ := strings.Cut(a.text("ingest_url"), "/in/")
		return token
	}
	until := func(want time.Time, old string) {
		t.Helper()
		e, _ := configuration.Endpoint(name)
		must.Equal(t, want.IsZero(), e.FormerToken == nil, "the former token is %+v", e.FormerToken)
		if e.FormerToken == nil {
			return
		}
		text, err := keyring().OpenString(name, seal.FieldToken, e.FormerToken.Token)
		if err != nil || text != old || !e.FormerToken.Until.Equal(want) {
			t.Errorf("%s goes on until %v (%v), want %s until %v", text, e.FormerToken.Until, err, old, want)
		}
		if stored, _ := json.Marshal(e); strings.Contains(string(stored), old) {
			t.Error("the configuration contains the token in clear")
		}
	}
	first := token(ep)
	rotated := c.do("POST", target, nil).want(200)
	second := token(rotated)
	if rotated.text("id") != name || second == first || len(second) != len(first) ||
		configuration.EndpointByToken(second) == nil {
		t.Errorf("%s", rotated.raw)
	}
	until(now.Add(24*time.Hour), first)
	third := token(c.do("POST", target, `{"overlap_seconds":3600}`).want(200))
	until(now.Add(time.Hour), second)
	c.do("POST", target, `{"overlap_seconds":0}`).want(200)
	until(time.Time{}, "")
	for _, gone := range []string{first, second, third} {
		if configuration.EndpointByToken(gone) != nil {
			t.Errorf("%s goes on", gone)
		}
	}
	for _, bad := range []string{"-1", "86401", "1.5", `"1"`} {
		c.do("POST", target, `{"overlap_seconds":`+bad+`}`).wantError(400, "invalid_request", "overlap_seconds")
	}
	entry := c.do("GET", "/v1/audit?entity_id="+name+"&limit=1", nil).want(200)
	is.Has(t, fmt.Sprint(entry.get("data.0.changes")), "token", "the audit log names")
}

// A caller who changes the URL of a destination does not take its credential headers to the new server.
func TestCredentialHeadersDoNotFollowANewOrigin(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(map[string]any{"destinations": []any{map[string]any{
		"url": "https://example.com/h",
		"headers": map[string]any{
			"Authorization": "Bearer a-secret-token", "X-Api-Key": "another-secret-1", "X-Plain": "plain"},
	}}})
	route, dst := "/v1/endpoints/"+ep.text("id"), ep.text("destinations.0.id")
	one := route + "/destinations/" + dst
	masked := ep.get("destinations.0.headers")
	for _, elsewhere := range []string{
		"https://evil.example.com/h", "https://example.com:8443/h", "https://example.com.evil.example/h"} {
		a := c.do("PATCH", one, map[string]any{"url": elsewhere}).wantError(400, "invalid_request", "headers.Authorization")
		is.Has(t, a.text("error.message"), "Authorization, X-Api-Key", "not all are named: %s", a.raw)
		c.do("PATCH", one, map[string]any{"url": elsewhere, "headers": masked}).wantError(
			400, "invalid_request", "headers.Authorization")
		entry := map[string]any{"id": dst, "url": elsewhere,
			"headers": map[string]any{"authorization": "Bearer a-secret-token"}}
		c.do("PATCH", route, map[string]any{"destinations": []any{entry}}).
			wantError(400, "invalid_request", "destinations[0].headers.X-Api-Key")
	}
	for _, same := range []string{"https://example.com/elsewhere?x=1", "https://EXAMPLE.com:443/h"} {
		c.do("PATCH", one, map[string]any{"url": same}).want(200)
	}
	// It may move when the request sends their values or removes the headers.
	moved := map[string]any{"url": "https://new.example.com/h",
		"headers": map[string]any{"authorization": "Bearer a-secret-token", "x-api-key": nil}}
	a := c.do("PATCH", one, moved).want(200)
	is.Equal(t, fmt.Sprint(a.get("headers")), "map[Authorization:****oken X-Plain:plain]", "headers")
	entry := c.do("GET", "/v1/audit?entity_id="+ep.text("id")+"&limit=1", nil).want(200)
	if changes := fmt.Sprint(entry.get("data.0.changes")); !strings.Contains(changes, dst+".url") ||
		!strings.Contains(changes, "X-Api-Key") {
		t.Errorf("the audit log names %s", changes)
	}
	c.do("PATCH", one, map[string]any{"url": "https://third.example.com/h", "headers": nil}).want(200)
}

// Settings that allow forged events cause a warning in the answer that saves them.
func TestVerificationWarnings(t *testing.T) {
	c := newClient(t)
	f := func(a *answer, want ...string) {
		t.Helper()
		warnings, _ := a.get("warnings").([]any)
		var got []string
		for _, w := range warnings {
			got = append(got, w.(map[string]any)["param"].(string))
		}
		is.List(t, got, want, "%s: warnings about: %s", a.call, a.raw)
	}
	verified := func(members string) string {
		return `{"url":"https://example.com/h","provider":"stripe","verification":{"type":"stripe",` + members + `}}`
	}
	f(c.do("POST", "/v1/endpoints", `{"url":"https://example.com/h"}`).want(201))
	open := c.do("POST", "/v1/endpoints", `{"url":"https://example.com/h","provider":"stripe"}`).want(201)
	f(open, "verification")
	route := "/v1/endpoints/" + open.text("id")
	f(c.do("PATCH", route, `{"name":"x"}`).want(200), "verification")
	f(c.do("PATCH", route, `{"verification":{"secret":"sixteen-or-more-"}}`).want(200))
	f(c.do("PATCH", route, `{"name":"y"}`).want(200))
	f(c.do("PATCH", route, `{"verification":null}`).want(200), "verification")
	f(c.do("POST", "/v1/endpoints", verified(`"secret":"fifteen-letters"`)).want(201), "verification.secret")
	short := c.do("POST", "/v1/endpoints", verified(`"secrets":["sixteen-or-more-","short"]`)).want(201)
	f(short, "verification.secrets[1]")
	f(c.do("PATCH", "/v1/endpoints/"+short.text("id"), `{"verification":{"mode":"observe"}}`).want(200))
}
