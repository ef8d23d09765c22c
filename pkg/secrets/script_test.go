package secrets

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

var update = flag.Bool("update", false, "write the rules of the SDK")

const scriptRules = "../../sdk/js/src/rules.gen.js"

// The rules of the SDK in JavaScript are those of rules.json that find leaks. make generate writes them.
func TestScriptRulesAreCurrent(t *testing.T) {
	want := generateScript(t)
	if *update {
		must.Do(t, os.WriteFile(scriptRules, want, 0o644))
	}
	if got, err := os.ReadFile(scriptRules); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not made from rules.json: run make generate (%v)", scriptRules, err)
	}
}

// scriptFile is what of rules.json the SDK has: the rules for leaks, without names, providers and severities.
type scriptFile struct {
	Rules       []map[string]any
	Stop, Known []string
}

func newScriptFile(t *testing.T) scriptFile {
	t.Helper()
	var file scriptFile
	must.Do(t, json.Unmarshal(rulesFile, &file))
	file.Rules = slices.DeleteFunc(file.Rules, func(rule map[string]any) bool {
		uses, hasUse := rule["use"].([]any)
		return hasUse && !slices.Contains(uses, any(string(ForLeaks)))
	})
	for _, rule := range file.Rules {
		for _, member := range []string{"name", "provider", "docs", "severity", "use"} {
			delete(rule, member)
		}
	}
	return file
}

