package secrets

import "bytes"

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
	from := userEnd(b, user, level)
	if from < 0 {
		return span{}
	}
	_, from = readChar(b, from)
	password := passwordEnd(b, from, level)
	if password < 0 || isPlaceholder(b[from:password]) {
		return span{}
	}
	_, host := readChar(b, password)
	return span{start, from, password, hostEnd(b, host)}
}

// passwordEnd returns the position of the last @ with a host behind it: people write passwords with an @ that is not
// encoded. It returns -1 if there is none, or only few characters without another before it.
func passwordEnd(b []byte, from, level int) int {
	end := -1
	for i, n, ats := from, 0, 0; i < len(b) && n <= maxPassword; n++ {
		c, next := readChar(b, i)
		switch {
		case percentLevel(b, i) > level: // of the password
		case c == '@':
			if ats++; hostEnd(b, next) > next && (ats > 1 || i-from >= minPassword) {
				end = i
			}
		case endsUser(c) || ats > 0 && (c == '?' || c == '#'):
			return end
		}
		i = next
	}
	return end
}

// userEnd returns the position of the colon behind the user (RFC 3986, section 3.2.1), -1 if there is none. A character
// that is percent-encoded more often than the URI as a whole is no delimiter.
func userEnd(b []byte, i, level int) int {
	for n := 0; i < len(b) && n <= maxUser; n++ {
		c, next := readChar(b, i)
		switch {
		case percentLevel(b, i) > level: // of the user
		case c == ':':
			return i
		case c == '@' || endsUser(c):
			return -1
		}
		i = next
	}
	return -1
}

// endsUser reports whether a character is of neither a user nor a password.
func endsUser(c byte) bool {
	return c <= ' ' || c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' || c == '/' || c == '\\'
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

// What the mask of a URI shows, in characters.
const (
	maxUserShown  = 4
	maxNameShown  = 19 // of the path; an access key ID of AWS has 20
	maxLabelShown = 32 // of each part of the host
	maxNameBits   = 3.5
)

// appendURIMask appends the URI with *** for the password, at most maxMask bytes. Services take tokens as the user, in
// the path or in the host too: what does not look like a name is ***, and of a user only the first characters show.
func appendURIMask(dst, secret []byte) []byte {
	scheme, user, password, rest, ok := cutURI(secret)
	if !ok {
		return append(dst, hidden...)
	}
	kept := len(dst)
	dst = appendSafe(dst, scheme)
	dst = append(dst, "://"...)
	if n := min(len(user), maxUserShown); isName(user) && !overlaps(user, password) {
		dst = appendSafe(dst, user[:n])
		user = user[n:]
	}
	if len(user) > 0 {
		dst = append(dst, hidden...)
	}
	dst = append(dst, ':')
	dst = append(dst, hidden...)
	dst = append(dst, '@')
	host, path, hasPath := bytes.Cut(rest, []byte{'/'})
	for i, label := range bytes.Split(host, []byte{'.'}) {
		if i > 0 {
			dst = append(dst, '.')
		}
		if isHostLabel(label) {
			dst = appendSafe(dst, label)
		} else {
			dst = append(dst, hidden...)
		}
	}
	if hasPath {
		dst = append(dst, '/')
		if !isName(path) {
			path = []byte(hidden)
		}
		dst = appendSafe(dst, path)
	}
	return dst[:min(len(dst), kept+maxMask)]
}

// cutURI returns the parts of a URI that a rule has matched, without escapes: rest is the host and the path.
func cutURI(b []byte) (scheme, user, password, rest []byte, ok bool) {
	colon := bytes.IndexAny(b, ":%+")
	if colon < 0 {
		return nil, nil, nil, nil, false
	}
	if i := readText(b, colon, "+srv"); i >= 0 {
		colon = i
	}
	level := percentLevel(b, colon)
	userStart := readText(b, colon, "://")
	userStop := userEnd(b, max(0, userStart), level)
	if userStart < 0 || userStop < 0 {
		return nil, nil, nil, nil, false
	}
	_, passwordStart := readChar(b, userStop)
	at := passwordEnd(b, passwordStart, level)
	if at < 0 {
		return nil, nil, nil, nil, false
	}
	_, host := readChar(b, at)
	return unescape(b[:colon]), unescape(b[userStart:userStop]), unescape(b[passwordStart:at]), unescape(b[host:]), true
}

func unescape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		c, next := readChar(b, i)
		out = append(out, c)
		i = next
	}
	return out
}

// isName reports whether people, not machines, gave a user or a database its name: it has very few characters, or is
// of letters of one case, which may have separators between them, and does not look random.
func isName(text []byte) bool {
	if len(text) <= maxUserShown {
		return true
	}
	hasLower, hasUpper := false, false
	for _, c := range text {
		if !isLetter(c) && !isSeparator(c) {
			return false
		}
		hasLower = hasLower || c >= 'a' && c <= 'z'
		hasUpper = hasUpper || c >= 'A' && c <= 'Z'
	}
	return len(text) <= maxNameShown && hasLower != hasUpper && Entropy(text) < maxNameBits-rounding
}

// isHostLabel reports whether a part of a host is none of a token: it is short, and has no capital letters with digits.
func isHostLabel(text []byte) bool {
	return len(text) <= maxLabelShown && (!containsAny(text, charsets["upper"]) || !containsAny(text, charsets["digit"]))
}

// overlaps reports whether one of two texts is in the other, whatever the case of their letters.
func overlaps(a, b []byte) bool {
	a, b = bytes.ToLower(a), bytes.ToLower(b)
	return bytes.Contains(a, b) || bytes.Contains(b, a)
}
