package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// The secrets of a destination's settings are sealed, shown as masks, and kept by them. Nobody who does not know them
// can have them sent to another address.
func TestSettingsOfADestination(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{"destinations": []any{map[string]any{"url": "https://example.com/h",
		"auth": map[string]any{"type": "oauth2_client_credentials", "token_url": "https://login.example.com/token",
			"client_id": "relay", "client_secret": "planted-secret-1", "username": "of another type"}}}})
	endpoint := "/v1/endpoints/" + created.text("id")
	dest := endpoint + "/destinations/" + created.text("destinations.0.id")
	stored := func() string {
		e, presence := configuration.Endpoint(created.text("id"))
		must.Equal(t, presence, entity.Present)
		return string(must.Get(json.Marshal(e.Destinations[0]))(t))
	}
	first := stored()
	read := c.do("GET", endpoint, nil).want(200)
	for where, text := range map[string]string{"log": first, "answer": string(read.raw), "lines": c.log.String()} {
		if strings.Contains(text, "planted") || strings.Contains(text, "of another type") {
			t.Errorf("%s: %s", where, text)
		}
	}
	is.Equal(t, read.text("destinations.0.auth.client_secret"), "****et-1", "the secret is shown as")
	for _, same := range []string{string(must.Get(json.Marshal(read.get("destinations.0")))(t)),
		`{"auth":{"client_secret":"****et-1"}}`, `{"auth":{"client_secret":"planted-secret-1"}}`,
		`{"auth":{"client_auth":"header"}}`} {
		if c.do("PATCH", dest, same).want(200); stored() != first {
			t.Errorf("%s has changed it", same)
		}
	}
	f := func(body, param string) {
		t.Helper()
		c.do("PATCH", dest, body).wantError(400, "invalid_request", param)
	}
	f(`{"url":"https://elsewhere.example.com/h"}`, "auth.client_secret")
	f(`{"auth":{"token_url":"https://elsewhere.example.com/token"}}`, "auth.client_secret")
	f(`{"auth":{"token_url":"http://login.example.com/token"}}`, "auth.token_url")
	f(`{"auth":{"token_url":"https://10.0.0.1/token"}}`, "auth.token_url")
	f(`{"auth":{"client_secret":"****abcd"}}`, "auth.client_secret")
	f(`{"auth":{"client_secret":null}}`, "auth.client_secret")
	f(`{"auth":{"type":"digest"}}`, "auth.type")
	f(`{"auth":{"type":"basic","username":"a"}}`, "auth.password")
	f(`{"auth":{"type":"basic","username":"a:b","password":"c"}}`, "auth.username")
	f(`{"auth":{"type":"mtls","certificate":"c","key":"k"}}`, "auth.key")
	is.Equal(t, stored(), first, "a refused change was stored")
	c.do("PATCH", dest, `{"auth":{"token_url":"https://elsewhere.example.com/token","client_secret":"planted-secret-2"}}`).
		want(200)
	c.do("PATCH", dest, `{"auth":{"type":"basic","username":"a","password":"short"}}`).want(200)
	if read = c.do("GET", endpoint, nil).want(200); read.text("destinations.0.auth.password") != "****" ||
		strings.Contains(string(read.raw), "token_url") {
		t.Errorf("%s", read.raw)
	}
	c.do("PATCH", dest, `{"auth":null}`).want(200)
	is.Lacks(t, stored(), "auth")
}

