package secrets

import "bytes"

// Limits of an assignment, in bytes.
const (
	maxName     = 48 // of a name that is read for its beginning
	maxOperator = 64 // between the end of a name and its value
)

// assign matches a value behind a name and an operator: name=value, "name": "value", --name value, <name>value</name>.
// Quotes may be escaped. The match is the value. start and after are those of the part of the name that the rule has.
func (r *Rule) assign(b []byte, start, after int, known *runs) span {
	if r.exceptName(b[max(0, start-maxName):start]) {
		return span{}
	}
	a := assignment{b: b, nameEnd: skipSuffix(b, after)}
	if !a.read(start) || a.value-after > maxOperator {
		return span{}
	}
	end := r.part.end(b, a.value, a.level, false, known)
	if end < 0 || !a.endsValue(end) || !r.hasContent(b, a.value, end) {
		return span{}
	}
	if r.Generic && (a.isNoSecret(end) || a.isCode(start) && !isNamedConstant(b[start:after], end-a.value)) {
		return span{}
	}
	return span{a.value, a.value, end, end}
}

// exceptName reports whether the word before the name says that the value is no credential: csrf_token, nextPageToken.
func (r *Rule) exceptName(before []byte) bool {
	if n := len(before); n > 0 && isSeparator(before[n-1]) {
		before = before[:n-1]
	}
	for _, word := range r.Except {
		if n := len(before) - len(word); n >= 0 && equal(before[n:], word, true) {
			return true
		}
	}
	return false
}

// suffixes may follow a name, behind a separator.
var suffixes = []string{"base", "dev", "live", "main", "primary", "prod", "production", "secondary", "staging", "test"}

// skipSuffix returns the end of a name: behind digits, and behind one of the suffixes.
func skipSuffix(b []byte, i int) int {
	end := i
	if end < len(b) && isSeparator(b[end]) {
		end++
		for _, suffix := range suffixes {
			next := end + len(suffix)
			if next <= len(b) && equal(b[end:next], suffix, true) && (next == len(b) || !isWord[b[next]]) {
				return next
			}
		}
	}
	for end < len(b) && end < i+4 && b[end] >= '0' && b[end] <= '9' {
		end++
	}
	if end > i && isSeparator(b[end-1]) {
		return i
	}
	return end
}

// assignment is what lies around a value.
type assignment struct {
	b              []byte
	nameEnd, value int
	nameQuoted     bool
	spaces         bool // between name and value
	plus           bool // a space is a plus, as in a URL
	operator       byte
	arrow          bool // the operator is =>
	quote          byte
	level          int // how often the text is percent-encoded
}

// read reads from the end of the name to the start of the value. start is a position in the name.
func (a *assignment) read(start int) bool {
	i := skipColour(a.b, a.nameEnd)
	if c, next := a.char(i); isQuote(c) {
		a.nameQuoted, i = true, next
	}
	a.level = 2
	i = a.skipSpaces(i)
	a.level = 0
	for n := 0; n < 2; n++ {
		c, next := a.char(i)
		if c != '=' && c != ':' && (c != '>' || a.nameQuoted || a.spaces) {
			break
		}
		a.level = percentLevel(a.b, i)
		if i = next; a.operator == '=' && c == '>' {
			a.arrow = true
		} else {
			a.operator = c
		}
	}
	if a.operator == 0 && !(a.spaces && a.isFlag(start)) {
		return false
	}
	if a.plus && a.level == 0 {
		return false // an addition
	}
	i = a.skipSpaces(i)
	if c, next := a.char(i); isQuote(c) {
		a.quote, i = c, next
	}
	a.value = i
	return true
}

func (a *assignment) char(i int) (byte, int) {
	if i >= len(a.b) {
		return other, i
	}
	return readChar(a.b, i)
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

func (a *assignment) skipSpaces(i int) int {
	for i < len(a.b) {
		if next := skipColour(a.b, i); next > i {
			i = next
			continue
		}
		c, next := readChar(a.b, i)
		if c != ' ' && c != '\t' && (c != '+' || percentLevel(a.b, i) >= a.level) {
			break
		}
		a.spaces, a.plus, i = true, a.plus || c == '+', next
	}
	return i
}

// nameStart returns where the word begins that contains a position.
func (a *assignment) nameStart(i int) int {
	least := max(0, i-maxName)
	for i > least && (isWord[a.b[i-1]] || a.b[i-1] == '-') {
		i--
	}
	return i
}

// isFlag reports whether the name is a flag of a command line: --name.
func (a *assignment) isFlag(start int) bool {
	i := a.nameStart(start)
	return i+2 <= len(a.b) && string(a.b[i:i+2]) == "--"
}

// endsValue reports whether a value ends at a position: at its quote, or at what separates values.
func (a *assignment) endsValue(i int) bool {
	if i >= len(a.b) {
		return true
	}
	c, _ := readChar(a.b, i)
	switch {
	case a.quote != 0:
		return c == a.quote
	case a.operator == '>':
		return c == '<'
	}
	switch c {
	case '+': // a space
		return percentLevel(a.b, i) < a.level
	case ' ', '\t', '\r', '\n', '&', ',', ';', ')', ']', '}', '"', '\'', '`', '<', '|':
		return true
	}
	return skipColour(a.b, i) > i
}

// isCode reports whether the assignment is that of a program without spaces, as minified JavaScript: {name:"value"}.
// Bundles are full of such constants that are no credentials.
func (a *assignment) isCode(start int) bool {
	if a.nameQuoted || a.quote == 0 || a.spaces || a.arrow {
		return false
	}
	i := a.nameStart(start)
	if i == 0 {
		return false
	}
	switch a.b[i-1] {
	case ',', '{', '}', ')', ';', '.', '[', '?', '!', '&', '|', '=':
		return true
	}
	return false
}

// isNamedConstant reports whether a name is in upper case and ends in KEY or SECRET, and its value is long.
func isNamedConstant(name []byte, length int) bool {
	for _, c := range name {
		if c >= 'a' && c <= 'z' {
			return false
		}
	}
	n := len(name)
	return length >= 20 && (n >= 3 && string(name[n-3:]) == "KEY" || n >= 6 && string(name[n-6:]) == "SECRET")
}

// minHex is the length of hexadecimal secrets at least: 128 bits.
const minHex = 32

// isNoSecret reports whether a value is a variable, a path, a UUID or short number, or a member of an object in a
// program.
func (a *assignment) isNoSecret(end int) bool {
	value := a.b[a.value:end]
	slashes, dashes, hex := 0, 0, 0
	for _, c := range value {
		switch {
		case c == '/':
			slashes++
		case c == '-':
			dashes++
		case isHex[c]:
			hex++
		}
	}
	return value[0] == '$' || bytes.Contains(value, []byte(".$")) ||
		(value[0] == '/' || value[0] == '.' || value[0] == '~') && slashes > 1 ||
		dashes == 4 && hex == 32 && len(value) == 36 || hex == len(value) && hex < minHex ||
		a.quote == 0 && isMember(value)
}

// isMember reports whether a value is two names or more with dots between them.
func isMember(value []byte) bool {
	dots, begins := 0, true
	for _, c := range value {
		switch {
		case c == '.':
			dots, begins = dots+1, true
		case !isWord[c] || begins && c >= '0' && c <= '9':
			return false
		default:
			begins = false
		}
	}
	return dots > 0
}
