// Package filter decides which events a destination gets: by type, by scalars in the body at dotted paths, by a pattern
// and by an expression (package expr). The conditions of all destinations of an endpoint are evaluated together
// (conditions.go), those on scalars in one pass over the body (bodyfilter.go).
package filter

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Filter selects events. An event must match every part that is set.
type Filter struct {
	Types []string       `json:"types,omitempty" in:"own" nullable:"true"` // exact, or a prefix followed by ".*"
	Body  map[string]any `json:"body,omitempty" in:"own" nullable:"true"`  // dotted path → JSON scalar
	// Match is a pattern as expr.ParseMatch reads it.
	Match json.RawMessage `json:"match,omitempty" in:"own" nullable:"true"`
	When  string          `json:"when,omitempty" in:"own" nullable:"true"` // an expression of the type bool
}

// IsEmpty reports whether the filter lets every event pass.
func (f *Filter) IsEmpty() bool { return f == nil || len(f.Types) == 0 && !f.HasConditions() }

// MatchesType reports whether the event type passes the filter.
func (f *Filter) MatchesType(typ string) bool {
	return f == nil || len(f.Types) == 0 || matchesType(f.Types, typ)
}

// HasConditions reports whether the filter has conditions beside the type.
func (f *Filter) HasConditions() bool {
	return f != nil && (len(f.Body) > 0 || len(f.Match) > 0 || f.When != "")
}

// matchesType supports exact types and prefixes: order.* matches order. followed by anything.
func matchesType(patterns []string, typ string) bool {
	for _, p := range patterns {
		prefix, ok := strings.CutSuffix(p, "*")
		if ok && strings.HasSuffix(prefix, ".") && strings.HasPrefix(typ, prefix) || p == typ {
			return true
		}
	}
	return false
}

// EqualScalar compares a configured scalar with one of the document. Numbers are equal when they have the same text or
// the same value.
func EqualScalar(want, got any) bool {
	number, ok := got.(json.Number)
	if !ok {
		switch got.(type) {
		case nil, bool, string:
			return want == got
		}
		return false
	}
	switch w := want.(type) {
	case json.Number:
		return w == number || sameFloat(w.String(), number.String())
	case float64:
		return sameFloat(strconv.FormatFloat(w, 'g', -1, 64), number.String())
	case int:
		return sameFloat(strconv.Itoa(w), number.String())
	}
	return false
}

// sameFloat compares numbers by value where a float64 is exact; larger integers must have the same text.
func sameFloat(a, b string) bool {
	const exact = 1 << 53 // integers up to here are exact in a float64
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err1 == nil && err2 == nil && x == y && (a == b || x > -exact && x < exact)
}
