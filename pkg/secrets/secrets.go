// Package secrets finds credentials in bytes by their shape: a prefix, and the kind and number of the characters after
// it. It masks them, and nothing in it keeps their text.
//
// The rules are data (rules.json). One automaton looks for the prefixes of all rules in a single pass; at each one, one
// of five hand-written matchers (token, jwt, uri, pem, assign) reads a bounded number of bytes. There are no regular
// expressions. Log lines wrap what they quote: a boundary or a quote is recognised behind the backslashes of JSON
// inside JSON, in URL encoding and beside the colours of a terminal (escape.go, boundary.go).
//
// A shape proves nothing: text that only looks like a credential is found too, and one without a known shape is not.
// Callers that reject input must name the rule, so that the sender can see why. Begin reading at Scanner; Stream scans
// what arrives in pieces.
package secrets

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

//go:embed rules.json
var rulesFile []byte

// Match is one credential: b[Start:End], prefix included, and the rule that found it.
type Match struct {
	Rule       *Rule
	Start, End int
}

// Scanner finds credentials. It is safe for concurrent use.
type Scanner struct {
	rules     []Rule
	automaton *automaton
	own       *automaton // of a customer's rules; nil = none
	// gates are on for leaks: stop words, known examples and entropy.
	gates bool
	stop  [256][]string // by their first character, in lower case
	known map[string]bool
	// reach is how many bytes from the start of a prefix a matcher reads at most, behind how many bytes before the end of
	// what the automaton has read a match begins at most.
	reach, behind int
}

// The scanners with all rules of a use. Everybody in the process shares them, because nothing changes a scanner.
var (
	scannerForLeaks    = sync.OnceValues(func() (*Scanner, error) { return NewSubset(ForLeaks, allRules) })
	scannerForReceipts = sync.OnceValues(func() (*Scanner, error) { return NewSubset(ForReceipts, allRules) })
)

func allRules(*Rule) bool { return true }

// New returns the scanner with the rules of one use. The first call takes some milliseconds.
func New(use Use) (*Scanner, error) {
	if use == ForReceipts {
		return scannerForReceipts()
	}
	return scannerForLeaks()
}

// NewSubset makes a scanner with those rules of a use that keep accepts. It takes some milliseconds.
func NewSubset(use Use, keep func(*Rule) bool) (*Scanner, error) {
	var file struct {
		Version int      `json:"version"`
		Rules   []Rule   `json:"rules"`
		Stop    []string `json:"stop"`
		Known   []string `json:"known"`
	}
	if err := json.Unmarshal(rulesFile, &file); err != nil {
		return nil, fmt.Errorf("read the rules for secrets: %w", err)
	}
	s := &Scanner{gates: use == ForLeaks, known: map[string]bool{}}
	for _, word := range file.Stop {
		word = strings.ToLower(word)
		s.stop[word[0]] = append(s.stop[word[0]], word)
	}
	for _, text := range file.Known {
		s.known[text] = true
	}
	var errs []error
	for i := range file.Rules {
		r := &file.Rules[i]
		r.order = i
		if err := r.prepare(); err != nil {
			errs = append(errs, fmt.Errorf("rule %s: %w", r.ID, err))
		}
		if slices.Contains(r.Uses, use) && keep(r) {
			s.rules = append(s.rules, *r)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var err error
	s.automaton, err = s.compile(s.rules)
	return s, err
}

// compile returns the automaton of rules, and extends reach and behind to them.
func (s *Scanner) compile(rules []Rule) (*automaton, error) {
	var patterns []pattern
	for i := range rules {
		r := &rules[i]
		for _, text := range r.patterns() {
			patterns = append(patterns, pattern{r, text})
			s.behind = max(s.behind, maxDepth+r.Lead.Max)
			s.reach = max(s.reach, len(text)+r.reach())
		}
	}
	return newAutomaton(patterns)
}

// Rules returns the scanner's rules in the order of rules.json, and after them a customer's. Callers must not change
// them.
func (s *Scanner) Rules() []Rule { return s.rules }

// Scan calls emit for every credential in b, in order of position, until emit returns false. Matches do not overlap:
// of two that would, a specific rule beats a customer's, and that a generic one, then the longer match wins, then the
// rule that stands first.
// Scan allocates nothing when nothing matches.
func (s *Scanner) Scan(b []byte, emit func(Match) bool) {
	var p pending
	state := states{}
	for i, found := 0, false; ; {
		if i, state, found = s.next(b, i, state); !found {
			p.flush(len(b), emit)
			return
		}
		s.matchAt(b, i, state, &p)
		if !p.flush(i-s.behind, emit) {
			return
		}
	}
}

// states are those of both automatons.
type states struct{ builtIn, own uint16 }

// next reads b from a position until a prefix ends or b does; see automaton.next. Both automatons read each byte in one
// pass: their lookups do not wait for each other.
func (s *Scanner) next(b []byte, i int, at states) (int, states, bool) {
	found := false
	if s.own == nil {
		i, at.builtIn, found = s.automaton.next(b, i, at.builtIn)
		return i, at, found
	}
	x, y := s.automaton, s.own
	for ; i < len(b); i++ {
		at.builtIn = x.table[at.builtIn|uint16(x.class[b[i]])]
		at.own = y.table[at.own|uint16(y.class[b[i]])]
		if at.builtIn >= x.accepting || at.own >= y.accepting {
			return i + 1, at, true
		}
	}
	return i, at, false
}

// matchAt adds the matches of all prefixes that end at a position to p.
func (s *Scanner) matchAt(b []byte, end int, at states, p *pending) {
	b = b[:min(len(b), end+s.reach)]
	if at.builtIn >= s.automaton.accepting {
		s.match(b, end, s.automaton.patternsAt(at.builtIn), p)
	}
	if s.own != nil && at.own >= s.own.accepting {
		s.match(b, end, s.own.patternsAt(at.own), p)
	}
}

// match adds the matches of prefixes whose heads end at a position to p.
func (s *Scanner) match(b []byte, end int, patterns []pattern, p *pending) {
	for i := range patterns {
		pattern := &patterns[i]
		if p.hasLonger(pattern.rule, end) {
			continue
		}
		if m := pattern.match(b, end, &p.known); m.end > 0 && s.accepts(pattern.rule, b, m) {
			p.add(Match{pattern.rule, m.start, m.end})
		}
	}
}

// Find returns the rule of the first credential in the text; nil if there is none.
func (s *Scanner) Find(text string) *Rule {
	var found *Rule
	s.Scan([]byte(text), func(m Match) bool {
		found = m.Rule
		return false
	})
	return found
}
