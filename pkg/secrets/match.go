package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/eventrelay/relay/pkg/apikey"
)

// Names in rules.json.
const (
	checkRelay = "relay"
	needDigit  = "digit"
	needLetter = "letter"
)

// scan calls emit for every match of the rule, prefix by prefix. It returns false if emit did.
func (r *Rule) scan(b []byte, emit func(Match) bool) bool {
	within := b
	if r.Fold {
		within = toLowerASCII(b)
	}
	for _, prefix := range r.Prefixes {
		for from := 0; ; {
			i := bytes.Index(within[from:], []byte(prefix))
			if i < 0 {
				break
			}
			start := from + i
			from = start + 1
			if !atWordStart(b, start) {
				continue // the middle of a longer word
			}
			end := r.matchEnd(b, start, start+len(prefix))
			if end == 0 {
				continue
			}
			if from = end; !emit(Match{r, start, end}) {
				return false
			}
		}
	}
	return true
}

// atWordStart reports whether a word can start at a position: the byte before it is no word character, or ends an
// escape, as in JSON inside a JSON string (\nkey) or in a URL (%3Dkey).
func atWordStart(b []byte, start int) bool {
	if start == 0 || !inCharset("word", b[start-1]) {
		return true
	}
	endsEscape := func(n int, mark string, letters string) bool { // mark and n characters, the first of them in letters
		i := start - n
		return i > 0 && string(b[i-1]) == mark && bytes.IndexByte([]byte(letters), b[i]) >= 0 && isHex(b[start-n+1:start])
	}
	return endsEscape(1, `\`, "bfnrt") || endsEscape(3, `\`, "x") || endsEscape(5, `\`, "u") ||
		endsEscape(2, "%", "0123456789abcdefABCDEF")
}

func isHex(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return bytes.IndexByte([]byte("0123456789abcdefABCDEF"), c) < 0 })
}

// toLowerASCII returns b with ASCII letters in lower case; other bytes and all positions stay.
func toLowerASCII(b []byte) []byte {
	out := slices.Clone(b)
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}

// matchEnd returns the end of the credential whose prefix is b[start:after], 0 if there is none.
func (r *Rule) matchEnd(b []byte, start, after int) int {
	switch r.Kind {
	case KindJWT:
		return jwtEnd(b, start)
	case KindPEM:
		return pemEnd(b, after)
	case KindBearer:
		for after < len(b) && b[after] == ' ' {
			after++
		}
	}
	end := runEnd(b, after, r.Charset, r.Max+1)
	if n := end - after; n < r.Min || n > r.Max {
		return 0
	}
	for _, need := range r.Need {
		if !slices.ContainsFunc(b[after:end], func(c byte) bool { return inCharset(need, c) }) {
			return 0
		}
	}
	if r.Check == checkRelay && !apikey.HasFormat(string(b[start:end])) {
		return 0
	}
	return end
}

// runEnd returns where the run of a charset's characters from a position ends. It reads limit characters at most: a
// long run may contain many prefixes and is read again for each.
func runEnd(b []byte, from int, charset string, limit int) int {
	end := min(len(b), from+limit)
	for from < end && inCharset(charset, b[from]) {
		from++
	}
	return from
}

// Longest segments of a JSON Web Token that are read, in bytes; maxJWTHeader bounds the signature too.
const maxJWTHeader, maxJWTPayload = 1 << 10, 16 << 10

// jwtEnd returns the end of three base64url segments, 0 if there are none. The first is a JSON object with an algorithm
// (RFC 7515, section 3.1). The last may be empty: an unsigned token has the same claims.
func jwtEnd(b []byte, start int) int {
	const urlsafe = "urlsafe"
	header := runEnd(b, start, urlsafe, maxJWTHeader)
	if header == len(b) || b[header] != '.' {
		return 0
	}
	payload := runEnd(b, header+1, urlsafe, maxJWTPayload)
	if payload == header+1 || payload == len(b) || b[payload] != '.' {
		return 0
	}
	text, err := base64.RawURLEncoding.DecodeString(string(b[start:header]))
	var head struct {
		Alg *string `json:"alg"`
	}
	if err != nil || json.Unmarshal(text, &head) != nil || head.Alg == nil {
		return 0
	}
	return runEnd(b, payload+1, urlsafe, maxJWTHeader)
}

// pemEnd returns the end of the line that begins a private key of any kind (RFC 7468, sections 10 and 11, and the
// older labels with an algorithm), 0 if there is none.
func pemEnd(b []byte, after int) int {
	const label, nearby = "PRIVATE KEY-----", 40
	within := b[after:min(len(b), after+nearby+len(label))]
	i := bytes.Index(within, []byte(label))
	if i < 0 || bytes.IndexByte(within[:i], '\n') >= 0 {
		return 0
	}
	return after + i + len(label)
}

// knownCharset reports whether a rule may name this charset.
func knownCharset(name string) bool {
	return slices.Contains([]string{"alnum", "word", "dash", "urlsafe", "base32", "base64", "token68"}, name)
}

// inCharset reports whether c is in a charset or in a class of Rule.Need.
func inCharset(name string, c byte) bool {
	digit := c >= '0' && c <= '9'
	upper := c >= 'A' && c <= 'Z'
	letter := upper || c >= 'a' && c <= 'z'
	switch name {
	case needDigit:
		return digit
	case needLetter:
		return letter
	case "alnum":
		return letter || digit
	case "word":
		return letter || digit || c == '_'
	case "dash":
		return letter || digit || c == '-'
	case "urlsafe":
		return letter || digit || c == '-' || c == '_'
	case "base32":
		return upper || c >= '2' && c <= '7'
	case "base64":
		return letter || digit || c == '+' || c == '/' || c == '='
	case "token68": // RFC 9110, section 11.2
		return letter || digit || bytes.IndexByte([]byte("-._~+/="), c) >= 0
	}
	return false
}
