package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/pkg/nearest"
)

// argument is an argument of a tool, as the schema of its input describes it.
type argument struct {
	name, about string
	kind        reflect.Kind // String, Int or Bool
	required    bool
	most        int      // of an integer, which is 1 at least, or of the characters of a string
	values      []string // that a string may have; nil: any
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
		a := argument{name: name, about: f.Tag.Get("jsonschema"), kind: f.Type.Kind(), required: options != "omitempty",
			most: maxArgument}
		if most, err := strconv.Atoi(f.Tag.Get("most")); err == nil {
			a.most = most
		}
		if values := f.Tag.Get("values"); values != "" {
			a.values = strings.Split(values, ",")
		}
		all = append(all, a)
	}
	return all
}

// schemaOf returns the JSON Schema of a tool's input.
func schemaOf(arguments []argument) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, a := range arguments {
		p := map[string]any{"description": a.about}
		switch a.kind {
		case reflect.Int:
			p["type"], p["minimum"], p["maximum"] = "integer", 1, a.most
		case reflect.Bool:
			p["type"] = "boolean"
		default:
			p["type"], p["maxLength"] = "string", a.most
		}
		if a.values != nil {
			p["enum"] = a.values
		}
		if properties[a.name] = p; a.required {
			required = append(required, a.name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// nameArguments says which argument of a refused call is wrong: the SDK's answer is that of its library for schemas,
// and names no argument that would do.
func (s *Server) nameArguments(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		call, isCall := req.(*sdk.CallToolRequest)
		refused, isAnswer := result.(*sdk.CallToolResult)
		if err != nil || !isCall || !isAnswer || !refused.IsError {
			return result, err
		}
		if problem := problemOf(call.Params.Name, call.Params.Arguments, s.tools[call.Params.Name]); problem != "" {
			refused.Content = []sdk.Content{&sdk.TextContent{Text: "invalid_request: " + problem}}
		}
		return refused, nil
	}
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
			return a.name + ": is required" + a.hint()
		case found && !a.accepts(value):
			return a.name + ": must be " + a.kindText() + a.hint()
		}
	}
	return ""
}

// unknown says that a tool has no argument of this name, and which ones it has.
func unknown(tool, name string, names []string) string {
	text := fmt.Sprintf("%s: is no argument of %s", cleanText(name, 40), tool)
	separator := "; "
	if best := nearest.Name(strings.ToLower(name), names, len(name)/3+1); best != "" {
		text, separator = text+fmt.Sprintf("; did you mean %q", best), "? "
	}
	return text + separator + "it has " + strings.Join(names, ", ")
}

func (a *argument) hint() string {
	if a.about == "" {
		return ""
	}
	return ": " + a.about
}

func (a *argument) kindText() string {
	switch a.kind {
	case reflect.Int:
		return fmt.Sprintf("an integer from 1 to %d", a.most)
	case reflect.Bool:
		return "true or false"
	}
	if a.values != nil {
		return "one of " + strings.Join(a.values, ", ")
	}
	return fmt.Sprintf("a string of at most %d characters", a.most)
}

// accepts reports whether a JSON value is one of the argument's.
func (a *argument) accepts(value json.RawMessage) bool {
	if string(value) == "null" {
		return false
	}
	switch a.kind {
	case reflect.Int:
		var n int
		return json.Unmarshal(value, &n) == nil && n >= 1 && n <= a.most
	case reflect.Bool:
		return json.Unmarshal(value, new(bool)) == nil
	}
	var text string
	return json.Unmarshal(value, &text) == nil && utf8.RuneCountInString(text) <= a.most &&
		(a.values == nil || slices.Contains(a.values, text))
}
