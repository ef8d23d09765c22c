package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// An entry is readable as soon as its change was answered, with its actor, request, address and changed members.
func TestAuditShowsChanges(t *testing.T) {
	c := newClient(t)
	me := c.do("GET", "/v1/me", nil).want(200)
	// The outbox goes to a log that no test reads each 15 s. What has gone in the middle is made again.
	var a, patched *answer
	var ep, dst string
	for tries := 0; a == nil || len(a.Body["data"].([]any)) < 4 && tries < 5; tries++ {
		created := c.endpoint(map[string]any{"metadata": map[string]any{"planted": "planted-value"}})
		ep, dst = created.text("id"), created.text("destinations.0.id")
		c.do("PATCH", "/v1/endpoints/"+ep, `{"name":"other","retry_policy":{"max_attempts":1}}`).want(200)
		patched = c.do("PATCH", "/v1/endpoints/"+ep+"/destinations/"+dst, `{"enabled":false}`).want(200)
		c.do("PATCH", "/v1/endpoints/"+ep, `{"name":"other"}`).want(200) // changes nothing
		c.do("PATCH", "/v1/endpoints/"+ep, `{"name":7}`).want(400)
		c.do("DELETE", "/v1/endpoints/"+ep, nil).want(200)
		a = c.as(readKey).do("GET", "/v1/audit?entity_id="+ep, nil).want(200)
	}
	var got []string
	for i := range a.Body["data"].([]any) {
		row := fmt.Sprintf("data.%d.", i)
		got = append(got, fmt.Sprint(a.text(row+"action"), a.get(row+"changes")))
		if a.text(row+"object") != "audit_entry" || !strings.HasPrefix(a.text(row+"id"), "aud_") ||
			a.text(row+"entity.type") != "endpoint" || a.text(row+"entity.id") != ep ||
			a.text(row+"actor.type") != "key" || a.text(row+"actor.id") != me.text("key_id") ||
			a.text(row+"actor.name") != "bootstrap" ||
			a.text(row+"remote_ip") != "192.0.2.1" || !strings.HasPrefix(a.text(row+"request_id"), "req_") ||
			a.get(row+"use") != nil {
			t.Errorf("%s", a.raw)
		}
	}
	want := []string{
		"endpoint.deleted[]", "endpoint.updated[destinations." + dst + ".enabled]",
		"endpoint.updated[name retry_policy.max_attempts]", "endpoint.created[]",
	}
	is.List(t, got, want)
	is.Equal(t, a.text("data.1.request_id"), patched.Header.Get("X-Request-Id"), "%s", a.raw)
	if strings.Contains(string(a.raw), "planted") || strings.Contains(string(a.raw), "next_cursor") {
		t.Errorf("%s", a.raw)
	}
}

// The outbox and the store form one list: each entry appears once on its pages, even while entries move from one to
// the other.
func TestAuditPages(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	for i := range 4 {
		c.do("PATCH", "/v1/endpoints/"+ep, fmt.Sprintf(`{"name":"n%d"}`, i)).want(200)
	}
	waiting := configuration.Outbox(audit.Query{Account: configuration.Account().ID, Entities: []string{ep}, Limit: 100})
	must.Equal(t, len(waiting), 5, "entries")
	old := waiting[4]
	old.At = old.At.Add(-time.Hour)
	old.ID = audit.NewID(old.At, 1, "old")
	c.fake.entries = []audit.Entry{waiting[2], waiting[4], old} // partly copied already

	var got []string
	target := "/v1/audit?limit=2&entity_id=" + ep
	for page := 0; ; page++ {
		a := c.do("GET", target, nil).want(200)
		for _, row := range a.Body["data"].([]any) {
			got = append(got, row.(map[string]any)["id"].(string))
		}
		next, more := a.Body["next_cursor"].(string)
		if !more {
			break
		}
		if target = "/v1/audit?limit=2&entity_id=" + ep + "&cursor=" + next; page == 0 {
			c.fake.entries = slices.Concat(waiting, []audit.Entry{old})
		}
	}
	var want []string
	for _, e := range append(waiting, old) {
		want = append(want, e.ID.Text(audit.Prefix))
	}
	is.List(t, got, want)
	c.do("GET", strings.Replace(target, ep, "ep_other", 1), nil).wantError(400, "invalid_request", "cursor")
}

func TestAuditFilters(t *testing.T) {
	c := newClient(t)
	at := time.Date(2020, 1, 2, 3, 4, 5, 6e6, time.UTC)
	used := audit.Entry{
		ID: audit.NewID(at, 0, "used"), Account: configuration.Account().ID, At: at, Actor: audit.ActorOf("key_1", "ci"),
		Action:     audit.KeyUsed,
		EntityType: "key", Entity: "key_1", Node: "a", Count: 7, LastAt: at.Add(time.Minute),
	}
	c.fake.entries = []audit.Entry{used}
	f := func(want int, query string) {
		t.Helper()
		if a := c.do("GET", "/v1/audit?until=2020-01-03&"+query, nil).want(200); len(a.Body["data"].([]any)) != want {
			t.Errorf("%s: %s", query, a.raw)
		}
	}
	f(1, "")
	f(1, "actor=key_1")
	f(1, "actor=key")
	f(1, "actor=key_2,key_1")
	f(0, "actor=key_2")
	f(1, "action=key.used")
	f(1, "action[]=endpoint.updated&action[]=key.*")
	f(0, "action=key.created")
	f(1, "entity_id=key_1")
	f(0, "entity_id=key_2")
	f(1, "since=2020-01-02T03:04:05.006Z")
	f(0, "since=2020-01-02T03:04:05.007Z")
	if a := c.do("GET", "/v1/audit?actor=key_1", nil); a.get("data.0.use.count") != 7.0 ||
		a.text("data.0.use.last_at") != "2020-01-02T03:05:05.006Z" ||
		a.text("data.0.use.node") != "a" || a.get("data.0.request_id") != nil || a.get("data.0.remote_ip") != nil {
		t.Errorf("%s", a.raw)
	}
	g := func(param, query string) {
		t.Helper()
		c.do("GET", "/v1/audit?"+query, nil).wantError(400, "invalid_request", param)
	}
	g("actors", "actors=key_1")
	g("action", "action=created")
	g("action", "action=*")
	g("action", "action=key.us*")
	g("since", "since=tomorrow")
	g("until", "since=2020-01-02&until=2020-01-02")
	g("until", "since=2099-01-02&until=2099-01-03")
	g("limit", "limit=0")
	g("cursor", "cursor=x")
	g("entity_id", "entity_id="+strings.Repeat("x", 2000))
	c.do("POST", "/v1/audit", "{}").want(404)
	c.as("").do("GET", "/v1/audit", nil).want(401)
}

// Every request with a valid key counts as a use, refused ones too; a request with an invalid key does not.
func TestKeyUsesAreRecorded(t *testing.T) {
	c := newClient(t)
	id := c.do("GET", "/v1/me", nil).want(200).text("key_id")
	c.do("GET", "/v1/nope", nil).want(404)
	c.as("no-such-key-anywhere").do("GET", "/v1/me", nil).want(401)
	is.List(t, c.fake.uses, []string{id + " from 192.0.2.1", id + " from 192.0.2.1"})
}
