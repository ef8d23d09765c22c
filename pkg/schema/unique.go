package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// uniqueItems replaces the library's uniqueItems, which compares items pair by pair if they are few, or if their hashes
// are equal, as those of [[],[]] and [[[]]] are: a body of a megabyte took it 17 s.
var uniqueItems = &jsonschema.Vocabulary{
	URL: "schema:unique",
	Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
		s := ctx.Enqueue(nil) // what is being compiled
		if !s.UniqueItems {
			return nil, nil
		}
		s.UniqueItems = false
		return unique{}, nil
	},
}

type unique struct{}

func (unique) Validate(ctx *jsonschema.ValidatorContext, v any) {
	items, _ := v.([]any)
	seen := make(map[string]int, len(items))
	var text []byte
	for i, item := range items {
		text = appendItem(text[:0], item)
		if first, ok := seen[string(text)]; ok {
			ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{first, i}})
			return
		}
		seen[string(text)] = i
	}
}

// appendItem appends v as a text that only equal values share. No text is the beginning of another.
func appendItem(b []byte, v any) []byte {
	switch x := v.(type) {
	case map[string]any:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(x)) {
			b = appendItem(appendItem(b, name), x[name])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for _, item := range x {
			b = appendItem(b, item)
		}
		return append(b, ']')
	case string:
		b = strconv.AppendInt(append(b, '"'), int64(len(x)), 10)
		return append(append(b, ':'), x...)
	case json.Number: // without an exponent, see bounded
		return append(append(b, plainNumber(string(x))...), ',')
	case float64:
		// Far from all numbers that are compared exactly, and shorter.
		if exponent := math.Abs(math.Log10(math.Abs(x))); x != 0 && exponent > maxNumber {
			return append(strconv.AppendFloat(b, x, 'e', -1, 64), ',')
		}
		return append(append(b, plainNumber(strconv.FormatFloat(x, 'f', -1, 64))...), ',')
	}
	return fmt.Append(b, v) // true, false or <nil>
}

// plainNumber returns the shortest decimal of a number without an exponent.
func plainNumber(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}
