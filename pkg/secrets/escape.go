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

// entities are those that serializers of HTML and XML write.
var entities = []struct {
	text string
	c    byte
}{
	{"&quot;", '"'}, {"&#34;", '"'}, {"&apos;", '\''}, {"&#39;", '\''}, {"&#x27;", '\''}, {"&amp;", '&'}, {"&lt;", '<'},
	{"&gt;", '>'},
}

func readEntity(b []byte, i int) (byte, int) {
	for _, e := range entities {
		if len(b)-i >= len(e.text) && string(b[i:i+len(e.text)]) == e.text {
			return e.c, i + len(e.text)
		}
	}
	return '&', i + 1
}
