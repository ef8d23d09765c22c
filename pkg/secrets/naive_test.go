package secrets

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/must"
)

// naiveScan does what Scan does without the automaton: it tries every prefix at every position.
func naiveScan(s *Scanner, b []byte) (out []Match) {
	var patterns []pattern
	for i := range s.rules {
		for _, text := range s.rules[i].patterns() {
			patterns = append(patterns, pattern{&s.rules[i], text})
		}
	}
	slices.SortStableFunc(patterns, func(p, q pattern) int { return len(q.head()) - len(p.head()) })
	heads := make([]string, len(patterns))
	for i := range patterns {
		heads[i] = string(normalBytes([]byte(patterns[i].head())))
	}
	text := string(normalBytes(b))
	for end := range len(b) + 1 {
		for i, p := range patterns {
			if !strings.HasSuffix(text[:end], heads[i]) {
				continue
			}
			within := b[:min(len(b), end+s.reach)]
			if m := p.match(within, end, &runs{}); m.end > 0 && s.accepts(p.rule, within, m) {
				out = naiveAdd(out, Match{p.rule, m.start, m.end})
			}
		}
	}
	return out
}

// normalBytes folds what the automaton does not distinguish.
func normalBytes(b []byte) []byte {
	out := bytes.Clone(b)
	for i, c := range out {
		switch {
		case c >= 'A' && c <= 'Z':
			out[i] = c - 'A' + 'a'
		case c == '_' || c == '.':
			out[i] = '-'
		}
	}
	return out
}

func naiveAdd(list []Match, m Match) []Match {
	overlaps := func(x Match) bool { return x.Start < m.End && m.Start < x.End }
	if slices.ContainsFunc(list, func(x Match) bool { return overlaps(x) && !m.beats(&x) }) {
		return list
	}
	list = append(slices.DeleteFunc(list, overlaps), m)
	slices.SortFunc(list, func(x, y Match) int { return x.Start - y.Start })
	return list
}

// leftBoundary is what may stand before a token, at the end of a text.
var leftBoundary = regexp.MustCompile(
	`(?s)(?:^|[^A-Za-z0-9_]|\\[bfnrt]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|[\\#][0-7]{3}|` +
		`%(?:25)?[0-9A-Fa-f]{2}|(?:\x1b|\\x1[bB]|\\u001[bB]|\\033|\\e|#033|\^\[)\[[0-9;:?]{0,39}[A-Za-z])$`)

// naiveToken returns the ends of a rule's tokens at a position, by functions of package strings alone.
func naiveToken(r *Rule, text string, start int) (ends []int) {
	for _, prefix := range r.Prefixes {
		left, ok := strings.CutPrefix(text[start:], prefix)
		if !ok || start > 0 && !leftBoundary.MatchString(text[max(0, start-64):start]) {
			continue
		}
		content := left
		for _, p := range append([]part{r.part}, r.Then...) {
			if ok {
				left, ok = strings.CutPrefix(left, p.Separator)
			}
			n := len(left) - len(strings.TrimLeft(left, members(p.set)))
			ok = ok && n >= p.Min && n <= p.Max
			left = left[n:]
		}
		if !ok || left != "" && strings.Contains(members(isWord), left[:1]) {
			continue
		}
		content = content[:len(content)-len(left)]
		for _, need := range r.Need {
			ok = ok && strings.ContainsAny(content, members(charsets[need]))
		}
		if ok && strings.Contains(content, r.Contains) {
			ends = append(ends, len(text)-len(left))
		}
	}
	return ends
}

var memberTexts = map[*charset]string{}

func members(set *charset) string {
	if memberTexts[set] == "" {
		for c, is := range set {
			if is {
				memberTexts[set] += string(rune(c))
			}
		}
	}
	return memberTexts[set]
}

// isPlain reports whether naiveToken knows all that a rule can say.
func isPlain(r *Rule) bool {
	plain := r.Kind == KindToken && r.Lead.set == nil && !r.Fold && !r.Spaces && r.Check == "" && !r.set.escaped()
	for _, p := range r.Then {
		plain = plain && !p.set.escaped() && !strings.ContainsAny(p.Separator, "/:")
	}
	return plain
}

// compareTokens compares the matcher of tokens with the naive one, at every position.
func compareTokens(t *testing.T, s *Scanner, text string) {
	t.Helper()
	for i := range s.rules {
		r := &s.rules[i]
		if !isPlain(r) {
			continue
		}
		for start := range len(text) {
			var ends []int
			for _, prefix := range r.patterns() {
				p := pattern{r, prefix}
				if start+len(p.head()) <= len(text) {
					if m := p.match([]byte(text), start+len(p.head()), &runs{}); m.end > 0 {
						ends = append(ends, m.end)
					}
				}
			}
			must.List(t, ends, naiveToken(r, text, start), "%s at %d of %q: ends", r.ID, start, text)
		}
	}
}

