package reference

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	api "github.com/eventrelay/relay/api/frame"
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
	places  map[string]string // the addresses of operations, schemas and tags, by their anchor on the introduction
	values  values
}

type tag struct {
	Name, Description string
	Operations        []*operation
	Objects           ordered[*schema]
}

// Path is the path of the page with the operations, ObjectsPath of the one with the objects.
func (t *tag) Path() string {
	return apiPath + "/" + strings.ToLower(strings.ReplaceAll(t.Name, " ", "-"))
}

func (t *tag) ObjectsPath() string { return t.Path() + "/objects" }

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

	Method, Path string     // Path is empty for a webhook
	SameBody     *operation // one before it on its page; nil: none
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
	d := &spec{schemas: map[string]*schema{}, places: map[string]string{}}
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
	d.addPlaces()
	return d, nil
}

// addPlaces fills places, gives each tag the objects that are named as it, or that its operations are the first to
// refer to, and each operation the one before it on its page that has the same body.
func (d *spec) addPlaces() {
	var found []*schema // that the last visit placed
	visit := func(t *tag, roots ...*schema) {
		for len(roots) > 0 {
			s := roots[0]
			if roots = roots[1:]; s == nil {
				continue
			}
			anchor := "schema-" + path.Base(s.Ref)
			if target := d.target(s); s.Ref != "" && d.places[anchor] == "" {
				d.places[anchor] = t.ObjectsPath() + "#" + anchor
				found = append(found, target)
			}
			roots = append(roots, slices.Concat(s.AllOf, s.OneOf, s.AnyOf, []*schema{s.Items, s.AdditionalProperties})...)
			for _, p := range s.Properties {
				roots = append(roots, p.Value)
			}
		}
	}
	for _, e := range d.Components.Schemas {
		if t := d.tagNamedAs(e.Name); t != nil {
			d.places["schema-"+e.Name] = t.ObjectsPath() + "#schema-" + e.Name
		}
	}
	direct := make([][]*schema, len(d.Tags))
	for i, t := range d.Tags {
		d.places[t.Name] = t.Path()
		bodies := map[string]*operation{}
		for _, o := range t.Operations {
			d.places[o.ID] = t.Path() + "#" + o.ID
			visit(t, o.schemas()...)
			if o.RequestBody == nil {
				continue
			}
			if ref := o.RequestBody.Content[0].Value.Schema.Ref; ref != "" && bodies[ref] == nil {
				bodies[ref] = o
			} else {
				o.SameBody = bodies[ref]
			}
		}
		direct[i], found = found, nil
	}
	for i, t := range d.Tags { // what those refer to
		for _, e := range d.Components.Schemas {
			if d.tagNamedAs(e.Name) == t {
				direct[i] = append(direct[i], e.Value)
			}
		}
		for found = direct[i]; len(found) > 0; {
			next := found
			found = nil
			visit(t, next...)
		}
	}
	for _, e := range d.Components.Schemas {
		anchor := "schema-" + e.Name
		if d.places[anchor] == "" { // only other documents refer to it
			d.places[anchor] = d.Tags[len(d.Tags)-1].ObjectsPath() + "#" + anchor
		}
		for _, t := range d.Tags {
			if d.places[anchor] == t.ObjectsPath()+"#"+anchor {
				t.Objects = append(t.Objects, e)
			}
		}
	}
}

// tagNamedAs is the tag whose name a schema's name begins with: EventTypeList belongs to Event types.
func (d *spec) tagNamedAs(schema string) (best *tag) {
	for _, t := range d.Tags {
		begin := strings.ReplaceAll(strings.TrimSuffix(strings.ToLower(t.Name), "s"), " ", "")
		if strings.HasPrefix(strings.ToLower(schema), begin) && (best == nil || len(t.Name) > len(best.Name)) {
			best = t
		}
	}
	return best
}

// schemas are those of the parameters and bodies of an operation.
func (o *operation) schemas() (all []*schema) {
	for _, p := range o.Parameters {
		all = append(all, p.Schema)
	}
	contents := []ordered[media]{}
	if o.RequestBody != nil {
		contents = append(contents, o.RequestBody.Content)
	}
	for _, r := range o.Responses {
		contents = append(contents, r.Value.Content)
	}
	for _, c := range slices.Concat(contents...) {
		all = append(all, c.Value.Schema)
	}
	return all
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
		return api.AppendJSON(b, &given[i])
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
		return api.AppendScalar(b, true)
	case "integer", "number":
		return api.AppendScalar(b, d.number(s, name))
	case "string":
		return api.AppendScalar(b, d.text(s, name))
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

// answer is the example of a response, with the values that the example of the request has. The last example of a
// schema is that of what was just created.
func (d *spec) answer(o *operation, e entry[*response]) (string, error) {
	content := e.Value.Content
	if len(content) > 0 && e.Name == "201" && content[0].Value.Schema != nil {
		created := *d.target(content[0].Value.Schema)
		created.Examples = created.Examples[max(0, len(created.Examples)-1):]
		content = ordered[media]{{content[0].Name, media{&created, content[0].Value.Examples}}}
	}
	text, err := d.body(content)
	if err != nil || text == "" || o.RequestBody == nil {
		return text, err
	}
	sent, err := d.body(o.RequestBody.Content)
	if err != nil {
		return "", err
	}
	var shown, given yaml.Node
	if yaml.Unmarshal([]byte(sent), &given) != nil || given.IsZero() {
		return text, nil // not JSON
	}
	if err := yaml.Unmarshal([]byte(text), &shown); err != nil {
		return "", err
	}
	overlay(shown.Content[0], given.Content[0])
	return indented(shown.Content[0])
}

// overlay gives the fields of an object, and of objects in it, the values that they have in another. Masks stay.
func overlay(shown, given *yaml.Node) {
	switch {
	case shown.Tag == "!!null":
		*shown = *given
	case shown.Kind != given.Kind || shown.Tag != given.Tag || strings.HasPrefix(shown.Value, "****"):
	case shown.Kind == yaml.ScalarNode:
		shown.Value = given.Value
	case shown.Kind == yaml.SequenceNode:
		for i := range min(len(shown.Content), len(given.Content)) {
			overlay(shown.Content[i], given.Content[i])
		}
	default:
		for i := 0; i < len(given.Content); i += 2 {
			for j := 0; j < len(shown.Content); j += 2 {
				if shown.Content[j].Value == given.Content[i].Value {
					overlay(shown.Content[j+1], given.Content[i+1])
				}
			}
		}
	}
}

// indented returns an example of the document as JSON.
func indented(n *yaml.Node) (string, error) {
	var b, out bytes.Buffer
	err := api.AppendJSON(&b, n)
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
