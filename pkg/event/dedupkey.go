package event

import (
	"errors"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// DedupKey says where the value stands that tells the events of a provider apart: `body:$.id` or
// `header:X-GitHub-Delivery`, read like a type source. Made by ParseDedupKey.
type DedupKey struct{ part typePart }

// ParseDedupKey reads the text form. There are no alternatives and no constants: two requests are the same
// event when one place has one value.
func ParseDedupKey(s string) (DedupKey, error) {
	if kind, _, _ := strings.Cut(s, ":"); kind != "body" && kind != "header" || strings.Contains(s, "|") {
		return DedupKey{}, errors.New("want one of body:$.path and header:Name")
	}
	part, err := parsePart(s)
	return DedupKey{part}, err
}

// Of returns the value of a received event: a string that is not empty, or a number as it is written. Anything
// else, and a body that is not JSON, has none: false.
func (k DedupKey) Of(header http.Header, body []byte) (value string, ok bool) {
	if k.part.kind == "header" {
		value = header.Get(k.part.value)
		return value, value != ""
	}
	doc, valid := ParseJSON(body)
	if !valid {
		return "", false
	}
	switch r := doc.Lookup(BodyPath(k.part.value)); r.Type {
	case gjson.Number:
		return r.Raw, true
	case gjson.String:
		return r.Str, r.Str != ""
	default:
		return "", false
	}
}
