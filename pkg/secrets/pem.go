package secrets

import "encoding/base64"

// Limits of a private key's text, in characters.
const (
	maxLabel = 40
	// minLine is the shortest run of base64 by which a body is recognised: one line holds 64 characters or more, unless it
	// is the last. No word of prose is as long.
	minLine = 48
	// maxExcerpt is how long an excerpt of a key may be. The first 384 characters of an RSA key of 2048 bits are public.
	maxExcerpt = 384
	maxJoint   = 256 // between two lines that are quoted one by one
)

// pem matches a private key of any label (RFC 7468, sections 10 and 11, and older ones), from BEGIN to END or as far as
// it goes; Min 0 matches the first line alone. start is that of the dashes, after the position behind BEGIN.
func (r *Rule) pem(b []byte, start, after int) span {
	body := labelEnd(b, after)
	if body < 0 {
		return span{}
	}
	if r.Min == 0 {
		return span{start, start, body, body}
	}
	end := pemEnd(b[:min(len(b), body+r.Max)], body)
	if end < 0 {
		return span{}
	}
	return span{start, body, end, end}
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

// pemEnd returns the end of a body and of its last line, -1 if there is no body. Lines may end as in JSON, may be
// quoted one by one, and may contain headers (RFC 1421, section 4.6).
func pemEnd(b []byte, i int) int {
	var first [8]byte // characters of base64
	line, total, found, end := 0, 0, false, i
	isList := false // each line may be an element of an array: the first one is quoted by itself
	for i < len(b) {
		c, next := readChar(b, i)
		switch {
		case c == '-':
			if last := readText(b, i, "-----END"); last >= 0 && found && !isExcerpt(first[:], total) {
				return lastLineEnd(b, last)
			}
			if readText(b, i, "-----BEGIN") >= 0 {
				next = len(b) // of the next key
			}
			line = 0
		case charsets["base64"][c]:
			if total < len(first) {
				first[total] = c
			}
			total++
			if line++; line >= minLine {
				found = true
			}
			end = next
		case c == '\n' || c == '\r' || c == '\t' || c == ' ' || c == ':' || c == ',' || c == '.':
			line = 0
		case isQuote(c):
			isList = isList || total == 0
			if next = skipJoint(b, i, isList); next < 0 { // the text ends here
				next = len(b)
			}
			line = 0
		default:
			next = len(b)
		}
		i = next
	}
	if !found || isExcerpt(first[:], total) {
		return -1
	}
	return end
}

// skipJoint skips what is between two lines that are quoted one by one: from the quote that ends a line to the one that
// begins the next; it returns -1 if the text ends. Node.js joins lines with +, Python with white space; the diff of an
// assertion begins lines with + or -; what is printed twice has quotes around quotes. isList allows commas, as
// between the elements of an array.
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
		case c != ' ' && c != '\t' && c != '\n' && c != '\r' && c != '+' && c != '-':
			return next
		}
		i = after
	}
	return next
}

// isExcerpt reports whether a few lines and less than half of a key are there, as in examples. A key is a sequence in
// DER that says its length (ITU-T X.690, section 8.1.3): 30 82 and two bytes.
func isExcerpt(first []byte, total int) bool {
	var der [6]byte
	if n, err := base64.StdEncoding.Decode(der[:], first); n < 4 || err != nil || der[0] != 0x30 || der[1] != 0x82 {
		return false
	}
	return total < maxExcerpt && total*3/4 < (int(der[2])<<8|int(der[3]))/2
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
