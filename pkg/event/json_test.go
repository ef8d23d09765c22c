package event_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestValidJSON(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	objects := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for body, want := range map[string]bool{
		`{"a":[1,"]",{}]}`: true, `{"a":`: false, ``: false, `"\"[["`: true,
		nested(1024): true, nested(1025): false,
		objects(1024): true, objects(1025): false,
		`[[],` + nested(1023) + `]`:                         true,
		`[` + nested(1024) + `,[]]`:                         false,
		`[` + strings.Repeat(`{},`, 3000) + `1]`:            true,
		`[` + strings.Repeat(`[],`, 3000) + `1]`:            true,
		`["` + strings.Repeat(`[\"{`, 3000) + `"]`:          true,
		`{"x":"` + strings.Repeat(`[`, 3000) + `"}`:         true,
		`["\\",` + nested(1024) + `]`:                       false,
		strings.Repeat(`{"a":`, 3000):                       false,
		strings.Repeat("[", 10<<20):                         false,
		`{"a":"` + strings.Repeat(`[`, 3000) + nested(1025): false,
	} {
		is.Equal(t, event.ValidJSON([]byte(body)), want, "%.30q of %d bytes", body, len(body))
		if _, got := event.ParseJSON([]byte(body)); got != want {
			t.Errorf("%.30q of %d bytes is parsed: %t", body, len(body), got)
		}
	}
}

// Parsing ten million nested brackets would need more stack than a process may have.
func TestDeeplyNestedBodyIsNotJSON(t *testing.T) {
	body := []byte(strings.Repeat("[", 10<<20))
	source := must.Get(event.ParseTypeSource("body:$.type"))(t)
	if got := source.Of(http.Header{}, body); got != "" {
		t.Errorf("the type is %q, want none", got)
	}
	key := must.Get(event.ParseDedupKey("body:$.id"))(t)
	body = append([]byte(`{"id":"x","a":`), body...)
	if value, ok := key.Of(http.Header{}, body); ok {
		t.Errorf("the deduplication value is %q, want none", value)
	}
}
