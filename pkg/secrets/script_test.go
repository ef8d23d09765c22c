package secrets

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the rules of the SDK")

const scriptRules = "../../sdk/js/src/rules.gen.js"

// The rules of the SDK in JavaScript are those of rules.json that find leaks. make generate writes them.
func TestScriptRulesAreCurrent(t *testing.T) {
	want := generateScript(t)
	if *update {
		if err := os.WriteFile(scriptRules, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(scriptRules); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not made from rules.json: run make generate (%v)", scriptRules, err)
	}
}

// generateScript returns the rules for leaks, character sets and words as a module. It leaves out what the SDK does not
// need: names, providers, severities.
func generateScript(t *testing.T) []byte {
	t.Helper()
	var file struct {
		Rules       []map[string]any
		Stop, Known []string
	}
	if err := json.Unmarshal(rulesFile, &file); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.WriteString("// Made from pkg/secrets/rules.json by make generate. Do not edit.\n\nexport const rules = [\n")
	for _, rule := range file.Rules {
		uses, hasUse := rule["use"].([]any)
		if hasUse && !slices.Contains(uses, any(string(ForLeaks))) {
			continue
		}
		for _, member := range []string{"name", "provider", "docs", "severity", "use"} {
			delete(rule, member)
		}
		fmt.Fprintf(&out, "  %s,\n", script(t, rule))
	}
	out.WriteString("]\n\n// Ranges of characters, two a range.\nexport const charsets = {\n")
	names := make([]string, 0, len(charsets))
	for name := range charsets {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&out, "  %s: %s,\n", name, script(t, rangesOf(charsets[name])))
	}
	fmt.Fprintf(&out, "}\n\nexport const stop = %s\n", script(t, file.Stop))
	fmt.Fprintf(&out, "\nexport const known = %s\n", script(t, file.Known))
	fmt.Fprintf(&out, "\nexport const suffixes = %s\n", script(t, suffixes))
	return out.Bytes()
}

func script(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func rangesOf(set *charset) string {
	var out []byte
	for c := range set {
		switch {
		case !set[c]:
		case c > 0 && set[c-1]:
			out[len(out)-1] = byte(c)
		default:
			out = append(out, byte(c), byte(c))
		}
	}
	return string(out)
}

// The engine of the SDK finds the same spans, and makes the same masks and canonical texts: each rule in each context
// and wrapper, and in random texts made of them. RELAY_TORTURE compares more of these, with a random seed.
func TestScriptFindsWhatScanFinds(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("Node.js is not installed")
	}
	s, seed, budget := newLeaks(t), uint64(27), 1000
	if os.Getenv("RELAY_TORTURE") != "" {
		seed, budget = rand.Uint64(), 50_000
	}
	t.Logf("seed %d, %d random texts", seed, budget)
	g := newGenerator(seed)
	var texts []string
	for i := range s.rules {
		for c := range contexts {
			for w := range wrappers {
				if !fits(c, w) || (i+c+w)%6 > 0 { // two wrappers for each rule and context
					continue
				}
				name := []string{"note", "API_KEY"}[c%2]
				if s.rules[i].Kind == KindAssign {
					name = g.name(&s.rules[i], c+w)
				}
				texts = append(texts, place(c, w, name, g.secret(&s.rules[i], c == 0)).text())
			}
		}
	}
	for range budget {
		texts = append(texts, g.mixture(s))
	}
	compareWithScript(t, s, texts)
}

// mixture returns a text of one to three wrapped credentials with damage: cut, joined, wrapped again, bytes changed.
func (g generator) mixture(s *Scanner) string {
	text := ""
	for range 1 + g.IntN(3) {
		r := &s.rules[g.IntN(len(s.rules))]
		if g.IntN(3) == 0 { // the rarer matchers
			r = &s.rules[len(s.rules)-1-g.IntN(14)]
		}
		name := []string{"note", "api_key", "secret", "csrf_token"}[g.IntN(4)]
		if r.Kind == KindAssign {
			name = g.name(r, g.IntN(4))
		}
		part := place(g.IntN(len(contexts)), g.IntN(len(wrappers)), name, g.secret(r, g.IntN(8) == 0)).text()
		switch g.IntN(6) {
		case 0:
			part = part[:g.IntN(len(part)+1)]
		case 1:
			part = hostile[g.IntN(len(hostile))] + part
		case 2:
			part = wrappers[g.IntN(len(wrappers))].encode(part)
		}
		text += []string{"", " ", "\n", "é", "_"}[g.IntN(5)] + part
	}
	b := []byte(text)
	for range g.IntN(4) {
		if len(b) > 0 {
			const alphabet = "\x00\x1b\x80\xc3 \\%&#+=-_.:/@\"'<>*$aZ09"
			b[g.IntN(len(b))] = alphabet[g.IntN(len(alphabet))]
		}
	}
	return string(b[:min(len(b), 12<<10)])
}

// compareWithScript writes the texts to Node.js, one JSON string a line, each byte a character, and compares what the
// script prints for each line.
func compareWithScript(t *testing.T, s *Scanner, texts []string) {
	t.Helper()
	var in bytes.Buffer
	for _, text := range texts {
		characters := make([]rune, len(text))
		for i := range len(text) {
			characters[i] = rune(text[i])
		}
		in.WriteString(script(t, string(characters)))
		in.WriteByte('\n')
	}
	command := exec.CommandContext(t.Context(), "node", "../../sdk/js/test/agree.mjs")
	command.Stdin, command.Stderr = &in, os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(texts) {
		t.Fatalf("%d answers to %d texts", len(lines), len(texts))
	}
	matches, failed := 0, 0
	for i, text := range texts {
		want := report(s, text)
		matches += strings.Count(want, ";")
		if lines[i] != want && failed < 10 {
			failed++
			t.Errorf("in %q\nGo     %s\nscript %s", text, want, lines[i])
		}
	}
	if matches < len(texts)/2 {
		t.Errorf("%d matches in %d texts: too few to compare", matches, len(texts))
	}
}

// report describes what is found in a text as sdk/js/test/agree.mjs does.
func report(s *Scanner, text string) string {
	var out strings.Builder
	hexOf := func(b []byte) string { return fmt.Sprintf("%x", b) }
	s.Scan([]byte(text), func(m Match) bool {
		secret := []byte(text[m.Start:m.End])
		fmt.Fprintf(&out, "%s %d %d %s %s;", m.Rule.ID, m.Start, m.End, m.Rule.Mask(secret), hexOf(m.Rule.Canonical(secret)))
		return true
	})
	masked, n := s.MaskAll(nil, []byte(text))
	if n > 0 {
		out.WriteString(hexOf(masked))
	}
	return out.String()
}
