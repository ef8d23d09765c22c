package secrets

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// acme returns a valid rule of a customer.
func acme(id string, prefixes ...string) Custom {
	return Custom{ID: CustomPrefix + id, Name: "Key of " + id, Prefixes: prefixes, Charset: "alnum", Min: 20, Max: 64,
		Left: "word", Right: "word", Entropy: 3, Severity: Medium}
}

// ownRules returns n rules of a customer.
func ownRules(n int) (rules []Custom) {
	for i := range n {
		rules = append(rules, acme(fmt.Sprint("r", i), fmt.Sprintf("p%02dxx_", i)))
	}
	return rules
}

func with(t testing.TB, s *Scanner, rules ...Custom) *Scanner {
	t.Helper()
	must.Do(t, ValidateCustom(rules))
	extended := must.Get(s.With(rules))(t)
	return extended
}

// A customer's rule finds in every wrapper what it describes, alone and beside built-in rules, in a scan and in a
// stream. The scanner that it was added to is as it was.
func TestCustomRules(t *testing.T) {
	base := newLeaks(t)
	s := with(t, base, acme("a", "acme_live_", "acme-old."), acme("b", "zq9~"))
	g := newGenerator(30)
	for _, prefix := range []string{"acme_live_", "acme-old.", "zq9~"} {
		secret := prefix + g.run(charsets["alnum"], 32)
		rule := "custom:a"
		if prefix == "zq9~" {
			rule = "custom:b"
		}
		for w := range wrappers {
			p := place(0, w, "note", secret)
			if got, want := found(s, p.text()), rule+" "+p.secret+";"; got != want {
				t.Errorf("%s: found %q in %q, want %q", wrappers[w].name, got, p.text(), want)
			}
			is.Lacks(t, found(base, p.text()), "custom:", "the scanner without the rule found")
		}
	}
	key, github := "acme_live_"+g.run(charsets["alnum"], 32), "ghp"+"_"+g.run(charsets["alnum"], 36)
	text := github + " " + key + "\n" + key + "," + github + strings.Repeat(" filler", window/4) + " " + key
	want := fmt.Sprintf("github-token %s;custom:a %s;custom:a %[2]s;github-token %[1]s;custom:a %[2]s;", github, key)
	is.Equal(t, found(s, text), want, "found")
	compareScans(t, s, []byte(text), 1)
	if rules := s.Rules(); rules[len(rules)-1].ID != "custom:b" || rules[len(rules)-1].Fingerprint {
		t.Errorf("last rule %+v", rules[len(rules)-1])
	}
	if again, err := base.With(nil); again != base || err != nil {
		t.Errorf("without rules: another scanner, %v", err)
	}
}

// Built-in rules beat a customer's, whichever match is longer: nobody loses the finding of a known key by a rule of his
// own. Generic rules lose.
func TestCustomRulesLoseAgainstBuiltInOnes(t *testing.T) {
	long := acme("long", "gh"+"p_", "acme_")
	long.Charset, long.Max, long.Right = "dotted", 200, "any"
	s := with(t, newLeaks(t), long)
	key := newGenerator(31).run(charsets["alnum"], 36)
	for text, want := range map[string]string{
		"gh" + "p_" + key + ".and.more": "github-token gh" + "p_" + key + ";",
		"secret=acme_" + key:            "custom:long acme_" + key + ";",
	} {
		is.Equal(t, found(s, text), want, "%s: found", text)
	}
}

