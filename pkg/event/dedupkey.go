package event

import (
	"errors"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// DedupKey names the place of the deduplication value in a received event: `body:$.id` or `header:X-GitHub-Delivery`,
// in the syntax of a type source. Two events of an endpoint with the same value are the same event. ParseDedupKey makes
// one.
type DedupKey struct{ part typePart }

// ParseDedupKey reads the text form. It refuses alternatives and constants: the value must come from one
// place of the event.
func ParseDedupKey(s string) (DedupKey, error) {
	if kind, _, _ := strings.Cut(s, ":"); kind != "body" && kind != "header" || strings.Contains(s, "|") {
		return DedupKey{}, errors.New("want one of body:$.path and header:Name")
	}
	part, err := parsePart(s)
	return DedupKey{part}, err
}

// Of returns the deduplication value of a received event: a string that is not empty, or a number as it is written. It
// returns false for any other value and for a body that is not JSON.
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

// otherID has the two names of one header: Standard Webhooks took the names of Svix over without its prefix, and
// senders use either.
var otherID = map[string]string{"Webhook-Id": "Svix-Id", "Svix-Id": "Webhook-Id"}

// OfReceived is Of for a request as it came: the id of a webhook has the other of its two names if it has not the one
// that the key asks for.
func (k DedupKey) OfReceived(header http.Header, body []byte) (value string, ok bool) {
	if value, ok = k.Of(header, body); !ok && k.part.kind == "header" {
		value = header.Get(otherID[k.part.value])
	}
	return value, value != ""
}
