// Package reference draws the OpenAPI document as pages for people: the operations, and the types of errors.
package reference

import (
	"path"
	"slices"

	"go.yaml.in/yaml/v3"
)

// spec is the part of the OpenAPI document that the pages show.
type spec struct {
	Info struct {
		Title, Summary, Description string
	}
	Tags       []*tag
	Paths      ordered[pathItem]
	Webhooks   ordered[pathItem]
	Components struct {
		Schemas    ordered[*schema]
		Parameters map[string]*parameter
		Responses  map[string]*response
	}
	schemas map[string]*schema
	values  values
}

type tag struct {
	Name, Description string
	Operations        []*operation
}

type pathItem struct {
	Parameters                    []*parameter
	Get, Post, Put, Patch, Delete *operation
}

type operation struct {
	ID                   string `yaml:"operationId"`
	Summary, Description string
	Tags                 []string
	Deprecated           bool
	Instead              string `yaml:"x-instead"`
	Security             *[]any // empty: no key is needed
	Parameters           []*parameter
	RequestBody          *struct {
		Required bool
		Content  ordered[media]
	} `yaml:"requestBody"`
	Responses ordered[*response]

	Method, Path string // Path is empty for a webhook
}

type parameter struct {
	Ref                   string `yaml:"$ref"`
	Name, In, Description string
	Required, Deprecated  bool
	Schema                *schema
	Example               yaml.Node
}

type media struct {
	Schema   *schema
	Examples ordered[example]
}

type example struct{ Value yaml.Node }

type response struct {
	Ref         string `yaml:"$ref"`
	Description string
	Content     ordered[media]
}

type schema struct {
	Ref                  string    `yaml:"$ref"`
	Types                typeNames `yaml:"type"`
	Format, Pattern      string
	Description          string
	Deprecated           bool
	Const, Default       yaml.Node
	Enum, Examples       []yaml.Node
	Extensible           []yaml.Node `yaml:"x-extensible-enum"`
	Minimum, Maximum     *float64
	MinLength            *float64 `yaml:"minLength"`
	MaxLength            *float64 `yaml:"maxLength"`
	MinItems             *float64 `yaml:"minItems"`
	MaxItems             *float64 `yaml:"maxItems"`
	Items                *schema
	Properties           ordered[*schema]
	AdditionalProperties *schema `yaml:"additionalProperties"`
	Required             []string
	AllOf                []*schema `yaml:"allOf"`
	OneOf                []*schema `yaml:"oneOf"`
	AnyOf                []*schema `yaml:"anyOf"`
	never                bool      // the schema false
}

// ordered is a mapping in the order of the document.
type ordered[T any] []entry[T]

type entry[T any] struct {
	Name  string
	Value T
}

func (o *ordered[T]) UnmarshalYAML(n *yaml.Node) error {
	for i := 0; i < len(n.Content); i += 2 {
		e := entry[T]{Name: n.Content[i].Value}
		if err := n.Content[i+1].Decode(&e.Value); err != nil {
			return err
		}
		*o = append(*o, e)
	}
	return nil
}

// typeNames is one name of a type, or a list.
type typeNames []string

func (t *typeNames) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*t = typeNames{n.Value}
		return nil
	}
	return n.Decode((*[]string)(t))
}

func (s *schema) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		s.never = n.Value == "false"
		return nil
	}
	type plain schema
	return n.Decode((*plain)(s))
}

// read decodes the document, and gives each tag its operations.
func read(document *yaml.Node) (*spec, error) {
	d := &spec{schemas: map[string]*schema{}}
	if err := document.Decode(d); err != nil {
		return nil, err
	}
	text, err := files.ReadFile("values.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &d.values)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range d.Components.Schemas {
		d.schemas[e.Name] = e.Value
	}
	for i, p := range slices.Concat(d.Paths, d.Webhooks) {
		item := p.Value
		for j, op := range []*operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			op.Method = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}[j]
			if i < len(d.Paths) {
				op.Path = p.Name
			}
			op.Parameters = slices.Concat(item.Parameters, op.Parameters)
			for k, q := range op.Parameters {
				if q.Ref != "" {
					op.Parameters[k] = d.Components.Parameters[path.Base(q.Ref)]
				}
			}
			for k := range op.Responses {
				if r := &op.Responses[k].Value; (*r).Ref != "" {
					*r = d.Components.Responses[path.Base((*r).Ref)]
				}
			}
			t := slices.IndexFunc(d.Tags, func(t *tag) bool { return slices.Contains(op.Tags, t.Name) })
			if t < 0 {
				d.Tags = append(d.Tags, &tag{Name: "More"})
				t = len(d.Tags) - 1
			}
			d.Tags[t].Operations = append(d.Tags[t].Operations, op)
		}
	}
	return d, nil
}

// target follows references.
func (d *spec) target(s *schema) *schema {
	for s != nil && s.Ref != "" {
		s = d.schemas[path.Base(s.Ref)]
	}
	return s
}

// alternatives are the schemas of which a value has one, without null.
func (s *schema) alternatives() []*schema {
	return slices.DeleteFunc(slices.Concat(s.OneOf, s.AnyOf), func(x *schema) bool {
		return len(x.Types) == 1 && x.Types[0] == "null"
	})
}

// properties returns the fields of an object, with those of the schemas that it is composed of, and the names of the
// required ones.
func (d *spec) properties(s *schema) (fields ordered[*schema], required []string) {
	if s = d.target(s); s == nil {
		return nil, nil
	}
	add := func(more ordered[*schema]) {
		for _, f := range more {
			known := func(x entry[*schema]) bool { return x.Name == f.Name }
			if !f.Value.never && !slices.ContainsFunc(fields, known) {
				fields = append(fields, f)
			}
		}
	}
	for _, part := range s.AllOf {
		more, names := d.properties(part)
		add(more)
		required = append(required, names...)
	}
	add(s.Properties)
	for _, part := range s.alternatives() { // each may have fields of its own; what it requires depends on the choice
		more, _ := d.properties(part)
		add(more)
	}
	return fields, append(required, s.Required...)
}

// isObject reports whether a schema is described by a list of fields.
func (d *spec) isObject(s *schema) bool {
	s = d.target(s)
	return s != nil && (len(s.Properties) > 0 || slices.ContainsFunc(s.AllOf, d.isObject))
}
