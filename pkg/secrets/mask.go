package secrets

// Lengths of masks, in bytes.
const (
	maxHead   = 8
	minHidden = 20 // fewer hidden characters: the end of the secret stays hidden too
	hidden    = "***"
	maxMask   = 80
)

// Mask returns the secret with its characters replaced: the prefix (8 characters at most), *** and the last 4 if at
// least 20 characters stay hidden. It shows nothing of passwords. The mask is printable ASCII without quotes and
// backslashes, 80 bytes at most, and no scanner finds a credential in it.
func (r *Rule) Mask(secret []byte) string {
	return string(r.appendMask(make([]byte, 0, maxMask), secret))
}

func (r *Rule) appendMask(dst, secret []byte) []byte {
	switch r.Kind {
	case KindPEM:
		return append(dst, "-----BEGIN "+hidden...)
	case KindURI:
		return appendURIMask(dst, secret)
	}
	head := r.head(secret)
	tail := 4
	if r.Show != nil {
		tail = r.Show.Tail
	}
	dst = appendSafe(dst, secret[:head])
	dst = append(dst, hidden...)
	if len(secret)-head-tail >= minHidden {
		dst = appendSafe(dst, secret[len(secret)-tail:])
	}
	return dst
}

// head is how many characters of a secret its mask shows: those of the prefix.
func (r *Rule) head(secret []byte) int {
	if r.Show != nil {
		return min(r.Show.Head, maxHead, len(secret))
	}
	if r.Kind == KindAssign || r.Lead.set != nil {
		return 0
	}
	for _, prefix := range r.Prefixes {
		if len(secret) >= len(prefix) && equal(secret[:len(prefix)], prefix, r.Fold) {
			return min(maxHead, len(prefix))
		}
	}
	return 0
}

// appendSafe appends printable ASCII; other characters, and those that JSON escapes, become '?'.
func appendSafe(dst, text []byte) []byte {
	for _, c := range text {
		if c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			c = '?'
		}
		dst = append(dst, c)
	}
	return dst
}

// MaskAll appends src to dst with the mask of every credential instead of its text, and returns the number of
// credentials. What it returns contains none that Scan finds.
func (s *Scanner) MaskAll(dst, src []byte) ([]byte, int) {
	kept := len(dst)
	dst, n := s.maskOnce(dst, src)
	for again := n; again > 0; { // a mask may end what two overlapping credentials had in common
		var text []byte
		if text, again = s.maskOnce(nil, dst[kept:]); again > 0 {
			dst = append(dst[:kept], text...)
		}
	}
	return dst, n
}

func (s *Scanner) maskOnce(dst, src []byte) ([]byte, int) {
	n, from := 0, 0
	s.Scan(src, func(m Match) bool {
		dst = append(dst, src[from:m.Start]...)
		dst = m.Rule.appendMask(dst, src[m.Start:m.End])
		n, from = n+1, m.End
		return true
	})
	return append(dst, src[from:]...), n
}
