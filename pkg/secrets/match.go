package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/eventrelay/relay/pkg/apikey"
)

// Names that rules use.
const (
	checkRelay = "relay"
	needDigit  = "digit"
	needLetter = "letter"
)

// scan looks for the rule's prefixes and judges what follows each. It returns false when emit did.
func (r *Rule) scan(b []byte, emit func(Match) bool) bool {
	within := b
	if r.Fold {
		within = lower(b)
	}
	for _, prefix := range r.Prefixes {
		for from := 0; ; {
			i := bytes.Index(within[from:], []byte(prefix))
			if i < 0 {
				break
			}
			start := from + i
			from = start + 1
			if !begins(b, start) {
				continue // the middle of a longer word
			}
			end := r.match(b, start, start+len(prefix))
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

// begins reports whether a word may begin at that place: what stands before is no character of a word, or the
// end of an escape, as in a line of JSON that is quoted inside of JSON (\nkey), or in a URL (%3Dkey).
func begins(b []byte, start int) bool {
	if start == 0 || !inCharset("word", b[start-1]) {
		return true
	}
	ends := func(n int, mark string, letters string) bool { // mark, then n characters of which the first is in letters
		i := start - n
		return i > 0 && string(b[i-1]) == mark && bytes.IndexByte([]byte(letters), b[i]) >= 0 && hex(b[start-n+1:start])
	}
	return ends(1, `\`, "bfnrt") || ends(3, `\`, "x") || ends(5, `\`, "u") || ends(2, "%", "0123456789abcdefABCDEF")
}

func hex(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return bytes.IndexByte([]byte("0123456789abcdefABCDEF"), c) < 0 })
}

// lower is b with the letters of ASCII made small; other bytes and all places stay.
func lower(b []byte) []byte {
	out := slices.Clone(b)
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}

// match is the end of the credential whose prefix begins at start and ends at rest, 0 for none.
func (r *Rule) match(b []byte, start, rest int) int {
	switch r.Kind {
	case KindJWT:
		return jwtEnd(b, start)
	case KindPEM:
		return pemEnd(b, rest)
	case KindBearer:
		for rest < len(b) && b[rest] == ' ' {
			rest++
		}
	}
	end := run(b, rest, r.Charset, r.Max+1)
	if n := end - rest; n < r.Min || n > r.Max {
		return 0
	}
	for _, need := range r.Need {
		if !slices.ContainsFunc(b[rest:end], func(c byte) bool { return inCharset(need, c) }) {
			return 0
		}
	}
	if r.Check == checkRelay && !apikey.Is(string(b[start:end])) {
		return 0
	}
	return end
}

// run is where the characters of a charset end that begin at from, or limit characters further on: what
// follows a prefix is looked at again for every prefix in it.
func run(b []byte, from int, charset string, limit int) int {
	end := min(len(b), from+limit)
	for from < end && inCharset(charset, b[from]) {
		from++
	}
	return from
}

// Longest segments of a JSON Web Token that are looked at, in bytes.
const maxJWTHeader, maxJWTPayload = 1 << 10, 16 << 10

// jwtEnd is the end of three segments of base64url, of which the first is a JSON object that names an
// algorithm: RFC 7515, 3.1. The last may be empty, for an unsigned one carries the same claims.
func jwtEnd(b []byte, start int) int {
	const urlsafe = "urlsafe"
	header := run(b, start, urlsafe, maxJWTHeader)
	if header == len(b) || b[header] != '.' {
		return 0
	}
	payload := run(b, header+1, urlsafe, maxJWTPayload)
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
	return run(b, payload+1, urlsafe, maxJWTHeader)
}

// pemEnd is the end of the line that begins a private key of any kind: RFC 7468, 10 and 11, and the older
// names that put the algorithm before it.
func pemEnd(b []byte, rest int) int {
	const label, nearby = "PRIVATE KEY-----", 40
	within := b[rest:min(len(b), rest+nearby+len(label))]
	i := bytes.Index(within, []byte(label))
	if i < 0 || bytes.IndexByte(within[:i], '\n') >= 0 {
		return 0
	}
	return rest + i + len(label)
}

// knownCharset reports whether rules may name that charset.
func knownCharset(name string) bool {
	return slices.Contains([]string{"alnum", "word", "dash", "urlsafe", "base32", "base64", "token68"}, name)
}

// inCharset reports whether c is one of the characters that the name stands for.
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
	case "token68": // RFC 9110, 11.2
		return letter || digit || bytes.IndexByte([]byte("-._~+/="), c) >= 0
	}
	return false
}
