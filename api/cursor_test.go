package api

import (
	"strings"
	"testing"
)

// A cursor of another version may have another meaning: it is refused, also for the same list and filters.
func TestCursorsOfOtherVersionsAreRefused(t *testing.T) {
	h := newFilterHash("events")
	key := rowKey{15: 9}
	if got, err := h.key(h.encode(cursorVersion, key[:])); err != nil || got != key {
		t.Fatalf("of this version: %v, %v", got, err)
	}
	for _, version := range []byte{cursorVersion - 1, cursorVersion + 1, 255} {
		if got, err := h.key(h.encode(version, key[:])); err == nil {
			t.Errorf("a cursor of version %d is read as %v", version, got)
		}
	}
}

func TestCursorIsBoundToItsListAndFilters(t *testing.T) {
	hash := func(list string, filters ...[]string) filterHash {
		h := newFilterHash(list)
		for _, f := range filters {
			h.add(f...)
		}
		return h
	}
	key := [keyLen]byte{1, 2, 3, 15: 9}
	cursor := hash("events", []string{"a", "b"}, nil).cursor(key)
	if got, err := hash("events", []string{"b", "a", "a"}, nil).key(cursor); err != nil || got != key {
		t.Fatalf("same filters in another order: %v", err)
	}
	for name, h := range map[string]filterHash{
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
	f.Add(h.cursor([keyLen]byte{1}))
	f.Add("")
	f.Add("AQ==")
	f.Add(strings.Repeat("A", 34))
	f.Fuzz(func(t *testing.T, text string) {
		h := newFilterHash("events")
		if key, err := h.key(text); err == nil && h.cursor(key) != text {
			t.Fatalf("%q is a second spelling of %q", text, h.cursor(key))
		}
	})
}
