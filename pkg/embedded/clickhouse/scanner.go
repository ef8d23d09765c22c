package clickhouse

import (
	"regexp"
	"strings"
)

// scanner splits a statement into tokens as ClickHouse's lexer does (Lexer.cpp). Where the two could differ it refuses
// the statement: what this scanner reads as a string must be one for the engine too.
type scanner struct{ rest string }

type kind uint8

const (
	endToken     kind = iota
	wordToken         // a bare word or a number
	nameToken         // a quoted identifier, without its quotes
	literalToken      // a string, without its content
	symbolToken
)

type token struct {
	kind kind
	text string
}

// next returns the next token after white space. Comments are refused: ClickHouse's nest and those of other dialects do
// not, and the relay sends none.
func (s *scanner) next() (token, error) {
	s.rest = strings.TrimLeft(s.rest, " \t\r\n\f\v")
	if s.rest == "" {
		return token{kind: endToken}, nil
	}
	for _, mark := range []string{"--", "/*", "//", "#"} {
		if strings.HasPrefix(s.rest, mark) {
			return token{}, newException(
				codeSyntaxError, "SYNTAX_ERROR", "Comments are refused: send the statement without %s", mark)
		}
	}
	switch c := s.rest[0]; {
	case isWordByte(c):
		n := 1
		for n < len(s.rest) && isWordByte(s.rest[n]) {
			n++
		}
		t := token{kind: wordToken, text: s.rest[:n]}
		if c >= '0' && c <= '9' && !number.MatchString(t.text) {
			// after a dot, Lexer.cpp ends the number before the letters
			return token{}, unreadable("letters directly after a number: " + t.text)
		}
		s.rest = s.rest[n:]
		if s.rest != "" && s.rest[0] == '\'' {
			return token{}, unreadable("a string directly after " + t.text) // x'…' and b'…' have no escapes
		}
		return t, nil
	case c == '\'':
		_, err := s.quoted(c)
		return token{kind: literalToken}, err
	case c == '"' || c == '`':
		text, err := s.quoted(c)
		if err == nil && strings.Contains(text, `\`) {
			err = unreadable("a backslash in a quoted name")
		}
		return token{kind: nameToken, text: text}, err
	case c < ' ' || c > '~' || c == '$' || c == '\\':
		return token{}, unreadable("the character " + strings.ToValidUTF8(string(rune(c)), "?"))
	}
	t := token{kind: symbolToken, text: s.rest[:1]}
	s.rest = s.rest[1:]
	return t, nil
}

// number matches a number without sign and dot; a trailing e may be that of 1e-5.
var number = regexp.MustCompile(`^(0[xX][0-9a-fA-F_]+|0[bB][01_]+|[0-9_]+([eE][0-9_]*)?)$`)

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// quoted reads a string or a quoted name and returns the text between the quotes. A quote inside is doubled or escaped
// with a backslash.
func (s *scanner) quoted(quote byte) (string, error) {
	special := string(quote) + `\`
	for at := 1; ; {
		i := strings.IndexAny(s.rest[at:], special)
		if i < 0 {
			return "", unreadable("a string without an end")
		}
		at += i
		switch {
		case s.rest[at] == '\\':
			if at += 2; at > len(s.rest) {
				return "", unreadable("a string without an end")
			}
		case at+1 < len(s.rest) && s.rest[at+1] == quote:
			if quote != '\'' {
				return "", unreadable("a doubled quote in a quoted name")
			}
			at += 2
		default:
			text := s.rest[1:at]
			s.rest = s.rest[at+1:]
			return text, nil
		}
	}
}

func unreadable(what string) error {
	return newException(codeSyntaxError, "SYNTAX_ERROR", "Cannot read the statement safely: it has %s; "+
		"pass strings as parameters", what)
}
