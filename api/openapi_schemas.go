package api

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/wire"
)

// schemasPart returns the part of the document that comes from the types of package wire.
func schemasPart() (*yaml.Node, error) {
	all, err := wire.Schemas()
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