// compareScans compares all ways to scan a text with the naive one.
func compareScans(t *testing.T, s *Scanner, b []byte, seed uint64) {
	t.Helper()
	want := fmt.Sprint(describe(naiveScan(s, b)))
	var got []Match
	s.Scan(b, func(m Match) bool {
		got = append(got, m)
		return true
	})
	if fmt.Sprint(describe(got)) != want {
		t.Fatalf("%q: found %v, want %v", b, describe(got), want)
	}
	must.Equal(t, fmt.Sprint(describe(scanStream(t, s, b, seed))), want, "%q in pieces: found", b)
	masked, n := s.MaskAll(nil, b)
	if again, more := s.MaskAll(nil, masked); n != len(got) || more > 0 || !bytes.Equal(again, masked) {
		t.Fatalf("%q: mask %q of %d, and again %q of %d; found %d", b, masked, n, again, more, len(got))
	}
}

func describe(list []Match) (out []string) {
	for _, m := range list {
		out = append(out, fmt.Sprint(m.Rule.ID, " ", m.Start, "-", m.End))
	}
	return out
}

// scanStream returns what a stream finds whose writes have random lengths.
func scanStream(t *testing.T, s *Scanner, b []byte, seed uint64) (out []Match) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 2))
	stream := s.NewStream(func(f Found) bool {
		start := int(f.Offset)
		if start+len(f.Secret) > len(b) || !bytes.Equal(f.Secret, b[start:start+len(f.Secret)]) ||
			!bytes.HasSuffix(b[:start], f.Before) || !bytes.HasPrefix(b[start+len(f.Secret):], f.After) {
			t.Fatalf("%s at %d: not what the stream has there", f.Rule.ID, f.Offset)
		}
		out = append(out, Match{f.Rule, start, start + len(f.Secret)})
		return true
	})
	for left := b; len(left) > 0; {
		n := min(len(left), 1+random.IntN(1<<random.IntN(18)))
		must.Get(stream.Write(left[:n]))(t)
		left = left[n:]
	}
	must.Do(t, stream.Close())
	return out
}

// wrapped returns secrets of all rules in contexts and wrappers, n texts.
func wrapped(s *Scanner, g generator, n int) (out []piece) {
	for len(out) < n {
		r := &s.rules[len(out)%len(s.rules)]
		name := "note"
		if r.Kind == KindAssign {
			name = g.name(r, len(out))
		}
		c, w := g.IntN(len(contexts)), g.IntN(len(wrappers))
		if fits(c, w) {
			out = append(out, place(c, w, name, g.secret(r, false)))
		}
	}
	return out
}

// A stream finds what a scan of the whole finds, however its writes are cut and wherever its window ends.
func TestStreamFindsWhatScanFinds(t *testing.T) {
	s := newLeaks(t)
	g := newGenerator(3)
	var text []byte
	lines := logLines(64 << 10)
	for _, p := range wrapped(s, g, 300) {
		text = append(text, p.text()...)
		from := g.IntN(len(lines) / 2)
		text = append(text, lines[from:from+g.IntN(4000)]...)
		text = append(text, '\n')
	}
	var want []Match
	s.Scan(text, func(m Match) bool {
		want = append(want, m)
		return true
	})
	if len(want) < 280 { // the flow of lines cuts off the ends of a few
		t.Fatalf("%d matches", len(want))
	}
	for seed := range uint64(3) {
		if got := scanStream(t, s, text, seed); !slices.Equal(describe(got), describe(want)) {
			t.Fatalf("found %d, want %d", len(got), len(want))
		}
	}
	if 2*(s.reach+s.behind)+around+lookBehind >= window {
		t.Errorf("a matcher reads %d bytes: too many for the window", s.reach)
	}
}

func TestEntropy(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "aaaa": 0, "abab": 1, "abcd": 2, "abcdefgh": 3} {
		if got := Entropy(text); math.Abs(got-want) > 1e-9 {
			t.Errorf("%q has %v bits, want %v", text, got, want)
		}
	}
}

// FuzzAgainstNaive compares the scanner, in one piece and in many, with a naive one.
func FuzzAgainstNaive(f *testing.F) {
	s := newLeaks(f)
	for i, p := range wrapped(s, newGenerator(9), 40) {
		f.Add([]byte(p.text()), uint64(i))
	}
	for i, text := range hostile {
		f.Add([]byte(strings.Repeat(text, 2000/len(text))), uint64(i))
	}
	f.Add([]byte("-----BEGIN \\\\u00%2520&quot;secret=\x1b[0m'"), uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) {
		if len(b) > 4<<10 {
			return
		}
		compareScans(t, s, b, seed)
		if len(b) < 512 {
			compareTokens(t, s, string(b))
		}
	})
}
