package secrets

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

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
		secret := g.secret(r, false)
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
				text := wrappers[w].encode(text)
				var all []Match
				s.Scan([]byte(text), func(m Match) bool {
					all = append(all, m)
					return true
				})
				if len(all) != 1 || all[0].Rule.ID != "private-key-block" {
					t.Fatalf("%s in %s: found %v in %s", form, wrappers[w].name, all, text)
				}
				r, m := all[0].Rule, all[0]
				got, want := r.Canonical([]byte(text)[m.Start:m.End]), r.Canonical([]byte(secret))
				if !bytes.Equal(got, want) {
					t.Errorf("%s in %s: %s, want %s", form, wrappers[w].name, got, want)
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
