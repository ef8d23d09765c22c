package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api"
	apiframe "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/features/fixtures/routes"
	"github.com/eventrelay/relay/features/fixtures/sanitise"
	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/fixture"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// received returns the id of a new event with that body.
func (c *client) received(body string) string {
	c.t.Helper()
	ev := c.send(c.endpoint(nil).text("id"))
	d := must.Get(id.Parse(id.Event, ev))(c.t)
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	was := *c.fake.events[d]
	was.Body = []byte(body)
	c.fake.events[d] = &was
	return ev
}

// fixture makes a fixture of a new event with that body.
func (c *client) fixture(body string) *answer {
	c.t.Helper()
	return c.do("POST", "/v1/fixtures", map[string]any{"event_id": c.received(body), "name": "x"}).want(201)
}

// stripeKey is assembled here, so that no file of the project holds what scanners call a leak.
func stripeKey() string { return "sk_" + "live_" + strings.Repeat("a1B2c3D4", 4) }

// A fixture is created from an event, read, listed, changed, exported and deleted.
func TestFixtures(t *testing.T) {
	c := newClient(t)
	created := c.fixture(`{"id":7.50,"to":"jane@acme.io","note":"<b>"}`)
	if !strings.Contains(string(created.raw), `"body":{"id":7.50,"to":"user1@example.com","note":"<b>"}`) ||
		created.text("redactions.0.pointer") != "/to" || created.text("redactions.0.reason") != "email" ||
		created.get("removed") != 1.0 || created.get("expected_status") != 200.0 || created.get("version") != 1.0 ||
		created.text("event_type") != "a.b" || created.text("method") != "POST" {
		t.Fatalf("%s", created.raw)
	}
	expires, err := time.Parse(time.RFC3339, created.text("expires_at"))
	if left := time.Until(expires); err != nil || left < 13*24*time.Hour || left > fixture.DefaultLife {
		t.Errorf("expires at %s", created.text("expires_at"))
	}
	target := "/v1/fixtures/" + created.text("id")
	if again := c.do("GET", target, nil).want(200); string(again.raw) != string(created.raw) {
		t.Errorf("created %s\nread %s", created.raw, again.raw)
	}
	same := c.do("PATCH", target, string(created.raw)).want(200) // what was read can be sent back
	is.Equal(t, string(same.raw), string(created.raw), "created %s\nsent back %s", created.raw, same.raw)
	changed := c.do("PATCH", target, `{"name":"paid","expected_status":201,"version":1,
		"required":[{"pointer":"/ok","equals":true},{"pointer":"/n","equals":null},{"pointer":"","type":"object"}]}`).
		want(200)
	if changed.text("name") != "paid" || changed.get("version") != 2.0 || changed.get("required.0.equals") != true ||
		!strings.Contains(string(changed.raw), `{"pointer":"/n","equals":null}`) {
		t.Errorf("%s", changed.raw)
	}
	c.do("PATCH", target, `{"name":"y","version":1}`).wantError(400, "conflict", "version")
	if a := c.do("PATCH", target, `{"required":null}`).want(200); len(a.get("required").([]any)) != 0 {
		t.Errorf("%s", a.raw)
	}
	second := c.fixture(`[1]`).text("id")
	page := c.do("GET", "/v1/fixtures?limit=1", nil).want(200)
	next := c.do("GET", "/v1/fixtures?limit=1&cursor="+page.text("next_cursor"), nil).want(200)
	if page.text("data.0.id") != second || next.text("data.0.id") != created.text("id") || page.get("data.0.body") != nil {
		t.Errorf("%s\n%s", page.raw, next.raw)
	}
	if gone := c.do("DELETE", target, nil).want(200); gone.text("object") != "fixture" || gone.get("deleted") != true {
		t.Errorf("%s", gone.raw)
	}
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		c.do(method, target, nil).wantError(404, "not_found", "")
	}
}

