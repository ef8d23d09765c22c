package control

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Matches reports whether a destination with the filter wants an event of that type and body. A body that
// is not JSON matches no condition on the body.
func (f *Filter) Matches(typ string, body []byte) bool {
	return f.MatchesType(typ) && (!f.OnBody() || matchesBody(f.Body, body))
}

// MatchesType is the part of Matches that needs no body.
func (f *Filter) MatchesType(typ string) bool {
	return f == nil || len(f.Types) == 0 || matchesType(f.Types, typ)
}

// OnBody reports whether there is a condition on the body.
func (f *Filter) OnBody() bool { return f != nil && len(f.Body) > 0 }

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

func matchesBody(conditions map[string]any, body []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber() // 12345678901234567890 and …891 are different numbers
	var doc any
	if dec.Decode(&doc) != nil {
		return false
	}
	if _, err := dec.Token(); err == nil {
		return false // something follows the document
	}
	for path, want := range conditions {
		got, ok := lookUp(doc, strings.TrimPrefix(path, "$."))
		if !ok || !equalScalar(want, got) {
			return false
		}
	}
	return true
}

// lookUp follows a dotted path through objects and, by number, arrays.
func lookUp(doc any, path string) (any, bool) {
	for part := range strings.SplitSeq(path, ".") {
		switch v := doc.(type) {
		case map[string]any:
			next, ok := v[part]
			if !ok {
				return nil, false
			}
			doc = next
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			doc = v[i]
		default:
			return nil, false
		}
	}
	return doc, true
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
