package secrets

// maxOperator is how many bytes may lie between the end of a name and its value.
const maxOperator = 64

// assign matches a value behind a name and an operator: name=value, "name": "value", --name value. The quotes may be
// escaped. The match is the value.
func (r *Rule) assign(b []byte, after int) span {
	i := skipSpaces(b, nameEnd(b, after))
	var operator byte
	if operator, i = readOperator(b, i); operator == 0 {
		return span{}
	}
	i = skipSpaces(b, i)
	quote := byte(0)
	if i < len(b) {
		if c, next := readChar(b, i); c == '"' || c == '\'' || c == '`' {
			quote, i = c, next
		}
	}
	if i-after > maxOperator {
		return span{}
	}
	end := r.part.end(b, i, false)
	if end < 0 || !endsValue(b, end, quote) || !r.hasContent(b, i, end) {
		return span{}
	}
	return span{i, i, end}
}

// nameEnd skips the quote that ends a name.
func nameEnd(b []byte, i int) int {
	i = skipColour(b, i)
	if i < len(b) {
		if c, next := readChar(b, i); c == '"' || c == '\'' || c == '`' {
			return next
		}
	}
	return i
}

func skipSpaces(b []byte, i int) int {
	for i < len(b) {
		if next := skipColour(b, i); next > i {
			i = next
		} else if b[i] == ' ' || b[i] == '\t' {
			i++
		} else {
			break
		}
	}
	return i
}

// readOperator reads =, :, :=, => and ==, escaped or not.
func readOperator(b []byte, i int) (byte, int) {
	operator := byte(0)
	for n := 0; n < 2 && i < len(b); n++ {
		c, next := readChar(b, i)
		if c != '=' && c != ':' && (c != '>' || operator != '=') {
			break
		}
		operator, i = c, next
	}
	return operator, i
}

// endsValue reports whether a value ends at a position: at its quote, or at what separates values.
func endsValue(b []byte, i int, quote byte) bool {
	if i >= len(b) {
		return true
	}
	c, _ := readChar(b, i)
	if quote != 0 {
		return c == quote
	}
	switch c {
	case ' ', '\t', '\r', '\n', '&', ',', ';', ')', ']', '}', '"', '\'', '`', '<', '|':
		return true
	}
	return skipColour(b, i) > i
}
