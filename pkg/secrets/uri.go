package secrets

// Limits of a URI, in characters.
const (
	maxUser     = 128
	minPassword = 6
	maxPassword = 256
	maxHost     = 255
)

// uri matches scheme://user:password@host and a path. The user may be empty. start is that of the scheme; after is the
// position behind the character that follows it.
func (r *Rule) uri(b []byte, start, after int) span {
	colon := after - 1
	if i := readText(b, colon, "+srv"); i >= 0 {
		colon = i
	}
	user := readText(b, colon, "://")
	if user < 0 {
		return span{}
	}
	level := percentLevel(b, colon)
	from := userEnd(b, user, ':', maxUser, level)
	if from < 0 {
		return span{}
	}
	_, from = readChar(b, from)
	password := userEnd(b, from, '@', maxPassword, level)
	if password-from < minPassword || isPlaceholder(b[from:password]) {
		return span{}
	}
	_, host := readChar(b, password)
	end := hostEnd(b, host)
	if end == host {
		return span{}
	}
	return span{start, from, password, end}
}

// userEnd returns the position of the delimiter behind user or password (RFC 3986, section 3.2.1), -1 if there is none.
// A character that is percent-encoded more often than the URI as a whole is no delimiter.
func userEnd(b []byte, i int, delimiter byte, most, level int) int {
	for n := 0; i < len(b) && n <= most; n++ {
		c, next := readChar(b, i)
		switch {
		case percentLevel(b, i) > level: // of user or password
		case c == delimiter:
			return i
		case c <= ' ' || c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' || c == '/' || c == '@' || c == '\\':
			return -1
		}
		i = next
	}
	return -1
}

// hostEnd returns the end of hosts, port and path.
func hostEnd(b []byte, i int) int {
	end := i
	for n := 0; i < len(b) && n < maxHost; n++ {
		c, next := readChar(b, i)
		if !charsets["dotted"][c] && c != ':' && c != '/' && c != ',' && c != '[' && c != ']' {
			break
		}
		if i = next; c != ',' && c != ':' {
			end = i
		}
	}
	return end
}

// isPlaceholder reports whether a password stands for another text: a variable of a template or shell, or a mask.
func isPlaceholder(password []byte) bool {
	same := true
	for _, c := range password {
		if c == '$' || c == '{' || c == '}' || c == '[' || c == ']' || c == '(' {
			return true
		}
		same = same && c == password[0]
	}
	return same
}

// appendURIMask appends the URI with *** for the password, at most maxMask bytes: half of them for scheme and user.
func appendURIMask(dst, secret []byte) []byte {
	kept := len(dst)
	i, level := 0, 0
	for colons := 0; i < len(secret) && colons < 2; {
		c, next := readChar(secret, i)
		if c == ':' {
			colons++
			level = max(level, percentLevel(secret, i))
		}
		if i = next; len(dst)-kept < maxMask/2 || colons == 2 {
			dst = appendSafe(dst, []byte{c})
		}
	}
	dst = append(dst, hidden...)
	at := max(i, userEnd(secret, i, '@', maxPassword, level))
	for at < len(secret) && len(dst)-kept < maxMask {
		c, next := readChar(secret, at)
		dst = appendSafe(dst, []byte{c})
		at = next
	}
	return dst
}
