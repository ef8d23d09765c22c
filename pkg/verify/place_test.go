package verify

import (
	"maps"
	"strings"
	"testing"
)

// A body in which two readers could find different values at a path has no fields.
func TestBodyFields(t *testing.T) {
	f := func(body string, want map[string]string) {
		t.Helper()
		got := bodyFields([]byte(body), []string{"a.b", "list.0.c"})
		if !maps.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%.100s: %q, want %q", body, got, want)
		}
	}
	f(`{}`, map[string]string{})
	f(`{"a":{"b":"x","other":[1,[2]]},"list":[{"c":12.50}],"d":{"d":1,"d":2}}`,
		map[string]string{"a.b": "x", "list.0.c": "12.50"})
	f(`{"a":{"b":true},"list":[]}`, map[string]string{"a.b": "true"})
	f(`{"a":{"b":null},"list":"text"}`, map[string]string{"list": "text"})
	f(` {"a":{"b":"1"}} `, map[string]string{"a.b": "1"})
	for _, body := range []string{
		``, `[`, `{"a":`, `{"a":{"b":"x"}} {}`, "\ufeff{}", `{"a":{"b":"x","b":"y"}}`, `{"a":{"b":"x"},"a":{}}`,
		`{"a":{"b":"x","B":"y"}}`, `{"A":{"b":"x"}}`, `{"list":[{"c":1},{"c":2}]}`, `{"list":[{"c":1,"\u0063":2}]}`,
		`{"a":{"b":01}}`,
		`{"a":"` + strings.Repeat("x", maxFieldBody) + `"}`, strings.Repeat("[", 1<<20),
	} {
		f(body, nil)
	}
}
