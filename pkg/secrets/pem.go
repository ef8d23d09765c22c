package secrets

import (
	"bytes"
	"encoding/base64"
)

// Limits of a private key's text, in characters.
const (
	maxLabel = 40
	// minLine is the shortest run of base64 by which a body is recognised: one line holds 64 characters or more, unless it
	// is the last. No word of prose is as long.
	minLine = 48
	// minUnlabelled is how many characters of a key without BEGIN are one at least if it does not say its size.
	minUnlabelled = 192
	// maxExcerpt is how long an excerpt of a key may be. The first 384 characters of an RSA key of 2048 bits are public.
	maxExcerpt = 384
	maxJoint   = 256 // between two lines that are quoted one by one
	maxNoise   = 128 // between two lines with other than white space between them
)

// pem matches a private key of any label (RFC 7468, sections 10 and 11, and older ones), from BEGIN to END or as far as
// it goes; Min 0 matches the first line alone. A prefix without dashes is how the base64 of a key may begin that has no
// BEGIN. start is that of the prefix, after the position behind it.
func (r *Rule) pem(b []byte, start, after int) span {
	from := start
	if b[start] == '-' {
		if from = labelEnd(b, after); from < 0 {
			return span{}
		}
	}
	if r.Min == 0 {
		return span{start, start, from, from}
	}
	var first [8]byte // characters: enough for isExcerpt
	k := keyText{text: first[:0], most: len(first), needsLine: from == start}
	if k.needsLine {
		if k.size = keySize(b, start); k.size < 0 {
			return span{}
		}
	}
	if !k.read(b[:min(len(b), from+r.Max)], from) {
		return span{}
	}
	return span{start, from, k.end, k.end}
}

// labelEnd returns the end of the line that begins a private key, -1 if it begins none.
func labelEnd(b []byte, i int) int {
	const key, block = "PRIVATE KEY", " BLOCK"
	seen := 0
	for n := 0; i < len(b) && n < maxLabel; n++ {
		c, next := readLabel(b, i)
		i = next
		switch {
		case c == key[seen]:
			seen++
		case c == key[0]:
			seen = 1
		case c == '\n' || c == '\r' || c == other:
			return -1
		default:
			seen = 0
		}
		if seen == len(key) {
			for _, tail := range []string{"-----", block + "-----"} {
				if end := readLabelText(b, i, tail); end >= 0 {
					return end
				}
			}
			return -1
		}
	}
	return -1
}

// readLabel reads a character of a label; in the query of a URL, + is a space.
func readLabel(b []byte, i int) (byte, int) {
	c, next := readChar(b, i)
	if c == '+' {
		c = ' '
	}
	return c, next
}

func readLabelText(b []byte, i int, text string) int {
	for _, want := range []byte(text) {
		if i >= len(b) {
			return -1
		}
		c, next := readLabel(b, i)
		if c != want {
			return -1
		}
		i = next
	}
	return i
}

// keyText is the base64 of a private key while it is read. What stands between two of its lines may be anything: white
// space, colours of a terminal, a box, the prefix of a log line. Unless it is white space its words are not the key's.
type keyText struct {
	text      []byte // its first characters, at most most of them
	most      int
	size      int  // of the key, as its first characters say it; 0 = unknown
	needsLine bool // no header: a whole line comes first
	isList    bool // each line may be an element of an array: the first one is quoted by itself

	total, line     int // characters of the key, and of those in this line
	whole, wholeEnd int // total and position at the end of the last whole line, one of minLine characters
	lineStart       int
	between         int // bytes between the last two whole lines
	noise           bool
	joint           []byte // the first noise between lines; all of it is the same in one key
	end             int    // of the key as far as it is read
	// plainEnd and plainTotal are those before the first noise behind a whole line.
	plainEnd, plainTotal int
}

// read reads a key from a position and reports whether there is one. With noise between its lines it must be complete:
// lines of two processes of a log, and a text behind a key that is cut off, look the same until then.
func (k *keyText) read(b []byte, i int) bool {
	if !k.readLines(b, i) && k.joint != nil && (k.size == 0 || k.whole < k.size) {
		if k.plainTotal == 0 {
			return false
		}
		k.end, k.total, k.text = k.plainEnd, k.plainTotal, k.text[:min(len(k.text), k.plainTotal)]
	}
	least := 0
	if k.needsLine {
		least = minUnlabelled
		if k.size > 0 {
			least = k.size / 2
		}
	}
	return k.whole > 0 && k.total >= least && !k.isExcerpt()
}

// readLines reads lines as far as they are those of a key, and reports whether END is behind them. They may end as in
// JSON, may be quoted one by one, and may contain headers (RFC 1421, section 4.6).
func (k *keyText) readLines(b []byte, i int) bool {
	k.wholeEnd, k.end = i, i
	for i < len(b) && (k.size == 0 || k.whole < k.size) && (!k.noise || k.line > 0 || i <= k.wholeEnd+maxNoise) {
		c, next := readChar(b, i)
		switch {
		case charsets["base64"][c]:
			if !k.add(b, c, i, next) {
				return false
			}
		case k.needsLine && k.whole == 0:
			if next = skipColour(b, i); next == i {
				return false
			}
		case c == '-':
			if last := readText(b, i, "-----END"); last >= 0 {
				k.end = lastLineEnd(b, last)
				k.readLast(b[:i])
				return true
			}
			if readText(b, i, "-----BEGIN") >= 0 {
				next = len(b) // of the next key
			}
			k.line = 0
		case c == '\n' || c == '\r' || c == '\t' || c == ' ' || c == ':' || c == ',' || c == '.':
			k.line = 0
		case isQuote(c):
			k.isList = k.isList || k.total == 0
			if next = skipJoint(b, i, k.isList); next < 0 { // the text ends here
				next = len(b)
			}
			k.line = 0
		default:
			if after := skipColour(b, i); after > i {
				next = after
			} else {
				k.noise, k.line = true, 0
			}
		}
		i = next
	}
	k.readLast(nil)
	return false
}