// A destination of another kind has the address of its settings in place of a URL, and stays of its kind.
func TestKindsOfDestinations(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{"destinations": []any{"https://example.com/h", map[string]any{
		"name": "topic", "kafka": map[string]any{"brokers": []string{"kafka.example.com:9093", "10.example.com:9093"},
			"topic": "orders", "sasl": "plain", "username": "relay", "password": "planted-secret-1"}}}})
	endpoint := "/v1/endpoints/" + created.text("id")
	dest := func(i string) string { return endpoint + "/destinations/" + created.text("destinations."+i+".id") }
	read := c.do("GET", endpoint, nil).want(200)
	if url, kafka := read.text("destinations.1.url"), read.get("destinations.1.kafka").(map[string]any); url !=
		"kafka://kafka.example.com:9093/orders" || kafka["password"] != "****et-1" || kafka["key"] != "event_id" ||
		kafka["max_record_bytes"] != 1e6 || read.get("destinations.0.kafka") != nil {
		t.Errorf("%s", read.raw)
	}
	before, _ := configuration.Endpoint(created.text("id"))
	c.do("PATCH", endpoint, string(read.raw)).want(200)
	c.do("PATCH", dest("1"), string(must.Get(json.Marshal(read.get("destinations.1")))(t))).want(200)
	if after, _ := configuration.Endpoint(created.text("id")); after.Rev != before.Rev {
		t.Error("a round trip has changed it")
	}
	if c.do("PATCH", dest("1"), `{"kafka":{"topic":"paid"}}`).want(200).text("url") !=
		"kafka://kafka.example.com:9093/paid" {
		t.Error("the address does not follow the topic")
	}
	f := func(path, body, param string) {
		t.Helper()
		c.do(map[bool]string{true: "POST", false: "PATCH"}[strings.HasSuffix(path, "destinations")], path, body).
			wantError(400, "invalid_request", param)
	}
	f(dest("1"), `{"url":"https://example.com/h"}`, "url")
	f(dest("1"), `{"kafka":null,"url":"https://example.com/h"}`, "kafka")
	f(dest("0"), `{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"orders"}}`, "kafka")
	f(dest("1"), `{"auth":{"type":"basic","username":"a","password":"b"}}`, "auth")
	f(dest("1"), `{"kafka":{"brokers":["elsewhere.example.com:9093"]}}`, "kafka.password")
	f(dest("1"), `{"kafka":{"plaintext":true}}`, "kafka.brokers")
	all := endpoint + "/destinations"
	f(all, `{}`, "url")
	f(all, `{"ordering":{"by":"endpoint"}}`, "url")
	f(all, `{"kafka":{}}`, "kafka.brokers")
	f(all, `{"kafka":{"brokers":["kafka.example.com"],"topic":"a"}}`, "kafka.brokers")
	f(all, `{"kafka":{"brokers":["10.0.0.1:9092"],"topic":"a"}}`, "kafka.brokers")
	f(all, `{"kafka":{"brokers":["kafka.example.com:9093"]}}`, "kafka.topic")
	f(all, `{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"a b"}}`, "kafka.topic")
	f(all, `{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"a","key":"customer"}}`, "kafka.key")
	f(all, `{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"a","sasl":"plain"}}`, "kafka.password")
	f(all, `{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"a","ca":"no PEM"}}`, "kafka.ca")
	c.do("POST", all, `{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"a"}}`).want(201)
	const key = `"access_key_id":"a","secret_access_key":"planted-secret-1"`
	f(all, `{"s3":{"bucket":"Events","region":"r",`+key+`}}`, "s3.bucket")
	f(all, `{"s3":{"bucket":"events",`+key+`}}`, "s3.region")
	f(all, `{"s3":{"bucket":"events","region":"r","access_key_id":"a"}}`, "s3.secret_access_key")
	f(all, `{"s3":{"bucket":"events","region":"r","endpoint":"http://a.example.com",`+key+`}}`, "s3.endpoint")
	f(all, `{"s3":{"bucket":"events","region":"r","endpoint":"https://a.example.com/b",`+key+`}}`, "s3.endpoint")
	f(all, `{"s3":{"bucket":"events","region":"r","key":"all.ndjson",`+key+`}}`, "s3.key")
	bucket := c.do("POST", all, `{"s3":{"bucket":"events","region":"eu-central-1",`+key+`}}`).want(201)
	if bucket.text("url") != "s3://events" || bucket.text("s3.secret_access_key") != "****et-1" {
		t.Errorf("%s", bucket.raw)
	}
	f(endpoint+"/destinations/"+bucket.text("id"), `{"s3":{"region":"elsewhere"}}`, "s3.secret_access_key")
}

