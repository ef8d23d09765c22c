package secrets

import "math"

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

// margins are how many bytes around a credential MaskAll hides, in its first pass and in those after it. A mask may end
// what two overlapping credentials had in common, and a text can be made so that each mask completes a credential
// beside it. Margins that grow bound the passes: the last one leaves nothing to find.
var margins = [...]int{0, 0, 0, 1 << 10, 32 << 10, math.MaxInt32}

// MaskAll appends src to dst with the mask of every credential instead of its text, and returns the number of
// credentials. What it returns contains none that Scan finds. It reads the text twice if it contains one; what is made
// to need more is read six times at most, and loses the text around its masks.
func (s *Scanner) MaskAll(dst, src []byte) ([]byte, int) {
	dst, n, _ := s.maskAll(dst, src)
	return dst, n
}

// maskAll is MaskAll; scanned is how many bytes it has scanned.
func (s *Scanner) maskAll(dst, src []byte) (out []byte, n, scanned int) {
	kept := len(dst)
	out, n = s.maskOnce(dst, src, margins[0])
	scanned = len(src)
	for i, again := 1, n; i < len(margins) && again > 0; i++ {
		var text []byte
		scanned += len(out) - kept
		if text, again = s.maskOnce(nil, out[kept:], margins[i]); again > 0 {
			out = append(out[:kept], text...)
		}
	}
	return out, n, scanned
}

// maskOnce masks what one pass finds. With a margin, what is hidden is *** without a head.
func (s *Scanner) maskOnce(dst, src []byte, margin int) ([]byte, int) {
	n, from := 0, 0
	s.Scan(src, func(m Match) bool {
		n++
		if margin == 0 {
			dst = append(dst, src[from:m.Start]...)
			dst = m.Rule.appendMask(dst, src[m.Start:m.End])
			from = m.End
			return true
		}
		if start := m.Start - margin; start > from || n == 1 {
			dst = append(dst, src[from:max(from, start)]...)
			dst = append(dst, hidden...)
		}
		from = min(len(src), m.End+margin)
		return true
	})
	return append(dst, src[from:]...), n
}
