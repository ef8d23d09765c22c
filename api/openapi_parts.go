package api

import (
	"bytes"
	"embed"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// openapiParts describe the whole API, a file for each resource with its paths, links and schemas. They are written by
// hand; tests hold them and the API together.
//
//go:embed openapi/*.yaml
var openapiParts embed.FS

// partNames are the parts in the order in which the document shows them.
var partNames = []string{"info", "endpoints", "verification", "destinations", "sending", "stream", "events",
	"processing", "replays", "recoveries", "alerts", "usage", "me", "audit", "service", "webhooks", "common"}

// joinParts makes one document of the parts: mappings of the same name, `paths` for one, become one mapping.
func joinParts() (*yaml.Node, error) {
	whole := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range partNames {
		text, err := openapiParts.ReadFile("openapi/" + name + ".yaml")
		if err != nil {
			return nil, err
		}
		var part yaml.Node
		if err := yaml.Unmarshal(text, &part); err != nil {
			return nil, fmt.Errorf("openapi/%s.yaml: %w", name, err)
		}
		if err := addPart(whole, part.Content[0]); err != nil {
			return nil, fmt.Errorf("openapi/%s.yaml: %w", name, err)
		}
	}
	return whole, nil
}

// addPart adds what part holds to whole. Only mappings are joined: a value that two parts give is an error.
func addPart(whole, part *yaml.Node) error {
	for i := 0; i < len(part.Content); i += 2 {
		name, value := part.Content[i], part.Content[i+1]
		there := member(whole, name.Value)
		switch {
		case there == nil:
			whole.Content = append(whole.Content, name, value)
		case there.Kind != yaml.MappingNode || value.Kind != yaml.MappingNode:
			return fmt.Errorf("line %d: another part has %s too", name.Line, name.Value)
		default:
			if err := addPart(there, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// member is the value of a name in a mapping, nil if it has none.
func member(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// writeYAML writes the document as YAML, in the form and with the comments that the parts have.
func writeYAML(document *yaml.Node) ([]byte, error) {
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(document); err != nil {
		return nil, err
	}
	return buf.Bytes(), enc.Close()
}
