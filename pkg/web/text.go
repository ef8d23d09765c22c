package web

import (
	"strings"
	"unicode"
)

// Text removes from a text of a stranger (a name, a user agent, a path) what changes how the text around it is shown,
// or is not shown at all: control characters except newline, bidirectional controls, zero-width and tag characters.
// Whatever shows such a text to a person or to an agent (mail, Slack, a page) passes it through Text or [Line].
func SanitizeText(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && isInvisible(r) {
			return -1
		}
		return r
	}, s)
}

// Line is [Text] where one line is shown: newlines and tabs become spaces.
func SanitizeLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t' || r == '\u2028' || r == '\u2029' || r == '\u0085':
			return ' '
		case isInvisible(r):
			return -1
		}
		return r
	}, s)
}

// hidden reports whether a character has no shape of its own. Of the format characters (Cf), which are the
// bidirectional controls, zero-width and tag characters, only the Arabic number marks have one. The variation
// selectors stay: they choose the shape of the character before them.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) ||
		unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}
