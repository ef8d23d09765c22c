package finding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eventrelay/relay/pkg/secrets"
)

// Severity says how much harm a finding can do; the greater, the worse. Its text is critical, high, medium or low.
type Severity uint8

// Severities. Zero is no severity.
const (
	Low Severity = iota + 1
	Medium
	High
	Critical
)

var severities = []string{Low: "low", Medium: "medium", High: "high", Critical: "critical"}

// String returns the text of a severity; empty for one that does not exist.
func (s Severity) String() string {
	if int(s) < len(severities) {
		return severities[s]
	}
	return ""
}

// ParseSeverity is the reverse of Severity.String.
func ParseSeverity(text string) (Severity, error) {
	if i := slices.Index(severities, text); i > 0 {
		return Severity(i), nil
	}
	return 0, fmt.Errorf("severity %q does not exist: want critical, high, medium or low", text)
}

// MarshalText returns the text of a severity; empty for none.
func (s Severity) MarshalText() ([]byte, error) {
	if s > Critical {
		return nil, fmt.Errorf("severity %d does not exist", s)
	}
	return []byte(severities[s]), nil
}

// UnmarshalText is the reverse of MarshalText.
func (s *Severity) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*s = 0
		return nil
	}
	*s, err = ParseSeverity(string(text))
	return err
}

// Context is everything that the severity of a hit depends on.
type Context struct {
	Rule     string   // id of the rule
	Severity Severity // of the rule
	Own      Severity // of a rule of the account's settings; zero = it is another one
	Kind     Kind
	Source   Source
	// Public means that everybody could read it: a scan found it, or a server's SDK in a response.
	Public bool
	// Server is false for what clients may know, such as publishable keys (the rule's exposure is "public").
	Server bool
	// Test marks keys of a provider's test mode, and our own.
	Test bool
	// KeyWorks means that it is one of our own API keys, and that it is accepted now.
	KeyWorks bool
}

// ContextOf returns what a rule says about the severity of its hits.
func ContextOf(rule *secrets.Rule) Context {
	s, err := ParseSeverity(string(rule.Severity))
	if err != nil {
		panic("BUG: rule " + rule.ID + ": " + err.Error()) // package secrets checks its rules
	}
	c := Context{Rule: rule.ID, Severity: s, Kind: Secret, Server: rule.Exposure == secrets.Server, Test: rule.Test}
	if rule.CustomName() != "" {
		c.Own = s
	}
	return c
}

// SeverityOf returns the severity of a hit: that of the rule, changed by where the secret was seen.
func SeverityOf(c Context) Severity {
	switch {
	case c.Kind == Tripwire && c.Test:
		return Low
	case c.Kind == Tripwire && c.Source == FromTripwire || c.KeyWorks:
		return Critical
	case c.Kind == Tripwire || c.Rule == RuleFlood:
		return High
	case c.Test:
		return Low
	case c.Own != 0:
		return min(c.Own, High)
	case c.Rule == RuleGeneric || strings.HasPrefix(c.Rule, CustomPrefix):
		return Medium
	case c.Public && c.Server:
		return Critical
	default:
		return min(c.Severity, High)
	}
}
