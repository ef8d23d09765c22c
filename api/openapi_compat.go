package api

import (
	"encoding/json"
	"slices"
	"strings"
)

// compatDocument returns the OpenAPI document, given as JSON, in version 3.0.3 for generators that do not read 3.1.
// null is written as nullable, const as enum, and what 3.0 cannot express is left out: a schema allows at least what it
// allows in 3.1.
func compatDocument(document []byte) ([]byte, error) {
	var whole map[string]any
	if err := json.Unmarshal(document, &whole); err != nil {
		return nil, err
	}
	c := compat{named: whole["components"].(map[string]any)["schemas"].(map[string]any)}
	whole = c.rewrite(whole).(map[string]any)
	for _, s := range whole["components"].(map[string]any)["schemas"].(map[string]any) {
		delete(s.(map[string]any), "nullable") // each reference says it: generators lose it here, or what is named so
	}
	whole["openapi"] = "3.0.3"
	delete(whole, "webhooks")
	info := whole["info"].(map[string]any)
	delete(info, "summary")
	delete(info["license"].(map[string]any), "identifier")
	return json.Marshal(whole)
}

// compat rewrites schemas of OpenAPI 3.1 in 3.0.
type compat struct {
	named map[string]any // the named schemas of the document, as they were
}

// rewrite rewrites all schemas in a part of the document.
func (c compat) rewrite(part any) any {
	switch part := part.(type) {
	case []any:
		out := make([]any, len(part))
		for i, v := range part {
			out[i] = c.rewrite(v)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for name, v := range part {
			switch name {
			case "schema":
				out[name] = c.schema(v)
			case "schemas":
				out[name] = c.schemas(v.(map[string]any))
			case "example", "examples":
				out[name] = v
			default:
				out[name] = c.rewrite(v)
			}
		}
		return out
	}
	return part
}

// schemas rewrites schemas by name. Members that must be absent or null are left out.
func (c compat) schemas(all map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range all {
		if v != false && !isNullSchema(v) {
			out[name] = c.schema(v)
		}
	}
	return out
}

// compatLeftOut are keywords that 3.0 does not have, and uniqueItems: a generator makes sets of such arrays and assigns
// arrays to them.
var compatLeftOut = []string{"$comment", "contentEncoding", "contentMediaType", "contentSchema", "else", "examples",
	"if", "propertyNames", "then", "uniqueItems"}

func (c compat) schema(v any) map[string]any {
	in, ok := v.(map[string]any)
	if !ok {
		return map[string]any{} // true
	}
	if ref, ok := in["$ref"].(string); ok {
		only := map[string]any{"$ref": ref} // 3.0 has nothing beside it
		if !c.allowsNull(ref) {
			return only
		}
		target := c.schema(c.named[strings.TrimPrefix(ref, "#/components/schemas/")])
		if kind := target["type"]; kind != nil && kind != "object" {
			return target
		}
		return map[string]any{"allOf": []any{only}, "nullable": true}
	}
	out, nullable := map[string]any{}, false
	for name, v := range in {
		switch name {
		case "const":
			out["enum"] = []any{v}
		case "type":
			if types, ok := v.([]any); ok {
				rest := slices.DeleteFunc(slices.Clone(types), func(t any) bool { return t == "null" })
				nullable = nullable || len(rest) < len(types)
				if len(rest) > 1 {
					continue
				}
				v = rest[0]
			}
			out[name] = v
		case "enum":
			out[name] = slices.DeleteFunc(slices.Clone(v.([]any)), func(value any) bool { return value == nil })
		case "not", "oneOf", "anyOf", "allOf":
		case "properties":
			out[name] = c.schemas(v.(map[string]any))
		case "items", "additionalProperties":
			if _, isBool := v.(bool); !isBool || name == "items" {
				v = c.schema(v)
			}
			out[name] = v
		default:
			if !slices.Contains(compatLeftOut, name) {
				out[name] = v
			}
		}
	}
	for _, name := range []string{"allOf", "oneOf", "anyOf"} {
		nullable = c.addAlternatives(out, in, name) || nullable
	}
	if nullable {
		out["nullable"] = true
	}
	if out["type"] != "array" { // a generator takes whatever has items for a list without a name
		delete(out, "items")
	}
	return out
}

// addAlternatives adds the schemas of allOf, oneOf or anyOf, and reports whether null was one. A single one beside null
// is no alternative: its keywords are added, or a reference to it if it is an object.
func (c compat) addAlternatives(out, in map[string]any, name string) (nullable bool) {
	all, _ := in[name].([]any)
	nullable = slices.ContainsFunc(all, isNullSchema)
	_, hasMembers := in["properties"]
	if _, hasParts := in["allOf"]; name != "allOf" && (hasMembers || hasParts) {
		return nullable // they say only which members are required
	}
	var rest []any
	for _, v := range all {
		s := v.(map[string]any)
		ref, isRef := s["$ref"].(string)
		switch {
		case isRef:
			rest = append(rest, map[string]any{"$ref": ref})
			nullable = nullable || name != "allOf" && c.allowsNull(ref)
		case !isNullSchema(s) && !isCondition(s):
			rest = append(rest, c.schema(s))
		}
	}
	switch {
	case len(rest) == 0:
	case len(rest) > 1 || name == "allOf":
		out[name] = rest
	default:
		only := rest[0].(map[string]any)
		if ref, ok := only["$ref"].(string); ok {
			target := c.schema(c.named[strings.TrimPrefix(ref, "#/components/schemas/")])
			if kind := target["type"]; kind == nil || kind == "object" {
				out["allOf"] = []any{only}
				return nullable
			}
			only = target
		}
		for keyword, v := range only {
			if _, ok := out[keyword]; !ok {
				out[keyword] = v
			}
		}
	}
	return nullable
}

// allowsNull reports whether null is valid for the named schema of a reference.
func (c compat) allowsNull(ref string) bool {
	s, _ := c.named[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
	types, _ := s["type"].([]any)
	one, _ := s["oneOf"].([]any)
	anyOf, _ := s["anyOf"].([]any)
	return slices.Contains(types, any("null")) || slices.ContainsFunc(slices.Concat(one, anyOf), isNullSchema)
}

func isNullSchema(v any) bool {
	s, ok := v.(map[string]any)
	return ok && s["type"] == "null"
}

// isCondition reports whether a schema only says which members are required.
func isCondition(s map[string]any) bool {
	for keyword := range s {
		if keyword != "required" && keyword != "if" && keyword != "then" {
			return false
		}
	}
	return true
}
