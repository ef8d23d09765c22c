package frame

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// AppendJSON writes a YAML value as JSON and keeps the order of members.
func AppendJSON(buf *bytes.Buffer, n *yaml.Node) error {
	brackets, step := "[]", 1 // the nodes of an element
	switch n.Kind {
	case yaml.MappingNode:
		brackets, step = "{}", 2
	case yaml.SequenceNode:
	case yaml.ScalarNode:
		var v any
		if err := n.Decode(&v); err != nil {
			return err
		}
		return AppendScalar(buf, v)
	default:
		return fmt.Errorf("line %d: aliases are not supported, because many readers do not support them", n.Line)
	}
	buf.WriteByte(brackets[0])
	for i := 0; i < len(n.Content); i += step {
		if i > 0 {
			buf.WriteByte(',')
		}
		if step == 2 {
			if err := AppendScalar(buf, n.Content[i].Value); err != nil {
				return err
			}
			buf.WriteByte(':')
		}
		if err := AppendJSON(buf, n.Content[i+step-1]); err != nil {
			return err
		}
	}
	buf.WriteByte(brackets[1])
	return nil
}

// AppendScalar writes a text, a number or a bool as JSON.
func AppendScalar(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	buf.Truncate(buf.Len() - 1) // Encode ends with a new line
	return nil
}