// generateScript returns the module of the SDK's rules. A rule is a line of few bytes, which rules.js reads: browsers
// load all of them.
func generateScript(t *testing.T) []byte {
	t.Helper()
	file, names := newScriptFile(t), charsetNames()
	var out bytes.Buffer
	var lines []string
	for _, rule := range file.Rules {
		lines = append(lines, ruleLine(t, maps.Clone(rule)))
	}
	fmt.Fprintf(&out, "%s%s`\n", scriptHeader, strings.ReplaceAll(strings.Join(lines, "\n"), `\`, `\\`))
	out.WriteString("\n// Ranges of characters, two a range. A part has the first set as a, the second as b.\n")
	out.WriteString("export const charsets = {\n")
	for _, name := range names {
		fmt.Fprintf(&out, "  %s: %s,\n", name, script(t, rangesOf(charsets[name])))
	}
	fmt.Fprintf(&out, "}\n\nexport const stop = %s\n", script(t, file.Stop))
	fmt.Fprintf(&out, "\nexport const known = %s\n", script(t, file.Known))
	fmt.Fprintf(&out, "\nexport const suffixes = %s\n", script(t, suffixes))
	return out.Bytes()
}

const scriptHeader = `// Made from pkg/secrets/rules.json by make generate. Do not edit.

// Each rule is "id prefixes parts entropy other". Prefixes that differ in a character are one, with these in brackets.
// A part is its separator, its character set, and how many characters it has. What few rules have is JSON.
export const lines = ` + "`"

func charsetNames() []string { return slices.Sorted(maps.Keys(charsets)) }

// ruleLine returns a rule as its line, and changes it.
func ruleLine(t *testing.T, rule map[string]any) string {
	t.Helper()
	var prefixes []string
	for _, prefix := range rule["prefixes"].([]any) {
		prefixes = append(prefixes, prefix.(string))
	}
	parts := []string{partText(rule)}
	then, _ := rule["then"].([]any)
	for _, part := range then {
		parts = append(parts, partText(part.(map[string]any)))
	}
	entropy := "0"
	if rule["entropy"] != nil {
		entropy = fmt.Sprint(rule["entropy"])
	}
	line := fmt.Sprint(rule["id"], " ", strings.Join(group(prefixes), ","), " ", strings.Join(parts, ","))
	if (rule["kind"] == "uri" || rule["kind"] == "assign") == (rule["fingerprint"] == true) {
		t.Fatalf("rules.js takes from the kind of %s whether it has a fingerprint", rule["id"])
	}
	if rule["kind"] == "token" {
		delete(rule, "kind")
	}
	for _, member := range []string{"id", "prefixes", "charset", "min", "max", "then", "entropy", "fingerprint"} {
		delete(rule, member)
	}
	switch {
	case len(rule) > 0:
		line += " " + entropy + " " + script(t, rule)
	case entropy != "0":
		line += " " + entropy
	}
	if strings.Count(line, " ") > 4 || strings.ContainsAny(line, "`$") {
		t.Fatalf("%q has a space in a member, or what ends a text", line)
	}
	return line
}

// partText returns a part of a rule, "-b9-14".
func partText(part map[string]any) string {
	name, separator, least, most := "urlsafe", "", 0.0, part["max"].(float64)
	if part["charset"] != nil {
		name = part["charset"].(string)
	}
	if part["separator"] != nil {
		separator = part["separator"].(string)
	}
	if part["min"] != nil {
		least = part["min"].(float64)
	}
	text := fmt.Sprintf("%s%c%v", separator, 'a'+slices.Index(charsetNames(), name), least)
	if most != least {
		text += fmt.Sprint("-", most)
	}
	return text
}

// group joins neighbours that differ in one character: MTA, MTE, MjA and MjE are M[Tj][AE], in this order.
func group(prefixes []string) []string {
	var texts [][]string // of characters, and of several characters for one place
	for _, prefix := range prefixes {
		texts = append(texts, strings.Split(prefix, ""))
	}
	for at := 9; at >= 0; at-- {
		var out [][]string
		for _, text := range texts {
			if len(out) > 0 && len(text) > at && differAt(out[len(out)-1], text, at) {
				out[len(out)-1][at] += text[at]
			} else {
				out = append(out, text)
			}
		}
		texts = out
	}
	var groups []string
	for _, text := range texts {
		joined := ""
		for _, characters := range text {
			if len(characters) > 1 {
				characters = "[" + characters + "]"
			}
			joined += characters
		}
		groups = append(groups, joined)
	}
	return groups
}

// differAt reports whether two texts differ at a position only.
func differAt(one, other []string, at int) bool {
	return len(one) == len(other) && slices.Equal(one[:at], other[:at]) && slices.Equal(one[at+1:], other[at+1:])
}

// The lines are read as the rules that they are made from.
func TestScriptReadsItsRules(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		kit.SkipMissing(t, "Node.js is not installed")
	}
	out := must.Get(exec.CommandContext(t.Context(), "node", "../../sdk/js/test/rules.mjs").Output())(t)
	var got []map[string]any
	must.Do(t, json.Unmarshal(out, &got))
	want := newScriptFile(t).Rules
	must.Equal(t, len(got), len(want), "rules")
	for i, rule := range want {
		for member, value := range map[string]any{"charset": "urlsafe", "min": 0.0, "entropy": 0.0, "fingerprint": false} {
			if rule[member] == nil {
				rule[member] = value
			}
		}
		if !reflect.DeepEqual(got[i], rule) {
			t.Errorf("got  %v\nwant %v", got[i], rule)
		}
	}
}

func script(t *testing.T, value any) string {
	t.Helper()
	text := must.Get(json.Marshal(value))(t)
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
// and wrapper, and in random texts made of them. RELAY_TORTURE compares more of these.
func TestScriptFindsWhatScanFinds(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		kit.SkipMissing(t, "Node.js is not installed")
	}
	s, seed, budget := newLeaks(t), kit.Seed(t), 1000
	if os.Getenv("RELAY_TORTURE") != "" {
		budget = 50_000
	}
	t.Logf("%d random texts", budget)
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
	for range 20 {
		for _, text := range printed(g.pem(g.IntN(2) == 0)) {
			texts = append(texts, text, wrappers[g.IntN(len(wrappers))].encode(text), text[:g.IntN(len(text))])
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
	out := must.Get(command.Output())(t)
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	must.Equal(t, len(lines), len(texts), "answers to %d texts", len(texts))
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
