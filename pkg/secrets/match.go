package secrets

import (
	"bytes"
	"math"

	"github.com/eventrelay/relay/pkg/apikey"
)

// span is a credential b[start:end], whose secret characters are b[from:to]. It is zero if there is none.
type span struct{ start, from, to, end int }

// match returns the credential at a prefix whose head ends at a position. b ends where the matcher may read.
func (p *pattern) match(b []byte, headEnd int, known *runs) span {
	r := p.rule
	start := headEnd - len(p.head())
	end := start + len(p.text)
	if end > len(b) || !equal(b[start:end], p.text, r.Fold) || r.Kind != KindAssign && !r.leftBoundary(b, start) {
		return span{}
	}
	switch r.Kind {
	case KindJWT:
		return r.jwt(b, start, known)
	case KindPEM:
		return r.pem(b, start, end)
	case KindJWK:
		return r.jwk(b, start)
	case KindURI:
		return r.uri(b, start, end)
	case KindAssign:
		return r.assign(b, start, end, known)
	default:
		return r.token(b, start, end, known)
	}
}

// equal compares a text with a prefix or a name. With fold, the prefix is in lower case, and its '_' stands for '-' and
// '.' too.
func equal(text []byte, prefix string, fold bool) bool {
	if !fold {
		return string(text) == prefix
	}
	for i, c := range text {
		if lower(c) != prefix[i] && (prefix[i] != '_' || !isSeparator(c)) {
			return false
		}
	}
	return true
}

func (r *Rule) leftBoundary(b []byte, start int) bool {
	switch {
	case r.Left == boundaryAny || r.Lead.set != nil || start == 0:
		return true
	case r.Left == boundaryCharset:
		return !r.set[b[start-1]] || endsEscape(b, start) || endsColour(b, start)
	}
	return isBoundary(b, start)
}

func (r *Rule) rightBoundary(b []byte, end int) bool {
	return r.Right != boundaryWord || end >= len(b) || !isWord[b[end]]
}

// token matches a prefix and the runs of characters behind it.
func (r *Rule) token(b []byte, start, after int, known *runs) span {
	from := after
	if r.Lead.set != nil {
		if start = r.leadStart(b, start); start < 0 {
			return span{}
		}
	}
	for r.Spaces && from < len(b) && b[from] == ' ' {
		from++
	}
	level := levelBefore(b, start)
	end := r.part.end(b, from, level, r.Right == boundaryAny && len(r.Then) == 0, known)
	for i := range r.Then {
		if end < 0 {
			return span{}
		}
		p := &r.Then[i]
		if end = readText(b, end, p.Separator); end >= 0 {
			end = p.end(b, end, level, r.Right == boundaryAny && i == len(r.Then)-1, known)
		}
	}
	if end < 0 || !r.rightBoundary(b, end) || !r.hasContent(b, from, end) {
		return span{}
	}
	return span{start, from, end, end}
}

// end returns where a part that begins at a position ends, -1 if it has too few characters or, unless cut is set, too
// many.
func (p *part) end(b []byte, from, level int, cut bool, known *runs) int {
	most := p.Max + 1
	if cut {
		most = p.Max
	}
	end, n := p.set.run(b, from, most, level, known)
	if n < p.Min || n > p.Max {
		return -1
	}
	return end
}

// leadStart returns where the run of characters before a prefix begins, -1 if its length does not fit. The run may
// stand behind an escape, whose last characters could be of the run too.
func (r *Rule) leadStart(b []byte, prefix int) int {
	for n := 1; n <= r.Lead.Max && n <= prefix && r.Lead.set[b[prefix-n]]; n++ {
		start := prefix - n
		if n >= r.Lead.Min && (start == 0 || !r.Lead.set[b[start-1]] || endsEscape(b, start) || endsColour(b, start)) {
			return start
		}
	}
	return -1
}

// readText returns the position after a text, whose characters may be escaped; -1 if it is not there.
func readText(b []byte, i int, text string) int {
	for _, want := range []byte(text) {
		if i >= len(b) {
			return -1
		}
		c, next := readChar(b, i)
		if c != want {
			return -1
		}
		i = next
	}
	return i
}

// hasContent reports whether the characters after the prefix are those that the rule needs.
func (r *Rule) hasContent(b []byte, from, end int) bool {
	secret := b[from:end]
	for _, need := range r.Need {
		if !containsAny(secret, charsets[need]) {
			return false
		}
	}
	if r.Contains != "" && !bytes.Contains(secret, []byte(r.Contains)) {
		return false
	}
	return true
}

func containsAny(b []byte, set *charset) bool {
	for _, c := range b {
		if set[c] {
			return true
		}
	}
	return false
}

// accepts applies what is no matter of shape: checksums and, for leaks, known examples, stop words and entropy. All of
// them read the secret's own characters only: no text beside a secret can hide it.
func (s *Scanner) accepts(r *Rule, b []byte, m span) bool {
	if r.isTripwire != nil {
		return r.isTripwire(string(b[m.from:m.to]))
	}
	if !r.hasChecksum(b[m.start:m.end]) {
		return false
	}
	if !s.gates || r.Kind == KindPEM || r.Kind == KindJWT {
		return true
	}
	secret := b[m.from:m.to]
	return Entropy(secret[:min(len(secret), maxEntropy)]) >= r.Entropy-rounding && !s.known[string(secret)] &&
		!s.hasStopWord(secret)
}

