// Package secrets recognises credentials by their shape: a prefix, the characters that follow it, and
// their number.
//
// In: bytes that somebody wants to store or show. Out: where a credential stands in them and which rule
// says so, never its text. The rules are data (rules.json); each is one of four matchers written by hand,
// without regular expressions; what a matcher looks at behind a prefix is bounded.
//
// A shape is no proof: what only looks like a credential is found as well, and one without a known shape
// is not. Who refuses input for a finding names the rule, so that its sender can see why.
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

// Rule says what one kind of credential looks like.
type Rule struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Kind     Kind     `json:"kind"`
	Prefixes []string `json:"prefixes"`
	// Fold lets the prefix stand in capitals too; it is then written in small letters.
	Fold bool `json:"fold"`
	// Charset names the characters behind the prefix; Min and Max bound their number.
	Charset string `json:"charset"`
	Min     int    `json:"min"`
	Max     int    `json:"max"`
	// Need are classes of characters (digit, letter) of which one must be among those behind the prefix.
	Need []string `json:"need"`
	// Check names a proof that goes beyond the shape: relay, the checksum in our own keys.
	Check string `json:"check"`
}

// Kind is the matcher of a rule.
type Kind string

// Kinds of rules.
const (
	KindToken  Kind = "token"  // a prefix and a run of characters
	KindJWT    Kind = "jwt"    // three segments of base64url, the first a JSON object with alg
	KindPEM    Kind = "pem"    // the first line of a private key
	KindBearer Kind = "bearer" // a scheme word and the credential behind it
)

// Match is one credential: the bytes of it alone, prefix included, and who says so.
type Match struct {
	Rule       *Rule
	Start, End int
}

// Scanner finds credentials. It is safe for concurrent use.
type Scanner struct{ rules []Rule }

// New reads the rules of this version.
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
		return errors.New("it has no id or no name")
	case len(r.Prefixes) == 0 || slices.Contains(r.Prefixes, ""):
		return errors.New("it has no prefix")
	case r.Fold && strings.ToLower(strings.Join(r.Prefixes, "")) != strings.Join(r.Prefixes, ""):
		return errors.New("a prefix that may stand in capitals is written in small letters")
	case r.Check != "" && r.Check != checkRelay:
		return fmt.Errorf("its check %q is unknown", r.Check)
	case slices.ContainsFunc(r.Need, func(n string) bool { return n != needDigit && n != needLetter }):
		return fmt.Errorf("it needs %v, of which one is unknown", r.Need)
	}
	switch r.Kind {
	case KindJWT, KindPEM:
		return nil
	case KindToken, KindBearer:
		if !knownCharset(r.Charset) || r.Min < 1 || r.Max < r.Min {
			return errors.New("its charset or its bounds are not usable")
		}
		return nil
	}
	return fmt.Errorf("its kind %q is unknown", r.Kind)
}

// Scan calls emit for every credential in b, rule by rule and in the order of their places, until emit
// returns false.
func (s *Scanner) Scan(b []byte, emit func(Match) bool) {
	for i := range s.rules {
		if r := &s.rules[i]; !r.scan(b, emit) {
			return
		}
	}
}

// Find returns the first rule that finds a credential in the text, nil for none.
func (s *Scanner) Find(text string) *Rule {
	var found *Rule
	s.Scan([]byte(text), func(m Match) bool {
		found = m.Rule
		return false
	})
	return found
}
