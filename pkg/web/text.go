package web

import (
	"strings"
	"unicode"
	"unicode/utf8"
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
