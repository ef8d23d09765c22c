package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
)

// drain creates a drain with that name.
func (c *client) drain(name string) *answer {
	c.t.Helper()
	return c.do("POST", "/v1/drains", map[string]any{"name": name}).want(201)
}

// works reports whether the URL in an answer is that of a drain.
func (a *answer) works() bool {
	rest, _ := strings.CutPrefix(a.text("url"), baseURL+"/drain/")
	id, token, _ := strings.Cut(rest, "/")
	_, presence := configuration.DrainByToken(id, token)
	return presence == entity.Present
}

// A drain is created, read, listed, changed, rotated and deleted.
func TestDrains(t *testing.T) {
	c := newClient(t)
	created := c.drain("production")
	id := created.text("id")
	if created.text("status") != "active" || created.text("platform") != "auto" || created.get("version") != 1.0 ||
		created.get("last_received_at") != nil || created.get("lines_24h") != 0.0 || !created.works() {
		t.Errorf("%s", created.raw)
	}
	target := "/v1/drains/" + id
	if again := c.do("GET", target, nil).want(200); string(again.raw) != string(created.raw) {
		t.Errorf("created %s\nread %s", created.raw, again.raw)
	}
	c.do("PATCH", target, string(created.raw)).want(200) // what was read can be sent back
	paused := c.do("PATCH", target, `{"status":"paused","name":"staging","version":1}`).want(200)
	if paused.text("status") != "paused" || paused.text("name") != "staging" || paused.get("version") != 2.0 {
		t.Errorf("%s", paused.raw)
	}
	c.do("PATCH", target, `{"status":"active","version":1}`).wantError(400, "conflict", "version")
	rotated := c.do("POST", target+"/rotate", nil).want(200)
	if rotated.text("url") == created.text("url") || !rotated.works() || created.works() {
		t.Errorf("%s, then %s", created.text("url"), rotated.text("url"))
	}
	second := c.drain("second").text("id")
	page := c.do("GET", "/v1/drains?limit=1", nil).want(200)
	next := c.do("GET", "/v1/drains?limit=1&cursor="+page.text("next_cursor"), nil).want(200)
	if page.text("data.0.id") != second || next.text("data.0.id") != id {
		t.Errorf("%s\n%s", page.raw, next.raw)
	}
	if gone := c.do("DELETE", target, nil).want(200); gone.text("id") != id || gone.get("deleted") != true {
		t.Errorf("%s", gone.raw)
	}
	if rotated.works() {
		t.Error("the URL of a deleted drain works")
	}
	for _, call := range []string{"GET ", "PATCH ", "DELETE "} {
		c.do(strings.TrimSpace(call), target, nil).wantError(404, "not_found", "")
	}
	c.do("POST", target+"/rotate", nil).wantError(404, "not_found", "")
}

// A drain shows what it received. Without the store these members are null, and it can still be paused.
func TestDrainShowsWhatItReceived(t *testing.T) {
	c := newClient(t)
	id := c.drain("production").text("id")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c.fake.senders = map[string]finding.Received{id: {
		Requests: 5, Lines: 40, Bytes: 5000, Hits: 2, Rejected: 1, LastAt: at, Platform: "generic", LastError: "too_large"}}
	got := c.do("GET", "/v1/drains/"+id, nil).want(200)
	if got.get("requests_24h") != 5.0 || got.get("lines_24h") != 40.0 || got.get("bytes_24h") != 5000.0 ||
		got.get("hits_24h") != 2.0 || got.get("rejected_24h") != 1.0 || got.text("detected_platform") != "generic" ||
		got.text("last_received_at") != "2026-01-02T03:04:05.000Z" || got.text("last_error") != "too_large" {
		t.Errorf("%s", got.raw)
	}
	c.fake.sendersErr = event.ErrUnavailable
	got = c.do("PATCH", "/v1/drains/"+id, `{"status":"paused"}`).want(200)
	if got.get("lines_24h") != nil || got.get("last_received_at") != nil || got.text("status") != "paused" {
		t.Errorf("%s", got.raw)
	}
}

// Members of a drain have bounds, and what this version does not have is refused.
func TestDrainInput(t *testing.T) {
	c := newClient(t)
	for body, param := range map[string]string{
		`{"name":""}`: "name", `{"name":"` + strings.Repeat("x", 101) + `"}`: "name", `{"name":1}`: "name",
		`{"platform":"netlify"}`: "platform", `{"status":"off"}`: "status", `{"signing_secret":""}`: "signing_secret",
		`{"signing_secret":"a b"}`: "signing_secret", `{"verify_code":"` + strings.Repeat("x", 257) + `"}`: "verify_code",
		`{"signing_secret":"x","platform":"heroku"}`: "signing_secret", `{"verify_code":"a\nb"}`: "verify_code",
		`{"version":"1"}`: "version", `[]`: "",
	} {
		c.do("POST", "/v1/drains", body).wantError(400, "invalid_request", param)
	}
	if a := c.do("POST", "/v1/drains", `{"nmae":"x"}`).want(201); !strings.Contains(a.text("warnings.0.message"), "name") {
		t.Errorf("%s", a.raw)
	}
	secret := "sk_" + "live_q8ZkT2vN4xW7yR1mB5cJ9dL3"
	a := c.do("POST", "/v1/drains", map[string]any{"name": "prod " + secret}).want(201)
	if strings.Contains(string(a.raw), secret[3:]) || !strings.HasPrefix(a.text("name"), "prod sk_live_***") ||
		a.text("warnings.0.param") != "name" {
		t.Errorf("%s", a.raw)
	}
	c.as(readKey).do("POST", "/v1/drains", `{}`).wantError(403, "insufficient_scope", "")
}

