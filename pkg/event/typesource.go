package event

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"golang.org/x/net/http/httpguts"
)

// maxType bounds an event type, in bytes.
const maxType = 128

// TypeRule says what ValidType accepts, to end a sentence that begins with the parameter.
const TypeRule = "must be 1 to 128 bytes of text, without spaces and characters that cannot be seen"

// ValidType reports whether a text may be an event type: what a provider sends is one, such as orders/create or
// customer.subscription.updated, and applications may send the same. A received value that is none counts as no type.
func ValidType(s string) bool { return s != "" && cleanType(visible(s)) == s }

// maxTypeParts bounds the alternatives of a type source: each may read the whole body, for every event.
const maxTypeParts = 4

// TypeSource says where the type of a received event comes from: `body:$.a.b`, `header:X-Name` or the constant in
// `const:order.created`.
// Alternatives are separated by `|`; the first that yields a value wins. The zero value yields no type.
type TypeSource struct{ parts []typePart }

type typePart struct {
	kind  string // body, header, const
	value string // path, canonical header name, or the type itself
}

// ParseTypeSource reads the text form; "" yields the zero value. With more than maxTypeParts alternatives it returns an
// error together with the first ones: an endpoint that was saved before the limit existed keeps using these.
func ParseTypeSource(s string) (TypeSource, error) {
	var t TypeSource
	if s == "" {
		return t, nil
	}
	for text := range strings.SplitSeq(s, "|") {
		if len(t.parts) == maxTypeParts {
			return t, fmt.Errorf("has more than %d alternatives", maxTypeParts)
		}
		part, err := parsePart(text)
		if err != nil {
			return TypeSource{}, err
		}
		t.parts = append(t.parts, part)
	}
	return t, nil
}

func parsePart(text string) (typePart, error) {
	kind, value, _ := strings.Cut(text, ":")
	switch kind {
	case "body":
		path, err := ParseBodyPath(value)
		if err != nil {
			return typePart{}, err
		}
		value = string(path)
	case "header":
		if !httpguts.ValidHeaderFieldName(value) {
			return typePart{}, fmt.Errorf("%q is not a valid header name", value)
		}
		value = http.CanonicalHeaderKey(value)
	case "const":
		if cleanType(value) == "" {
			return typePart{}, fmt.Errorf(
				"constant type must have 1 to %d bytes, without spaces and control characters", maxType)
		}
	default:
		return typePart{}, errors.New("want body:$.path, header:Name or const:type")
	}
	return typePart{kind, value}, nil
}

// Of returns the type of a received event, or "". The alternatives that read the body yield nothing when it is not
// JSON.
func (t TypeSource) Of(header http.Header, body []byte) string {
	var doc JSON
	valid, checked := false, false
	for _, p := range t.parts {
		v := p.value
		switch p.kind {
		case "header":
			v = visible(header.Get(p.value))
		case "body":
			if !checked {
				doc, valid = ParseJSON(body)
				checked = true
			}
			v = ""
			if valid {
				if r := doc.Lookup(BodyPath(p.value)); r.Type == gjson.String {
					v = visible(r.Str)
				}
			}
		}
		if v = cleanType(v); v != "" {
			return v
		}
	}
	return ""
}

func cleanType(s string) string {
	if len(s) > maxType || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\ufffd' }) {
		return ""
	}
	return s
}

// visible returns a received text, or "" if it has characters that web.IsPrintable refuses, which this package cannot
// import: a no-break space, or a control character beyond ASCII. Types are shown to people who decide by them.
func visible(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) {
		return ""
	}
	return s
}

// BodyPath names a member of a JSON body in the syntax of [gjson]. ParseBodyPath makes one.
type BodyPath string

// maxPathDepth bounds the members in a path.
const maxPathDepth = 16

// ParseBodyPath reads a dotted path, with or without a leading `$.`, of at most 16 members and 256 bytes. Numbers are
// array indexes. All characters are literal: there are no wildcards, queries or modifiers.
func ParseBodyPath(s string) (BodyPath, error) {
	s = strings.TrimPrefix(s, "$.")
	members := strings.Split(s, ".")
	if len(s) > 256 || len(members) > maxPathDepth {
		return "", fmt.Errorf("path may have at most %d members and 256 bytes", maxPathDepth)
	}
	var b strings.Builder
	for i, m := range members {
		if m == "" {
			return "", errors.New("path has an empty member")
		}
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(gjson.Escape(m))
	}
	return BodyPath(b.String()), nil
}

// PathDoubt returns what is probably wrong with a path that ParseBodyPath accepts, or "". Such a path is valid, because
// members may have these names, but it was probably meant in another syntax and then matches nothing.
func PathDoubt(s string) string {
	const literal = "is looked up as the name of a member, because all characters but dots are literal"
	if strings.HasPrefix(s, "/") {
		return fmt.Sprintf("the / at the beginning %s; write %s", literal, "data.order.id for /data/order/id")
	}
	for m := range strings.SplitSeq(strings.TrimPrefix(s, "$."), ".") {
		switch {
		case m == "*" || strings.HasSuffix(m, "[*]"):
			return fmt.Sprintf("%q %s; a path names one value, as in data.items.0.id", m, literal)
		case strings.HasSuffix(m, "]") && strings.Contains(m, "["):
			return fmt.Sprintf("%q %s; write items.0 for items[0]", m, literal)
		}
	}
	return ""
}
