package expr

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// Bounds of a pattern.
const (
	MaxPattern   = 8 << 10 // bytes
	maxPatterns  = 200     // values in it
	patternDepth = 16
)

// Match is a condition as a JSON pattern over the variables of an expression:
//
//	{"body": {"amount": {"$gte": 100}, "tags": "new"}, "headers": {"x-kind": {"$exist": true}}}
//
// A scalar must be equal, or be equal to an element of an array. An object must match member by member, or match an
// element of an array; an array holds patterns that elements match. Operators compare: $eq, $neq (or $ne), $in, $nin,
// $gt, $gte, $lt, $lte, $startsWith, $endsWith, $contains, $exist; and join patterns: $or, $and, $not. What an event
// does not have matches {"$exist": false} only. Operators and their meaning are those of the filters of Outpost,
// Hookdeck and Convoy; values of different types are never equal.
type Match struct{ holds test }

// test is a compiled pattern. v is nil for what the event does not have.
type test func(v ref.Val) bool

// variables are what a pattern may name.
var variables = []string{"body", "headers", "query", "type", "event"}

// ParseMatch compiles a pattern. Its error is an [*Error] that begins with the place in the pattern.
func ParseMatch(raw []byte) (*Match, error) {
	fail := func(format string, args ...any) (*Match, error) {
		return nil, &Error{Message: fmt.Sprintf(format, args...)}
	}
	if len(raw) > MaxPattern {
		return fail("is longer than %d bytes", MaxPattern)
	}
	decoder := stdjson.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var pattern any
	if err := decoder.Decode(&pattern); err != nil {
		return fail("is not JSON: %v", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fail("is more than one JSON value")
	}
	members, ok := pattern.(map[string]any)
	if !ok {
		return fail("must be an object")
	}
	p := patterns{left: maxPatterns}
	for name := range members {
		if !slices.Contains(variables, name) && !strings.HasPrefix(name, "$") {
			return fail("%.100s: is unknown; a pattern begins with %s", name, strings.Join(variables, ", "))
		}
	}
	holds, err := p.compile("", pattern, 0)
	if err != nil {
		return nil, &Error{Message: err.Error()}
	}
	return &Match{holds}, nil
}

// Holds reports whether an event matches the pattern. Its error is an [*Error].
func (m *Match) Holds(in *Input) (bool, error) {
	in.spent = 0
	holds := m.holds(inputMap{in: in})
	if in.spent > maxScan {
		return false, &Error{Message: tooLong}
	}
	return holds, nil
}

// inputMap is an event as a map of its variables.
type inputMap struct {
	ref.Val // none: what CEL asks of a value beside
	in      *Input
}

func (m inputMap) find(name string) ref.Val {
	v, _ := m.in.ResolveName(name)
	found, _ := v.(ref.Val)
	return found
}

// patterns compiles one pattern.
type patterns struct{ left int }

func (p *patterns) compile(at string, pattern any, depth int) (test, error) {
	if p.left--; p.left < 0 || depth > patternDepth {
		return nil, fmt.Errorf("has more than %d values, or is nested deeper than %d", maxPatterns, patternDepth)
	}
	switch pattern := pattern.(type) {
	case map[string]any:
		return p.object(at, pattern, depth)
	case []any:
		all, err := p.each(at, pattern, depth)
		return func(v ref.Val) bool {
			return isList(v) && !slices.ContainsFunc(all, func(t test) bool { return !anyOf(v, t) })
		}, err
	}
	want := native(pattern)
	var equals test
	equals = func(v ref.Val) bool {
		if isList(v) {
			return anyOf(v, equals)
		}
		return v != nil && equal(v, want)
	}
	return equals, nil
}

func (p *patterns) each(at string, list []any, depth int) ([]test, error) {
	all := make([]test, len(list))
	for i := range list {
		var err error
		if all[i], err = p.compile(fmt.Sprintf("%s.%d", at, i), list[i], depth+1); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// object compiles members and operators, which must all hold.
func (p *patterns) object(at string, pattern map[string]any, depth int) (test, error) {
	members, compare, join := map[string]test{}, []test{}, []test{}
	for name, value := range pattern {
		place := strings.TrimPrefix(at+"."+name, ".")
		t, joins, err := p.member(place, name, value, depth)
		switch {
		case err != nil:
			return nil, err
		case joins:
			join = append(join, t)
		case strings.HasPrefix(name, "$"):
			compare = append(compare, t)
		default:
			members[name] = t
		}
	}
	if len(compare) > 0 && len(members) > 0 {
		return nil, fmt.Errorf("%s: has operators beside members", strings.TrimPrefix(at, "."))
	}
	holds := func(v ref.Val) bool {
		for _, t := range slices.Concat(compare, join) {
			if !t(v) {
				return false
			}
		}
		for name, t := range members {
			found, isObject := memberOf(v, name)
			if !isObject || !t(found) {
				return false
			}
		}
		return true
	}
	return func(v ref.Val) bool {
		if isList(v) && len(members) > 0 {
			return anyOf(v, holds)
		}
		return holds(v)
	}, nil
}

// member compiles a member or an operator; joins: the operator is of patterns.
func (p *patterns) member(place, name string, value any, depth int) (t test, joins bool, err error) {
	if !strings.HasPrefix(name, "$") {
		t, err = p.compile(place, value, depth+1)
		return t, false, err
	}
	switch name {
	case "$not":
		not, err := p.compile(place, value, depth+1)
		return func(v ref.Val) bool { return !not(v) }, true, err
	case "$or", "$and":
		list, ok := value.([]any)
		if !ok || len(list) == 0 {
			return nil, false, fmt.Errorf("%s: must be an array of patterns", place)
		}
		all, err := p.each(place, list, depth)
		wanted := name == "$or"
		return func(v ref.Val) bool {
			return slices.ContainsFunc(all, func(t test) bool { return t(v) == wanted }) == wanted
		}, true, err
	}
	if p.left--; p.left < 0 {
		return nil, false, fmt.Errorf("has more than %d values", maxPatterns)
	}
	t, err = comparisonOf(name, value)
	if err != nil {
		err = fmt.Errorf("%s: %w", place, err)
	}
	return t, false, err
}

// comparisonOf compiles an operator that compares with a value.
func comparisonOf(name string, value any) (test, error) {
	want := native(value)
	_, isText := value.(string)
	_, isNumber := value.(stdjson.Number)
	list, isArray := value.([]any)
	texts := isText || isArray && !slices.ContainsFunc(list, func(v any) bool { _, ok := v.(string); return !ok })
	switch name {
	case "$eq":
		return func(v ref.Val) bool { return v != nil && equal(v, want) }, nil
	case "$neq", "$ne":
		return func(v ref.Val) bool { return v != nil && !equal(v, want) }, nil
	case "$gt", "$gte", "$lt", "$lte":
		if isText || isNumber {
			return ordered(name, want), nil
		}
		return nil, fmt.Errorf("must be a number or a string")
	case "$in", "$nin":
		if isText || isArray {
			return func(v ref.Val) bool {
				in, ok := contained(v, want)
				return ok && in == (name == "$in")
			}, nil
		}
		return nil, fmt.Errorf("must be an array, or a string that is looked for")
	case "$startsWith", "$endsWith":
		if texts {
			return affix(name, value), nil
		}
		return nil, fmt.Errorf("must be a string or an array of strings")
	case "$contains":
		return func(v ref.Val) bool {
			if isList(v) {
				return anyOf(v, func(e ref.Val) bool { return equal(e, want) })
			}
			text, ok := v.(types.String)
			return ok && isText && strings.Contains(string(text), value.(string))
		}, nil
	case "$exist":
		if exist, ok := value.(bool); ok {
			return func(v ref.Val) bool { return (v != nil) == exist }, nil
		}
		return nil, fmt.Errorf("must be true or false")
	}
	return nil, fmt.Errorf("is no operator; there are $eq, $neq, $in, $nin, $gt, $gte, $lt, $lte, $startsWith, " +
		"$endsWith, $contains, $exist, $or, $and and $not")
}

// ordered compares two numbers, or two texts by their bytes.
func ordered(name string, want ref.Val) test {
	_, byText := want.(types.String)
	return func(v ref.Val) bool {
		v = plain(v)
		_, isNumber := float(v)
		if _, isText := v.(types.String); isText != byText || !isText && !isNumber {
			return false
		}
		order, _ := v.(traits.Comparer).Compare(want).(types.Int)
		switch name {
		case "$gt":
			return order > 0
		case "$gte":
			return order >= 0
		case "$lt":
			return order < 0
		}
		return order <= 0
	}
}

// contained reports whether a scalar is in a list, or has the wanted text in it; ok is false for other values.
func contained(v, want ref.Val) (in, ok bool) {
	if v == nil || isList(v) || isMap(v) {
		return false, false
	}
	if isList(want) {
		return anyOf(want, func(e ref.Val) bool { return equal(v, e) }), true
	}
	text, ok := v.(types.String)
	return ok && strings.Contains(string(text), string(want.(types.String))), ok
}

func affix(name string, value any) test {
	texts := []string{}
	if one, ok := value.(string); ok {
		texts = append(texts, one)
	} else {
		for _, one := range value.([]any) {
			texts = append(texts, one.(string))
		}
	}
	has := strings.HasPrefix
	if name == "$endsWith" {
		has = strings.HasSuffix
	}
	return func(v ref.Val) bool {
		text, ok := v.(types.String)
		return ok && slices.ContainsFunc(texts, func(t string) bool { return has(string(text), t) })
	}
}

// native returns a value of a pattern.
func native(v any) ref.Val {
	switch v := v.(type) {
	case stdjson.Number:
		f, _ := v.Float64() // a number that is too large compares as infinity
		return plain(number{types.Double(f), v.String()})
	case []any:
		all := make([]ref.Val, len(v))
		for i := range v {
			all[i] = native(v[i])
		}
		return types.NewRefValList(types.DefaultTypeAdapter, all)
	case map[string]any:
		all := make(map[ref.Val]ref.Val, len(v))
		for name := range v {
			all[types.String(name)] = native(v[name])
		}
		return types.NewRefValMap(types.DefaultTypeAdapter, all)
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

func isList(v ref.Val) bool { _, ok := v.(traits.Lister); return ok }

func isMap(v ref.Val) bool { _, ok := v.(traits.Mapper); return ok }

// memberOf returns a member of an object, nil if it has none of this name.
func memberOf(v ref.Val, name string) (found ref.Val, isObject bool) {
	switch v := v.(type) {
	case inputMap:
		return v.find(name), true
	case traits.Mapper:
		found, ok := v.Find(types.String(name))
		if !ok {
			return nil, true
		}
		return found, true
	}
	return nil, false
}

// anyOf reports whether an element of a list passes a test.
func anyOf(v ref.Val, t test) bool {
	for it := v.(traits.Lister).Iterator(); it.HasNext() == types.True; {
		if t(it.Next()) {
			return true
		}
	}
	return false
}