// The secrets of a platform can be set, replaced and removed, and are never shown. The same one again changes nothing.
func TestSecretsOfADrain(t *testing.T) {
	c := newClient(t)
	target := "/v1/drains/" + c.drain("production").text("id")
	f := func(body string, signing, verify string, version float64) {
		t.Helper()
		a := c.do("PATCH", target, body).want(200)
		d, _ := entity.Get[leak.Drain](configuration, a.text("id"))
		got, err := configuration.DrainSecrets(d)
		if err != nil || got != (leak.DrainSecrets{Signing: signing, VerifyCode: verify}) || a.get("version") != version ||
			a.get("signing_secret_set") != (signing != "") || a.get("verify_code_set") != (verify != "") ||
			strings.Contains(string(a.raw), "s3cr") {
			t.Errorf("%s: %+v, %v\n%s", body, got, err, a.raw)
		}
	}
	f(`{"verify_code":"s3cr-code"}`, "", "s3cr-code", 2)
	f(`{"signing_secret":"s3cr-1"}`, "s3cr-1", "s3cr-code", 3)
	f(`{"signing_secret":"s3cr-1","verify_code":"s3cr-code"}`, "s3cr-1", "s3cr-code", 3)
	f(`{"signing_secret":"s3cr-2","platform":"vercel"}`, "s3cr-2", "s3cr-code", 4)
	c.do("PATCH", target, `{"platform":"heroku"}`).wantError(400, "invalid_request", "signing_secret")
	f(`{"signing_secret":null,"platform":"heroku"}`, "", "s3cr-code", 5)
	f(`{"verify_code":null}`, "", "", 6)
}

// dsn creates a DSN of a server with that name.
func (c *client) dsn(name string) *answer {
	c.t.Helper()
	return c.do("POST", "/v1/dsns", map[string]any{"name": name, "platform": "server"}).want(201)
}

// reports reports whether reports with the DSN in an answer are accepted.
func (a *answer) reports() bool {
	_, rest, _ := strings.Cut(a.text("dsn"), "://")
	key, rest, _ := strings.Cut(rest, "@")
	id := rest[strings.LastIndexByte(rest, '/')+1:]
	return configuration.DSNByKey(id, key) != nil
}

// A DSN is created, read, listed, changed, rotated and deleted.
func TestDSNs(t *testing.T) {
	c := newClient(t)
	created := c.do("POST", "/v1/dsns", `{"name":"pages","platform":"browser","daily_quota":10,
		"allowed_origins":["https://App.example.com:443","https://app.example.com","https://*.b.example"]}`).want(201)
	id := created.text("id")
	if created.text("platform") != "browser" || created.get("daily_quota") != 10.0 || created.get("version") != 1.0 ||
		created.text("allowed_origins.0") != "https://app.example.com" ||
		created.text("allowed_origins.1") != "https://*.b.example" || created.get("allowed_origins.2") != nil ||
		created.get("last_received_at") != nil || created.get("reports_24h") != 0.0 || !created.reports() {
		t.Errorf("%s", created.raw)
	}
	scheme, host, _ := strings.Cut(baseURL, "://")
	if dsn := created.text("dsn"); !strings.HasPrefix(dsn, scheme+"://pk") || !strings.HasSuffix(dsn, "@"+host+"/"+id) ||
		len(dsn) != len(baseURL)+len("pk@/")+44+len(id) {
		t.Errorf("%s", dsn)
	}
	target := "/v1/dsns/" + id
	if again := c.do("GET", target, nil).want(200); string(again.raw) != string(created.raw) {
		t.Errorf("created %s\nread %s", created.raw, again.raw)
	}
	if seen := c.as(readKey).do("GET", target, nil).want(200); seen.text("dsn") != created.text("dsn") {
		t.Errorf("a DSN is public: %s", seen.raw)
	}
	c.do("PATCH", target, string(created.raw)).want(200) // what was read can be sent back
	changed := c.do("PATCH", target, `{"daily_quota":null,"allowed_origins":[],"name":"web","version":1}`).want(200)
	if changed.text("name") != "web" || changed.get("daily_quota") != nil || changed.get("allowed_origins.0") != nil ||
		changed.get("version") != 2.0 {
		t.Errorf("%s", changed.raw)
	}
	c.do("PATCH", target, `{"name":"x","version":1}`).wantError(400, "conflict", "version")
	c.do("PATCH", target, `{"platform":"server"}`).wantError(400, "invalid_request", "platform")
	rotated := c.do("POST", target+"/rotate", nil).want(200)
	if rotated.text("dsn") == created.text("dsn") || !rotated.reports() || created.reports() {
		t.Errorf("%s, then %s", created.text("dsn"), rotated.text("dsn"))
	}
	second := c.dsn("second").text("id")
	page := c.do("GET", "/v1/dsns?limit=1", nil).want(200)
	next := c.do("GET", "/v1/dsns?limit=1&cursor="+page.text("next_cursor"), nil).want(200)
	if page.text("data.0.id") != second || next.text("data.0.id") != id {
		t.Errorf("%s\n%s", page.raw, next.raw)
	}
	if gone := c.do("DELETE", target, nil).want(200); gone.text("id") != id || gone.get("deleted") != true {
		t.Errorf("%s", gone.raw)
	}
	if rotated.reports() {
		t.Error("a deleted DSN works")
	}
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		c.do(method, target, nil).wantError(404, "not_found", "")
	}
	c.do("POST", target+"/rotate", nil).wantError(404, "not_found", "")
}

