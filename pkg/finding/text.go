package finding

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/eventrelay/relay/pkg/web"
)

// Clean returns untrusted text that people and agents may be shown. It removes invalid UTF-8, control characters except
// newline, and characters that are invisible or change the direction of text. It cuts the text after most bytes,
// between two characters.
func Clean(s string, most int) string {
	if i := strings.IndexFunc(s, isHidden); i < 0 && utf8.ValidString(s) {
		return cut(s, most)
	}
	var b strings.Builder
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)) || isHidden(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

// CleanLine is Clean for text of one line: newlines become spaces.
func CleanLine(s string, most int) string { return strings.ReplaceAll(Clean(s, most), "\n", " ") }

// cut cuts valid UTF-8 after at most n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// isHidden reports whether a character has no place in text that is shown. Variation selectors have none either: a
// row of them can carry text that nobody sees.
func isHidden(r rune) bool {
	return r != '\n' && (web.IsInvisible(r) || unicode.Is(unicode.Variation_Selector, r))
}
