package secrets

import (
	"slices"
	"strings"
)

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
	} else if head != "" && (r.Kind == KindAssign || r.Lead.set != nil || !slices.ContainsFunc(r.Prefixes,
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