// Errors name the member.
func TestCustomRulesAreValidated(t *testing.T) {
	many := ownRules
	must.Do(t, ValidateCustom(many(MaxCustomRules)))
	nested := func(n int) (rules []Custom) {
		for i := range n {
			rules = append(rules, acme(fmt.Sprint("r", i), "nest"+strings.Repeat("e", i)))
		}
		return rules
	}
	must.Do(t, ValidateCustom(nested(maxNested)))
	full := many(15)
	for i := range full {
		full[i].Prefixes = nil
		for j := range MaxCustomRulePrefixes {
			full[i].Prefixes = append(full[i].Prefixes, fmt.Sprintf("%02dq%dzw_", i, j))
		}
	}
	if err := ValidateCustom(full); err != nil { // the automaton has room for all, with no character in common
		t.Fatal(err)
	}
	one := func(change func(r *Custom)) []Custom {
		r := acme("one", "acme_")
		change(&r)
		return []Custom{acme("zero", "zero_"), r}
	}
	for _, x := range []struct {
		param, message string
		rules          []Custom
	}{
		{"rules", "at most 50", many(MaxCustomRules + 1)},
		{"rules[1].id", "must be custom:", one(func(r *Custom) { r.ID = "acme" })},
		{"rules[1].id", "must be custom:", one(func(r *Custom) { r.ID = "custom:Acme" })},
		{"rules[1].id", "1 to 40", one(func(r *Custom) { r.ID = "custom:" + strings.Repeat("a", 41) })},
		{"rules[1].id", "is that of rules[0]", one(func(r *Custom) { r.ID = "custom:zero" })},
		{"rules[1].name", "1 to 100", one(func(r *Custom) { r.Name = " " })},
		{"rules[1].name", "one line", one(func(r *Custom) { r.Name = "a\nb" })},
		{"rules[1].prefixes", "1 to 10", one(func(r *Custom) { r.Prefixes = nil })},
		{"rules[1].prefixes", "1 to 10", one(func(r *Custom) { r.Prefixes = make([]string, 11) })},
		{"rules[1].prefixes[0]", "3 to 40", one(func(r *Custom) { r.Prefixes = []string{"ab"} })},
		{"rules[1].prefixes[1]", "3 to 40", one(func(r *Custom) { r.Prefixes = []string{"abcd", strings.Repeat("a", 41)} })},
		{"rules[1].prefixes[0]", "must consist", one(func(r *Custom) { r.Prefixes = []string{`a"b`} })},
		{"rules[1].prefixes[0]", "must consist", one(func(r *Custom) { r.Prefixes = []string{"schlüssel"} })},
		{"rules[1].prefixes[0]", "at least 2 letters", one(func(r *Custom) { r.Prefixes = []string{"---a"} })},
		{"rules[1].prefixes[1]", "twice", one(func(r *Custom) { r.Prefixes = []string{"abcd", "abcd"} })},
		{"rules[1].charset", "must be one of alnum", one(func(r *Custom) { r.Charset = "any" })},
		{"rules[1].min", "8 to 1024", one(func(r *Custom) { r.Min = 7 })},
		{"rules[1].max", "min (20) to 1024", one(func(r *Custom) { r.Max = 19 })},
		{"rules[1].max", "min (20) to 1024", one(func(r *Custom) { r.Max = 1025 })},
		{"rules[1].left", "word, charset", one(func(r *Custom) { r.Left = "any" })},
		{"rules[1].right", "word, charset, any", one(func(r *Custom) { r.Right = "" })},
		{"rules[1].entropy", "0 to 6", one(func(r *Custom) { r.Entropy = math.NaN() })},
		{"rules[1].severity", "critical", one(func(r *Custom) { r.Severity = "bad" })},
		{"rules[1].docs_url", "https", one(func(r *Custom) { r.Docs = "javascript:alert(1)" })},
		{"rules[15].prefixes", "at most 150", append(full, acme("more", "more_"))},
		{"rules[4].prefixes[0]", "begins with 4 other", nested(5)},
		{"rules[1].max", "at most 128", one(func(r *Custom) { r.Charset, r.Max = "base64", 129 })},
		{"rules[1].prefixes", "ordinary text, such as req_8fK2mQ9xLr4TzB7w", one(func(r *Custom) {
			r.Prefixes, r.Min, r.Entropy = []string{"req_"}, 8, 0
		})},
	} {
		var got *CustomError
		if err := ValidateCustom(x.rules); !errors.As(err, &got) || got.Param != x.param ||
			!strings.Contains(got.Message, x.message) {
			t.Errorf("%v, want %s %s", err, x.param, x.message)
		}
	}
}

// Rules are compiled once for each revision, those that this version does not know are left out, and the memory for
// many customers is bounded.
func TestScannersAreCompiledOnce(t *testing.T) {
	base := newLeaks(t)
	c := NewScanners(base)
	if c.For("none", 1, nil) != base || len(c.compiled) != 0 {
		t.Error("a customer without rules has a scanner of his own")
	}
	key := "acme_" + newGenerator(32).run(charsets["alnum"], 32)
	newer := acme("newer", "newer_")
	newer.Charset = "emoji"
	first := c.For("a", 1, []Custom{newer, acme("one", "acme_")})
	is.Equal(t, found(first, key), "custom:one "+key+";", "found")
	is.Equal(t, c.For("a", 1, []Custom{newer, acme("one", "acme_")}), first, "the rules are compiled again")
	second := c.For("a", 2, []Custom{acme("two", "acme_")})
	is.Equal(t, found(second, key), "custom:two "+key+";", "after a change: found")
	for i := range 2 * maxScanners {
		c.For(fmt.Sprint(i), 1, []Custom{acme("one", "acme_")})
		if c.For("a", 2, nil); c.For("a", 2, []Custom{acme("two", "acme_")}) != second {
			t.Fatal("a scanner in use was compiled again")
		}
	}
	is.Equal(t, len(c.compiled), maxScanners, "scanners in memory")
}

// The text that rules must not match in has no credential.
func TestOrdinaryTextHasNoCredential(t *testing.T) {
	is.Equal(t, found(newLeaks(t), string(ordinaryText)), "", "found")
}

// With the rules that cost most, no text is slow: the matchers of a few rules run at one place, and what they read
// again is short.
func TestCustomRulesAreBoundedWork(t *testing.T) {
	var rules []Custom
	for i := range maxNested {
		r := acme(fmt.Sprint("r", i), "aaa")
		r.Charset, r.Min, r.Max, r.Right, r.Entropy = "base64", MinCustomLength, maxSpacedLength, "any", MaxCustomEntropy
		rules = append(rules, r)
	}
	s := with(t, newLeaks(t), rules...)
	for _, unit := range []string{"aaa+", "aaa%2B", "aaa=", "aaaaaaaaaaa ", "aaa/"} {
		stream := s.NewStream(func(Found) bool { return true })
		must.Get(stream.Write([]byte(strings.Repeat(unit, window/len(unit)/2))))(t)
		stream.scan(stream.n)
		if read := stream.pending.known.read; read > maxNested*maxSpacedLength/3*stream.n {
			t.Errorf("%q: %d bytes were read of %d", unit, read, stream.n)
		}
		_ = stream.Close()
	}
}