func (r *Rule) hasChecksum(secret []byte) bool {
	switch r.Check {
	case checkRelay:
		return apikey.HasFormat(string(secret))
	case checkTestKey:
		return apikey.IsTestKey(string(secret))
	}
	return true
}

// hasStopWord reports whether the secret's characters contain a word that only examples have.
func (s *Scanner) hasStopWord(secret []byte) bool {
	for i, c := range secret {
		for _, word := range s.stop[lower(c)] {
			if len(secret)-i >= len(word) && equal(secret[i:i+len(word)], word, true) {
				return true
			}
		}
	}
	return false
}

// maxEntropy is how many characters of a secret a rule looks at for its entropy: enough to distinguish a random text.
const maxEntropy = 64

// rounding is what this program and the SDK in JavaScript may differ by in an entropy.
const rounding = 1e-9

// Entropy returns the Shannon entropy of a text in bits a byte; 0 if it is empty.
func Entropy[Text ~string | ~[]byte](text Text) float64 {
	var counts [256]int32
	for i := range len(text) {
		counts[text[i]]++
	}
	sum := 0.0
	for i := range len(text) {
		if n := counts[text[i]]; n > 0 {
			p := float64(n) / float64(len(text))
			sum -= p * math.Log2(p)
			counts[text[i]] = 0
		}
	}
	return sum
}

// lookBehind is how many bytes before a match tests of its left boundary read at most.
const lookBehind = 48

// isBoundary reports whether a word can start at a position: the byte before it is no word character, or ends an escape
// or a colour of a terminal. Logs are scanned as they come, so that wrapped text is the normal case: JSON inside a JSON
// string (\\nkey), a URL (%3Dkey), a coloured line (ESC[32mkey).
func isBoundary(b []byte, start int) bool {
	return start == 0 || !isWord[b[start-1]] || endsEscape(b, start) || endsColour(b, start)
}

// endsEscape reports whether one of these ends at a position: \n and the like, \u000a, \x0a, \012 and #012 (as rsyslog
// writes it), %0a, %250a.
func endsEscape(b []byte, end int) bool {
	at := func(before int) byte {
		if i := end - before; i >= 0 {
			return b[i]
		}
		return 0
	}
	switch last := at(1); last {
	case 'b', 'f', 'n', 'r', 't':
		if at(2) == '\\' {
			return true
		}
	}
	if !isHex[at(1)] || !isHex[at(2)] {
		return false
	}
	if at(3) == '%' || at(5) == '%' && at(4) == '2' && at(3) == '5' || at(3) == 'x' && at(4) == '\\' {
		return true
	}
	if !isHex[at(3)] {
		return false
	}
	return isOctal(at(1)) && isOctal(at(2)) && isOctal(at(3)) && (at(4) == '\\' || at(4) == '#') ||
		isHex[at(4)] && at(5) == 'u' && at(6) == '\\'
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }

// endsColour reports whether a control sequence of a terminal ends at a position (ECMA-48, section 5.4), its escape
// character raw or escaped: ESC[1;32m, \x1b[0m, \u001b[K, \033[0m, \e[0m, #033[0m, ^[[0m.
func endsColour(b []byte, end int) bool {
	if !isLetter(b[end-1]) {
		return false
	}
	i := end - 2
	for i >= max(0, end-lookBehind+8) && (b[i] >= '0' && b[i] <= '9' || b[i] == ';' || b[i] == ':' || b[i] == '?') {
		i--
	}
	if i < 1 || b[i] != '[' {
		return false
	}
	for _, escape := range []string{"\x1b", `\x1b`, `\x1B`, `\u001b`, `\u001B`, `\033`, `\e`, "#033", "^["} {
		if i >= len(escape) && string(b[i-len(escape):i]) == escape {
			return true
		}
	}
	return false
}

// skipColour returns the position after a control sequence of a terminal, raw or escaped, which starts at one; that
// position if none does.
func skipColour(b []byte, start int) int {
	i := start
	switch {
	case i < len(b) && b[i] == 0x1b:
		i++
	case i < len(b) && b[i] == '\\':
		for i < len(b) && i < start+maxBackslashes && b[i] == '\\' {
			i++
		}
		n := escapeCharacter(b[i:])
		if n == 0 {
			return start
		}
		i += n
	case i+4 < len(b) && string(b[i:i+4]) == "#033":
		i += 4
	default:
		return start
	}
	if i == len(b) || b[i] != '[' {
		return start
	}
	for i++; i < len(b) && i < start+lookBehind; i++ {
		if isLetter(b[i]) {
			return i + 1
		}
	}
	return start
}

// escapeCharacter returns the length of the escape character's name behind a backslash; 0 if there is none.
func escapeCharacter(b []byte) int {
	for _, name := range []string{"x1b", "x1B", "u001b", "u001B", "033", "e"} {
		if len(b) >= len(name) && string(b[:len(name)]) == name {
			return len(name)
		}
	}
	return 0
}
