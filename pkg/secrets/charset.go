package secrets

// charset is a set of bytes.
type charset [256]bool

// runs remembers, for each set, a part of the text that has its characters only. Text of many prefixes in one long run
// is so read once, not once for each prefix.
type runs struct {
	sets [24]struct {
		set       *charset
		from, end int
	}
	read int // bytes that were read and not remembered
}

// endOf returns where the set's characters from a position end, at the limit at most.
func (m *runs) endOf(set *charset, b []byte, from, limit int) int {
	i := 0
	for i < len(m.sets)-1 && m.sets[i].set != nil && m.sets[i].set != set {
		i++
	}
	known := &m.sets[i]
	if known.set != set {
		known.set, known.from, known.end = set, 0, 0
	}
	end := from
	if from >= known.from && from < known.end {
		end = known.end
	}
	start := end
	for end < limit && set[b[end]] {
		end++
	}
	m.read += max(0, end-start)
	known.from, known.end = from, max(end, from)
	return min(end, limit)
}

// shift moves the positions back.
func (m *runs) shift(n int) {
	for i := range m.sets {
		m.sets[i].from, m.sets[i].end = m.sets[i].from-n, m.sets[i].end-n
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

// singles has, for each set that wrappers escape, its characters that are always one byte, whatever is around them: no
// escape begins with one, and none is a space in a URL.
var singles = func() map[*charset]*charset {
	all := map[*charset]*charset{}
	for _, s := range charsets {
		if !s.escaped() {
			continue
		}
		single := *s
		for _, c := range []byte(`\%&#+`) {
			single[c] = false
		}
		single['='] = s['='] && !s.padded()
		all[s] = &single
	}
	return all
}()

// padded reports whether the set is that of base64: nothing but '=' follows a '='.
func (s *charset) padded() bool { return s['+'] && !s['-'] }

// run returns where the set's characters from a position end, and their number. It reads most characters at most. level
// says how often the text is known to be percent-encoded.
func (s *charset) run(b []byte, from, most, level int, known *runs) (end, n int) {
	if !s.escaped() {
		end = known.endOf(s, b, from, min(len(b), from+most))
		return end, end - from
	}
	single, padded := singles[s], s.padded()
	last := byte(0)
	for end = from; n < most && end < len(b); n++ {
		if single[b[end]] && !(padded && last == '=') {
			next := known.endOf(single, b, end, min(len(b), end+most-n))
			n += next - end - 1 // and one more by the loop
			last, end = b[next-1], next
			continue
		}
		c, next := readChar(b, end)
		known.read++
		if !s[c] || padded && last == '=' && c != '=' {
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

var (
	isWord = charsets["word"]
	isHex  = charsets["hex"]
)

func isLetter(c byte) bool { return c|' ' >= 'a' && c|' ' <= 'z' }

func isSeparator(c byte) bool { return c == '-' || c == '_' || c == '.' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | ' '
	}
	return c
}