// add adds a character of base64. It returns false if the line behind noise is not one of this key.
func (k *keyText) add(b []byte, c byte, i, next int) bool {
	if k.line == 0 {
		k.lineStart = i
		k.noise = k.noise || k.needsLine && k.total > k.whole // words: a key without BEGIN has no headers
		if k.noise {
			k.forgetWords()
		}
	}
	k.push(c)
	if k.line++; k.line >= minLine || k.total == k.size && (k.between == 0 || k.lineStart-k.wholeEnd == k.between) {
		if k.noise {
			if k.whole == 0 && k.text[0] != 'M' && k.text[0] != 'b' { // DER, openssh-key-v1
				return false
			}
			if !k.join(b) {
				return false
			}
			k.between, k.noise = k.lineStart-k.wholeEnd, false
		}
		k.whole, k.wholeEnd = k.total, next
	}
	if !k.noise {
		k.end = next
	}
	return true
}

// join reports whether the noise before a whole line is the same as before the others, the padding of a box aside.
func (k *keyText) join(b []byte) bool {
	joint := bytes.TrimLeft(b[k.wholeEnd:k.lineStart], " \t\r\n")
	if k.joint != nil {
		return bytes.Equal(joint, k.joint)
	}
	k.joint, k.plainEnd, k.plainTotal = joint, k.end, k.whole
	return true
}

func (k *keyText) push(c byte) {
	if k.total < k.most {
		k.text = append(k.text, c)
	}
	k.total++
}

// forgetWords forgets what was read behind the last whole line.
func (k *keyText) forgetWords() { k.total, k.text = k.whole, k.text[:min(len(k.text), k.whole)] }

// readLast ends the text. Behind noise the last line, which is no whole one, is as far from the one before it as others
// are. b ends where the last line of all begins.
func (k *keyText) readLast(b []byte) {
	if !k.noise {
		return
	}
	k.forgetWords()
	for i := k.wholeEnd + k.between; i < len(b); {
		c, next := readChar(b, i)
		if !charsets["base64"][c] {
			break
		}
		k.push(c)
		i = next
	}
}

// skipJoint skips what is between two lines that are quoted one by one: from the quote that ends a line to the one that
// begins the next; it returns -1 if the text ends. Node.js joins lines with +, Python with white space; the diff of an
// assertion begins lines with + or -; what is printed twice has quotes around quotes, or backslashes before them.
// isList allows commas, as between the elements of an array.
func skipJoint(b []byte, i int, isList bool) (next int) {
	_, i = readChar(b, i)
	next = -1
	for n := 0; i < len(b) && n < maxJoint; n++ {
		if after := skipColour(b, i); after > i {
			i = after
			continue
		}
		c, after := readChar(b, i)
		switch {
		case isQuote(c):
			next = after
		case c == ',' && isList:
		case c != ' ' && c != '\t' && c != '\n' && c != '\r' && c != '+' && c != '-' && c != '\\':
			return next
		}
		i = after
	}
	return next
}

// keySize returns the number of characters of a private key whose base64 begins at a position: -1 if none does, 0 for
// one of OpenSSH. Others are a sequence in DER that begins with a version and an object of those that follow it in PKCS
// #1, PKCS #8 and SEC 1. Certificates and public keys have no version there.
func keySize(b []byte, i int) int {
	if b[i] == 'b' { // openssh-key-v1
		return 0
	}
	var text [16]byte
	for n := range text {
		if i >= len(b) {
			return -1
		}
		if text[n], i = readChar(b, i); !charsets["base64"][text[n]] {
			return -1
		}
	}
	var der [12]byte
	if _, err := base64.StdEncoding.Decode(der[:], text[:]); err != nil || der[0] != 0x30 {
		return -1
	}
	size, at := int(der[1]), 2 // of what follows, in bytes
	switch {
	case size == 0x81:
		size, at = int(der[2]), 3
	case size == 0x82:
		size, at = int(der[2])<<8|int(der[3]), 4
	case size > 0x82:
		return -1
	}
	if der[at] != 2 || der[at+1] != 1 || der[at+2] > 1 || der[at+3] != 0x30 && der[at+3] != 2 && der[at+3] != 4 {
		return -1
	}
	return (at + size + 2) / 3 * 4
}

// isExcerpt reports whether a few lines and less than half of a key are there, as in examples. A key is a sequence in
// DER that says its length (ITU-T X.690, section 8.1.3): 30 82 and two bytes.
func (k *keyText) isExcerpt() bool {
	var der [6]byte
	n, err := base64.StdEncoding.Decode(der[:], k.text[:min(8, len(k.text))])
	if n < 4 || err != nil || der[0] != 0x30 || der[1] != 0x82 {
		return false
	}
	return k.total < maxExcerpt && k.total*3/4 < (int(der[2])<<8|int(der[3]))/2
}

// lastLineEnd returns the position after the dashes that end the last line; end if there are none.
func lastLineEnd(b []byte, end int) int {
	for i := end; i < min(len(b), end+2*maxLabel); i++ {
		if at := readText(b, i, "-----"); at >= 0 {
			return at
		}
	}
	return end
}
