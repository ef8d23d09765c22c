package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/pkg/web"
)

// argument is an argument of a tool.
type argument struct {
	name, about string
	required    bool
	schema      map[string]any             // JSON Schema of its values
	values      string                     // the same in words
	accepts     func(json.RawMessage) bool // the same as code
}

// maxArgument is the number of characters of a string whose tag "most" has no other.
const maxArgument = 256

// argumentsOf returns the arguments that the type of a tool's input has.
func argumentsOf[In any]() []argument {
	var all []argument
	for _, f := range reflect.VisibleFields(reflect.TypeFor[In]()) {
		if f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		a := argument{name: name, about: f.Tag.Get("jsonschema"), required: options != "omitempty"}
		most, err := strconv.Atoi(f.Tag.Get("most"))
		if err != nil {
			most = maxArgument
		}
		switch f.Type.Kind() {
		case reflect.Int:
			a.schema = map[string]any{"type": "integer", "minimum": 1, "maximum": most}
			a.values = fmt.Sprintf("an integer from 1 to %d", most)
			a.accepts = valid(func(n int) bool { return n >= 1 && n <= most })
		case reflect.Bool:
			a.schema, a.values = map[string]any{"type": "boolean"}, "true or false"
			a.accepts = valid(func(bool) bool { return true })
		default:
			a.schema = map[string]any{"type": "string", "maxLength": most}
			a.values = fmt.Sprintf("a string of at most %d characters", most)
			var words []string
			if text := f.Tag.Get("values"); text != "" {
				words = strings.Split(text, ",")
				a.schema["enum"], a.values = words, "one of "+strings.Join(words, ", ")
			}
			a.accepts = valid(func(text string) bool {
				return utf8.RuneCountInString(text) <= most && (words == nil || slices.Contains(words, text))
			})
		}
		a.schema["description"] = a.about
		all = append(all, a)
	}
	return all
}

// valid returns a function that reports whether a JSON value is one of a type, and allowed.
func valid[T any](allowed func(T) bool) func(json.RawMessage) bool {
	return func(value json.RawMessage) bool {
		var v *T
		return json.Unmarshal(value, &v) == nil && v != nil && allowed(*v)
	}
}

// schemaOf returns the JSON Schema of a tool's input.
func schemaOf(arguments []argument) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, a := range arguments {
		if properties[a.name] = a.schema; a.required {
			required = append(required, a.name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// decode reads the arguments of a call into those of the tool. The error says which one is wrong.
func decode(call *sdk.CallToolParamsRaw, arguments []argument, into any) error {
	if problem := problemOf(call.Name, call.Arguments, arguments); problem != "" {
		return errors.New("invalid_request: " + problem)
	}
	if len(call.Arguments) == 0 {
		return nil
	}
	return json.Unmarshal(call.Arguments, into)
}

// problemOf says which argument is wrong and what is allowed; empty if none is wrong. A name that is misspelt comes
// before the argument that is missing for it.
func problemOf(tool string, raw json.RawMessage, arguments []argument) string {
	var given map[string]json.RawMessage
	if len(raw) > 0 && json.Unmarshal(raw, &given) != nil {
		return "arguments: must be an object"
	}
	names := make([]string, len(arguments))
	for i, a := range arguments {
		names[i] = a.name
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			return unknown(tool, name, names)
		}
	}
	for _, a := range arguments {
		value, found := given[a.name]
		switch {
		case !found && a.required:
			return a.name + ": is required: " + a.about
		case found && !a.accepts(value):
			return a.name + ": must be " + a.values + ": " + a.about
		}
	}
	return ""
}

// unknown says that a tool has no argument of this name, and which ones it has.
func unknown(tool, name string, names []string) string {
	text := fmt.Sprintf("%s: is no argument of %s", cleanText(name, 40), tool)
	separator := "; "
	if best := web.Nearest(strings.ToLower(name), names, len(name)/3+1); best != "" {
		text, separator = text+fmt.Sprintf("; did you mean %q", best), "? "
	}
	return text + separator + "it has " + strings.Join(names, ", ")
}
