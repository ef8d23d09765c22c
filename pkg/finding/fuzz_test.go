package finding

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// A record that can be read can be written and read again, and an encoded one is valid.
func FuzzDecode(f *testing.F) {
	f.Add(fullHit().Encode())
	f.Add([]byte(`{"v":1,"t":"counts","acc":"a","snd":"drn_1","min":60,"node":"n","boot":"AAAAAAAAAAAAAAAAAAAAAA=="}`))
	f.Add([]byte(`{"v":1,"t":"hit"}`))
	f.Add(bytes.Replace(fullHit().Encode(), []byte(`"rule":"r"`), []byte(`"rule":"\u007f"`), 1))
	f.Fuzz(func(t *testing.T, value []byte) {
		if h, err := Decode(value); err == nil {
			if again, err := Decode(h.Encode()); err != nil || again.Finding != h.Finding || again.ID != h.ID {
				t.Fatalf("%v: %+v", err, h)
			}
		}
		if c, err := DecodeCounts(value); err == nil {
			if _, err := DecodeCounts(c.Encode()); err != nil {
				t.Fatalf("%v: %+v", err, c)
			}
		}
	})
}

// What strangers wrote is stored within its bound, as valid text that shows everything that it has.
func FuzzClean(f *testing.F) {
	f.Add("a\u202eb\xff\n\x1b[0m", 5)
	f.Add("é✓\ufe0f", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = min(max(most, 0), 1_000)
		clean := Clean(text, most)
		if len(clean) > most || !utf8.ValidString(clean) || Clean(clean, most) != clean {
			t.Fatalf("%q became %q, at most %d bytes", text, clean, most)
		}
	})
}
