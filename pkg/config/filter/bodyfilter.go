package filter

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/eventrelay/relay/pkg/event"
)

// BodyFilters evaluates the body conditions of all destinations of an endpoint together. It validates the body once and
// then reads it along the paths of the conditions: with a longest path of n members it reads no part more than n times.
// It builds no tree of the document, so its memory depends on the conditions only. It never changes.
type BodyFilters struct {
	root         pathNode
	conditions   int
	destinations []int // by condition: index of its destination
	filterCount  int
}

// pathNode is one member of the paths; the root is the document.
type pathNode struct {
	conditions []bodyCondition // conditions whose paths end here
	children   []*pathNode
	byName     map[string]int // of children
	byIndex    map[int][]int  // of children, when the value is an array; "1" and "01" are the same index
	lastIndex  int            // highest key of byIndex
}

// bodyCondition compares the value at a path with a scalar; number is its index in the result.
type bodyCondition struct {
	number int
	want   any
}

// NewBodyFilters returns the body conditions of filters, one for each destination; nil: it has none.
func NewBodyFilters(filters []*Filter) *BodyFilters {
	b := &BodyFilters{filterCount: len(filters)}
	for i, f := range filters {
		if f == nil {
			continue
		}
		for path, want := range f.Body {
			b.root.add(strings.TrimPrefix(path, "$."), bodyCondition{b.conditions, want})
			b.destinations = append(b.destinations, i)
			b.conditions++
		}
	}
	return b
}

// Match reports, for each destination in order, whether its body conditions match. A destination without conditions
// matches every body; a body that is not JSON, or nested deeper than event.ParseJSON allows, matches none.
func (b *BodyFilters) Match(body []byte) []bool {
	satisfied := make([]bool, b.conditions)
	if doc, ok := event.ParseJSON(body); ok && b.conditions > 0 {
		b.root.evaluate(doc.Root(), satisfied)
	}
	wanted := make([]bool, b.filterCount)
	for i := range wanted {
		wanted[i] = true
	}
	for i, ok := range satisfied {
		wanted[b.destinations[i]] = wanted[b.destinations[i]] && ok
	}
	return wanted
}

// add adds a condition at the end of a dotted path below the node.
func (n *pathNode) add(path string, c bodyCondition) {
	name, rest, more := strings.Cut(path, ".")
	i, known := n.byName[name]
	if !known {
		if n.byName == nil {
			n.byName, n.byIndex = map[string]int{}, map[int][]int{}
		}
		i = len(n.children)
		n.byName[name], n.children = i, append(n.children, &pathNode{})
		if index, err := strconv.Atoi(name); err == nil && index >= 0 {
			n.byIndex[index] = append(n.byIndex[index], i)
			n.lastIndex = max(n.lastIndex, index)
		}
	}
	if child := n.children[i]; more {
		child.add(rest, c)
	} else {
		child.conditions = append(child.conditions, c)
	}
}

// evaluate marks the conditions at and below the node that the value satisfies.
func (n *pathNode) evaluate(v gjson.Result, satisfied []bool) {
	for _, c := range n.conditions {
		satisfied[c.number] = equalJSON(c.want, v)
	}
	if len(n.children) == 0 || v.Type != gjson.JSON {
		return
	}
	// Among members with the same name the last one counts, so find all before descending.
	found := make([]gjson.Result, len(n.children))
	if v.IsObject() {
		v.ForEach(func(key, value gjson.Result) bool {
			if i, ok := n.byName[plainText(key)]; ok {
				found[i] = value
			}
			return true
		})
	} else if len(n.byIndex) > 0 {
		index := 0
		v.ForEach(func(_, value gjson.Result) bool {
			for _, i := range n.byIndex[index] {
				found[i] = value
			}
			index++
			return index <= n.lastIndex
		})
	}
	for i, child := range n.children {
		if found[i].Exists() {
			child.evaluate(found[i], satisfied)
		}
	}
}

// longestEscape is the maximum length in a JSON string of one byte of its value: \u0041.
const longestEscape = 6

// equalJSON is EqualScalar for a value of a document. A string that is too long to be equal is not decoded.
func equalJSON(want any, got gjson.Result) bool {
	switch got.Type {
	case gjson.Null:
		return want == nil
	case gjson.True, gjson.False:
		return want == got.Bool()
	case gjson.Number:
		return EqualScalar(want, json.Number(got.Raw))
	case gjson.String:
		text, ok := want.(string)
		return ok && len(got.Raw) <= longestEscape*len(text)+len(`""`) && text == plainText(got)
	}
	return false
}

// plainText returns the value of a string as encoding/json decodes it: invalid UTF-8, in bytes or escapes, becomes the
// replacement character.
func plainText(r gjson.Result) string {
	if strings.IndexByte(r.Raw, '\\') < 0 && utf8.ValidString(r.Raw) {
		return r.Str
	}
	text := r.Str
	if json.Unmarshal([]byte(r.Raw), &text) != nil {
		return r.Str
	}
	return text
}
