package web

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
)

// SanitizeText removes characters from an untrusted text (a name, a user agent, a path) that are invisible or change
// how the text around them is shown: control characters except newline, bidirectional controls, zero-width and tag
// characters. Use it or [SanitizeLine] before showing such a text to a person or an agent (mail, Slack, a page).
func SanitizeText(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && IsInvisible(r) {
			return -1
		}
		return r
	}, s)
}

// SanitizeLine is [SanitizeText] for a text that must stay on one line: newlines and tabs become spaces.
func SanitizeLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t' || r == '\u2028' || r == '\u2029' || r == '\u0085':
			return ' '
		case IsInvisible(r):
			return -1
		}
		return r
	}, s)
}

// IsInvisible reports whether a character is never visible itself: controls, line separators, characters that Unicode
// ignores by default, and format characters (Cf), such as bidirectional controls, zero-width and tag characters.
// Visible are the format characters that Unicode calls prepended concatenation marks, such as the Arabic number signs.
// Variation selectors are kept: they choose the form of the character before them.
func IsInvisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) ||
		unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// IsPrintable reports whether each character of a text can be seen or is an ordinary space. The replacement character
// cannot be: half of a surrogate pair decodes to it, so that what is stored would differ from what was sent.
func IsPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError })
}

// BreakLinks writes https://example.com/a as https[:]//example[.]com/a, because mail programs and chats turn whatever
// looks like an address into a link. Every dot between a letter, digit or symbol and a letter is broken. Use it for
// each untrusted text of a message, after [SanitizeText].
func BreakLinks(s string) string { return breakLinks(s, false) }

// BreakAddresses is [BreakLinks] for texts whose dotted words are needed as they are, such as the event type
// order.paid: it breaks the dots of a name only after a scheme, in www. names, and before a port, a path, a query or a
// fragment.
func BreakAddresses(s string) string { return breakLinks(s, true) }

func breakLinks(s string, keepWords bool) string {
	var b strings.Builder
	b.Grow(len(s))
	runes := []rune(s)
	end, address := 0, false // of the name that i is in
	for i, r := range runes {
		if i >= end && isNameRune(r) {
			end = i + 1
			for end < len(runes) && (isNameRune(runes[end]) || isDot(runes[end])) {
				end++
			}
			address = isAddress(runes, i, end)
		}
		next := ' '
		if i+1 < len(runes) {
			next = runes[i+1]
		}
		switch {
		case r == ':' && (opensPath(runes[i+1:]) || isMailto(runes[:i])):
			b.WriteString("[:]")
		case isDot(r) && i > 0 && isNameRune(runes[i-1]) &&
			(address && isNameRune(next) || !keepWords && unicode.IsLetter(next)):
			b.WriteString("[.]")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isAddress reports whether the name runes[start:end] is written as a part of a URL.
func isAddress(runes []rune, start, end int) bool {
	name, before, after := runes[start:end], runes[:start], runes[end:]
	if text := strings.TrimSuffix(string(before[max(0, len(before)-3):]), "/"); strings.HasSuffix(text, "/") ||
		strings.HasSuffix(text, `/\`) || strings.HasSuffix(text, "@") { // of a URL or a mail address
		return true
	}
	if len(name) > 4 && strings.EqualFold(string(name[:3]), "www") && isDot(name[3]) {
		return true
	}
	if len(after) == 0 || !slices.ContainsFunc(name, unicode.IsLetter) {
		return false
	}
	switch after[0] {
	case '/', '\\':
		return true
	case ':', '?', '#':
		return len(after) > 1 && (isNameRune(after[1]) || after[1] == '/')
	}
	return false
}

// opensPath reports whether a text begins with //, which JSON may write as \/\/.
func opensPath(runes []rune) bool {
	for range 2 {
		if len(runes) > 0 && runes[0] == '\\' {
			runes = runes[1:]
		}
		if len(runes) == 0 || runes[0] != '/' {
			return false
		}
		runes = runes[1:]
	}
	return true
}

func isMailto(before []rune) bool {
	const scheme = "mailto"
	return len(before) >= len(scheme) && strings.EqualFold(string(before[len(before)-len(scheme):]), scheme)
}

// isDot reports whether a character separates the labels of a host name: browsers read all of these as a dot.
func isDot(r rune) bool { return r == '.' || r == '\u3002' || r == '\uff0e' || r == '\uff61' }

// isNameRune reports whether a character may stand in a host name, or in one that clients take for a host name.
func isNameRune(r rune) bool {
	return unicode.In(r, unicode.L, unicode.N, unicode.M, unicode.So) || r == '-' || r == '_'
}

// maxName bounds the names that Nearest compares, in bytes: a comparison takes time proportional to the product of both
// lengths.
const maxName = 64

// Nearest returns the known name with the smallest Levenshtein distance from name, if that is at most maxDistance; ""
// if there is none, or if name is longer than 64 bytes. Of equally near names it returns the first in the alphabet.
func Nearest(name string, known []string, maxDistance int) (best string) {
	if len(name) > maxName {
		return ""
	}
	for _, k := range known {
		if d := levenshtein.ComputeDistance(name, k); d < maxDistance || d == maxDistance && (best == "" || k < best) {
			best, maxDistance = k, d
		}
	}
	return best
}
