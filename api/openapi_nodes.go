package api

import (
	"iter"
	"strconv"

	"go.yaml.in/yaml/v3"
)

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