// The order of a destination, of any kind.
func TestOrderingOfADestination(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{"destinations": []any{map[string]any{"url": "https://example.com/h",
		"ordering": map[string]any{"by": "body:$.data.id"}}, map[string]any{
		"kafka":    map[string]any{"brokers": []string{"kafka.example.com:9093"}, "topic": "orders"},
		"ordering": map[string]any{"by": "endpoint", "when_failed": "skip"}}}})
	if created.text("destinations.0.ordering.when_failed") != "block" ||
		created.text("destinations.1.ordering.when_failed") != "skip" {
		t.Errorf("%s", created.raw)
	}
	dest := "/v1/endpoints/" + created.text("id") + "/destinations/" + created.text("destinations.0.id")
	for body, param := range map[string]string{
		`{"ordering":{"by":"data.id"}}`:             "ordering.by",
		`{"ordering":{"by":"body:$.a|header:X-B"}}`: "ordering.by",
		`{"ordering":{"by":"header:no name"}}`:      "ordering.by",
		`{"ordering":{"by":null}}`:                  "ordering.by",
		`{"ordering":{"when_failed":"stop"}}`:       "ordering.when_failed",
		`{"ordering":"endpoint"}`:                   "ordering",
	} {
		c.do("PATCH", dest, body).wantError(400, "invalid_request", param)
	}
	if c.do("PATCH", dest, `{"ordering":{"when_failed":"skip"}}`).want(200).text("ordering.by") != "body:$.data.id" {
		t.Error("it was not merged")
	}
	if c.do("PATCH", dest, `{"ordering":null}`).want(200).get("ordering") != nil {
		t.Error("null does not end it")
	}
}

// The secrets of a source are sealed, masked and kept, and its brokers are checked. Its answer has the status.
func TestSourceOfAnEndpoint(t *testing.T) {
	c := newClient(t)
	endpoint := "/v1/endpoints/" + c.endpoint(nil).text("id")
	f := func(source, param string) {
		t.Helper()
		c.do("PATCH", endpoint, `{"source":`+source+`}`).wantError(400, "invalid_request", param)
	}
	f(`{}`, "source.kafka")
	f(`{"kafka":{}}`, "source.kafka.brokers")
	f(`{"kafka":{"brokers":["10.0.0.1:9092"],"topic":"orders"}}`, "source.kafka.brokers")
	f(`{"kafka":{"brokers":["kafka.example.com:9093"]}}`, "source.kafka.topic")
	f(`{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"orders","group":"a b"}}`, "source.kafka.group")
	f(`{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"orders","start":"now"}}`, "source.kafka.start")
	f(`{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"orders","sasl":"plain"}}`, "source.kafka.password")
	read := c.do("PATCH", endpoint, `{"source":{"kafka":{"brokers":["kafka.example.com:9093"],"topic":"orders",
		"sasl":"plain","username":"relay","password":"planted-secret-1"}}}`).want(200)
	if k := read.get("source.kafka").(map[string]any); k["password"] != "****et-1" || k["start"] != "latest" ||
		k["group"] != "eventrelay-"+read.text("id") || read.get("source_status.lag") != 7.0 ||
		read.text("source_status.error") != "topic orders not found" {
		t.Errorf("%s", read.raw)
	}
	before, _ := configuration.Endpoint(read.text("id"))
	if stored := string(must.Get(json.Marshal(before))(t)); strings.Contains(stored+c.log.String(), "planted") {
		t.Error(stored)
	}
	f(`{"kafka":{"brokers":["elsewhere.example.com:9093"]}}`, "source.kafka.password")
	c.do("PATCH", endpoint, string(read.raw)).want(200)
	c.do("PATCH", endpoint, `{"source":{"kafka":{"topic":"orders"}}}`).want(200)
	if after, _ := configuration.Endpoint(read.text("id")); after.Rev != before.Rev {
		t.Error("a round trip has changed it")
	}
	if c.do("PATCH", endpoint, `{"source":null}`).want(200).get("source") != nil {
		t.Error("it has a source still")
	}
}