// The exported file is a suite of the fixtures in the given order. Export accepts nothing, sends nothing and changes
// nothing.
func TestExportFixtures(t *testing.T) {
	c := newClient(t)
	one, two := c.fixture(`{"email":"jane@acme.io"}`), c.fixture(`[1.50]`)
	soon := time.Now().Add(2 * time.Hour).UTC().Truncate(time.Millisecond)
	c.do("PATCH", "/v1/fixtures/"+two.text("id"), map[string]any{"expires_at": soon}).want(200)
	a := c.as(readKey).do("GET", "/v1/fixtures/export?ids="+one.text("id")+","+two.text("id"), nil)
	if a.Status != 200 || a.text("format") != sanitise.Format || !strings.HasPrefix(a.text("suite_id"), "fxs_") ||
		a.text("expires_at") != soon.Format(web.TimeFormat) || a.text("fixtures.1.id") != two.text("id") ||
		!strings.Contains(string(a.raw), `"body":{"email":"user1@example.com"}`) ||
		!strings.Contains(string(a.raw), `"body":[1.50]`) {
		t.Errorf("%d %s", a.Status, a.raw)
	}
	is.Equal(t, a.Header.Get("Content-Disposition"), `attachment; filename="fixtures.json"`)
	if len(c.fake.commands) > 0 {
		t.Error("the export has sent something")
	}
	for query, param := range map[string]string{
		"": "ids", "?ids=": "ids", "?ids=" + one.text("id") + "&ids=" + one.text("id"): "ids", "?id=1": "id",
		"?ids=" + strings.Repeat("x,", 101): "ids", "?ids=%zz": "",
	} {
		c.do("GET", "/v1/fixtures/export"+query, nil).wantError(400, "invalid_request", param)
	}
	c.do("GET", "/v1/fixtures/export?ids=fix_none", nil).wantError(404, "not_found", "ids")
	c.do("DELETE", "/v1/fixtures/"+one.text("id"), nil).want(200)
	c.do("GET", "/v1/fixtures/export?ids="+one.text("id"), nil).wantError(404, "not_found", "ids")
}

// Suites of more than 5 MiB are refused before they are made.
func TestLargeSuitesAreRefused(t *testing.T) {
	c := newClient(t)
	content := fixture.Content{Body: json.RawMessage(`"` + strings.Repeat("x", fixture.MaxBody-2) + `"`)}
	packed := must.Get(content.Pack())(t)
	small, _ := entity.Get[config.Fixture](configuration, c.fixture(`{}`).text("id"))
	var ids []string
	for range sanitise.MaxSuite/fixture.MaxBody + 1 {
		large := *small
		large.ID, large.Content, large.Size = id.Random(id.Fixture), packed, len(content.Body)
		must.Get(configuration.CreateFixture(t.Context(), &large))(t)
		ids = append(ids, large.ID)
	}
	a := c.do("GET", "/v1/fixtures/export?ids="+strings.Join(ids, ","), nil).wantError(400, "invalid_request", "ids")
	is.Has(t, a.text("error.message"), "5 MiB", "%s", a.raw)
}

