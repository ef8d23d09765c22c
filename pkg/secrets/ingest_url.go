package secrets

import (
	"bytes"
	"iter"
	"slices"
)

// tokenLength is the number of characters of the token of an ingest URL; see id.Random.
const tokenLength = 26

// WithIngestURLs returns a scanner that also finds the ingest URLs whose token isTripwire accepts. Others are no leak:
// providers have them. It is called for each text that looks like a token, and must be safe for concurrent use.
func (s *Scanner) WithIngestURLs(isTripwire func(token string) bool) (*Scanner, error) {
	rule := Rule{
		ID: "decoy-ingest-url", Name: "Ingest URL of a tripwire", Provider: "eventrelay", Kind: KindToken, Severity: High,
		Fingerprint: true, order: len(s.rules), isTripwire: isTripwire,
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

// visibleTail is how many characters of a masked token are left.
const visibleTail = 4

// MaskIngestTokens returns text with every token that isToken accepts as four asterisks and its last four characters;
// it is text itself if there is none. A token is found alone, in a URL, and where escapes stand before or after it, in
// any case of its letters. isToken is called for little else than what looks like a token. A run of letters and digits
// is masked whole if a token may begin more often in it than at every 32nd character.
func MaskIngestTokens(text []byte, isToken func(token string) bool) []byte {
	var out []byte
	copied := 0
	for start := 0; start < len(text); start++ {
		if !isAlphanumeric(text[start]) {
			continue
		}
		end := start + 1
		for end < len(text) && isAlphanumeric(text[end]) {
			end++
		}
		asked, most := 0, 16+(end-start)/32
		for at := range tokenStarts(text[start:end]) {
			if asked++; asked > most {
				out = append(append(out, text[copied:max(start, copied)]...), "****"...)
				copied = end - visibleTail
				break
			}
			at += start
			if at < copied || !isToken(string(bytes.ToLower(text[at:at+tokenLength]))) {
				continue
			}
			out = append(append(out, text[copied:at]...), "****"...)
			copied = at + tokenLength - visibleTail
		}
		start = end
	}
	if copied == 0 {
		return text
	}
	return append(out, text[copied:]...)
}

// tokenStarts returns where in a run of letters and digits a token may begin: at the start, at the end less its length,
// and after the hexadecimal code of a slash or an equals sign, as in %2F, \u002f and %3D. What is hexadecimal itself
// is no token: such text has these codes often, and of a billion tokens fewer than one looks like it.
func tokenStarts(run []byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		last := len(run) - tokenLength
		if last < 0 || !yield(0) || last == 0 {
			return
		}
		for at := 2; at < last; at++ {
			c := run[at-1] | 0x20
			if (run[at-2] == '2' && c == 'f' || run[at-2] == '3' && c == 'd') && !isHexadecimal(run[at:at+tokenLength]) &&
				!yield(at) {
				return
			}
		}
		yield(last)
	}
}

func isHexadecimal(text []byte) bool {
	for _, c := range text {
		if c > '9' && (c|0x20 < 'a' || c|0x20 > 'f') {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}
