package api_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// tripwire creates a tripwire of a domain that has room for it. It is deleted at the end of the test.
func (c *client) tripwire(kind string) *answer {
	c.t.Helper()
	domain := c.verifiedDomain(kind + ".wires.example.com")
	c.forgetTripwires()
	return c.do("POST", "/v1/tripwires", map[string]any{"domain_id": domain, "kind": kind}).want(201)
}

// forgetTripwires deletes all tripwires at the end of the test: there may be fifteen.
func (c *client) forgetTripwires() {
	c.t.Cleanup(func() {
		all, _ := entity.List[leak.Tripwire](configuration, configuration.Account().ID, 0, 100, nil)
		for _, x := range all {
			is.OK(c.t, entity.Delete[leak.Tripwire](context.Background(), configuration, x.ID))
		}
	})
}

// A tripwire of each kind is created with its secrets and the text to plant, read, listed, rotated and deleted. No
// other answer has a secret.
func TestTripwires(t *testing.T) {
	c := newClient(t)
	for _, kind := range leak.TripwireKinds {
		made := c.tripwire(kind)
		name, token, masked := made.text("id"), made.text("token"), made.text("token_masked")
		planted := string(made.raw)
		if kind != "url" && !apikey.HasFormat(token) || kind == "url" && made.text("url") != baseURL+"/in/"+token ||
			(made.get("file") != nil) != (kind == "file") || made.text("status") != "armed" || made.get("trip_count") != 0.0 ||
			made.get("finding_id") != nil || !strings.HasSuffix(token, masked[len(masked)-4:]) ||
			strings.Count(planted, token) < 2 {
			t.Fatalf("%s: %s", kind, made.raw)
		}
		read := c.do("GET", "/v1/tripwires/"+name, nil).want(200)
		all := c.do("GET", "/v1/tripwires?domain_id="+made.text("domain_id"), nil).want(200)
		audit := c.do("GET", "/v1/audit?limit=100", nil).want(200)
		for _, a := range []*answer{read, all, audit} {
			is.Lacks(t, string(a.raw), token, "%s: the secret is shown again: %s", kind, a.raw)
		}
		if read.get("token") != nil || read.get("url") != nil || read.get("file") != nil || all.text("data.0.id") != name {
			t.Errorf("%s: %s", kind, read.raw)
		}
		c.do("DELETE", "/v1/domains/"+made.text("domain_id"), nil).wantError(400, "invalid_state", "")
		rotated := c.do("POST", "/v1/tripwires/"+name+"/rotate", nil).want(200)
		if next := rotated.text("token"); next == token || len(next) != len(token) {
			t.Errorf("%s: %s", kind, rotated.raw)
		}
		tested := c.do("POST", "/v1/tripwires/"+name+"/test", nil).want(200)
		if tested.get("test_until") == nil || tested.get("token") != nil {
			t.Errorf("%s: %s", kind, tested.raw)
		}
		c.as(readKey).do("POST", "/v1/tripwires/"+name+"/rotate", nil).wantError(403, "insufficient_scope", "")
		c.do("DELETE", "/v1/tripwires/"+name, nil).want(200)
		for _, call := range []string{"GET ", "DELETE ", "POST /rotate", "POST /test"} {
			method, action, _ := strings.Cut(call, " ")
			c.do(method, "/v1/tripwires/"+name+action, nil).wantError(404, "not_found", "")
		}
		c.do("DELETE", "/v1/domains/"+made.text("domain_id"), nil).want(200)
	}
}

// A repeat with the same Idempotency-Key shows no secret, whoever repeats, and makes none.
func TestTripwireSecretsAreShownOnce(t *testing.T) {
	c := newClient(t)
	domain := c.verifiedDomain("once.wires.example.com")
	c.forgetTripwires()
	body := `{"domain_id":"` + domain + `","kind":"file","path":"/.git/config"}`
	first := c.sendOnce("/v1/tripwires", "create", body).want(201)
	again := c.sendOnce("/v1/tripwires", "create", body).want(201).replayed(true)
	token := first.text("token")
	if token == "" || again.get("token") != nil || again.get("file") != nil || again.get("url") != nil ||
		strings.Contains(string(again.raw), token) || again.text("id") != first.text("id") ||
		again.text("token_masked") != first.text("token_masked") || !strings.Contains(first.text("file.content"), token) {
		t.Errorf("%s\n%s", first.raw, again.raw)
	}
	target := "/v1/tripwires/" + first.text("id") + "/rotate"
	rotated := c.sendOnce(target, "rotate", "{}").want(200)
	if again := c.sendOnce(target, "rotate", "{}").want(200).replayed(true); again.get("token") != nil ||
		again.text("issued_at") != rotated.text("issued_at") {
		t.Errorf("%s\n%s", rotated.raw, again.raw)
	}
	all, _ := entity.List(configuration, configuration.Account().ID, 0, 10, func(x *leak.Tripwire) bool {
		return x.Domain == domain
	})
	is.Equal(t, len(all), 1, "tripwires")
}

