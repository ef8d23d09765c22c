package api

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// operationsOf returns the operations of the document by callName.
func operationsOf(document *yaml.Node) map[string]*yaml.Node {
	operations := map[string]*yaml.Node{}
	for path, item := range members(member(document, "paths")) {
		for method, operation := range members(item) {
			operations[callName(strings.ToUpper(method)+" "+path)] = operation
		}
	}
	return operations
}

// usesSchema reports whether an operation refers to a schema, also through other schemas and components.
func usesSchema(document, operation *yaml.Node, schema string) bool {
	const root = "#/components/"
	seen := map[string]bool{}
	var look func(n *yaml.Node) bool
	look = func(n *yaml.Node) bool {
		if n == nil {
			return false
		}
		if n.Kind == yaml.MappingNode {
			if ref := member(n, "$ref"); ref != nil && strings.HasPrefix(ref.Value, root) {
				kind, name, _ := strings.Cut(strings.TrimPrefix(ref.Value, root), "/")
				if seen[ref.Value] {
					return false
				}
				seen[ref.Value] = true
				return kind == "schemas" && name == schema || look(nodeAt(document, "components", kind, name))
			}
		}
		return slices.ContainsFunc(n.Content, look)
	}
	return look(operation)
}

// deprecationHeaders describe the headers of announce in the OpenAPI document.
var deprecationHeaders = map[string]string{
	"Deprecation": "Since when this call, or something that the request uses or the answer has, is deprecated: `@` and " +
		"seconds since 1970 (RFC 9745).",
	"Sunset": "From when it may be missing (RFC 8594).",
	"Link":   "The page that says what to use instead.",
}

// document returns the OpenAPI document with all entries marked, and the headers on the answers that may have them.
func (t *deprecationTable) document() (*yaml.Node, error) {
	document, err := t.join()
	if err != nil {
		return nil, err
	}
	for i := range t.entries {
		if err := markDeprecated(document, &t.entries[i]); err != nil {
			return nil, fmt.Errorf("deprecation of %s: %w", t.entries[i].Name(), err)
		}
	}
	operations := operationsOf(document)
	described := map[*yaml.Node]bool{}
	for call := range t.calls {
		for _, response := range members(member(operations[call], "responses")) {
			if ref := member(response, "$ref"); ref != nil { // errors of all calls share their responses
				response = nodeAt(document, strings.Split(strings.TrimPrefix(ref.Value, "#/"), "/")...)
			}
			if !described[response] {
				described[response] = true
				addDeprecationHeaders(response)
			}
		}
	}
	return document, nil
}

func addDeprecationHeaders(response *yaml.Node) {
	headers := member(response, "headers")
	if headers == nil {
		headers = mapping()
		addMember(response, "headers", headers)
	}
	for _, name := range slices.Sorted(maps.Keys(deprecationHeaders)) {
		if member(headers, name) != nil {
			continue
		}
		addMember(headers, name,
			mapping("description", deprecationHeaders[name], "schema", mapping("type", "string")))
	}
}

// markDeprecated validates an entry and marks what it names in the document.
func markDeprecated(document *yaml.Node, d *deprecation) error {
	since, err := time.Parse(time.DateOnly, d.Since)
	if err != nil {
		return fmt.Errorf("since: %w", err)
	}
	if d.Sunset != "" {
		sunset, err := time.Parse(time.DateOnly, d.Sunset)
		if err != nil {
			return fmt.Errorf("sunset: %w", err)
		}
		if sunset.Before(since.AddDate(0, 0, noticeDays)) {
			return fmt.Errorf("sunset is less than %d days after it was announced", noticeDays)
		}
	}
	if d.Instead == "" {
		return errors.New("nothing says what to do instead")
	}
	target := d.find(document)
	if target == nil || target.Kind != yaml.MappingNode {
		return errors.New("the OpenAPI document has no such thing")
	}
	if member(target, "$ref") != nil && d.Schema == "" {
		return errors.New("the parameter is shared by several calls: write it out where it is deprecated")
	}
	marks := mapping("deprecated", true, "x-deprecated-since", d.Since, "x-instead", d.Instead,
		"x-sunset", d.Sunset) // the name that oasdiff reads
	target.Content = append(target.Content, marks.Content...)
	return nil
}

// find returns what an entry names in the document, nil if there is no such thing.
func (d *deprecation) find(document *yaml.Node) *yaml.Node {
	if d.Schema != "" {
		return memberOfSchema(nodeAt(document, "components", "schemas", d.Schema), d.Member)
	}
	method, path, _ := strings.Cut(d.Call, " ")
	operation := nodeAt(document, "paths", path, strings.ToLower(method))
	if d.Parameter == "" || operation == nil {
		return operation
	}
	for _, p := range listOf(member(operation, "parameters")) {
		target := p
		if ref := member(p, "$ref"); ref != nil {
			target = nodeAt(document, strings.Split(strings.TrimPrefix(ref.Value, "#/"), "/")...)
		}
		if name := member(target, "name"); name != nil && name.Value == d.Parameter {
			return p
		}
	}
	return nil
}

// memberOfSchema returns a member of a schema, which may be in one of the schemas that it is composed of.
func memberOfSchema(schema *yaml.Node, name string) *yaml.Node {
	if found := nodeAt(schema, "properties", name); found != nil {
		return found
	}
	for _, part := range listOf(nodeAt(schema, "allOf")) {
		if found := memberOfSchema(part, name); found != nil {
			return found
		}
	}
	return nil
}
