package event

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// maxJSONDepth bounds the nesting of a body that counts as JSON. ClickHouse reads the same depth. gjson recurses for
// each level: the stack that a body of ten million brackets needs would end the process.
const maxJSONDepth = 1024

// ValidJSON reports whether a body is JSON that is nested at most 1,024 deep.
func ValidJSON(body []byte) bool {
	// Most bodies have few brackets, and counting them is much faster than following the nesting.
	if bytes.Count(body, []byte{'['})+bytes.Count(body, []byte{'{'}) > maxJSONDepth && JSONDepth(body) > maxJSONDepth {
		return false
	}
	return gjson.ValidBytes(body)
}

// JSON is a body that is known to be valid; gjson's answers about an invalid body are undefined. Only ParseJSON makes
// one.
type JSON struct{ body []byte }

// ParseJSON reports whether ValidJSON accepts a body, and returns the document.
func ParseJSON(body []byte) (doc JSON, ok bool) {
	if !ValidJSON(body) {
		return JSON{}, false
	}
	return JSON{body}, true
}

// Root returns the whole document.
func (j JSON) Root() gjson.Result { return gjson.ParseBytes(j.body) }

// Lookup returns the value at the path.
func (j JSON) Lookup(p BodyPath) gjson.Result { return gjson.GetBytes(j.body, string(p)) }

// JSONDepth returns how deep the containers of a valid JSON text are nested: 0 for a scalar.
func JSONDepth(text []byte) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}
