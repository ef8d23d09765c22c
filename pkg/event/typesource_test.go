package event_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestTypeSource(t *testing.T) {
	header := http.Header{"X-Github-Event": {"push"}, "X-Bad": {"a\x00b"}, "X-Wide": {"a\u00a0b"}}
	f := func(source, body, want string) {
		t.Helper()
		s := must.Get(event.ParseTypeSource(source))(t)
		is.Equal(t, s.Of(header, []byte(body)), want, "%s of %s is", source, body)
	}
	f("", `{"type":"a"}`, "")
	f("body:$.type", `{"type":"a.b"}`, "a.b")
	f("body:$.data.items.1.kind", `{"data":{"items":[{},{"kind":"x"}]}}`, "x")
	f("body:$.type", `{"type":5}`, "")
	f("body:$.type", `{"type":"a"`, "")
	f("body:$.type", `not json`, "")
	f("body:$.type", ``, "")
	f("body:$.type", `{"type":"`+strings.Repeat("a", 128)+`"}`, strings.Repeat("a", 128))
	f("body:$.type", `{"type":"`+strings.Repeat("a", 129)+`"}`, "")
	f("body:$.type", `{"type":"a b"}`, "")
	f("body:$.*", `{"type":"a"}`, "")
	f("body:$.@this", `{"type":"a"}`, "")
	f("header:x-github-event", `{}`, "push")
	f("header:X-Bad", `{}`, "")
	for _, hidden := range []string{"\u00a0", "\u0085", "\u200b", "\u202e", "\u3000", "\ufffd"} {
		f("body:$.type", `{"type":"a`+hidden+`b"}`, "")
	}
	f("body:$.type", `{"type":"größe.注文.🛒"}`, "größe.注文.🛒")
	f("header:X-Wide|body:$.type", `{"type":"a.b"}`, "a.b")
	f("const:order.created", ``, "order.created")
	f("const:order\u00a0created", ``, "order\u00a0created") // by the owner, and saved before
	f("body:$.event.type|body:$.type", `{"event":{"type":"message"},"type":"event_callback"}`, "message")
	f("body:$.event.type|body:$.type", `{"type":"event_callback"}`, "event_callback")
}

// Four alternatives are the maximum: each may read the whole body. A source that was saved before the limit existed
// uses its first four.
func TestTypeSourceAlternatives(t *testing.T) {
	header := http.Header{"X-D": {"fourth"}, "X-E": {"fifth"}}
	four := "header:X-A|header:X-B|header:X-C|header:X-D"
	if s, err := event.ParseTypeSource(four); err != nil || s.Of(header, nil) != "fourth" {
		t.Errorf("four alternatives: %v", err)
	}
	s, err := event.ParseTypeSource(four + "|header:X-E")
	is.Failed(t, err, "more than 4 alternatives", "five alternatives")
	is.Equal(t, s.Of(header, nil), "fourth", "a source with five gives")
}

func TestParseTypeSourceRejectsInvalidText(t *testing.T) {
	for _, s := range []string{"type", "body:", "body:$.", "body:a..b", "header:", "header:a b", "const:", "const:a b",
		"const:a\x7f", "const:a\xff", "body:" + strings.Repeat("a", 257),
		"const:" + strings.Repeat("a", 129), "body:" + strings.Repeat("a.", 16) + "a", "body:a|nope"} {
		if _, err := event.ParseTypeSource(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
	for _, s := range []string{"body:" + strings.Repeat("a", 256), "body:" + strings.Repeat("a.", 15) + "a",
		"const:" + strings.Repeat("a", 128)} {
		if _, err := event.ParseTypeSource(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func FuzzBodyPath(f *testing.F) {
	f.Add("$.a.b", `{"a":{"b":1}}`)
	f.Add("a.#(b==1)", `{"a":[{"b":1}]}`)
	f.Add("a|@reverse", `[]`)
	f.Fuzz(func(t *testing.T, path, body string) {
		p, err := event.ParseBodyPath(path)
		if err != nil {
			return
		}
		if doc, ok := event.ParseJSON([]byte(body)); ok {
			doc.Lookup(p)
		}
	})
}

func TestPathDoubt(t *testing.T) {
	for path, want := range map[string]string{
		"data.order.id": "", "$.data.a/b": "", "a*": "", "*a.b": "", "a[": "", "a]": "", "items.0.id": "", "$./a": "",
		"/data/n": "data.order.id for /data/order/id", "/data/a~1b": "data.order.id for /data/order/id",
		"data.*": "a path names one value", "$.*.id": "a path names one value", "items[*].id": "a path names one value",
		"items[0].id": "write items.0 for items[0]", "$['a']": "write items.0",
	} {
		if _, err := event.ParseBodyPath(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if got := event.PathDoubt(path); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// A text is a valid type exactly if it is the type of an event that a provider sends.
func TestValidTypeIsTheRuleOfReceivedTypes(t *testing.T) {
	source := must.Get(event.ParseTypeSource("body:$.type"))(t)
	for text, want := range map[string]bool{
		"order.paid": true, "orders/create": true, "app/uninstalled": true, "customer.subscription.updated": true,
		"com.github:push-1_x": true, "a,b": true, "order.*": true, `a"b\c`: true, "größe": true,
		strings.Repeat("a", 128): true, strings.Repeat("a", 129): false, strings.Repeat("ä", 65): false,
		"": false, "a b": false, "a\tb": false, "a\n": false, "a\u00a0b": false, "a\u200bb": false, "a\u202eb": false,
		"a\x7f": false, "a\ufffd": false, "a\xff": false,
	} {
		body := must.Get(json.Marshal(map[string]string{"type": text}))(t)
		received := source.Of(nil, body) != ""
		if got := event.ValidType(text); got != want || received != want {
			t.Errorf("%q: valid %v, received %v, want %v", text, got, received, want)
		}
	}
}