// Wrong input is named. A domain that is not verified has no tripwires, and a verified one three.
func TestTripwireInput(t *testing.T) {
	c := newClient(t)
	pending := c.domain("pending.wires.example.com").text("id")
	domain := c.verifiedDomain("full.wires.example.com")
	c.forgetTripwires()
	create := func(members ...any) *answer {
		body := map[string]any{"domain_id": domain, "kind": "key"}
		for i := 0; i < len(members); i += 2 {
			body[members[i].(string)] = members[i+1]
		}
		return c.do("POST", "/v1/tripwires", body)
	}
	for param, value := range map[string]any{"domain_id": "dom_nope", "kind": "dns", "path": "/.env", "label": "",
		"placement": strings.Repeat("x", 301)} {
		create(param, value).wantError(400, "invalid_request", param)
	}
	create("kind", "file", "path", "/etc/passwd").wantError(400, "invalid_request", "path")
	c.do("POST", "/v1/tripwires", `{"domain_id":"`+domain+`"}`).wantError(400, "invalid_request", "kind")
	c.do("POST", "/v1/tripwires", `{"kind":"key"}`).wantError(400, "invalid_request", "domain_id")
	c.do("POST", "/v1/tripwires", `{`).wantError(400, "invalid_request", "")
	create("domain_id", pending).wantError(400, "invalid_state", "domain_id")
	c.as(readKey).do("POST", "/v1/tripwires", `{}`).wantError(403, "insufficient_scope", "")
	secret := apikey.New()
	if a := create("label", "key "+secret, "unknown", 1).want(201); strings.Contains(a.text("label"), secret) ||
		a.text("warnings.1.param") != "unknown" {
		t.Errorf("%s", a.raw)
	}
	create("kind", "url").want(201)
	create("kind", "file").want(201)
	create().wantError(400, "invalid_state", "domain_id")
	c.do("GET", "/v1/tripwires?domain=x", nil).wantError(400, "invalid_request", "domain")
	first := c.do("GET", "/v1/tripwires?limit=2&domain_id="+domain, nil).want(200)
	rest := c.do("GET", "/v1/tripwires?limit=2&domain_id="+domain+"&cursor="+first.text("next_cursor"), nil).want(200)
	if first.text("data.0.kind") != "file" || rest.text("data.0.kind") != "key" || rest.get("next_cursor") != nil {
		t.Errorf("%s\n%s", first.raw, rest.raw)
	}
}

// What was counted is the store's. Without the store a tripwire is shown with what the configuration knows.
func TestTrippedTripwire(t *testing.T) {
	c := newClient(t)
	name := c.tripwire("key").text("id")
	at := time.Now().UTC().Truncate(time.Millisecond).Add(time.Millisecond)
	must.Do(t, configuration.RecordTrip(t.Context(), name, at))
	keys := must.Get(configuration.FindingKeys(t.Context()))(t)
	last := at.Add(10 * time.Second)
	row := finding.Row{ID: keys.TripwireID(name, false), Occurrences: 7, LastSeen: last}
	c.fake.findings = append(c.fake.findings, row)
	a := c.do("GET", "/v1/tripwires/"+name, nil).want(200)
	if a.text("status") != "tripped" || a.get("trip_count") != 7.0 ||
		a.text("last_tripped_at") != last.Format(web.TimeFormat) {
		t.Errorf("%s", a.raw)
	}
	c.fake.hitsErr = context.DeadlineExceeded
	a = c.do("GET", "/v1/tripwires/"+name, nil).want(200)
	if a.text("status") != "tripped" || a.get("trip_count") != nil ||
		a.text("last_tripped_at") != at.Format(web.TimeFormat) {
		t.Errorf("without the store: %s", a.raw)
	}
	time.Sleep(time.Until(at.Add(time.Millisecond))) // new secrets are made after the use of the old ones
	if a := c.do("POST", "/v1/tripwires/"+name+"/rotate", nil).want(200); a.text("status") != "armed" {
		t.Errorf("rotated: %s", a.raw)
	}
}

// Every refused key is checked, on every route and with every method, and the answer says nothing about that.
func TestRefusedKeysAreChecked(t *testing.T) {
	c := newClient(t)
	key := apikey.New()
	calls := []string{"GET /v1/events", "POST /v1/endpoints", "DELETE /v1/tripwires/trw_1", "HEAD /v1/me", "GET /v1/nope",
		"GET /v1", "BREW /v1/events", "OPTIONS /v1/events", "PATCH /v1/endpoints/ep_x"}
	for _, call := range calls {
		method, path, _ := strings.Cut(call, " ")
		if a := c.as(key).do(method, path, nil); a.Status != 401 {
			t.Errorf("%s: %d", call, a.Status)
		}
	}
	if len(c.fake.refused) != len(calls) || c.fake.refused[0] != key {
		t.Errorf("%v", c.fake.refused)
	}
	c.do("GET", "/v1/me", nil).want(200)
	is.Equal(t, len(c.fake.refused), len(calls), "a valid key is checked")
}