// What is kept stays, one by one, but never a secret; what is no longer kept is replaced again.
func TestKeepValuesOfAFixture(t *testing.T) {
	c := newClient(t)
	a := c.fixture(
		`{"email":"jane@acme.io","phone":"+4915112345678","token":"` + stripeKey() + `","` + stripeKey() + `":1}`)
	target := "/v1/fixtures/" + a.text("id")
	keep := func(pointers ...string) *answer {
		t.Helper()
		return c.do("PATCH", target, map[string]any{"keep": pointers})
	}
	kept := keep("/email", "/email").want(200)
	if kept.get("body.email") != "jane@acme.io" || kept.get("body.phone") == "+4915112345678" ||
		kept.get("keep.0") != "/email" || kept.get("removed") != a.get("removed").(float64)-1 {
		t.Errorf("%s", kept.raw)
	}
	is.Lacks(t, string(kept.raw), stripeKey(), "%s", kept.raw)
	c.do("PATCH", target, string(kept.raw)).want(200)
	keep("/token").wantError(400, "invalid_request", "keep[0]")
	keep("/email", "/redacted-secret-1").wantError(400, "invalid_request", "keep[1]")
	keep("/none").wantError(400, "invalid_request", "keep[0]")
	c.do("PATCH", target, `{"keep":[1]}`).wantError(400, "invalid_request", "keep[0]")
	c.do("PATCH", target, `{"keep":["/phone"],"body":{}}`).wantError(400, "invalid_request", "keep")
	if back := keep().want(200); back.get("body.email") != "user1@example.com" || back.get("removed") != a.get("removed") {
		t.Errorf("%s", back.raw)
	}
	edited := c.do("PATCH", target, `{"body":{"my":[1.0]}}`).want(200)
	if edited.get("edited") != true || !strings.Contains(string(edited.raw), `"body":{"my":[1.0]}`) {
		t.Errorf("%s", edited.raw)
	}
	if again := keep("/phone").want(200); again.get("edited") != false || again.get("body.phone") != "+4915112345678" {
		t.Errorf("%s", again.raw)
	}
	c.do("POST", "/v1/fixtures", map[string]any{"event_id": a.text("source_event_id"), "name": "k",
		"keep": []string{"/email"}}).want(201)
}

