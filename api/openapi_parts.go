package api

import (
	"bytes"
	"embed"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// openapiParts describe the API, one file for each resource with its paths, links and schemas. They are written by
// hand; tests compare them with the API.
//
//go:embed openapi/*.yaml
var openapiParts embed.FS

// partNames lists the parts in the order of the document.
var partNames = []string{"info", "endpoints", "verification", "destinations", "sending", "stream", "events",
	"processing", "replays", "recoveries", "drains", "domains", "scans", "tripwires", "dsns", "leaks", "detection",
	"fixtures", "alerts", "overview", "usage", "me", "audit", "service", "webhooks", "common"}

// joinParts merges the parts into one document: mappings with the same name, such as paths, become one mapping.
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
	types, err := schemasPart()
	if err != nil {
		return nil, err
	}
	return whole, addPart(whole, types)
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

// member returns the value of a name in a mapping, nil if there is none.
func member(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
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
