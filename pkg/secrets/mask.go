package secrets

import (
	"math"
	"slices"
	"strings"
)

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
	if r.showsNoPrefix() {
		return 0
	}
	for _, prefix := range r.Prefixes {
		if len(secret) >= len(prefix) && equal(secret[:len(prefix)], prefix, r.Fold) {
			return min(maxHead, len(prefix))
		}
	}
	return 0
}

// showsNoPrefix reports whether a secret of the rule does not begin with its prefix.
func (r *Rule) showsNoPrefix() bool {
	return r.Kind == KindAssign || r.Kind == KindJWK || r.Lead.set != nil
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

const pemMask = "-----BEGIN " + hidden

// IsMask reports whether a text has the shape of the masks of this rule. Applications report masks that they have made
// themselves: a text of another shape could be a secret.
func (r *Rule) IsMask(text string) bool {
	switch {
	case r.Kind == KindPEM:
		return text == pemMask
	case len(text) > maxMask || !isSafe(text):
		return false
	case r.Kind == KindURI:
		return isURIMask(text, r.Prefixes)
	}
	head, tail, ok := cutMask(text)
	if !ok {
		return false
	}
	most := 4
	if r.Show != nil {
		if most = r.Show.Tail; len(head) > min(r.Show.Head, maxHead) {
			return false
		}
	} else if head != "" && (r.showsNoPrefix() || !slices.ContainsFunc(r.Prefixes,
		func(prefix string) bool { return r.isHead(head, prefix) })) {
		return false
	}
	return tail == "" || len(tail) == most
}

// isHead reports whether the mask of a secret with a prefix begins with head.
func (r *Rule) isHead(head, prefix string) bool {
	want := string(appendSafe(nil, []byte(prefix[:min(maxHead, len(prefix))])))
	return head == want || r.Fold && strings.EqualFold(head, want)
}

// IsMask reports whether a text has the shape of a mask of some rule, also of one that this version does not know.
func IsMask(text string) bool {
	if text == pemMask {
		return true
	}
	head, tail, ok := cutMask(text)
	return len(text) <= maxMask && isSafe(text) &&
		(isURIMask(text, nil) || ok && len(head) <= maxHead && len(tail) <= 4)
}

// cutMask returns what a mask shows of the start and the end of a secret.
func cutMask(text string) (head, tail string, ok bool) {
	head, tail, ok = strings.Cut(text, hidden)
	return head, tail, ok && !strings.Contains(head+tail, "*")
}

// isURIMask reports whether a text is the mask of a URI with one of these schemes, any scheme if there are none.
func isURIMask(text string, schemes []string) bool {
	if text == hidden {
		return true
	}
	scheme, rest, ok := strings.Cut(text, "://")
	user, rest, found := strings.Cut(rest, ":"+hidden+"@")
	if !ok || !found || len(strings.TrimSuffix(user, hidden)) > maxUserShown || !isScheme(scheme, schemes) {
		return false
	}
	host, path, _ := strings.Cut(rest, "/")
	for label := range strings.SplitSeq(host, ".") {
		if !isHostLabel([]byte(label)) {
			return false
		}
	}
	return path == hidden || isName([]byte(path))
}

func isScheme(scheme string, schemes []string) bool {
	if schemes == nil {
		return len(scheme) > 0 && len(scheme) <= 20 && strings.Trim(strings.ToLower(scheme),
			"abcdefghijklmnopqrstuvwxyz0123456789+-.") == ""
	}
	return slices.ContainsFunc(schemes, func(known string) bool {
		return strings.EqualFold(scheme, known) || strings.EqualFold(scheme, known+"+srv")
	})
}

// isSafe reports whether a text has only characters that masks have.
func isSafe(text string) bool { return string(appendSafe(nil, []byte(text))) == text }
