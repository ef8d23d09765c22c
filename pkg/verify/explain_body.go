package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"unicode/utf16"
	"unicode/utf8"
)

// bodyForm is another body that a sender may have signed.
type bodyForm struct {
	code, message string
	body          []byte
}

// bodyForms yields the bodies that a sender may have signed before the body became what it is. Some are equal to it.
func bodyForms(body []byte) iter.Seq[bodyForm] {
	return func(yield func(bodyForm) bool) {
		for _, form := range lineForms(body) {
			if !yield(form) {
				return
			}
		}
		var compact bytes.Buffer
		if len(body) > maxThorough || json.Compact(&compact, body) != nil {
			return
		}
		sorted := sortMembers(compact.Bytes())
		for _, style := range jsonStyles {
			text := compact.Bytes()
			if style.sorted {
				text = sorted
			}
			message := fmt.Sprintf("the signature covers the same JSON %s: sign the bytes that are sent, and let no framework "+
				"or proxy write the JSON again", style.text)
			if !yield(bodyForm{"body_json", message, style.write(text)}) {
				return
			}
		}
	}
}

// lineForms returns bodies with other ends of lines, and the empty body.
func lineForms(body []byte) []bodyForm {
	const added = "the signature was made before a newline was added at the end of the body: send exactly the signed bytes"
	const removed = "the signature covers a newline at the end of the body that was removed: send exactly the signed bytes"
	const ends = "the signature was made over other ends of lines (CRLF or LF): send exactly the signed bytes, as binary"
	forms := []bodyForm{
		{"body_newline", added, bytes.TrimRight(body, "\r\n")},
		{"body_newline", removed, append(bytes.Clone(body), '\n')},
		{"body_newline", removed, append(bytes.Clone(body), "\r\n"...)},
		{"body_empty", "the signature covers an empty body: sign the body before another part of the sender reads it", nil},
	}
	if len(body) <= maxThorough {
		unix := bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n"))
		forms = append(forms, bodyForm{"body_line_ends", ends, unix},
			bodyForm{"body_line_ends", ends, bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n"))})
	}
	return forms
}

// jsonStyle is a way to write JSON.
type jsonStyle struct {
	text               string // what is special, for the message
	item, member       string // after a comma and after a colon
	indent             string
	sorted             bool // members by name
	kept               bool // strings are not written anew; the members below are ignored
	ascii, slash, html bool // what is escaped: non-ASCII characters, slashes, and < > &
}

// jsonStyles are the defaults of common libraries.
var jsonStyles = []jsonStyle{
	{text: "without spaces", kept: true},
	{text: "without spaces"},
	{text: "without spaces, with non-ASCII characters escaped", ascii: true},
	{text: "without spaces, with slashes escaped", slash: true},
	{text: "without spaces, with slashes and non-ASCII characters escaped", slash: true, ascii: true},
	{text: "without spaces, with <, > and & escaped", html: true},
	{text: "with a space after each comma and colon", item: " ", member: " ", kept: true},
	{text: "with a space after each comma and colon, with non-ASCII characters escaped", item: " ", member: " ",
		ascii: true},
	{text: "indented by two spaces", indent: "  ", kept: true},
	{text: "indented by four spaces", indent: "    ", kept: true},
	{text: "without spaces, with sorted members", sorted: true},
	{text: "without spaces, with sorted members and non-ASCII characters escaped", sorted: true, ascii: true},
	{text: "without spaces, with sorted members, with <, > and & escaped", sorted: true, html: true},
	{text: "with spaces and sorted members", sorted: true, item: " ", member: " "},
	{text: "with spaces, sorted members and non-ASCII characters escaped", sorted: true, item: " ", member: " ",
		ascii: true},
}

// sortMembers returns JSON without spaces with the members of each object sorted by name.
func sortMembers(text []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return text
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return sorted
}

// write writes JSON without spaces in the style.
func (s jsonStyle) write(compact []byte) []byte {
	if s.indent != "" {
		var out bytes.Buffer
		_ = json.Indent(&out, compact, "", s.indent) // cannot fail: json.Compact has read it
		return out.Bytes()
	}
	out := make([]byte, 0, len(compact)+len(compact)/4)
	for i := 0; i < len(compact); i++ {
		switch c := compact[i]; c {
		case '"':
			end := i + stringLength(compact[i:])
			out = s.appendString(out, compact[i:end])
			i = end - 1
		case ',':
			out = append(append(out, c), s.item...)
		case ':':
			out = append(append(out, c), s.member...)
		default:
			out = append(out, c)
		}
	}
	return out
}

// stringLength returns the length of the JSON string at the beginning of text, quotes included.
func stringLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// appendString appends a JSON string in the style.
func (s jsonStyle) appendString(out, literal []byte) []byte {
	if s.kept || everyByte(string(literal[1:len(literal)-1]), isPlain) {
		return append(out, literal...)
	}
	var text string
	if json.Unmarshal(literal, &text) != nil {
		return append(out, literal...)
	}
	out = append(out, '"')
	for _, r := range text {
		out = s.appendRune(out, r)
	}
	return append(out, '"')
}

// isPlain reports whether a byte of a JSON string is written in the same way in every style.
func isPlain(c byte) bool {
	return c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\' && c != '/' && c != '<' && c != '>' && c != '&'
}

// shortEscapes are the characters that every library escapes with one letter.
var shortEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`,
}

func (s jsonStyle) appendRune(out []byte, r rune) []byte {
	if text, ok := shortEscapes[r]; ok {
		return append(out, text...)
	}
	switch {
	case r == '/' && s.slash:
		return append(out, `\/`...)
	case r < ' ', s.html && (r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029'),
		s.ascii && r >= utf8.RuneSelf && r < 0x10000:
		return fmt.Appendf(out, `\u%04x`, r)
	case s.ascii && r >= 0x10000:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return utf8.AppendRune(out, r)
}
