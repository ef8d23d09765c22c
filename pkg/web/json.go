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

// fewMembers is up to how many names are compared one by one, as a request's are. Beyond it a map finds a duplicate,
// so that the work grows with the length of the text alone.
const fewMembers = 16

// envelopeDepth is MaxDepth for what holds several requests: each of them is judged for itself, by MaxDepth.
const envelopeDepth = 1000

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
func ParseEnvelope(b []byte) ([]Member, error) { return parseObject(nil, b, envelopeDepth) }

func parseObject(dst []Member, b []byte, deepest int) ([]Member, error) {
	if !utf8.Valid(b) {
		return nil, &SyntaxError{Reason: "text is not UTF-8"}
	}
	s := scanner{b: b, deepest: deepest}
	s.space()
	if s.peek() != '{' {
		return nil, s.fault("an object is wanted")
	}
	first := len(dst)
	var seen names
	err := s.members(0, func(name, value []byte) error {
		text, err := String(name)
		switch {
		case err != nil:
			return err
		case seen.has(dst[first:], text):
			return &DuplicateError{Name: text}
		case len(dst)-first == MaxMembers:
			return s.fault(fmt.Sprintf("an object has more than %d members", MaxMembers))
		}
		dst = append(dst, Member{Name: text, Value: value})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return dst, s.end()
}

// names are those of the members of one object, once they are more than a few.
type names map[string]struct{}

// has reports whether a name stands among the members so far, to which its own is added next.
func (n *names) has(members []Member, name string) bool {
	if len(members) < fewMembers {
		for i := range members {
			if members[i].Name == name {
				return true
			}
		}
		return false
	}
	if *n == nil {
		*n = make(names, 4*fewMembers)
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
	return parseArray(b, limit, envelopeDepth)
}

func parseArray(b []byte, limit, deepest int) ([][]byte, error) {
	s := scanner{b: b, deepest: deepest}
	s.space()
	if s.peek() != '[' {
		return nil, s.fault("an array is wanted")
	}
	var elements [][]byte
	err := s.elements(0, func(value []byte) error {
		if len(elements) == limit {
			return &LimitError{limit}
		}
		elements = append(elements, value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return elements, s.end()
}

// String decodes a JSON string that ParseObject or ParseArray has judged.
func String(b []byte) (string, error) {
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
	b       []byte
	i       int
	deepest int // how deep containers may be nested
}

func (s *scanner) fault(reason string) error { return &SyntaxError{Offset: s.i, Reason: reason} }

// peek is the next byte, or 0 at the end: no JSON has one outside of strings.
func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) end() error {
	if s.space(); s.i < len(s.b) {
		return s.fault("something follows the end of the JSON")
	}
	return nil
}

// value skips one value at the given depth.
func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '"':
		return s.string()
	case c == '{':
		return s.members(depth, nil)
	case c == '[':
		return s.elements(depth, nil)
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	if s.i >= len(s.b) {
		return s.fault("JSON ends early")
	}
	return s.fault("a JSON value is wanted")
}

// members skips an object; each is told of the members, nil for nobody.
func (s *scanner) members(depth int, each func(name, value []byte) error) error {
	if depth > s.deepest {
		return s.fault(fmt.Sprintf("nesting is deeper than %d", s.deepest))
	}
	s.i++
	if s.space(); s.peek() == '}' {
		s.i++
		return nil
	}
	for {
		if s.space(); s.peek() != '"' {
			return s.fault("a member name in quotes is wanted")
		}
		name := s.i
		if err := s.string(); err != nil {
			return err
		}
		nameEnd := s.i
		if s.space(); s.peek() != ':' {
			return s.fault("a colon is wanted")
		}
		s.i++
		s.space()
		value := s.i
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if each != nil {
			if err := each(s.b[name:nameEnd], s.b[value:s.i]); err != nil {
				return err
			}
		}
		if more, err := s.more('}'); !more {
			return err
		}
	}
}

// elements skips an array; each is told of the elements, nil for nobody.
func (s *scanner) elements(depth int, each func(value []byte) error) error {
	if depth > s.deepest {
		return s.fault(fmt.Sprintf("nesting is deeper than %d", s.deepest))
	}
	s.i++
	if s.space(); s.peek() == ']' {
		s.i++
		return nil
	}
	for {
		s.space()
		value := s.i
		if err := s.value(depth + 1); err != nil {
			return err
		}
		if each != nil {
			if err := each(s.b[value:s.i]); err != nil {
				return err
			}
		}
		if more, err := s.more(']'); !more {
			return err
		}
	}
}

// more reads what stands behind a member or an element.
func (s *scanner) more(closing byte) (bool, error) {
	s.space()
	switch s.peek() {
	case ',':
		s.i++
		return true, nil
	case closing:
		s.i++
		return false, nil
	}
	if s.i >= len(s.b) {
		return false, s.fault("JSON ends early")
	}
	return false, s.fault("a comma or the end of the container is wanted")
}

func (s *scanner) string() error {
	b := s.b
	for i := s.i + 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return nil
		case c == '\\':
			n := escape(b[i:])
			if n == 0 {
				s.i = i
				return s.fault("unknown escape in a string")
			}
			i += n - 1
		case c < 0x20:
			s.i = i
			return s.fault("control character in a string")
		}
	}
	s.i = len(b)
	return s.fault("JSON ends early")
}

// escape is the length of the escape that b begins with, 0 if it is none.
func escape(b []byte) int {
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

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.i++
	}
	switch c := s.peek(); {
	case c == '0':
		s.i++
	case c >= '1' && c <= '9':
		s.digits()
	default:
		return s.fault("a digit is wanted")
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return s.fault("a digit is wanted")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return s.fault("a digit is wanted")
		}
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > start
}

func (s *scanner) word(word string) error {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return s.fault("a JSON value is wanted")
	}
	s.i += len(word)
	return nil
}
