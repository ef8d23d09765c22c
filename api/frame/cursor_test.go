package frame

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// A cursor of another version may have another meaning: it is refused, also for the same list and filters.
func TestCursorsOfOtherVersionsAreRefused(t *testing.T) {
	h := newFilterHash("events")
	key := RowKey{15: 9}
	must.Equal(t, must.Get(h.key(h.Encode(CursorVersion, key[:])))(t), key, "of this version")
	for _, version := range []byte{CursorVersion - 1, CursorVersion + 1, 255} {
		if got, err := h.key(h.Encode(version, key[:])); err == nil {
			t.Errorf("a cursor of version %d is read as %v", version, got)
		}
	}
}

func TestCursorIsBoundToItsListAndFilters(t *testing.T) {
	hash := func(list string, filters ...[]string) FilterHash {
		h := newFilterHash(list)
		for _, f := range filters {
			h.Add(f...)
		}
		return h
	}
	key := [KeyLen]byte{1, 2, 3, 15: 9}
	cursor := hash("events", []string{"a", "b"}, nil).Cursor(key)
	if got, err := hash("events", []string{"b", "a", "a"}, nil).key(cursor); err != nil || got != key {
		t.Fatalf("same filters in another order: %v", err)
	}
	for name, h := range map[string]FilterHash{
		"list": hash("endpoints", []string{"a", "b"}, nil), "value": hash("events", []string{"a", "c"}, nil),
		"moved": hash("events", []string{"a"}, []string{"b"}), "fewer": hash("events", []string{"a", "b"}),
		"joined": hash("events", []string{"ab"}, nil),
	} {
		if _, err := h.key(cursor); err == nil {
			t.Errorf("a cursor of another %s was accepted", name)
		}
	}
}

func FuzzCursor(f *testing.F) {
	h := newFilterHash("events")
	f.Add(h.Cursor([KeyLen]byte{1}))
	f.Add("")
	f.Add("AQ==")
	f.Add(strings.Repeat("A", 34))
	f.Fuzz(func(t *testing.T, text string) {
		h := newFilterHash("events")
		if key, err := h.key(text); err == nil && h.Cursor(key) != text {
			t.Fatalf("%q is a second spelling of %q", text, h.Cursor(key))
		}
	})
}
