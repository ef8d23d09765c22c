package entity

import (
	"encoding/json"
	"testing"
)

// Changes of lists find elements by id, kind or secret, and do not restore removed elements.
func TestUnknownMembersOfLists(t *testing.T) {
	f := func(stored, known, next, want string) {
		t.Helper()
		if got := merge(json.RawMessage(stored), json.RawMessage(known), json.RawMessage(next)); string(got) != want {
			t.Errorf("%s → %s, want %s", next, got, want)
		}
	}
	f(`{"a":1,"x":2}`, `{"a":1}`, `{"a":3}`, `{"a":3,"x":2}`)
	f(`{"a":1,"x":2}`, `{"a":1}`, `{}`, `{"x":2}`)
	f(`{"a":{"x":1}}`, `{"a":{}}`, `{"a":null}`, `{"a":null}`)
	f(`{"a":null}`, `{"a":null}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`)
	f(`[{"id":"1","x":1},{"id":"2","x":2}]`, `[{"id":"1"},{"id":"2"}]`, `[{"id":"2","a":1},{"id":"3"}]`,
		`[{"a":1,"id":"2","x":2},{"id":"3"}]`)
	f(`[{"kind":"a","x":1}]`, `[{"kind":"a"}]`, `[{"kind":"b"}]`, `[{"kind":"b"}]`)
	f(`[{"secret":"1","x":1},{"secret":"2","x":2}]`, `[{"secret":"1"},{"secret":"2"}]`,
		`[{"secret":"new"},{"secret":"1"}]`,
		`[{"secret":"new"},{"secret":"1","x":1}]`) // rotated
	f(`[{"secret":"1","x":1},{"secret":"2","x":2}]`, `[{"secret":"1"},{"secret":"2"}]`, `[{"secret":"3"},{"secret":"2"}]`,
		`[{"secret":"3","x":1},{"secret":"2","x":2}]`) // the first is sealed again
	f(`["a"]`, `["a"]`, `["b"]`, `["b"]`)
}