// Every member has bounds, and an error names it.
func TestFixtureInput(t *testing.T) {
	c := newClient(t)
	ev := c.received(`{"a":1}`)
	target := "/v1/fixtures/" + c.fixture(`{"a":1}`).text("id")
	f := func(members, param string) {
		t.Helper()
		a := c.do("POST", "/v1/fixtures", `{"event_id":"`+ev+`","name":"x",`+members+`}`)
		if strings.Contains(members, `"name"`) {
			a = c.do("POST", "/v1/fixtures", `{"event_id":"`+ev+`",`+members+`}`)
		}
		a.wantError(400, "invalid_request", param)
		c.do("PATCH", target, `{`+members+`}`).wantError(400, "invalid_request", param)
	}
	f(`"name":""`, "name")
	f(`"name":1`, "name")
	f(`"name":"`+strings.Repeat("x", 101)+`"`, "name")
	f(`"name":"a\nb"`, "name")
	f(`"name":"`+stripeKey()+`"`, "name")
	for _, status := range []string{"99", "600", `"200"`, "200.0", "null"} {
		f(`"expected_status":`+status, "expected_status")
	}
	now := time.Now()
	for _, at := range []string{`"x"`, `1`, `null`, `"` + now.Add(59*time.Minute).Format(time.RFC3339) + `"`,
		`"` + now.Add(91*24*time.Hour).Format(time.RFC3339) + `"`} {
		f(`"expires_at":`+at, "expires_at")
	}
	for required, param := range map[string]string{
		`{}`: "required", `[1]`: "required[0]", `[{}]`: "required[0].pointer", `[{"pointer":"x"}]`: "required[0].pointer",
		`[{"pointer":1}]`: "required[0].pointer", `[{"pointer":"/~2"}]`: "required[0].pointer",
		`[{"pointer":"/a"},{"pointer":"/a","type":"text"}]`:                        "required[1].type",
		`[{"pointer":"/a","type":"number","equals":"1"}]`:                          "required[0].equals",
		`[{"pointer":"/a","pointer":"/b"}]`:                                        "required[0].pointer",
		`[{"pointer":"/a","equals":"` + stripeKey() + `"}]`:                        "required[0].equals",
		`[{"pointer":"/` + stripeKey() + `"}]`:                                     "required[0].pointer",
		`[{"pointer":"/a","equals":{"b":"` + stripeKey() + `"}}]`:                  "required[0].equals",
		`[` + strings.Repeat(`{"pointer":"/a"},`, 20) + `{"pointer":"/a"}]`:        "required",
		`[{"pointer":"/a","equals":"` + strings.Repeat("x", 4<<10) + `"}]`:         "required[0].equals",
		`[{"pointer":"/` + strings.Repeat("x", fixture.MaxPointer) + `"}]`:         "required[0].pointer",
		`[{"pointer":"/a","type":"string","equals":null}]`:                         "required[0].equals",
		`[{"pointer":"/` + strings.Repeat("é", fixture.MaxPointer-10) + `"}]`:      "required[0].pointer",
		`[{"pointer":"/a","type":"string"},{"pointer":"/b","type":["a"]}]`:         "required[1].type",
		`[{"pointer":"/a","equals":{"b":{"c":[{"d":"` + apikey.New() + `"}]}}}]`:   "required[0].equals",
		`[{"pointer":"/a"},{"pointer":"/b","equals":["x","` + stripeKey() + `"]}]`: "required[1].equals",
	} {
		f(`"required":`+required, param)
	}
	f(`"body":{"a":{"b":["`+stripeKey()+`"]}}`, "/a/b/0")
	f(`"body":"`+stripeKey()+`"`, "body")
	f(`"body":"`+strings.Repeat("x", fixture.MaxBody)+`"`, "body")
	f(`"keep":{}`, "keep")
	named := must.Get(id.Parse(id.Event, ev))(t)
	was := *c.fake.events[named]
	was.Type = "invite jane@acme.io"
	c.fake.events[named] = &was
	unnamed := c.do("POST", "/v1/fixtures", `{"event_id":"`+ev+`"}`).want(201)
	is.Equal(t, unnamed.text("name"), "invite user1@example.com", "%s", unnamed.raw)
	c.do("POST", "/v1/fixtures", `{"name":"x"}`).wantError(400, "invalid_request", "event_id")
	c.do("POST", "/v1/fixtures", `{"event_id":"`+ev+`","name":"x","body":1,"keep":["/a"]}`).
		wantError(400, "invalid_request", "keep")
	c.do("POST", "/v1/fixtures", `[]`).wantError(400, "invalid_request", "")
	c.do("PATCH", target, `{"event_id":"`+ev+`"}`).wantError(400, "invalid_request", "event_id")
	c.do("PATCH", target, `{"version":0}`).wantError(400, "invalid_request", "version")
	a := c.do("POST", "/v1/fixtures", `{"event_id":"`+ev+`","name":"x","exprected_status":1}`).want(201)
	is.Has(t, a.text("warnings.0.message"), "expected_status", "%s", a.raw)
	for status, warned := range map[int]bool{101: true, 200: false, 302: true, 404: false} {
		a := c.do("PATCH", target, fmt.Sprintf(`{"expected_status":%d}`, status)).want(200)
		if (a.get("warnings") != nil) != warned || warned && a.text("warnings.0.param") != "expected_status" {
			t.Errorf("%s", a.raw)
		}
	}
}

