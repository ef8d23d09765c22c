package search

import (
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/eventrelay/relay/pkg/event"
)

// MatchesBody evaluates in this process the conditions that searchBody writes as SQL.
func MatchesBody(body []byte, terms []event.BodyMatch) bool {
	return event.ValidJSON(body) && !slices.ContainsFunc(terms, func(m event.BodyMatch) bool {
		return !matchScalar(lookup(gjson.ParseBytes(body), m.Members), m.Values)
	})
}

// lookup returns the value at a path. Of members with the same name the first counts.
func lookup(at gjson.Result, members []string) gjson.Result {
	for _, name := range members {
		var next gjson.Result
		place, err := strconv.ParseUint(name, 10, 31)
		at.ForEach(func(key, value gjson.Result) bool {
			switch {
			case at.IsObject() && key.Str == name, at.IsArray() && err == nil && place == 0:
				next = value
				return false
			}
			place--
			return true
		})
		at = next
	}
	return at
}

func matchScalar(at gjson.Result, values []string) bool {
	switch at.Type {
	case gjson.String:
		return slices.Contains(values, at.Str)
	case gjson.True, gjson.False:
		return slices.Contains(values, at.Raw)
	case gjson.Null:
		return at.Exists() && slices.Contains(values, at.Raw)
	case gjson.Number:
		n, ok := parseNumber(at.Raw)
		return slices.Contains(values, at.Raw) || ok && slices.ContainsFunc(values, func(v string) bool {
			m, ok := parseNumber(v)
			return ok && n.equal(m)
		})
	}
	return false
}
