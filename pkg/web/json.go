package web

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// MaxDepth bounds how deep the JSON of a request may be nested inside any member.
const MaxDepth = 64

// MaxMembers bounds an object that is split into its members; nothing that the API knows has a tenth of them.
const MaxMembers = 1000

// maxLinearSearch is up to how many names are compared one by one, as a request's are. Beyond it a map finds a
// duplicate, so that the work grows with the length of the text alone.
const maxLinearSearch = 16

// maxEnvelopeDepth is MaxDepth for what holds several requests: each of them is judged for itself, by MaxDepth.
const maxEnvelopeDepth = 1000

// Member of a JSON object: its name decoded, its value as the bytes that stood in the request.
type Member struct {
	Name  string
	Value []byte
}

// SyntaxError says where a text stops being the JSON that is wanted.
type SyntaxError struct {
	Offset int // in bytes, from 0
	Reason string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// DuplicateError is an object that names a member twice: readers differ in which one they believe
// (RFC 8259, 4).
type DuplicateError struct{ Name string }

func (e *DuplicateError) Error() string { return fmt.Sprintf("member %q stands twice", e.Name) }

// LimitError is an array with more elements than its reader takes.
type LimitError struct{ Limit int }

func (e *LimitError) Error() string { return fmt.Sprintf("more than %d elements", e.Limit) }

// ParseObject splits one JSON object into its members, appended to dst. The whole text is judged: syntax
// (RFC 8259), UTF-8, nesting, nothing behind the end. Duplicates are judged in this object only: objects
// inside of it are the business of who reads them, and so is the number of their members. Values share the bytes of b.
func ParseObject(dst []Member, b []byte) ([]Member, error) { return parseObject(dst, b, MaxDepth) }

// ParseEnvelope is ParseObject for an object that carries requests which are judged one by one: it lets through
// what is nested too deep for one of them.
func ParseEnvelope(b []byte) ([]Member, error) { return parseObject(nil, b, maxEnvelopeDepth) }

func parseObject(dst []Member, b []byte, deepest int) ([]Member, error) {
	if !utf8.Valid(b) {
		return nil, &SyntaxError{Reason: "text is not UTF-8"}
	}
	s := scanner{b: b, maxDepth: deepest}
	s.skipSpace()
	if s.peek() != '{' {
		return nil, s.syntaxError("an object is wanted")
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

// names are those of the members of one object, once they are more than a few.
type nameSet map[string]struct{}

// has reports whether a name stands among the members so far, to which its own is added next.
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

// ParseArray splits one JSON array into its elements, judged as ParseObject judges. It stops with a LimitError at the
// first element beyond limit.
func ParseArray(b []byte, limit int) ([][]byte, error) { return parseArray(b, limit, MaxDepth) }

// ParseEnvelopeArray is ParseArray for a member of what ParseEnvelope has read.
func ParseEnvelopeArray(b []byte, limit int) ([][]byte, error) {
	return parseArray(b, limit, maxEnvelopeDepth)
}

func parseArray(b []byte, limit, deepest int) ([][]byte, error) {
	s := scanner{b: b, maxDepth: deepest}
	s.skipSpace()
	if s.peek() != '[' {
		return nil, s.syntaxError("an array is wanted")
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

// String decodes a JSON string that ParseObject or ParseArray has judged.
func DecodeString(b []byte) (string, error) {
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

// scanner walks JSON text and remembers nothing but its place. It judges what json.Valid judges, in 60 %
// of its time, and knows depth and the bytes of members besides: sending an event pays for it every time.
type scanner struct {
	b        []byte
	pos      int
	maxDepth int // how deep containers may be nested
}

func (s *scanner) syntaxError(reason string) error {
	return &SyntaxError{Offset: s.pos, Reason: reason}
}

// peek is the next byte, or 0 at the end: no JSON has one outside of strings.
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

func (s *scanner) expectEnd() error {
	if s.skipSpace(); s.pos < len(s.b) {
		return s.syntaxError("something follows the end of the JSON")
	}
	return nil
}

// value skips one value at the given depth.
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
	return s.syntaxError("a JSON value is wanted")
}

// members skips an object; each is told of the members, nil for nobody.
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
			return s.syntaxError("a member name in quotes is wanted")
		}
		name := s.pos
		if err := s.skipString(); err != nil {
			return err
		}
		nameEnd := s.pos
		if s.skipSpace(); s.peek() != ':' {
			return s.syntaxError("a colon is wanted")
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

// elements skips an array; each is told of the elements, nil for nobody.
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

// more reads what stands behind a member or an element.
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
	return false, s.syntaxError("a comma or the end of the container is wanted")
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

// escape is the length of the escape that b begins with, 0 if it is none.
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
	if s.peek() == '-' {
		s.pos++
	}
	switch c := s.peek(); {
	case c == '0':
		s.pos++
	case c >= '1' && c <= '9':
		s.skipDigits()
	default:
		return s.syntaxError("a digit is wanted")
	}
	if s.peek() == '.' {
		s.pos++
		if !s.skipDigits() {
			return s.syntaxError("a digit is wanted")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if !s.skipDigits() {
			return s.syntaxError("a digit is wanted")
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
		return s.syntaxError("a JSON value is wanted")
	}
	s.pos += len(word)
	return nil
}