// Events that cannot become fixtures are refused: unknown, of another account, erased, no JSON, too large.
func TestEventsThatAreNoFixtures(t *testing.T) {
	c := newClient(t)
	f := func(ev string, status int, kind string) {
		t.Helper()
		c.do("POST", "/v1/fixtures", map[string]any{"event_id": ev, "name": "x"}).wantError(status, kind, "event_id")
	}
	for _, unknown := range []string{"evt_nope", "ep_1", id.ID{1}.Text(id.Event), id.Lowest(time.Now()).Text(id.Event)} {
		f(unknown, 404, "not_found")
	}
	c.do("POST", "/v1/fixtures", `{"event_id":"evt_nope","name":1}`).wantError(404, "not_found", "event_id")
	f(c.received("a=1"), 400, "invalid_state")
	f(c.received(`"`+strings.Repeat("x", fixture.MaxBody)+`"`), 400, "invalid_state")
	f(c.received(strings.Repeat("[", 65)+strings.Repeat("]", 65)), 400, "invalid_state")
	f(c.received("["+strings.Repeat(`"a@b.io",`, fixture.MaxRedactions+1)+"1]"), 400, "invalid_state")
	erased := c.received(`{"email":"jane@acme.io"}`)
	before := c.do("POST", "/v1/fixtures", map[string]any{"event_id": erased, "name": "x"}).want(201)
	c.do("DELETE", "/v1/events/"+erased+"/payload", nil).want(200)
	f(erased, 400, "invalid_state")

	// The fixture ends with the payload: what it keeps is a copy.
	target := "/v1/fixtures/" + before.text("id")
	c.do("GET", target, nil).wantError(404, "not_found", "")
	c.do("PATCH", target, `{"name":"y"}`).wantError(404, "not_found", "")
	c.do("GET", "/v1/fixtures/export?ids="+before.text("id"), nil).wantError(404, "not_found", "ids")
	if a := c.do("GET", "/v1/fixtures", nil).want(200); strings.Contains(string(a.raw), before.text("id")) {
		t.Errorf("%s", a.raw)
	}
}

// The store is needed to make a fixture, and for nothing after it.
func TestFixturesWithoutTheStore(t *testing.T) {
	c := newClient(t)
	a := c.fixture(`{"email":"jane@acme.io"}`)
	c.fake.EventFunc = func(ctxT, string, id.ID) (*event.Detail, error) { return nil, event.ErrUnavailable }
	c.do("POST", "/v1/fixtures", map[string]any{"event_id": a.text("source_event_id"), "name": "x"}).
		wantError(503, "unavailable", "")
	c.do("GET", "/v1/fixtures/"+a.text("id"), nil).want(200)
	c.do("PATCH", "/v1/fixtures/"+a.text("id"), `{"expected_status":202}`).want(200)
	c.do("GET", "/v1/fixtures/export?ids="+a.text("id"), nil).want(200)
}

// A repeat with the same Idempotency-Key makes no second fixture. Read keys see fixtures and change none.
func TestFixturesAreIdempotentAndScoped(t *testing.T) {
	c := newClient(t)
	body := `{"event_id":"` + c.received(`{"a":1}`) + `","name":"once"}`
	first := c.do("POST", "/v1/fixtures", body, "Idempotency-Key", "fixture-once").want(201)
	again := c.do("POST", "/v1/fixtures", body, "Idempotency-Key", "fixture-once").want(201)
	if first.text("id") != again.text("id") || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s\n%s", first.raw, again.raw)
	}
	reader, target := c.as(readKey), "/v1/fixtures/"+first.text("id")
	if got := reader.do("GET", target, nil).want(200); string(got.raw) != string(first.raw) {
		t.Errorf("%s", got.raw)
	}
	reader.do("GET", "/v1/fixtures", nil).want(200)
	reader.do("POST", "/v1/fixtures", body).wantError(403, "insufficient_scope", "")
	reader.do("PATCH", target, `{}`).wantError(403, "insufficient_scope", "")
	reader.do("DELETE", target, nil).wantError(403, "insufficient_scope", "")
	reader.do("DELETE", "/v1/fixtures/fix_none", nil).wantError(403, "insufficient_scope", "")
}

// A repeat with the same Idempotency-Key shows no fixture that was deleted, or whose event was erased.
func TestRepeatShowsNoEndedFixture(t *testing.T) {
	c := newClient(t)
	erased, deleted := c.received(`{"a":1}`), c.received(`{"a":2}`)
	for _, ev := range []string{erased, deleted} {
		c.do("POST", "/v1/fixtures", `{"event_id":"`+ev+`"}`, "Idempotency-Key", ev).want(201)
	}
	c.do("DELETE", "/v1/events/"+erased+"/payload", nil).want(200)
	f := c.do("POST", "/v1/fixtures", `{"event_id":"`+deleted+`"}`, "Idempotency-Key", deleted).want(201)
	c.do("DELETE", "/v1/fixtures/"+f.text("id"), nil).want(200)
	for _, ev := range []string{erased, deleted} {
		c.do("POST", "/v1/fixtures", `{"event_id":"`+ev+`"}`, "Idempotency-Key", ev).wantError(404, "not_found", "")
	}
}

