package apikey

import (
	"hash/crc32"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A key has the format that the API documents: 32 base62 characters and their CRC32 as 6 more, left-padded.
func TestNewKeyHasFormat(t *testing.T) {
	seen := make(map[string]bool)
	for range 200 {
		text := New()
		if seen[text] || len(text) != len("rly_live_")+38 || !HasFormat(text) {
			t.Fatalf("key %q", text)
		}
		seen[text] = true
		sum := uint32(0)
		for _, c := range text[len(text)-6:] {
			sum = sum*62 + uint32(strings.IndexRune(base62, c))
		}
		must.Equal(t, sum, crc32.ChecksumIEEE([]byte(text[9:9+32])), "checksum")
	}
	// CRC-32/ISO-HDLC of "123456789" is cbf43926 (the check value of the catalogue of CRCs).
	must.Equal(t, checksum("123456789"), "3jZRME", "checksum")
	f := func(s string) {
		t.Helper()
		if HasFormat(s) {
			t.Errorf("HasFormat(%q) is true", s)
		}
	}
	text := New()
	f("")
	f(text[:len(text)-1])
	f(text + "0")
	f(NewTestKey())
	if fake := NewTestKey(); !IsTestKey(fake) || IsTestKey(text) || IsTestKey(fake[:len(fake)-1]) {
		t.Errorf("fake %s", fake)
	}
	f(strings.Replace(text, text[9:10], map[bool]string{true: "b", false: "a"}[text[9] == 'a'], 1))
	f(text[:9] + "-" + text[10:])
}

func TestWeak(t *testing.T) {
	f := func(text string, want bool) {
		t.Helper()
		is.Equal(t, Weak(text), want, "%q is weak", text)
	}
	f("", false) // no key
	f(New(), false)
	f("3f9a0c7d5e1b8642f0a1b2c3d", false)
	f("3f9a0c7d5e1b8642f0a1b2c", true) // 23 characters
	f("changeme-changeme", true)
	f(strings.Repeat("a", 64), true)
	f(strings.Repeat("password-", 8), true)
	f(strings.Repeat("012345678", 8), true)
}
