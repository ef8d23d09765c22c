package secrets

// charset is a set of bytes.
type charset [256]bool

// runs remembers, for each set, a part of the text that has its characters only. Text of many prefixes in one long run
// is so read once, not once for each prefix.
type runs [16]struct {
	set       *charset
	from, end int
}

// of returns what is remembered of a set.
func (m *runs) of(set *charset) (from, end *int) {
	i := 0
	for i < len(m)-1 && m[i].set != nil && m[i].set != set {
		i++
	}
	if m[i].set != set {
		m[i].set, m[i].from, m[i].end = set, 0, 0
	}
	return &m[i].from, &m[i].end
}

// shift moves the positions back.
func (m *runs) shift(n int) {
	for i := range m {
		m[i].from, m[i].end = m[i].from-n, m[i].end-n
	}
}

// charsets are what rules.json may name.
var charsets = map[string]*charset{
	"digit":   newCharset("09", ""),
	"lower":   newCharset("az", ""),
	"upper":   newCharset("AZ", ""),
	"letter":  newCharset("azAZ", ""),
	"alnum":   newCharset("azAZ09", ""),
	"hex":     newCharset("09afAF", ""),
	"base32":  newCharset("AZ27", ""),
	"word":    newCharset("azAZ09", "_"),
	"dash":    newCharset("azAZ09", "-"),
	"urlsafe": newCharset("azAZ09", "-_"), // base64url, RFC 4648, section 5
	"dotted":  newCharset("azAZ09", "-_."),
	"upnum":   newCharset("AZ09", ""),
	"lownum":  newCharset("az09", ""),
	"uuid":    newCharset("09afAF", "-"),
	"client":  newCharset("azAZ09", "-_.~"), // Microsoft Entra's secrets
	"padded":  newCharset("azAZ09", "-_="),
	"value":   newCharset("azAZ09", "-_.~+/=!#^$"),
	"base64":  newCharset("azAZ09", "+/="),     // RFC 4648, section 4
	"token68": newCharset("azAZ09", "-._~+/="), // RFC 9110, section 11.2
}

// newCharset returns the set of ranges, two characters each, and of single characters.
func newCharset(ranges, single string) *charset {
	set := &charset{}
	for i := 0; i < len(ranges); i += 2 {
		for c := int(ranges[i]); c <= int(ranges[i+1]); c++ {
			set[c] = true
		}
	}
	for _, c := range []byte(single) {
		set[c] = true
	}
	return set
}

// escaped reports whether wrappers escape characters of the set: JSON the slash, a URL also the plus and the equals
// sign.
func (s *charset) escaped() bool { return s['/'] || s['+'] || s['='] }

// run returns where the set's characters from a position end, and their number. It reads most characters at most. level
// says how often the text is known to be percent-encoded.
func (s *charset) run(b []byte, from, most, level int, known *runs) (end, n int) {
	if !s.escaped() {
		return s.plainRun(b, from, most, known)
	}
	padding := s['+'] && !s['-'] // base64: nothing but '=' follows a '='
	last := byte(0)
	for end = from; n < most && end < len(b); n++ {
		if c := b[end]; isAlnum[c] && s[c] && last != '=' {
			last, end = c, end+1
			continue
		}
		c, next := readChar(b, end)
		if !s[c] || padding && last == '=' && c != '=' {
			break
		}
		if b[end] == '%' || c == '+' {
			if at := percentLevel(b, end); at < level && c == '+' {
				break // a space
			} else if at > level {
				level = at
			}
		}
		last, end = c, next
	}
	return end, n
}

// plainRun is run of a set that nothing escapes.
func (s *charset) plainRun(b []byte, from, most int, known *runs) (end, n int) {
	first, last := known.of(s)
	limit := min(len(b), from+most)
	end = from
	if from >= *first && from < *last {
		end = *last
	}
	for end < limit && s[b[end]] {
		end++
	}
	if *first, *last = from, max(end, from); end > limit {
		end = limit
	}
	return end, end - from
}

var (
	isAlnum = charsets["alnum"]
	isWord  = charsets["word"]
	isHex   = charsets["hex"]
)

func isLetter(c byte) bool { return c|' ' >= 'a' && c|' ' <= 'z' }

func isSeparator(c byte) bool { return c == '-' || c == '_' || c == '.' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | ' '
	}
	return c
}