// An event full of secrets and personal data: nothing of it is in an answer, in the configuration, in a remembered
// answer or in a log line.
func TestNothingOfAnEventIsStored(t *testing.T) {
	planted := []string{stripeKey(), apikey.New(), "AKIA" + "Z7QX2LMN4PRS6TUV", "jane.doe@acme.io", "+4915112345678",
		"4111111111111111", "DE89370400440532013000", "93.184.215.14", "q8Zr2LmX0vTn5KpW7bYc9dFg"}
	members := map[string]any{"password": "correct horse", "customer": map[string]any{"full_name": "Jane Roe"},
		"cardNumber": json.Number("4012888888881881")}
	for i, p := range planted {
		inner := must.Get(json.Marshal(map[string]any{"deep": "x " + p, p: 1}))(t)
		at := string(rune('a' + i))
		members["nested "+at], members["url "+at] = string(inner), "https://acme.io/u/"+url.PathEscape(p)+"?q="+p
		members["list "+at], members[p] = [][]string{{p}}, 1
	}
	body := must.Get(json.Marshal(members))(t)
	c := newClient(t)
	ev := c.received(string(body))
	request := map[string]any{"event_id": ev, "name": "x"}
	made := c.do("POST", "/v1/fixtures", request, "Idempotency-Key", ev).want(201)
	target := "/v1/fixtures/" + made.text("id")
	refused := c.do("PATCH", target, `{"body":{"`+stripeKey()+`":"`+stripeKey()+`"}}`).want(400)
	all := [][]byte{made.raw, refused.raw, c.do("GET", target, nil).want(200).raw, c.log.Bytes(),
		c.do("GET", "/v1/fixtures/export?ids="+made.text("id"), nil).want(200).raw,
		c.do("POST", "/v1/fixtures", request, "Idempotency-Key", ev).want(201).raw,
		stored(t, made.text("id"))}
	for _, p := range append(planted, "correct horse", "Jane Roe", "4012888888881881") {
		for i, text := range all {
			is.Lacks(t, string(text), p, "%q is in text %d: %.300s", p, i, text)
		}
	}
}

// stored returns what the configuration and its audit entries hold of a fixture, decompressed.
func stored(t *testing.T, name string) []byte {
	t.Helper()
	f, _ := entity.Get[config.Fixture](configuration, name)
	content := must.Get(fixture.Unpack(f.Content))(t)
	entries := configuration.Outbox(audit.Query{Account: f.Account, Entities: []string{name}, Limit: 10})
	if len(entries) == 0 || entries[0].Action != "fixture.created" {
		t.Fatalf("audit entries %v", entries)
	}
	text := must.Get(json.Marshal([]any{f, content, entries}))(t)
	return text
}

// Fixtures fill a bounded room; the error says what to do.
func TestTooManyFixtures(t *testing.T) {
	for _, limit := range []error{config.ErrTooManyFixtures, config.ErrFixturesFull} {
		c := newClient(t, func(_ *api.Config, deps *api.Deps) {
			deps.Areas = []func(*apiframe.Core) apiframe.Area{func(c *apiframe.Core) apiframe.Area {
				return apiframe.Area{Routes: routes.Routes(c, func(ctxT, *config.Fixture) (*config.Fixture, error) {
					return nil, limit
				})}
			}}
		})
		a := c.do("POST", "/v1/fixtures", map[string]any{"event_id": c.received(`{}`), "name": "x"}).
			wantError(400, "invalid_state", "")
		is.Has(t, a.text("error.message"), "delete some", "%s", a.raw)
	}
}
