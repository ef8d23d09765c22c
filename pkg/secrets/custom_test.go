package secrets

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
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

// The rules of receipts are a list of their own: a rule that is added for leaks must not refuse receipts.
func TestReceiptsHaveTheirOwnRules(t *testing.T) {
	s := must.Get(New(ForReceipts))(t)
	var ids []string
	for _, r := range s.Rules() {
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	want := []string{"aws-access-key", "bearer-token", "github-fine-grained", "github-token", "google-api-key",
		"json-web-token", "private-key", "relay-api-key", "slack-token", "stripe-secret-live", "webhook-secret"}
	is.List(t, ids, want, "rules for receipts")
	leaks := newLeaks(t)
	for _, r := range leaks.rules {
		if _, named := providerNames[r.Provider]; !named && r.Provider != "" {
			t.Errorf("%s: the provider %s has no name for people", r.ID, r.Provider)
		}
		if r.ID == "bearer-token" || r.ID == "json-web-token" {
			t.Errorf("%s is a rule for leaks: each session of a user would be one", r.ID)
		}
		if r.Fingerprint == (r.Kind == KindURI || r.Kind == KindAssign) {
			t.Errorf("%s: fingerprint %v of %s", r.ID, r.Fingerprint, r.Kind)
		}
		if !r.Generic && r.Docs == "" && r.Kind == KindToken && r.Provider != "eventrelay" {
			t.Errorf("%s has no page of its provider", r.ID)
		}
	}
}

// The same secret has one canonical text, however it is wrapped.
func TestCanonicalTextIsTheSameInEveryWrapper(t *testing.T) {
	s := newLeaks(t)
	g := newGenerator(17)
	for i := range s.rules {
		r := &s.rules[i]
		if !r.Fingerprint {
			continue
		}
		secret := place(0, 0, "note", g.secret(r, false)).secret
		want := r.Canonical([]byte(secret))
		if r.Kind != KindPEM && string(want) != secret {
			t.Errorf("%s: %s of %s", r.ID, want, secret)
		}
		for w := range wrappers {
			p := place(0, w, "note", secret)
			if got := r.Canonical([]byte(p.secret)); !bytes.Equal(got, want) {
				t.Errorf("%s in %s: %s, want %s", r.ID, wrappers[w].name, got, want)
			}
		}
	}
}

// A private key is found whole, as one secret, in what printers of values write line by line, in every wrapper.
func TestPrintedPrivateKeys(t *testing.T) {
	s := newLeaks(t)
	g := newGenerator(19)
	for range 20 {
		secret := g.pem(false)
		for form, text := range printed(secret) {
			for w := range wrappers {
				if strings.Contains(form, "twice") && strings.HasSuffix(wrappers[w].name, "in JSON") ||
					strings.Contains(text, `\n`) && strings.HasPrefix(wrappers[w].name, "URL") {
					continue // more than eight backslashes, or encoded ones
				}
				checkPrivateKey(t, s, form+" in "+wrappers[w].name, wrappers[w].encode(text), secret)
			}
		}
		checkPrivateKey(t, s, "JSON in HTML", escapeAll(inJSON(secret), "&#x%X;", "+=/"), secret)
		for form, text := range joined(secret) {
			for w := range wrappers {
				if !strings.HasPrefix(wrappers[w].name, "URL") {
					checkPrivateKey(t, s, form+" in "+wrappers[w].name, wrappers[w].encode(text), secret)
				}
			}
		}
	}
}

// Of a private key that is cut, the text ends where its quote ends.
func TestCutPrivateKeyEndsAtItsQuote(t *testing.T) {
	s := newLeaks(t)
	key, _, _ := strings.Cut(newGenerator(3).pem(false), "\n-----END")
	for _, after := range []string{`", "other": "words"}`, `","words"]`, "' } words"} {
		text := `{"key": "` + inJSON(key) + after
		if got, _ := s.MaskAll(nil, []byte(text)); string(got) != `{"key": "-----BEGIN ***`+after {
			t.Errorf("masked %s", got)
		}
	}
}

func TestRuleIsValidated(t *testing.T) {
	valid := func() *Rule {
		return &Rule{ID: "a", Name: "a", Kind: KindToken, Severity: High, shape: shape{
			Prefixes: []string{"a_"}, part: part{Charset: "alnum", Min: 1, Max: 9},
		}}
	}
	must.Do(t, valid().prepare())
	for want, change := range map[string]func(r *Rule){
		"id and name are required":     func(r *Rule) { r.Name = "" },
		`severity "" is unknown`:       func(r *Rule) { r.Severity = "" },
		`exposure "x" is unknown`:      func(r *Rule) { r.Exposure = "x" },
		"use [x] has an unknown one":   func(r *Rule) { r.Uses = []Use{"x"} },
		"a prefix is required":         func(r *Rule) { r.Prefixes = nil },
		"prefixes must be in lower":    func(r *Rule) { r.Prefixes, r.Fold = []string{"A"}, true },
		"must not have a fingerprint":  func(r *Rule) { r.Kind, r.Fingerprint = KindURI, true },
		`check "x" is unknown`:         func(r *Rule) { r.Check = "x" },
		`boundary "x" is unknown`:      func(r *Rule) { r.Left = "x" },
		`need "x" is unknown`:          func(r *Rule) { r.Need = []string{"x"} },
		`kind "x" is unknown`:          func(r *Rule) { r.Kind = "x" },
		"charset must be known":        func(r *Rule) { r.Charset = "x" },
		"max at least 1 and not below": func(r *Rule) { r.Max = 0 },
		"max must be at most 1024":     func(r *Rule) { r.Claim, r.Max = map[string]string{"a": "b"}, 2000 },
	} {
		r := valid()
		change(r)
		is.Failed(t, r.prepare(), want, "error")
	}
}

// What a text around a secret says cannot hide it; what the secret itself says can.
func TestStopWordsAreOfTheSecretAlone(t *testing.T) {
	s := newLeaks(t)
	key := "ghp" + "_" + newGenerator(1).run(charsets["alnum"], 36)
	for _, text := range []string{"EXAMPLE " + key, key + " gitleaks:allow", "changeme:" + key + ":placeholder"} {
		is.Has(t, found(s, text), key, "not found: %s", text)
	}
	for _, text := range []string{
		"ghp" + "_" + "EXAMPLE" + key[11:], "ghp_" + strings.Repeat("a", 36), "ghp_" + strings.Repeat("xX", 18),
		`api_key="your_api_key_12345678"`, "postgres://user:" + "password@localhost/db", "postgres://a:${PASSWORD}@b/c",
	} {
		is.Equal(t, found(s, text), "", "found: in %s", text)
	}
}

// Assignments that are no credentials, in logs and in programs.
func TestAssignmentsWithoutCredentials(t *testing.T) {
	s := newLeaks(t)
	value := newGenerator(2).run(charsets["alnum"], 32)
	for _, text := range []string{
		"csrf_token=" + value, `"nextPageToken":"` + value + `"`, "cancel-token: " + value, `{secret:"` + value + `"}`,
		"token=$" + value, "secret=/run/secrets/" + value, "token = response.data.v2AccessToken", "token += '" + value + "'",
		"password=8f14e45f-ceea-467f-ab31-0c2d3e4f5a6b", "secret: abcdef0123456789abcdef", "tokenizer=" + value,
	} {
		is.Equal(t, found(s, text), "", "found: in %s", text)
	}
	for _, text := range []string{`{API_KEY:"` + value + `"}`, `{"secret":"` + value + `"}`, "--token " + value} {
		is.Equal(t, found(s, text), "generic-secret "+value+";", "found: in %s", text)
	}
}

// The specific rule beats the generic one; among equals the longest match wins.
func TestOverlapsAreResolved(t *testing.T) {
	s := newLeaks(t)
	key := "ghp" + "_" + newGenerator(4).run(charsets["alnum"], 36)
	for text, want := range map[string]string{
		"secret=" + key:                          "github-token " + key + ";",
		"secret=a." + key:                        "github-token " + key + ";",
		"redis://:" + key + "@cache:6379":        "database-uri redis://:" + key + "@cache:6379;",
		"https://x:" + key + "@github.com/a":     "github-token " + key + ";",
		"http://app:q8ZkT2" + "vN4x@proxy:3128":  "web-uri http://app:q8ZkT2" + "vN4x@proxy:3128;",
		"http://user:pass" + "@proxy":            "",
		key + " " + key:                          "github-token " + key + ";github-token " + key + ";",
		"password=" + key + "&token=Zk7" + "xQ2": "github-token " + key + ";",
	} {
		is.Equal(t, found(s, text), want, "found: in %s", text)
	}
}

// A stream clears what it has scanned: at once behind its window, and all at Close.
func TestStreamClearsItsWindow(t *testing.T) {
	key := "ghp" + "_" + newGenerator(6).run(charsets["alnum"], 36)
	stream := newLeaks(t).NewStream(func(Found) bool { return true })
	for range 3 * window / len(key) {
		must.Get(stream.Write([]byte(key + "\n")))(t)
	}
	bytesOfWindow := stream.window
	if i := bytes.IndexFunc(bytesOfWindow[stream.n:], func(c rune) bool { return c != 0 }); i >= 0 {
		t.Errorf("byte %d behind the %d bytes of the window is not clear", i, stream.n)
	}
	if err := stream.Close(); err != nil || *bytesOfWindow != [window]byte{} {
		t.Errorf("the window is not clear after Close (%v)", err)
	}
	if _, err := stream.Write([]byte("a")); err == nil {
		t.Error("Write after Close has no error")
	}
}
