package web

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
)

func TestSanitizeText(t *testing.T) {
	for in, want := range map[string]struct{ text, line string }{
		"orders":                     {"orders", "orders"},
		"a\nb\tc\r\nd":               {"a\nbc\nd", "a b c  d"},
		"a\x00\x1b[31mb\x7f\u0085c":  {"a[31mbc", "a[31mb c"},
		"a\u202egpj.exe\u2066\u2069": {"agpj.exe", "agpj.exe"},
		"pay\u200bpal\ufeff\u2060\u00ad\u180e\u200d": {"paypal", "paypal"},
		"a\U000e0041\U000e007fb\u3164":               {"ab", "ab"},
		"a\u2028b\u2029c":                            {"abc", "a b c"},
		"Größe 大きい ☕\ufe0f \u0661\u0600": {"Größe 大きい ☕\ufe0f \u0661\u0600",
			"Größe 大きい ☕\ufe0f \u0661\u0600"},
		"\xff": {"\ufffd", "\ufffd"},
	} {
		if got := SanitizeText(in); got != want.text {
			t.Errorf("SanitizeText(%q) is %q, want %q", in, got, want.text)
		}
		if got := SanitizeLine(in); got != want.line {
			t.Errorf("SanitizeLine(%q) is %q, want %q", in, got, want.line)
		}
	}
}

func TestIsPrintable(t *testing.T) {
	for _, s := range []string{"", "orders", "Größe 大きい", "a b"} {
		if !IsPrintable(s) {
			t.Errorf("%q is not printable", s)
		}
	}
	for _, s := range []string{"a\nb", "a\tb", "\xff", "a\ufffd", "a\u200bb", "a\u202eb", "a\u00a0b"} {
		if IsPrintable(s) {
			t.Errorf("%q is printable", s)
		}
	}
}

func TestBreakLinks(t *testing.T) {
	for in, want := range map[string]struct{ links, addresses string }{
		"see https://example.com.": {"see https[:]//example[.]com.", "see https[:]//example[.]com."},
		"a.b, order.paid":          {"a[.]b, order[.]paid", "a.b, order.paid"},
		"1.5 s at 22:24:36.005":    {"1.5 s at 22:24:36.005", "1.5 s at 22:24:36.005"},
		"done. Next: 10.0.0.1 .":   {"done. Next: 10.0.0.1 .", "done. Next: 10.0.0.1 ."},
		"http://10.0.0.1/a":        {"http[:]//10[.]0[.]0[.]1/a", "http[:]//10[.]0[.]0[.]1/a"},
		"WWW.evil.test":            {"WWW[.]evil[.]test", "WWW[.]evil[.]test"},
		"evil.test/a":              {"evil[.]test/a", "evil[.]test/a"},
		"evil.test?a evil.test:80": {"evil[.]test?a evil[.]test:80", "evil[.]test?a evil[.]test:80"},
		`https:\/\/evil.test\/a`:   {`https[:]\/\/evil[.]test\/a`, `https[:]\/\/evil[.]test\/a`},
		"HTTPS://h:***@evil.test":  {"HTTPS[:]//h:***@evil[.]test", "HTTPS[:]//h:***@evil[.]test"},
		"Mailto:x@evil.test":       {"Mailto[:]x@evil[.]test", "Mailto[:]x@evil[.]test"},
		"x@münchen.example":        {"x@münchen[.]example", "x@münchen[.]example"},
		"evil。test/ ☕.test":        {"evil[.]test/ ☕[.]test", "evil[.]test/ ☕.test"},
		"is it paid? Mozilla/5.0":  {"is it paid? Mozilla/5.0", "is it paid? Mozilla/5.0"},
		"":                         {"", ""}, ".": {".", "."}, "://": {"[:]//", "[:]//"},
	} {
		if got := BreakLinks(in); got != want.links {
			t.Errorf("BreakLinks(%q) is %q, want %q", in, got, want.links)
		}
		if got := BreakAddresses(in); got != want.addresses {
			t.Errorf("BreakAddresses(%q) is %q, want %q", in, got, want.addresses)
		}
	}
	if in := strings.Repeat("a.", 1<<20); len(BreakLinks(in)) < len(in) { // in linear time
		t.Error("a long name was cut")
	}
}

func TestNearest(t *testing.T) {
	known := []string{"until", "type", "status", "endpoint_id", "states", "since"}
	for _, c := range []struct {
		name, want string
		most       int
	}{
		{"statuz", "status", 2},
		{"stat", "states", 2}, // as near as status, and before it in the alphabet
		{"status", "status", 0},
		{"endpointid", "endpoint_id", 1},
		{"endpointid", "", 0},
		{"colour", "", 3},
		{"", "", 3},
		{strings.Repeat("status", 1000), "", 1 << 20},
	} {
		is.Equal(t, Nearest(c.name, known, c.most), c.want, "%.20q, %d wrong at most", c.name, c.most)
	}
}
