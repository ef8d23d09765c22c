package config

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Matches reports whether a destination with the filter wants an event of that type and body.
func (f *Filter) Matches(typ string, body []byte) bool {
	return f.MatchesType(typ) && f.MatchesBody(body)
}

// MatchesBody is the part of Matches that needs the body. A body that is not JSON, or nested deeper than event.JSON
// allows, matches no condition.
func (f *Filter) MatchesBody(body []byte) bool {
	return !f.NeedsBody() || newBodyFilters([]*Filter{f}).Match(body)[0]
}

// MatchesType is the part of Matches that needs no body.
func (f *Filter) MatchesType(typ string) bool {
	return f == nil || len(f.Types) == 0 || matchesType(f.Types, typ)
}

// NeedsBody reports whether there is a condition on the body.
func (f *Filter) NeedsBody() bool { return f != nil && len(f.Body) > 0 }

// matchesType knows exact types and prefixes: order.* stands for order. and anything behind it.
func matchesType(patterns []string, typ string) bool {
	for _, p := range patterns {
		prefix, ok := strings.CutSuffix(p, "*")
		if ok && strings.HasSuffix(prefix, ".") && strings.HasPrefix(typ, prefix) || p == typ {
			return true
		}
	}
	return false
}

// equalScalar compares a configured scalar with one of the document. Numbers are equal when they are
// written alike or have the same value.
func equalScalar(want, got any) bool {
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

// sameFloat compares by value what floats can tell apart; longer integers must be written alike.
func sameFloat(a, b string) bool {
	const exact = 1 << 53 // integers up to here are exact in a float64
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err1 == nil && err2 == nil && x == y && (a == b || x > -exact && x < exact)
}
