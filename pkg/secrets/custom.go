package secrets

import (
	_ "embed"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// CustomPrefix begins the ids of customers' own rules.
const CustomPrefix = "custom:"

// Custom is a rule of a customer: a token with a prefix, as rules.json has them. Its matches have no fingerprint,
// because nobody knows whether they can be guessed, and lose against overlapping ones of built-in rules, except generic
// ones.
type Custom struct {
	ID       string   `json:"id"` // CustomPrefix and 1 to 40 characters of a-z, 0-9 and '-'
	Name     string   `json:"name"`
	Prefixes []string `json:"prefixes"` // 1 to MaxCustomRulePrefixes, each of 3 to 40 characters
	Charset  string   `json:"charset"`  // one of Charsets
	Min      int      `json:"min"`      // characters after the prefix, from MinCustomLength on
	Max      int      `json:"max"`      // at most MaxCustomLength, or 128 for a set with '+'
	Left     string   `json:"left"`     // one of LeftBoundaries; see Rule
	Right    string   `json:"right"`    // one of RightBoundaries
	Entropy  float64  `json:"entropy"`  // least bits a character, 0 to MaxCustomEntropy
	Severity Severity `json:"severity"`
	Docs     string   `json:"docs_url,omitempty"` // https URL of a page that says what to do; "" = none
}

// Bounds of the rules of one customer.
const (
	MaxCustomRules        = 50
	MaxCustomRulePrefixes = 10  // of one rule
	MaxCustomPrefixes     = 150 // of all rules: their automaton then fits into its table
	MinCustomPrefix       = 3   // characters
	MaxCustomPrefix       = 40
	MinCustomLength       = 8 // characters after the prefix
	MaxCustomLength       = 1024
	MaxCustomEntropy      = 6 // bits a character
	MaxCustomName         = 100
	MaxCustomDocs         = 300
	maxCustomID           = 40
	// maxSpacedLength bounds Max for character sets with '+', which may be a space in a URL: such a run is read again for
	// each prefix in it.
	maxSpacedLength = 128
	// maxNested is how many prefixes may match at one place of a text: those that a prefix begins with, and itself.
	maxNested = 4
)

// What may stand beside a credential; see Rule. With any text before it, each character of a long run could begin one.
var (
	LeftBoundaries  = []string{boundaryWord, boundaryCharset}
	RightBoundaries = []string{boundaryWord, boundaryCharset, boundaryAny}
)

// Severities are those of rules, the worst first.
var Severities = []Severity{Critical, High, Medium, Low}

// Charsets returns the names of the character sets that rules use, sorted.
func Charsets() []string { return slices.Sorted(maps.Keys(charsets)) }

// CustomError says which member of customers' rules is invalid.
type CustomError struct {
	Param   string // such as rules[2].prefixes[0]
	Message string // a predicate, such as "must not be empty"
}

func (e *CustomError) Error() string { return e.Param + " " + e.Message }

// ordinaryText is what logs and pages are full of. A rule that finds something in it would find it everywhere.
//
//go:embed ordinary.txt
var ordinaryText []byte

// ValidateCustom returns a *CustomError for the first member that is invalid. It refuses rules that match in ordinary
// text, and those that make scanning slow.
func ValidateCustom(rules []Custom) error {
	if len(rules) > MaxCustomRules {
		return &CustomError{"rules", fmt.Sprintf("must have at most %d elements", MaxCustomRules)}
	}
	total, ids := 0, map[string]int{}
	for i := range rules {
		r := &rules[i]
		if name, problem := r.problem(); problem != "" {
			return &CustomError{fmt.Sprintf("rules[%d].%s", i, name), problem}
		}
		if first, ok := ids[r.ID]; ok {
			return &CustomError{fmt.Sprintf("rules[%d].id", i), fmt.Sprintf("is that of rules[%d] too", first)}
		}
		ids[r.ID] = i
		if total += len(r.Prefixes); total > MaxCustomPrefixes {
			return &CustomError{fmt.Sprintf("rules[%d].prefixes", i),
				fmt.Sprintf("are too many: all rules together have at most %d", MaxCustomPrefixes)}
		}
	}
	if err := validateNesting(rules); err != nil {
		return err
	}
	return validateOnText(rules)
}

// validateNesting bounds how many matchers run at one place of a text.
func validateNesting(rules []Custom) error {
	var all []string
	for i := range rules {
		all = append(all, rules[i].Prefixes...)
	}
	for i := range rules {
		for j, prefix := range rules[i].Prefixes {
			n := 0
			for _, other := range all {
				if strings.HasPrefix(prefix, other) {
					n++
				}
			}
			if n > maxNested {
				return &CustomError{fmt.Sprintf("rules[%d].prefixes[%d]", i, j), fmt.Sprintf("begins with %d other prefixes, "+
					"or is equal to them: at most %d are allowed", n-1, maxNested-1)}
			}
		}
	}
	return nil
}

// validateOnText refuses rules that match in ordinary text.
func validateOnText(custom []Custom) error {
	rules, err := prepareCustom(custom, 0)
	if err != nil {
		return err
	}
	s := &Scanner{gates: true}
	if s.automaton, err = s.compile(rules); err != nil {
		return err
	}
	var found error
	s.Scan(ordinaryText, func(m Match) bool {
		found = &CustomError{fmt.Sprintf("rules[%d].prefixes", m.Rule.order), fmt.Sprintf("match in ordinary text, such "+
			"as %s: use a longer prefix, or a greater min or entropy", m.excerpt(ordinaryText))}
		return false
	})
	return found
}

// excerpt returns the text of a match, without its end if it is long.
func (m *Match) excerpt(b []byte) string {
	const most = 40
	text := b[m.Start:m.End]
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// problem returns the name of the first invalid member, and what is wrong with it; empty if there is none.
func (r *Custom) problem() (name, problem string) {
	suffix, found := strings.CutPrefix(r.ID, CustomPrefix)
	switch {
	case !found || len(suffix) == 0 || len(suffix) > maxCustomID || strings.ContainsFunc(suffix, isNoIDCharacter):
		return "id", fmt.Sprintf("must be %s and 1 to %d characters of a-z, 0-9 and -", CustomPrefix, maxCustomID)
	case strings.TrimSpace(r.Name) == "" || utf8.RuneCountInString(r.Name) > MaxCustomName:
		return "name", fmt.Sprintf("must have 1 to %d characters", MaxCustomName)
	case strings.ContainsFunc(r.Name, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return "name", "must be one line"
	case len(r.Prefixes) == 0 || len(r.Prefixes) > MaxCustomRulePrefixes:
		return "prefixes", fmt.Sprintf("must have 1 to %d elements", MaxCustomRulePrefixes)
	}
	for i, prefix := range r.Prefixes {
		if problem := prefixProblem(prefix); problem != "" {
			return fmt.Sprintf("prefixes[%d]", i), problem
		}
		if slices.Index(r.Prefixes, prefix) < i {
			return fmt.Sprintf("prefixes[%d]", i), "stands there twice"
		}
	}
	return r.shapeProblem()
}

// shapeProblem is problem for what follows the prefix.
func (r *Custom) shapeProblem() (name, problem string) {
	switch {
	case charsets[r.Charset] == nil:
		return "charset", "must be one of " + strings.Join(Charsets(), ", ")
	case r.Min < MinCustomLength || r.Min > MaxCustomLength:
		return "min", fmt.Sprintf("must be an integer from %d to %d", MinCustomLength, MaxCustomLength)
	case r.Max < r.Min || r.Max > MaxCustomLength:
		return "max", fmt.Sprintf("must be an integer from min (%d) to %d", r.Min, MaxCustomLength)
	case charsets[r.Charset]['+'] && r.Max > maxSpacedLength:
		return "max", fmt.Sprintf("must be at most %d with this charset; set right to any to find longer ones by their "+
			"beginning", maxSpacedLength)
	case !slices.Contains(LeftBoundaries, r.Left):
		return "left", "must be one of " + strings.Join(LeftBoundaries, ", ")
	case !slices.Contains(RightBoundaries, r.Right):
		return "right", "must be one of " + strings.Join(RightBoundaries, ", ")
	case !(r.Entropy >= 0 && r.Entropy <= MaxCustomEntropy): // also if it is no number
		return "entropy", fmt.Sprintf("must be a number from 0 to %d", MaxCustomEntropy)
	case !slices.Contains(Severities, r.Severity):
		return "severity", "must be one of critical, high, medium, low"
	case r.Docs != "" && !isWebPage(r.Docs):
		return "docs_url", fmt.Sprintf("must be an https URL of at most %d characters", MaxCustomDocs)
	}
	return "", ""
}

func isNoIDCharacter(c rune) bool { return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') }

// prefixProblem returns what is wrong with a prefix. Characters that wrappers escape are no part of one: it would not
// be found in JSON or a URL.
func prefixProblem(prefix string) string {
	if len(prefix) < MinCustomPrefix || len(prefix) > MaxCustomPrefix {
		return fmt.Sprintf("must have %d to %d characters", MinCustomPrefix, MaxCustomPrefix)
	}
	letters := 0
	for i := range len(prefix) {
		switch c := prefix[i]; {
		case isLetter(c) || c >= '0' && c <= '9':
			letters++
		case !isSeparator(c) && c != '~':
			return "must consist of letters, digits and - _ . ~"
		}
	}
	if letters < 2 {
		return "must have at least 2 letters or digits"
	}
	return ""
}

func isWebPage(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= MaxCustomDocs && u.Scheme == "https" && u.Host != "" && u.User == nil &&
		!strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' })
}

// rule returns the rule in the form that matchers use.
func (r *Custom) rule() Rule {
	return Rule{
		ID: r.ID, Name: r.Name, Kind: KindToken, Severity: r.Severity, Docs: r.Docs, custom: true, shape: shape{
			Prefixes: r.Prefixes, Left: r.Left, Right: r.Right, Entropy: r.Entropy,
			part: part{Charset: r.Charset, Min: r.Min, Max: r.Max},
		},
	}
}

// CustomName returns the name of a customer's rule, which may be deleted later; empty for a built-in one.
func (r *Rule) CustomName() string {
	if r.custom {
		return r.Name
	}
	return ""
}

// With returns a scanner that finds with customers' rules too. It shares everything else with s, and takes about as
// long as New. The rules must be valid; see ValidateCustom.
func (s *Scanner) With(custom []Custom) (*Scanner, error) {
	if len(custom) == 0 {
		return s, nil
	}
	rules, err := prepareCustom(custom, len(s.rules))
	if err != nil {
		return nil, err
	}
	extended := *s
	extended.rules = append(slices.Clone(s.rules), rules...)
	if extended.own, err = extended.compile(rules); err != nil {
		return nil, fmt.Errorf("rules of the customer: %w", err)
	}
	return &extended, nil
}

// prepareCustom returns the rules in the form that matchers use. order is that of the first one.
func prepareCustom(custom []Custom, order int) ([]Rule, error) {
	rules := make([]Rule, len(custom))
	for i := range custom {
		rules[i] = custom[i].rule()
		rules[i].order = order + i
		if err := rules[i].prepare(); err != nil {
			return nil, fmt.Errorf("rule %s: %w", rules[i].ID, err)
		}
	}
	return rules, nil
}
