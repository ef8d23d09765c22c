package transform

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/web"
)

// value is a JSON value. It is text until an operation looks inside; then it is a container. The zero value marks what
// an operation has taken out.
type value struct {
	text string
	box  *container
}

// container is an object or an array.
type container struct {
	array  bool
	taken  bool     // some values are zero; compact removes them
	keys   []string // of an object, as JSON text
	names  []string // what keys name: decoded once, since every path is compared with every name
	values []value
}

func (v *value) missing() bool { return v.text == "" && v.box == nil }

// open returns the container of an object or array; nil for other values.
func (v *value) open() *container {
	if v.box != nil || v.text == "" {
		return v.box
	}
	if c := strings.TrimLeft(v.text, " \t\r\n")[0]; c != '{' && c != '[' {
		return nil
	}
	doc := gjson.Parse(v.text)
	n := 0
	doc.ForEach(func(_, _ gjson.Result) bool { n++; return true })
	c := &container{array: doc.IsArray(), values: make([]value, 0, n)}
	if !c.array {
		c.keys, c.names = make([]string, 0, n), make([]string, 0, n)
	}
	doc.ForEach(func(key, element gjson.Result) bool {
		if !c.array {
			c.addName(key.Raw, nameOf(key.Raw))
		}
		c.values = append(c.values, value{text: element.Raw})
		return true
	})
	v.text, v.box = "", c
	return c
}

// find returns the index of the member or element that a step names; -1 if there is none.
func (c *container) find(s *step) int {
	if c.array {
		if s.index < 0 || s.index >= len(c.values) {
			return -1
		}
		return s.index
	}
	return slices.Index(c.names, s.name)
}

// addName appends the name of a member, whose value the caller appends.
func (c *container) addName(key, name string) {
	c.keys, c.names = append(c.keys, key), append(c.names, name)
}

// compact removes the values that were taken out.
func (c *container) compact() {
	n := 0
	for i := range c.values {
		if c.values[i].missing() {
			continue
		}
		c.values[n] = c.values[i]
		if !c.array {
			c.keys[n], c.names[n] = c.keys[i], c.names[i]
		}
		n++
	}
	clear(c.values[n:])
	c.values, c.taken = c.values[:n], false
	if !c.array {
		clear(c.keys[n:])
		clear(c.names[n:])
		c.keys, c.names = c.keys[:n], c.names[:n]
	}
}

// nameOf returns the text of a JSON string that validate has accepted.
func nameOf(key string) string {
	if strings.IndexByte(key, '\\') < 0 {
		return key[1 : len(key)-1]
	}
	return gjson.Parse(key).String()
}

// appendTo appends the value as JSON without white space. It stops with an incomplete text when dst has more than most
// bytes; 0 is no limit. With cut, long names and texts inside are cut too.
func (v *value) appendTo(dst []byte, most int, cut bool) []byte {
	if v.box == nil {
		text := v.text
		if cut {
			text = text[:min(len(text), 2*maxExcerpt)]
		}
		return appendCompact(dst, text, most)
	}
	brackets := "{}"
	if v.box.array {
		brackets = "[]"
	}
	dst = append(dst, brackets[0])
	for i := range v.box.values {
		if most > 0 && len(dst) > most {
			return dst
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if !v.box.array {
			key := v.box.keys[i]
			if cut {
				key = key[:min(len(key), 2*maxExcerpt)]
			}
			dst = append(append(dst, key...), ':')
		}
		dst = v.box.values[i].appendTo(dst, most, cut)
	}
	return append(dst, brackets[1])
}

// appendCompact appends a JSON text without the white space between its values. It stops with an incomplete text when
// dst has more than most bytes, unless most is 0.
func appendCompact(dst []byte, text string, most int) []byte {
	from := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += stringEnd(text[i:]) - 1
		case ' ', '\t', '\r', '\n':
			dst = append(dst, text[from:i]...)
			if from = i + 1; most > 0 && len(dst) > most {
				return dst
			}
		}
	}
	return append(dst, text[from:]...)
}

// stringEnd returns the length of the string that a valid text begins with.
func stringEnd(text string) int {
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

// validate reports why a document cannot be changed; nil if it can. text is the body as a string, depth how deep it may
// be nested.
func validate(body []byte, text string, depth int) *Failure {
	problem := ""
	switch {
	case strings.TrimSpace(text) == "":
		problem = "the body is empty, and no JSON"
	case !utf8.ValidString(text):
		problem = "the body is not UTF-8"
	case !event.ValidJSON(body):
		problem = "the body is not JSON, or is nested deeper than " + strconv.Itoa(depth)
	default:
		s := scan{text: text, depth: depth}
		problem = s.check()
	}
	if problem == "" {
		return nil
	}
	return &Failure{Op: NoOp, Message: problem}
}

// scan looks for what is valid JSON but read differently by different parsers.
type scan struct {
	text  string
	depth int      // of the nesting, at most
	keys  []string // names of the members of all open objects
	first []int    // by open container: where its names begin in keys; -1 for an array
}

// check returns what is wrong with the text, which is valid JSON; empty if nothing is.
func (s *scan) check() string {
	for i := 0; i < len(s.text); i++ {
		switch s.text[i] {
		case '{', '[':
			first := -1
			if s.text[i] == '{' {
				first = len(s.keys)
			}
			if s.first = append(s.first, first); len(s.first) > s.depth {
				return "the body is nested deeper than " + strconv.Itoa(s.depth)
			}
		case '}', ']':
			if name, twice := s.closeContainer(); twice {
				return "the member " + name + " appears twice in one object, so parsers differ in which one they read"
			}
		case '"':
			end := i + stringEnd(s.text[i:])
			if web.LoneSurrogate(s.text[i:end]) {
				return "a string holds half of a surrogate pair at byte " + strconv.Itoa(i) + ", which is no character"
			}
			if n := len(s.first); n > 0 && s.first[n-1] >= 0 && s.isName(end) {
				s.keys = append(s.keys, s.text[i:end])
			}
			i = end - 1
		}
	}
	return ""
}

// isName reports whether the string that ends there is the name of a member.
func (s *scan) isName(end int) bool {
	for ; end < len(s.text); end++ {
		switch s.text[end] {
		case ' ', '\t', '\r', '\n':
		default:
			return s.text[end] == ':'
		}
	}
	return false
}

// fewNames is the number of names up to which each pair is compared; more are put into a set.
const fewNames = 16

// closeContainer ends the innermost container and returns a name that it has twice.
func (s *scan) closeContainer() (name string, twice bool) {
	last := len(s.first) - 1
	first := s.first[last]
	s.first = s.first[:last]
	if first < 0 {
		return "", false
	}
	names := s.keys[first:]
	s.keys = s.keys[:first]
	var set map[string]struct{}
	if len(names) > fewNames {
		set = make(map[string]struct{}, len(names))
	}
	for i, name := range names {
		names[i] = nameOf(name)
		if set != nil {
			if _, twice := set[names[i]]; twice {
				return excerpt(name), true
			}
			set[names[i]] = struct{}{}
			continue
		}
		for _, other := range names[:i] {
			if other == names[i] {
				return excerpt(name), true
			}
		}
	}
	return "", false
}

// maxExcerpt is how much of a text an error or a diff shows, in bytes.
const maxExcerpt = 200

// excerpt cuts a text at the end of a character.
func excerpt(text string) string { return cutTo(text, maxExcerpt) }

// cutTo cuts a text at the end of a character, and says so.
func cutTo(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
