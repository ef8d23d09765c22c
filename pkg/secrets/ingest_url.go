package secrets

import "slices"

// tokenLength is the number of characters of the token of an ingest URL; see id.Random.
const tokenLength = 26

// WithIngestURLs returns a scanner that also finds the ingest URLs whose token isDecoy accepts. Other ones are no leak:
// providers have them. It is called for each text that looks like a token, and must be safe for concurrent use.
func (s *Scanner) WithIngestURLs(isDecoy func(token string) bool) (*Scanner, error) {
	rule := Rule{
		ID: "decoy-ingest-url", Name: "Ingest URL of a tripwire", Provider: "eventrelay", Kind: KindToken, Severity: High,
		Fingerprint: true, order: len(s.rules), isDecoy: isDecoy,
		shape: shape{
			// As in a URL, in JSON that escapes slashes, and in the query of another URL.
			Prefixes: []string{"/in/", `\/in\/`, "%2Fin%2F", "%2fin%2f"}, Left: boundaryAny,
			part: part{Charset: "lownum", Min: tokenLength, Max: tokenLength},
		},
	}
	if err := rule.prepare(); err != nil {
		return nil, err
	}
	extended := *s
	extended.rules = append(slices.Clone(s.rules), rule)
	var err error
	extended.automaton, err = extended.compile(extended.rules)
	return &extended, err
}