// null and an empty list both remove the allowed origins.
func TestAllowedOriginsAreRemoved(t *testing.T) {
	c := newClient(t)
	target := "/v1/dsns/" + c.do("POST", "/v1/dsns", `{"platform":"browser"}`).want(201).text("id")
	for _, none := range []string{"[]", "null"} {
		c.do("PATCH", target, `{"allowed_origins":["https://app.example.com"]}`).want(200)
		if a := c.do("PATCH", target, `{"allowed_origins":`+none+`}`).want(200); a.get("allowed_origins.0") != nil {
			t.Errorf("allowed_origins %s: %s", none, a.raw)
		}
	}
}

// A DSN shows what it received. Without the store these members are null, and it can still be rotated.
func TestDSNShowsWhatItReceived(t *testing.T) {
	c := newClient(t)
	id := c.dsn("shop").text("id")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c.fake.senders = map[string]finding.Received{id: {
		Requests: 5, Lines: 40, Hits: 2, Rejected: 1, LastAt: at, Platform: "relay.javascript 0.1.0", LastError: "too_large"}}
	got := c.do("GET", "/v1/dsns/"+id, nil).want(200)
	if got.get("requests_24h") != 5.0 || got.get("reports_24h") != 40.0 || got.get("hits_24h") != 2.0 ||
		got.get("rejected_24h") != 1.0 || got.text("sdk") != "relay.javascript 0.1.0" ||
		got.text("last_received_at") != "2026-01-02T03:04:05.000Z" || got.text("last_error") != "too_large" {
		t.Errorf("%s", got.raw)
	}
	c.fake.sendersErr = event.ErrUnavailable
	got = c.do("POST", "/v1/dsns/"+id+"/rotate", nil).want(200)
	if got.get("reports_24h") != nil || got.get("last_received_at") != nil || !got.reports() {
		t.Errorf("%s", got.raw)
	}
}

// Members of a DSN have bounds.
func TestDSNInput(t *testing.T) {
	c := newClient(t)
	browser := func(members string) string { return `{"platform":"browser",` + members + `}` }
	server := func(members string) string { return `{"platform":"server",` + members + `}` }
	for body, param := range map[string]string{
		`{}`:                    "platform",
		`{"platform":"mobile"}`: "platform",
		server(`"name":""`):     "name",
		server(`"name":"` + strings.Repeat("x", 101) + `"`):                                  "name",
		server(`"allowed_origins":["https://a.example"]`):                                    "allowed_origins",
		browser(`"allowed_origins":"https://a.example"`):                                     "allowed_origins",
		browser(`"allowed_origins":["https://a", 1]`):                                        "allowed_origins[1]",
		browser(`"allowed_origins":["*"]`):                                                   "allowed_origins[0]",
		browser(`"allowed_origins":[` + strings.Repeat(`"https://a",`, 20) + `"https://b"]`): "allowed_origins",
		server(`"daily_quota":0`):                                                            "daily_quota",
		server(`"daily_quota":10000001`):                                                     "daily_quota",
		server(`"version":"1"`):                                                              "version",
		`[]`:                                                                                 "",
	} {
		c.do("POST", "/v1/dsns", body).wantError(400, "invalid_request", param)
	}
	secret := "sk_" + "live_q8ZkT2vN4xW7yR1mB5cJ9dL3"
	a := c.do("POST", "/v1/dsns", map[string]any{"platform": "server", "name": "prod " + secret}).want(201)
	if strings.Contains(string(a.raw), secret[3:]) || !strings.HasPrefix(a.text("name"), "prod sk_live_***") ||
		a.text("warnings.0.param") != "name" {
		t.Errorf("%s", a.raw)
	}
	c.as(readKey).do("POST", "/v1/dsns", `{"platform":"server"}`).wantError(403, "insufficient_scope", "")
}