// The credential of a provider's API is sealed, masked and kept, and its settings are checked. How the last look ended
// can be read.
func TestReconcileOfAnEndpoint(t *testing.T) {
	c := newClient(t)
	generic := "/v1/endpoints/" + c.endpoint(nil).text("id")
	c.do("PATCH", generic, `{"reconcile":{"credential":"rk_test_1"}}`).wantError(400, "invalid_request", "reconcile")
	stripe := "/v1/endpoints/" + c.endpoint(map[string]any{"provider": "stripe"}).text("id")
	github := "/v1/endpoints/" + c.endpoint(map[string]any{"provider": "github"}).text("id")
	for _, x := range [][3]string{
		{stripe, `{}`, "reconcile.credential"},
		{stripe, `{"credential":"rk_test_1","hook":"repos/a/b/hooks/1"}`, "reconcile.hook"},
		{stripe, `{"credential":"rk_test_1","every_seconds":5}`, "reconcile.every_seconds"},
		{stripe, `{"credential":"rk_test_1","since":"yesterday-ish"}`, "reconcile.since"},
		{stripe, `{"credential":"rk_test_1","api_url":"http://10.0.0.1"}`, "reconcile.api_url"},
		{github, `{"credential":"github_pat_1"}`, "reconcile.hook"},
		{github, `{"credential":"github_pat_1","hook":"repos/a/../hooks/1?x="}`, "reconcile.hook"},
	} {
		c.do("PATCH", x[0], `{"reconcile":`+x[1]+`}`).wantError(400, "invalid_request", x[2])
	}
	c.do("PATCH", stripe, `{"dedup":null,"reconcile":{"credential":"rk_test_1"}}`).wantError(400, "invalid_request",
		"reconcile")
	none := c.do("GET", stripe+"/reconciliation", nil).want(200)
	if none.get("at") != nil || none.get("last.found") != 0.0 {
		t.Errorf("%s", none.raw)
	}
	read := c.do("PATCH", stripe, `{"reconcile":{"credential":"rk_test_planted","types":["invoice.paid"]}}`).want(200)
	if k := read.get("reconcile").(map[string]any); k["credential"] != "****nted" || k["every_seconds"] != 300.0 ||
		k["api_url"] != "https://api.stripe.com" || k["since"] == nil {
		t.Errorf("%s", read.raw)
	}
	before, _ := configuration.Endpoint(read.text("id"))
	if stored := string(must.Get(json.Marshal(before))(t)); strings.Contains(stored+c.log.String(), "planted") {
		t.Error(stored)
	}
	is.Equal(t, before.DedupWindow(), 31*24*time.Hour, "events are remembered for")
	c.do("PATCH", stripe, `{"reconcile":{"api_url":"https://elsewhere.example.com"}}`).wantError(400, "invalid_request",
		"reconcile.credential")
	c.do("PATCH", stripe, string(read.raw)).want(200)
	if after, _ := configuration.Endpoint(read.text("id")); after.Rev != before.Rev {
		t.Error("a round trip has changed it")
	}
	status := c.do("GET", stripe+"/reconciliation", nil).want(200)
	if status.get("last.stored") != 1.0 || status.get("total.found") != 9.0 || status.get("failed_in_a_row") != 2.0 ||
		status.text("error") != "api.stripe.com answers 500" || status.text("provider") != "stripe" {
		t.Errorf("%s", status.raw)
	}
	c.do("PATCH", github, `{"reconcile":{"credential":"github_pat_1","hook":"orgs/example/hooks/7"}}`).want(200)
	if c.do("PATCH", stripe, `{"reconcile":null}`).want(200).get("reconcile") != nil {
		t.Error("null does not end it")
	}
}
