package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxDepth limits the nesting of JSON inside a member of a request.
const MaxDepth = 64

// MaxMembers limits the members of an object that ParseObject or ParseEnvelope splits. No object of the API has a tenth
// of that many.
const MaxMembers = 1000

// maxLinearSearch is the number of members up to which duplicate names are found by comparing each pair; usual
// requests have fewer. For more members nameSet uses a map, so that the work grows linearly with the text.
const maxLinearSearch = 16

// maxEnvelopeDepth is the depth limit of JSON that contains several requests; each of them is then parsed with
// MaxDepth.
const maxEnvelopeDepth = 1000

// Member is a member of a JSON object: its decoded name, and the bytes of its value as they were sent.
type Member struct {
	Name  string
	Value []byte
}

// SyntaxError says where and why a text is not the expected JSON.
type SyntaxError struct {
	Offset int // in bytes, from 0
	Reason string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// DuplicateError is returned for an object with two members of the same name: parsers differ in which one they use
// (RFC 8259, 4).
type DuplicateError struct{ Name string }

func (e *DuplicateError) Error() string { return fmt.Sprintf("member %q appears twice", e.Name) }

// LimitError is returned for an array with more than Limit elements.
type LimitError struct{ Limit int }

func (e *LimitError) Error() string { return fmt.Sprintf("more than %d elements", e.Limit) }

// ParseObject splits a JSON object into its members and appends them to dst. It validates the whole text: syntax
// (RFC 8259), UTF-8, nesting up to MaxDepth, nothing after the end. It checks duplicate names and the number of members
// (MaxMembers) of this object only, not of objects inside. Values share the bytes of b. Its errors are a [*SyntaxError]
// or a [*DuplicateError].
func ParseObject(dst []Member, b []byte) ([]Member, error) { return parseObject(dst, b, MaxDepth) }

// ParseEnvelope is ParseObject for an object that contains several requests. It allows nesting up to 1,000: each
// request is parsed on its own afterwards, so that one that is nested too deeply fails alone.
func ParseEnvelope(b []byte) ([]Member, error) { return parseObject(nil, b, maxEnvelopeDepth) }

func parseObject(dst []Member, b []byte, deepest int) ([]Member, error) {
	if !utf8.Valid(b) {
		return nil, &SyntaxError{Offset: validUTF8(b), Reason: "text is not UTF-8"}
	}
	s := scanner{b: b, maxDepth: deepest}
	s.skipSpace()
	if s.peek() != '{' {
		return nil, s.syntaxError("expected an object")
	}
	first := len(dst)
	var seen nameSet
	err := s.skipObject(0, func(name, value []byte) error {
		text, err := DecodeString(name)
		switch {
		case err != nil:
			return err
		case seen.has(dst[first:], text):
			return &DuplicateError{Name: text}
		case len(dst)-first == MaxMembers:
			return s.syntaxError(fmt.Sprintf("an object has more than %d members", MaxMembers))
		}
		dst = append(dst, Member{Name: text, Value: value})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return dst, s.expectEnd()
}

// validUTF8 returns how many bytes at the start of b are UTF-8.
func validUTF8(b []byte) (n int) {
	for n < len(b) {
		r, size := utf8.DecodeRune(b[n:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		n += size
	}
	return n
}

// portableDepth is how deep JSON may be nested inside other JSON that every parser has to read: System.Text.Json takes
// 64 levels, of which a batch has two around each body.
const portableDepth = 60

// IsPortable reports whether common parsers read b as JSON: UTF-8 (RFC 8259, 8.1), syntax, nesting up to 60 levels, no
// unpaired surrogate, and no number beyond a float64 (RFC 8259, 6). It is stricter than encoding/json.Valid, and takes
// duplicate names.
func IsPortable(b []byte) bool {
	s := scanner{b: b, maxDepth: portableDepth - 1, floats: true}
	s.skipSpace()
	return utf8.Valid(b) && s.skipValue(0) == nil && s.expectEnd() == nil &&
		!(bytes.Contains(b, []byte(`\u`)) && LoneSurrogate(string(b)))
}

// LoneSurrogate reports whether valid JSON contains an unpaired surrogate escape.
func LoneSurrogate(text string) bool {
	for {
		i := strings.IndexByte(text, '\\')
		if i < 0 {
			return false
		}
		if text[i+1] != 'u' {
			text = text[i+2:]
			continue
		}
		unit := hex4(text[i+2:])
		text = text[i+6:]
		switch {
		case unit < 0xd800 || unit > 0xdfff:
		case unit >= 0xdc00 || !strings.HasPrefix(text, `\u`):
			return true
		default:
			if low := hex4(text[2:]); low < 0xdc00 || low > 0xdfff {
				return true
			}
			text = text[6:]
		}
	}
}

// hex4 reads the four digits of an escape in valid JSON.
func hex4(text string) uint64 {
	n, err := strconv.ParseUint(text[:4], 16, 32)
	if err != nil {
		return 0
	}
	return n
}

// nameSet is the set of member names of one object; it is nil while the object has less than maxLinearSearch members.
type nameSet map[string]struct{}

// has reports whether members contains a member called name. It may also add name to the set: the caller appends that
// member next.
func (n *nameSet) has(members []Member, name string) bool {
	if len(members) < maxLinearSearch {
		for i := range members {
			if members[i].Name == name {
				return true
			}
		}
		return false
	}
	if *n == nil {
		*n = make(nameSet, 4*maxLinearSearch)
		for i := range members {
			(*n)[members[i].Name] = struct{}{}
		}
	}
	_, twice := (*n)[name]
	(*n)[name] = struct{}{}
	return twice
}

// ParseArray splits a JSON array into its elements. It validates syntax and nesting as ParseObject does, but not UTF-8:
// b is the value of a member that ParseObject has validated. It returns a [*LimitError] for more than limit elements.
// Elements share the bytes of b.
func ParseArray(b []byte, limit int) ([][]byte, error) { return parseArray(b, limit, MaxDepth) }

// ParseEnvelopeArray is ParseArray for the value of a member that ParseEnvelope has returned; it allows its nesting.
func ParseEnvelopeArray(b []byte, limit int) ([][]byte, error) {
	return parseArray(b, limit, maxEnvelopeDepth)
}

func parseArray(b []byte, limit, deepest int) ([][]byte, error) {
	s := scanner{b: b, maxDepth: deepest}
	s.skipSpace()
	if s.peek() != '[' {
		return nil, s.syntaxError("expected an array")
	}
	var elements [][]byte
	err := s.skipArray(0, func(value []byte) error {
		if len(elements) == limit {
			return &LimitError{limit}
		}
		elements = append(elements, value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return elements, s.expectEnd()
}

// DecodeString decodes a JSON string, quotes included, that ParseObject or ParseArray has validated. For a value of
// another kind it returns an error.
func DecodeString(b []byte) (string, error) {
	if len(b) < 2 || b[0] != '"' {
		return "", errNotString
	}
	plain := true
	for _, c := range b {
		if c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		return string(b[1 : len(b)-1]), nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return "", fmt.Errorf("decode string: %w", err)
	}
	return s, nil
}

var errNotString = errors.New("decode string: not a JSON string")

// scanner validates JSON text without building values. It checks what json.Valid checks in 60 % of its time, and also
// limits the depth and finds the bytes of members. The speed matters: every event that is sent is scanned.
type scanner struct {
	b        []byte
	pos      int
	maxDepth int  // how deep containers may be nested
	floats   bool // numbers must fit a float64
}

func (s *scanner) syntaxError(reason string) error {
	return &SyntaxError{Offset: s.pos, Reason: reason}
}

// peek returns the next byte, or 0 at the end: valid JSON contains no 0 byte.
func (s *scanner) peek() byte {
	if s.pos < len(s.b) {
		return s.b[s.pos]
	}
	return 0
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.b) {
		switch s.b[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// expectEnd returns an error if anything but white space is left.
func (s *scanner) expectEnd() error {
	if s.skipSpace(); s.pos < len(s.b) {
		return s.syntaxError("unexpected text after the end of the JSON")
	}
	return nil
}

// skipValue skips one value inside depth containers.
func (s *scanner) skipValue(depth int) error {
	switch c := s.peek(); {
	case c == '"':
		return s.skipString()
	case c == '{':
		return s.skipObject(depth, nil)
	case c == '[':
		return s.skipArray(depth, nil)
	case c == '-' || c >= '0' && c <= '9':
		return s.skipNumber()
	case c == 't':
		return s.skipLiteral("true")
	case c == 'f':
		return s.skipLiteral("false")
	case c == 'n':
		return s.skipLiteral("null")
	}
	if s.pos >= len(s.b) {
		return s.syntaxError("JSON ends early")
	}
	return s.syntaxError("expected a JSON value")
}

// skipObject skips an object and calls each, unless it is nil, for every member.
func (s *scanner) skipObject(depth int, each func(name, value []byte) error) error {
	if depth > s.maxDepth {
		return s.syntaxError(fmt.Sprintf("nesting is deeper than %d", s.maxDepth))
	}
	s.pos++
	if s.skipSpace(); s.peek() == '}' {
		s.pos++
		return nil
	}
	for {
		if s.skipSpace(); s.peek() != '"' {
			return s.syntaxError("expected a member name in quotes")
		}
		name := s.pos
		if err := s.skipString(); err != nil {
			return err
		}
		nameEnd := s.pos
		if s.skipSpace(); s.peek() != ':' {
			return s.syntaxError("expected a colon")
		}
		s.pos++
		s.skipSpace()
		value := s.pos
		if err := s.skipValue(depth + 1); err != nil {
			return err
		}
		if each != nil {
			if err := each(s.b[name:nameEnd], s.b[value:s.pos]); err != nil {
				return err
			}
		}
		if more, err := s.hasNext('}'); !more {
			return err
		}
	}
}

// skipArray skips an array and calls each, unless it is nil, for every element.
func (s *scanner) skipArray(depth int, each func(value []byte) error) error {
	if depth > s.maxDepth {
		return s.syntaxError(fmt.Sprintf("nesting is deeper than %d", s.maxDepth))
	}
	s.pos++
	if s.skipSpace(); s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		s.skipSpace()
		value := s.pos
		if err := s.skipValue(depth + 1); err != nil {
			return err
		}
		if each != nil {
			if err := each(s.b[value:s.pos]); err != nil {
				return err
			}
		}
		if more, err := s.hasNext(']'); !more {
			return err
		}
	}
}

// hasNext skips the comma or the closing bracket after a member or an element, and reports whether it was a comma.
func (s *scanner) hasNext(closing byte) (bool, error) {
	s.skipSpace()
	switch s.peek() {
	case ',':
		s.pos++
		return true, nil
	case closing:
		s.pos++
		return false, nil
	}
	if s.pos >= len(s.b) {
		return false, s.syntaxError("JSON ends early")
	}
	return false, s.syntaxError("expected a comma or the end of the object or array")
}

func (s *scanner) skipString() error {
	b := s.b
	for i := s.pos + 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			s.pos = i + 1
			return nil
		case c == '\\':
			n := escapeLen(b[i:])
			if n == 0 {
				s.pos = i
				return s.syntaxError("unknown escape in a string")
			}
			i += n - 1
		case c < 0x20:
			s.pos = i
			return s.syntaxError("control character in a string")
		}
	}
	s.pos = len(b)
	return s.syntaxError("JSON ends early")
}

// escapeLen returns the length of the escape sequence at the start of b, 0 if it is invalid.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) < 6 {
			return 0
		}
		for _, c := range b[2:6] {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

func (s *scanner) skipNumber() error {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	switch c := s.peek(); {
	case c == '0':
		s.pos++
	case c >= '1' && c <= '9':
		s.skipDigits()
	default:
		return s.syntaxError("expected a digit")
	}
	if s.peek() == '.' {
		s.pos++
		if !s.skipDigits() {
			return s.syntaxError("expected a digit")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.skipDigits() {
			return s.syntaxError("expected a digit")
		}
	}
	if s.floats {
		if _, err := strconv.ParseFloat(string(s.b[start:s.pos]), 64); err != nil {
			return s.syntaxError("number is too large")
		}
	}
	return nil
}

func (s *scanner) skipDigits() bool {
	start := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) skipLiteral(word string) error {
	if len(s.b)-s.pos < len(word) || string(s.b[s.pos:s.pos+len(word)]) != word {
		return s.syntaxError("expected a JSON value")
	}
	s.pos += len(word)
	return nil
}
