package web

import (
	"strings"
	"testing"
)

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
