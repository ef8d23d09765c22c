package event

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// maxJSONDepth bounds the arrays and objects inside each other of a body that counts as JSON: as many as ClickHouse
// reads. The library calls itself for each, and the stack of a body of ten million brackets ends the process.
const maxJSONDepth = 1024

// ValidJSON reports whether a body is JSON that is nested at most 1,024 deep.
func ValidJSON(body []byte) bool {
	// Brackets are rare, and counting them is much faster than looking at every byte.
	if bytes.Count(body, []byte{'['})+bytes.Count(body, []byte{'{'}) > maxJSONDepth && tooDeep(body) {
		return false
	}
	return gjson.ValidBytes(body)
}

// JSON is a body that ValidJSON has accepted: gjson may give anything for another. Only ParseJSON makes one.
type JSON struct{ body []byte }

// ParseJSON checks a body, and reports whether it is JSON within the bounds.
func ParseJSON(body []byte) (doc JSON, ok bool) {
	if !ValidJSON(body) {
		return JSON{}, false
	}
	return JSON{body}, true
}

// Root is the whole document.
func (j JSON) Root() gjson.Result { return gjson.ParseBytes(j.body) }

// Lookup returns the value at the path.
func (j JSON) Lookup(p BodyPath) gjson.Result { return gjson.GetBytes(j.body, string(p)) }

func tooDeep(body []byte) bool {
	depth, text := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '[' || c == '{':
			if depth++; depth > maxJSONDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}
