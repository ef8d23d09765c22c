package api_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/openapi.txt")

const outlineHead = "# Made by: go test ./api -run TestDocumentOutline -update\n"

// The document promises exactly what testdata/openapi.txt lists. A change of the API shows there; a change of how the
// document is written does not.
func TestDocumentOutline(t *testing.T) {
	const file = "testdata/openapi.txt"
	c, err := loadContract()
	if err != nil {
		t.Fatal(err)
	}
	got := outlineHead + outline(c)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the document has changed (-before +now):\n%s", diff)
	}
}

// outline lists what clients rely on, a line for each parameter, header and field, without text and whatever components
// the document uses. What repeats an earlier part is one line.
func outline(c *contract) string {
	o := outliner{contract: c}
	root := &part{}
	for _, of := range []string{"paths", "webhooks"} {
		for path, item := range members(c.source[of]) {
			for method, op := range members(item) {
				root.add(strings.ToUpper(method)+" "+path, o.operation(members(op)))
			}
		}
	}
	var lines strings.Builder
	root.write(&lines, "", map[string]string{})
	return lines.String()
}

// part is a place in the outline with all below it.
type part struct {
	text  string
	parts map[string]*part // by what the name of their place adds
}

func (p *part) add(name string, below *part) {
	if p.parts == nil {
		p.parts = map[string]*part{}
	}
	p.parts[name] = below
}

// whole is the part as a text, to recognise its repetition.
func (p *part) whole() string {
	text := p.text
	for _, name := range slices.Sorted(maps.Keys(p.parts)) {
		text += "\n" + name + "{" + p.parts[name].whole() + "}"
	}
	return text
}

func (p *part) write(to *strings.Builder, place string, seen map[string]string) {
	whole := p.whole()
	if first, again := seen[whole]; again && len(p.parts) > 0 {
		fmt.Fprintf(to, "%s as %s\n", place, first)
		return
	}
	seen[whole] = place
	if p.text != "" {
		fmt.Fprintln(to, place+strings.TrimSuffix(p.text, " "))
	}
	for _, name := range slices.Sorted(maps.Keys(p.parts)) {
		p.parts[name].write(to, place+name, seen)
	}
}

// outliner makes the parts of a document.
type outliner struct{ *contract }

func (o outliner) operation(op map[string]any) *part {
	parameters, _ := op["parameters"].([]any)
	security, isSet := op["security"]
	p := &part{text: fmt.Sprintf(" %v tags %v", op["operationId"], op["tags"])}
	if isSet {
		p.text += fmt.Sprintf(" security %v", security)
	}
	for _, v := range parameters {
		param := o.deref(v)
		p.add(fmt.Sprintf(" %v %v", param["in"], param["name"]), o.schema(param["schema"],
			keywords(param, "name", "in", "schema")))
	}
	if body := members(op["requestBody"]); body != nil {
		p.add(" body", o.response(body))
		p.parts[" body"].text = keywords(body, "content")
	}
	errors := &part{}
	for status, v := range members(op["responses"]) {
		if status >= "4" {
			errors.add(" "+status, o.response(o.deref(v)))
		} else {
			p.add(" "+status, o.response(o.deref(v)))
		}
	}
	p.add(" errors", errors)
	return p
}

func (o outliner) response(response map[string]any) *part {
	p, headers, links := &part{text: " "}, &part{}, &part{} // a line of its own even if there is nothing in it
	for name, v := range members(response["headers"]) {
		header := o.deref(v)
		headers.add(" "+name, o.schema(header["schema"], keywords(header, "schema")))
	}
	for kind, media := range members(response["content"]) {
		p.add(" "+kind, o.schema(at(media, "schema"), keywords(members(media), "schema")))
	}
	for name, v := range members(response["links"]) {
		links.add(" "+name, &part{text: keywords(o.deref(v))})
	}
	p.add(" header", headers)
	p.add(" link", links)
	return p
}

