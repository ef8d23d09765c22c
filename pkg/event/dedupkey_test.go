package event

import (
	"net/http"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

func TestDedupKey(t *testing.T) {
	header := http.Header{"X-Github-Delivery": {"72d3162e", "second"}, "X-Empty": {""}}
	f := func(key, body, want string, ok bool) {
		t.Helper()
		k, err := ParseDedupKey(key)
		must.Do(t, err, key)
		if got, found := k.OfReceived(header, []byte(body)); got != want || found != ok {
			t.Errorf("%s of %.60s: %q %v, want %q %v", key, body, got, found, want, ok)
		}
	}
	f("header:X-GitHub-Delivery", "not json", "72d3162e", true)
	f("header:x-github-delivery", "", "72d3162e", true)
	f("header:X-Empty", "", "", false)
	header.Set("Svix-Id", "msg_1")
	f("header:Webhook-Id", "", "msg_1", true) // two names of one header
	header.Del("Svix-Id")
	header.Set("Webhook-Id", "msg_2")
	f("header:Svix-Id", "", "msg_2", true)
	header.Set("Svix-Id", "msg_1")
	f("header:Webhook-Id", "", "msg_2", true)
	f("header:X-Absent", "", "", false)
	f("body:$.id", `{"id":"evt_1"}`, "evt_1", true)
	f("body:id", `{"id":"\u0061"}`, "a", true)
	f("body:$.id", `{"id":4200000000000000000001}`, "4200000000000000000001", true) // not exact as a float64
	f("body:$.id", `{"id":1.0}`, "1.0", true)
	f("body:$.data.0.id", `{"data":[{"id":"x"}]}`, "x", true)
	f("body:$.a*", `{"a*":"star","ab":"x"}`, "star", true)
	long := strings.Repeat("x", 1<<16)
	f("body:$.id", `{"id":"`+long+`"}`, long, true)
	for _, none := range []string{``, `{}`, `[]`, `{"id":""}`, `{"id":null}`, `{"id":true}`, `{"id":{}}`, `{"id":["a"]}`,
		`{"id":"x"`, `{"id":"x"} x`, `id="x"`, `{"ID":"x"}`} {
		f("body:$.id", none, "", false)
	}
	for _, bad := range []string{
		"", "$.id", "body", "body:", "header:", "header:a b", "header:ä", "const:x", "body:$.a|body:$.b", "header:A|header:B",
		"Body:$.id"} {
		if _, err := ParseDedupKey(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
