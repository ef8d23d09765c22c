package secrets

// maxBackslashes is how many backslashes may stand before an escaped character: JSON four times inside JSON.
const maxBackslashes = 8

// other stands for a character that is no printable ASCII and no white space.
const other = 0

// readChar reads the character at a position of non-empty text, as it was before a wrapper escaped it: behind
// backslashes (JSON, also inside JSON), percent-encoded, also twice, or as an HTML entity. It returns the position
// after it.
func readChar(b []byte, i int) (byte, int) {
	switch c := b[i]; {
	case c == '\\':
		return readBackslash(b, i)
	case c == '%':
		if c, next, ok := readPercent(b, i); ok {
			return c, next
		}
		return c, i + 1
	case c == '&':
		return readEntity(b, i)
	case c == '#':
		return readSyslog(b, i)
	case c >= 0x80 || c < ' ' && c != '\n' && c != '\r' && c != '\t':
		return other, i + 1
	default:
		return c, i + 1
	}
}

func readBackslash(b []byte, i int) (byte, int) {
	at := i
	for at < len(b) && at < i+maxBackslashes && b[at] == '\\' {
		at++
	}
	if at == len(b) {
		return '\\', i + 1
	}
	switch c := b[at]; c {
	case '/', '"', '\'', '`':
		return c, at + 1
	case 'n':
		return '\n', at + 1
	case 'r':
		return '\r', at + 1
	case 't':
		return '\t', at + 1
	case 'u':
		if high, ok := readHex(b, at+1); ok {
			if low, ok := readHex(b, at+3); ok {
				return ascii(high, low), at + 5
			}
		}
	case 'x':
		if c, ok := readHex(b, at+1); ok {
			return ascii(0, c), at + 3
		}
	}
	return '\\', i + 1
}

// ascii returns a UTF-16 unit as a character.
func ascii(high, low byte) byte {
	if high != 0 || low >= 0x80 {
		return other
	}
	return low
}

// readPercent reads %2F, and %252F, which is the same encoded twice.
func readPercent(b []byte, i int) (c byte, next int, ok bool) {
	if c, ok = readHex(b, i+1); !ok {
		return 0, 0, false
	}
	if c == '%' {
		if c, ok := readHex(b, i+3); ok {
			return ascii(0, c), i + 5, true
		}
	}
	return ascii(0, c), i + 3, true
}

// percentLevel returns how often the character at a position is percent-encoded: not, once or twice.
func percentLevel(b []byte, i int) int {
	switch c, next, ok := readPercent(b, i); {
	case b[i] != '%' || !ok || c == other:
		return 0
	case next > i+3:
		return 2
	}
	return 1
}

// levelBefore returns how often the character before a position is percent-encoded.
func levelBefore(b []byte, end int) int {
	for level := 2; level > 0; level-- {
		if i := end - 1 - 2*level; i >= 0 && b[i] == '%' && percentLevel(b, i) == level {
			return level
		}
	}
	return 0
}

// readSyslog reads a control character as rsyslog writes it: #012.
func readSyslog(b []byte, i int) (byte, int) {
	if i+4 > len(b) || b[i+1] != '0' || !isOctal(b[i+2]) || !isOctal(b[i+3]) {
		return '#', i + 1
	}
	switch c := (b[i+2]-'0')<<3 | b[i+3] - '0'; c {
	case '\n', '\r', '\t':
		return c, i + 4
	}
	return other, i + 4
}

// readHex reads two hexadecimal digits.
func readHex(b []byte, i int) (byte, bool) {
	if i+2 > len(b) || !isHex[b[i]] || !isHex[b[i+1]] {
		return 0, false
	}
	return hexDigit(b[i])<<4 | hexDigit(b[i+1]), true
}

func hexDigit(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | ' ' - 'a' + 10
}

// entities are those that serializers of HTML and XML write, beside the numeric ones.
var entities = []struct {
	text string
	c    byte
}{{"&quot;", '"'}, {"&apos;", '\''}, {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}}

func readEntity(b []byte, i int) (byte, int) {
	if i+1 < len(b) && b[i+1] == '#' {
		return readNumericEntity(b, i)
	}
	for _, e := range entities {
		if len(b)-i >= len(e.text) && string(b[i:i+len(e.text)]) == e.text {
			return e.c, i + len(e.text)
		}
	}
	return '&', i + 1
}

// readNumericEntity reads an ASCII character, &#47; or &#x2F;.
func readNumericEntity(b []byte, i int) (byte, int) {
	at, base := i+2, 10
	if at < len(b) && b[at]|' ' == 'x' {
		at, base = at+1, 16
	}
	c := 0
	for n := 0; n < 4 && at < len(b) && isHex[b[at]] && int(hexDigit(b[at])) < base; n++ {
		c = c*base + int(hexDigit(b[at]))
		at++
	}
	if c == 0 || c >= 0x80 || at == len(b) || b[at] != ';' {
		return '&', i + 1
	}
	return byte(c), at + 1
}

// Canonical returns the secret as it was before a wrapper escaped it: of a private key the base64 of its body, without
// white space. A fingerprint is one of this text, so that a key in JSON and the same key in a URL are one secret. The
// result shares memory with secret if nothing is escaped.
func (r *Rule) Canonical(secret []byte) []byte {
	if r.isTripwire != nil { // the URL before the token may be written in many ways
		return secret[max(0, len(secret)-tokenLength):]
	}
	switch {
	case r.Kind == KindJWK:
		return canonicalJWK(secret)
	case r.Kind == KindPEM:
		k, from := keyText{most: len(secret), isList: true}, 0
		if secret[0] != '-' {
			k.size = max(0, keySize(secret, 0))
		} else if from = labelEnd(secret, len(r.Prefixes[0])); from < 0 {
			return secret
		}
		k.read(secret, from)
		return k.text
	case !hasEscape(secret):
		return secret
	}
	out := make([]byte, 0, len(secret))
	for i := 0; i < len(secret); {
		c, next := readChar(secret, i)
		out, i = append(out, c), next
	}
	return out
}

func hasEscape(b []byte) bool {
	for i := range b {
		if _, next := readChar(b, i); next > i+1 {
			return true
		}
	}
	return false
}
