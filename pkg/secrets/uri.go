package secrets

// Limits of a URI, in characters.
const (
	maxUser     = 128
	minPassword = 6
	maxPassword = 256
	maxHost     = 255
)

// uri matches scheme://user:password@host and a path. The user may be empty. start is that of the scheme, after the
// position behind its colon.
func (r *Rule) uri(b []byte, start, after int) span {
	at := readText(b, after, "//")
	if at < 0 {
		return span{}
	}
	// A colon that is percent-encoded says that all of the URI is: an encoded @ ends the password.
	encoded := b[after-1] != ':'
	colon, ok := userEnd(b, at, ':', maxUser, encoded)
	if !ok {
		return span{}
	}
	_, from := readChar(b, colon)
	password, ok := userEnd(b, from, '@', maxPassword, encoded)
	if !ok || password-from < minPassword || isPlaceholder(b[from:password]) {
		return span{}
	}
	_, host := readChar(b, password)
	end := hostEnd(b, host)
	if end == host {
		return span{}
	}
	return span{start, from, end}
}

// userEnd returns the position of the delimiter behind user or password (RFC 3986, section 3.2.1). Only in a URI that
// is percent-encoded as a whole, an encoded delimiter is one.
func userEnd(b []byte, i int, delimiter byte, most int, encoded bool) (int, bool) {
	for n := 0; i < len(b) && n <= most; n++ {
		c, next := readChar(b, i)
		switch {
		case b[i] == '%' && !encoded:
			i++ // a percent-encoded character of user or password
			continue
		case c == delimiter:
			return i, true
		case c <= ' ' || c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' || c == '/' || c == '@' || c == '\\':
			return 0, false
		}
		i = next
	}
	return 0, false
}

// hostEnd returns the end of host, port and path.
func hostEnd(b []byte, i int) int {
	for n := 0; i < len(b) && n < maxHost; n++ {
		c, next := readChar(b, i)
		if !charsets["dotted"][c] && c != ':' && c != '/' && c != ',' && c != '[' && c != ']' {
			break
		}
		i = next
	}
	return i
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
	i, encoded := 0, false
	for colons := 0; i < len(secret) && colons < 2; {
		c, next := readChar(secret, i)
		if c == ':' {
			colons++
			encoded = encoded || secret[i] != ':'
		}
		if i = next; len(dst)-kept < maxMask/2 || colons == 2 {
			dst = appendSafe(dst, []byte{c})
		}
	}
	dst = append(dst, hidden...)
	at, _ := userEnd(secret, i, '@', maxPassword, encoded)
	for at < len(secret) && len(dst)-kept < maxMask {
		c, next := readChar(secret, at)
		dst = appendSafe(dst, []byte{c})
		at = next
	}
	return dst
}
