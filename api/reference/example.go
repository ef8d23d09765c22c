package reference

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// values are those of examples; see values.yaml.
type values struct {
	Formats, Texts map[string]string
	Numbers        []struct {
		End   string
		Value float64
	}
}

// appendExample writes a value of a schema as JSON: an example of the document if it has one, else one made from types,
// enums and formats. The name is that of the field that has the value; within are the objects around it.
func (d *spec) appendExample(b *bytes.Buffer, s *schema, name string, within ...*schema) error {
	if s = d.target(s); s == nil || slices.Contains(within, s) {
		return fmt.Errorf("no example can be made of %s: its schema is missing, or contains itself", name)
	}
	given := slices.Concat(s.Examples, []yaml.Node{s.Const}, s.Enum, s.Extensible, []yaml.Node{s.Default})
	if i := slices.IndexFunc(given, func(n yaml.Node) bool { return !n.IsZero() && n.Tag != "!!null" }); i >= 0 {
		return AppendJSON(b, &given[i])
	}
	if fields, _ := d.properties(s); d.isObject(s) {
		return d.appendObject(b, fields, append(within, s))
	}
	if alternatives := s.alternatives(); len(alternatives) > 0 {
		return d.appendExample(b, alternatives[0], name, within...)
	}
	kind := "object"
	if i := slices.IndexFunc(s.Types, func(t string) bool { return t != "null" }); i >= 0 {
		kind = s.Types[i]
	}
	switch kind {
	case "array":
		b.WriteByte('[')
		err := d.appendExample(b, s.Items, strings.TrimSuffix(name, "s"), within...)
		b.WriteByte(']')
		return err
	case "boolean":
		return appendScalar(b, true)
	case "integer", "number":
		return appendScalar(b, d.number(s, name))
	case "string":
		return appendScalar(b, d.text(s, name))
	}
	value := s.AdditionalProperties
	if value == nil || len(value.Types) == 0 {
		value = &schema{Types: typeNames{"string"}}
	}
	return d.appendObject(b, ordered[*schema]{{"order_id", value}}, within)
}

func (d *spec) appendObject(b *bytes.Buffer, fields ordered[*schema], within []*schema) error {
	b.WriteByte('{')
	fields = slices.DeleteFunc(fields, func(f entry[*schema]) bool {
		inner := d.target(f.Value)
		for inner != nil && inner.Items != nil {
			inner = d.target(inner.Items)
		}
		return f.Name == "warnings" || f.Value.Deprecated || slices.Contains(within, inner)
	})
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(f.Name) + ":")
		if err := d.appendExample(b, f.Value, f.Name, within...); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// number is a number within the bounds.
func (d *spec) number(s *schema, name string) (n float64) {
	for _, sample := range d.values.Numbers {
		if strings.HasSuffix(name, sample.End) {
			n = sample.Value
			break
		}
	}
	if s.Minimum != nil {
		n = max(n, *s.Minimum)
	}
	if s.Maximum != nil {
		n = min(n, *s.Maximum)
	}
	return n
}

// text is a string for a field: run_id is an example of the schema RunId.
func (d *spec) text(s *schema, name string) string {
	camel := ""
	for word := range strings.SplitSeq(name, "_") {
		camel += strings.ToUpper(word[:min(1, len(word))]) + word[min(1, len(word)):]
	}
	value := d.values.Formats[s.Format]
	if id := d.schemas[camel]; value == "" && id != nil && len(id.Examples) > 0 && strings.HasSuffix(name, "_id") {
		value = id.Examples[0].Value
	}
	value = cmp.Or(value, d.values.Texts[name])
	if value == "" && strings.HasSuffix(name, "url") {
		value = d.values.Formats["uri"]
	}
	return cmp.Or(value, strings.ReplaceAll(name, "_", " "))
}

// body is the example of a body, indented: the first of the document, or one made from the schema.
func (d *spec) body(content ordered[media]) (string, error) {
	switch {
	case len(content) == 0:
		return "", nil
	case len(content[0].Value.Examples) > 0:
		return indented(&content[0].Value.Examples[0].Value.Value)
	case !strings.HasSuffix(content[0].Name, "json"):
		return "", nil
	}
	var b, out bytes.Buffer
	err := d.appendExample(&b, content[0].Value.Schema, "")
	if err == nil {
		err = json.Indent(&out, b.Bytes(), "", "  ")
	}
	return out.String(), err
}

// indented returns an example of the document as JSON.
func indented(n *yaml.Node) (string, error) {
	var b, out bytes.Buffer
	err := AppendJSON(&b, n)
	if err == nil {
		err = json.Indent(&out, b.Bytes(), "", "  ")
	}
	return out.String(), err
}

// parameterExample is a value of a parameter as it stands in a URL or header.
func (d *spec) parameterExample(p *parameter) (string, error) {
	if !p.Example.IsZero() {
		return p.Example.Value, nil
	}
	var b bytes.Buffer
	if err := d.appendExample(&b, p.Schema, p.Name); err != nil {
		return "", err
	}
	var text string
	if json.Unmarshal(b.Bytes(), &text) == nil {
		return text, nil
	}
	return strings.Trim(b.String(), `[]"`), nil
}
