package secrets

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
