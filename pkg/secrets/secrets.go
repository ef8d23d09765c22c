// Package secrets recognizes credentials by their shape: a prefix, and the kind and number of the characters after
// it.
//
// Scan takes bytes before they are stored and reports where credentials are in them and by which rule, never
// their text. The rules are data (rules.json). Each uses one of four hand-written matchers instead of a regular
// expression. A matcher reads a bounded number of bytes after a prefix.
//
// A shape proves nothing: text that only looks like a credential is found too, and one without a known shape is not.
// Callers that reject input must name the rule, so that the sender can see why. Begin reading at Scanner.
package secrets

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

//go:embed rules.json
var rulesFile []byte

// Rule describes one kind of credential.
type Rule struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Kind     Kind     `json:"kind"`
	Prefixes []string `json:"prefixes"`
	// Fold ignores the case of ASCII letters in prefixes; rules.json has them in lower case.
	Fold bool `json:"fold"`
	// Charset names the characters after the prefix; Min and Max bound their number.
	Charset string `json:"charset"`
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	// Need are classes (digit, letter); the characters after the prefix must include one of each.
	Need []string `json:"need"`
	// Check names an additional check: relay verifies the checksum of EventRelay's own keys.
	Check string `json:"check"`
}

// Kind is the matcher of a rule.
type Kind string

// Matchers of rules.
const (
	KindToken  Kind = "token"  // a prefix and a run of characters
	KindJWT    Kind = "jwt"    // three base64url segments, the first a JSON object with the member alg
	KindPEM    Kind = "pem"    // the first line of a private key
	KindBearer Kind = "bearer" // an authentication scheme and the credential after it
)

// Match is one credential: b[Start:End], prefix included, and the rule that found it.
type Match struct {
	Rule       *Rule
	Start, End int
}

// Scanner finds credentials. It is safe for concurrent use.
type Scanner struct{ rules []Rule }

// New returns a scanner with the rules of this version.
func New() (*Scanner, error) {
	var file struct {
		Version int    `json:"version"`
		Rules   []Rule `json:"rules"`
	}
	if err := json.Unmarshal(rulesFile, &file); err != nil {
		return nil, fmt.Errorf("read the rules for secrets: %w", err)
	}
	var errs []error
	for i := range file.Rules {
		if err := file.Rules[i].validate(); err != nil {
			errs = append(errs, fmt.Errorf("rule %s: %w", file.Rules[i].ID, err))
		}
	}
	return &Scanner{rules: file.Rules}, errors.Join(errs...)
}

func (r *Rule) validate() error {
	switch {
	case r.ID == "" || r.Name == "":
		return errors.New("id and name are required")
	case len(r.Prefixes) == 0 || slices.Contains(r.Prefixes, ""):
		return errors.New("a prefix is required")
	case r.Fold && strings.ToLower(strings.Join(r.Prefixes, "")) != strings.Join(r.Prefixes, ""):
		return errors.New("prefixes must be in lower case because fold is set")
	case r.Check != "" && r.Check != checkRelay:
		return fmt.Errorf("check %q is unknown", r.Check)
	case slices.ContainsFunc(r.Need, func(n string) bool { return n != needDigit && n != needLetter }):
		return fmt.Errorf("need %v has an unknown class", r.Need)
	}
	switch r.Kind {
	case KindJWT, KindPEM:
		return nil
	case KindToken, KindBearer:
		if !knownCharset(r.Charset) || r.Min < 1 || r.Max < r.Min {
			return errors.New("charset must be known, min at least 1 and max not below min")
		}
		return nil
	}
	return fmt.Errorf("kind %q is unknown", r.Kind)
}

// Scan calls emit for every credential in b until emit returns false: rule by rule and prefix by prefix, each in order
// of position. Bytes that match several rules are reported for each.
func (s *Scanner) Scan(b []byte, emit func(Match) bool) {
	for i := range s.rules {
		if r := &s.rules[i]; !r.scan(b, emit) {
			return
		}
	}
}

// Find returns the first rule that finds a credential in the text; nil if none does.
func (s *Scanner) Find(text string) *Rule {
	var found *Rule
	s.Scan([]byte(text), func(m Match) bool {
		found = m.Rule
		return false
	})
	return found
}
