// Package secrets finds credentials in bytes by their shape: a prefix, and the kind and number of the characters after
// it. It masks them, and nothing in it keeps their text.
//
// The rules are data (rules.json). One automaton looks for the prefixes of all rules in a single pass; at each one, one
// of six hand-written matchers (token, jwt, uri, pem, jwk, assign) reads a bounded number of bytes. There are no
// regular expressions. Log lines wrap what they quote: a boundary or a quote is recognised behind the backslashes of
// JSON inside JSON, in URL encoding and beside the colours of a terminal (escape.go, match.go).
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

// maxPending is how many matches can wait at the same time. They do not overlap, and all but one begin within the
// longest prefix and the longest way from a name to its value: fewer than this.
const maxPending = 32

// pending are matches that a later one may still beat, in order of position and without overlaps.
type pending struct {
	list  [maxPending]Match
	n     int
	known runs
}

// hasLonger reports whether a match of a rule waits in whose only run of characters, or private key, a prefix of the
// rule ends: what begins there ends where that match does, and is shorter.
func (p *pending) hasLonger(r *Rule, end int) bool {
	if r.Kind != KindToken && r.Kind != KindPEM || len(r.Then) > 0 || r.Right == boundaryAny || r.Lead.set != nil {
		return false
	}
	for i := range p.list[:p.n] {
		if m := &p.list[i]; m.Rule == r && m.Start < end-maxDepth && m.End > end {
			return true
		}
	}
	return false
}

// add adds a match unless a better one overlaps it, and removes those that it beats.
func (p *pending) add(m Match) {
	from := 0
	for from < p.n && p.list[from].End <= m.Start {
		from++
	}
	to := from
	for ; to < p.n && p.list[to].Start < m.End; to++ {
		if !m.beats(&p.list[to]) {
			return
		}
	}
	if from == to && p.n == maxPending {
		return
	}
	n := copy(p.list[from+1:], p.list[to:p.n])
	p.list[from] = m
	p.n = from + 1 + n
}

// beats reports whether m is the better of two matches that overlap.
func (m *Match) beats(other *Match) bool {
	switch length := m.End - m.Start; {
	case m.Rule.Generic != other.Rule.Generic:
		return other.Rule.Generic
	case m.Rule.custom != other.Rule.custom:
		return other.Rule.custom
	case length != other.End-other.Start:
		return length > other.End-other.Start
	default:
		return m.Rule.order < other.Rule.order
	}
}

// flush emits the matches that end at a position at the latest. It returns false if emit did.
func (p *pending) flush(end int, emit func(Match) bool) bool {
	n := 0
	for ; n < p.n && p.list[n].End <= end; n++ {
		if !emit(p.list[n]) {
			return false
		}
	}
	p.n = copy(p.list[:], p.list[n:p.n])
	return true
}

// maxScanners is how many customers' scanners are in memory, at about 140 KiB each.
const maxScanners = 64

// Scanners has a scanner for each customer: a common one, with the rules of the customer. It compiles a set of rules
// once for each revision of it, not for each text. It is safe for concurrent use.
type Scanners struct {
	base *Scanner

	mu       sync.Mutex
	compiled map[string]*compiledRules // by customer, at most maxScanners
	calls    uint64
}

type compiledRules struct {
	revision int64
	scanner  *Scanner
	usedAt   uint64 // in calls
}

// NewScanners returns the scanners that extend base.
func NewScanners(base *Scanner) *Scanners {
	return &Scanners{base: base, compiled: map[string]*compiledRules{}}
}

// Base returns the scanner of customers without rules.
func (c *Scanners) Base() *Scanner { return c.base }

// For returns the scanner of a customer. revision changes whenever the rules do. Rules that are not valid in this
// version of the program, which a newer one may have written, are left out.
func (c *Scanners) For(customer string, revision int64, rules []Custom) *Scanner {
	if len(rules) == 0 {
		return c.base
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	known := c.compiled[customer]
	if known == nil {
		c.evict()
		known = &compiledRules{}
		c.compiled[customer] = known
	}
	if known.scanner == nil || known.revision != revision {
		known.revision, known.scanner = revision, c.compile(rules)
	}
	known.usedAt = c.calls
	return known.scanner
}

// evict makes room for one more scanner: the one goes that was not used for the longest time.
func (c *Scanners) evict() {
	if len(c.compiled) < maxScanners {
		return
	}
	oldest := ""
	for customer, x := range c.compiled {
		if oldest == "" || x.usedAt < c.compiled[oldest].usedAt {
			oldest = customer
		}
	}
	delete(c.compiled, oldest)
}

func (c *Scanners) compile(rules []Custom) *Scanner {
	valid := slices.DeleteFunc(slices.Clone(rules), func(r Custom) bool {
		_, problem := r.problem()
		return problem != ""
	})
	scanner, err := c.base.With(valid)
	if err != nil {
		return c.base
	}
	return scanner
}
