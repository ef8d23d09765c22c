package finding

import (
	"strings"
	"unicode/utf8"
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

// isHidden reports whether a character has no place in text that is shown: the control characters C0 and C1 except
// newline, marks of direction, zero-width characters, line and paragraph separators, variation selectors and tags.
func isHidden(r rune) bool {
	switch {
	case r == '\n':
		return false
	case r < 0x20, r >= 0x7f && r <= 0x9f, // C0, DEL and C1
		r == 0xad,                             // soft hyphen
		r == 0x034f, r == 0x061c, r == 0x180e, // grapheme joiner, Arabic letter mark, Mongolian vowel separator
		r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, // Hangul fillers
		r >= 0x17b4 && r <= 0x17b5,              // Khmer inherent vowels
		r >= 0x180b && r <= 0x180f,              // Mongolian variation selectors
		r >= 0x200b && r <= 0x200f,              // zero-width, left-to-right and right-to-left marks
		r >= 0x2028 && r <= 0x202e,              // separators, embeddings and overrides
		r >= 0x2060 && r <= 0x206f,              // word joiner, invisible operators, isolates
		r >= 0xfe00 && r <= 0xfe0f,              // variation selectors
		r == 0xfeff, r >= 0xfff9 && r <= 0xfffb, // byte order mark, interlinear annotations
		r >= 0xe0000 && r <= 0xe0fff: // tags and more variation selectors
		return true
	}
	return false
}
