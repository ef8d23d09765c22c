package api

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config/kinds"
)

// openapiParts describe the API, one file for each resource with its operations and schemas. They are written by hand;
// tests compare them with the API.
//
//go:embed openapi/*.yaml
var openapiParts embed.FS

// part is a file of the document.
type part struct {
	text  *yaml.Node
	order int // of its place in the document
}

// joinParts merges the parts of the core and those of features into one document: mappings with the same name, such as
// schemas, become one mapping. The operations are written for the routes.
func joinParts(routes []frame.Route, features []wire.Part) (*yaml.Node, error) {
	parts, err := readParts(append([]wire.Part{{Texts: openapiParts}}, features...))
	if err != nil {
		return nil, err
	}
	whole, operations := mapping(), &operationWriter{}
	for _, p := range parts {
		if err := addText(whole, operations, p.text); err != nil {
			return nil, err
		}
	}
	types, err := schemasPart(features)
	if err != nil {
		return nil, err
	}
	if err := addPart(whole, types); err != nil {
		return nil, err
	}
	if err := operations.write(whole, routes); err != nil {
		return nil, err
	}
	expandReferences(whole)
	return whole, nil
}

// readParts reads all YAML files, and sorts them.
func readParts(of []wire.Part) (all []part, err error) {
	for _, p := range of {
		if p.Texts == nil {
			continue
		}
		err := fs.WalkDir(p.Texts, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := fs.ReadFile(p.Texts, path)
			if err != nil {
				return err
			}
			var x yaml.Node
			if err := yaml.Unmarshal(text, &x); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			order, err := strconv.Atoi(valueOf(x.Content[0], "order"))
			if err != nil {
				return fmt.Errorf("%s: its order: %w", path, err)
			}
			all = append(all, part{text: x.Content[0], order: order})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b part) int { return cmp.Compare(a.order, b.order) })
	return all, nil
}

// valueOf returns the text of a member, empty without one.
func valueOf(mapping *yaml.Node, name string) string {
	if x := member(mapping, name); x != nil {
		return x.Value
	}
	return ""
}

// expandReferences completes the references of schemas, which the parts write as a name, and puts the words of tables
// in place of their names.
func expandReferences(n *yaml.Node) {
	if n.Kind == yaml.SequenceNode && len(n.Content) > 0 {
		if words, ok := wire.Words[strings.TrimPrefix(n.Content[0].Value, "@")]; ok && n.Content[0].Value[0] == '@' {
			rest := n.Content[1:]
			n.Content = nil
			for _, word := range words {
				n.Content = append(n.Content, textNode(word))
			}
			n.Content = append(n.Content, rest...)
		} else if n.Content[0].Value == "@kinds" { // alternatives to a url
			n.Content = n.Content[1:]
			for _, name := range kinds.Names() {
				n.Content = append(n.Content, mapping("required", sequence(textNode(name))))
			}
		}
	}
	if ref := member(n, "$ref"); ref != nil && !strings.HasPrefix(ref.Value, "#") {
		ref.Value, ref.Style = "#/components/schemas/"+ref.Value, yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		expandReferences(child)
	}
}

// addText adds what a part says of operations to operations, and the rest of it to the document.
func addText(whole *yaml.Node, operations *operationWriter, part *yaml.Node) (err error) {
	tag := ""
	for name, value := range members(part) {
		switch name {
		case "order":
		case "tag":
			tag = value.Value
		case "about": // what the document says of the tag
			tags := sequence(mapping("name", tag, "description", value))
			if all := member(whole, "tags"); all != nil {
				all.Content = append(all.Content, tags.Content...)
			} else {
				addMember(whole, "tags", tags)
			}
		case "operations":
			err = operations.read(tag, value)
		case "errors":
			err = value.Decode(&operations.errors)
		default:
			err = addPart(whole, mapping(name, value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addPart merges part into whole. Only mappings are merged; any other value in two parts is an error.
func addPart(whole, part *yaml.Node) error {
	for i := 0; i < len(part.Content); i += 2 {
		name, value := part.Content[i], part.Content[i+1]
		existing := member(whole, name.Value)
		switch {
		case existing == nil:
			whole.Content = append(whole.Content, name, value)
		case existing.Kind != yaml.MappingNode || value.Kind != yaml.MappingNode:
			return fmt.Errorf("line %d: another part has %s too", name.Line, name.Value)
		default:
			if err := addPart(existing, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeYAML writes the document as YAML, with the format and comments of the parts.
func writeYAML(document *yaml.Node) ([]byte, error) {
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(document); err != nil {
		return nil, err
	}
	return buf.Bytes(), enc.Close()
}

// schemasPart returns the part of the document that comes from types.
func schemasPart(features []wire.Part) (*yaml.Node, error) {
	all, err := wire.Schemas(features)
	if err != nil {
		return nil, err
	}
	schemas := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var x yaml.Node
		if err := yaml.Unmarshal(all[name], &x); err != nil {
			return nil, err
		}
		unstyle(x.Content[0])
		addMember(schemas, name, x.Content[0])
	}
	return mapping("components", mapping("schemas", schemas)), nil
}

// unstyle takes the braces and quotes of JSON from a node.
func unstyle(n *yaml.Node) {
	n.Style = 0
	for _, x := range n.Content {
		unstyle(x)
	}
}

// mapping returns a mapping of names and values in turn. Values are nodes, texts, numbers or bools; what is empty is
// left out.
func mapping(namesAndValues ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(namesAndValues); i += 2 {
		name := namesAndValues[i].(string)
		switch v := namesAndValues[i+1].(type) {
		case string:
			if v != "" {
				addMember(n, name, textNode(v))
			}
		case int:
			addMember(n, name, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(v)})
		case bool:
			addMember(n, name, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)})
		case *yaml.Node:
			if v != nil && (v.Kind != yaml.MappingNode || len(v.Content) > 0) && !v.IsZero() {
				addMember(n, name, v)
			}
		}
	}
	return n
}

func sequence(values ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Content: values}
}

func textNode(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// componentRef refers to a component of the document.
func componentRef(kind, name string) *yaml.Node {
	target := textNode("#/components/" + kind + "/" + name)
	target.Style = yaml.DoubleQuotedStyle
	n := mapping("$ref", target)
	n.Style = yaml.FlowStyle
	return n
}

func addMember(mapping *yaml.Node, name string, value *yaml.Node) {
	mapping.Content = append(mapping.Content, textNode(name), value)
}

// members yields the names and values of a mapping, nothing of any other node.
func members(n *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, n.Content[i+1]) {
				return
			}
		}
	}
}

// member returns the value of a name in a mapping, nil if there is none.
func member(mapping *yaml.Node, name string) *yaml.Node {
	for known, value := range members(mapping) {
		if known == name {
			return value
		}
	}
	return nil
}

// nodeAt follows names of members, nil if one is missing.
func nodeAt(n *yaml.Node, names ...string) *yaml.Node {
	for _, name := range names {
		n = member(n, name)
	}
	return n
}

func listOf(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}