// schema outlines a schema; more is what its place says of it.
func (o outliner) schema(v any, more string) *part {
	if _, always := v.(bool); always {
		return &part{text: fmt.Sprint(more, " ", v)}
	}
	s := o.merged(v)
	if _, ok := s["const"]; ok {
		delete(s, "type") // the value has it
	}
	p := &part{text: more + keywords(s, "properties", "required", "items", "additionalProperties", "propertyNames", "not",
		"if", "then", "contentSchema", "allOf", "anyOf", "oneOf")}
	required, _ := s["required"].([]any)
	fields := members(s["properties"])
	for name, field := range fields {
		kind := ""
		if slices.Contains(required, any(name)) {
			kind = " required"
		}
		p.add("."+name, o.schema(field, kind))
	}
	for _, name := range required {
		if _, known := fields[name.(string)]; !known {
			p.text += fmt.Sprintf(" requires %v", name)
		}
	}
	if items, ok := s["items"]; ok {
		p.add("[]", o.schema(items, ""))
	}
	for _, name := range []string{"additionalProperties", "propertyNames", "not", "if", "then", "contentSchema"} {
		if inner, ok := s[name]; ok {
			p.add("/"+name, o.schema(inner, ""))
		}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := s[name].([]any)
		for i, inner := range list {
			p.add(fmt.Sprintf("/%s%d", name, i), o.schema(inner, ""))
		}
	}
	return p
}

// merged resolves the reference of a schema and adds the schemas that it is composed of. An alternative to null alone
// becomes a type that may be null.
func (o outliner) merged(v any) map[string]any {
	s := maps.Clone(members(v))
	if ref, ok := s["$ref"].(string); ok {
		delete(s, "$ref")
		s = join(o.merged(at(o.source, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)), s)
	}
	all, _ := s["allOf"].([]any)
	if delete(s, "allOf"); len(all) > 0 {
		var conditions []any
		for _, v := range all {
			if inner := o.merged(v); inner["if"] != nil {
				conditions = append(conditions, inner)
			} else {
				s = join(inner, s)
			}
		}
		if conditions != nil {
			s["allOf"] = conditions
		}
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		list, _ := s[name].([]any)
		rest := slices.DeleteFunc(slices.Clone(list), func(v any) bool { return at(v, "type") == "null" })
		if len(list) == 2 && len(rest) == 1 {
			delete(s, name)
			s = join(o.merged(rest[0]), s)
			types, isList := s["type"].([]any)
			if !isList {
				types = []any{s["type"]}
			}
			s["type"] = slices.Concat(types, []any{"null"})
		}
	}
	return s
}

// join adds what a schema says beside another one to it.
func join(s, more map[string]any) map[string]any {
	joined := map[string]any{}
	maps.Copy(joined, s)
	for name, v := range more {
		before := members(s[name])
		switch list, _ := s[name].([]any); {
		case name == "required":
			joined[name] = slices.Concat(list, v.([]any))
		case name == "properties":
			fields := maps.Clone(members(v))
			for field, known := range before {
				if also := members(fields[field]); also != nil {
					known = map[string]any{"allOf": []any{known, also}}
				}
				fields[field] = known
			}
			joined[name] = fields
		case before != nil:
			joined[name] = map[string]any{"allOf": []any{before, v}}
		default:
			joined[name] = v
		}
	}
	return joined
}

// keywords writes the members of a schema or another object in a line, except the given ones and those that are text.
func keywords(of map[string]any, except ...string) (line string) {
	except = append(except, "description", "summary", "title", "example", "examples", "$comment")
	for _, name := range slices.Sorted(maps.Keys(of)) {
		v := of[name]
		if slices.Contains(except, name) {
			continue
		}
		if list, ok := v.([]any); ok && name != "default" {
			v = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return v == nil }) // the type has it
		}
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		line += " " + name + ":" + strings.Trim(string(text), `"`)
	}
	return line
}
