package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/eventrelay/relay/pkg/nearest"
)

// argument is an argument of a tool, as the schema of its input describes it.
type argument struct {
	name, about string
	kind        reflect.Kind // String, Int or Bool
	required    bool
}

// argumentsOf returns the arguments that the type of a tool's input has.
func argumentsOf[In any]() []argument {
	var all []argument
	for _, f := range reflect.VisibleFields(reflect.TypeFor[In]()) {
		if f.Anonymous {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, argument{name, f.Tag.Get("jsonschema"), f.Type.Kind(), options != "omitempty"})
	}
	return all
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
		return "an integer"
	case reflect.Bool:
		return "true or false"
	}
	return "a string"
}

// accepts reports whether a JSON value has the argument's type.
func (a *argument) accepts(value json.RawMessage) bool {
	if string(value) == "null" {
		return false
	}
	switch a.kind {
	case reflect.Int:
		return json.Unmarshal(value, new(int)) == nil
	case reflect.Bool:
		return json.Unmarshal(value, new(bool)) == nil
	}
	return json.Unmarshal(value, new(string)) == nil
}
