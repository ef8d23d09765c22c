package api

import "testing"

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
