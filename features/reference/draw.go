package reference

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"
	"strings"
	texttemplate "text/template"

	"go.yaml.in/yaml/v3"

	api "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/dashboard"
)

//go:embed page.html page.css page.js samples.tmpl values.yaml
var files embed.FS

var samplesTemplate = texttemplate.Must(texttemplate.ParseFS(files, "samples.tmpl"))

// languages are those of the code samples: the names of the templates, and as the page names them.
var languages = []struct{ Name, Title string }{
	{"curl", "curl"}, {"js", "JavaScript"}, {"py", "Python"}, {"go", "Go"},
}

// errorType is a type of error with its explanation.
type errorType struct {
	Kind, Text string
	Example    string       // the body of an answer
	Operations []*operation // that answer with it
}

// view is what the templates draw.
type view struct {
	*spec
	Version    string
	Nav        []navGroup
	Style      template.CSS
	Script     template.JS // empty on pages of the catalogue
	ErrorTypes []*errorType
	base       string // the address in code samples
}

// Number is the version without the commit of a build.
func (v *view) Number() string {
	number, _, _ := strings.Cut(v.Version, "+")
	return number
}

// Release is the page about this version, or about the newest that has one.
func (v *view) Release() string {
	number, _, _ := strings.Cut(v.Number(), "-")
	i := slices.IndexFunc(v.Nav, func(g navGroup) bool { return g.Name == "Releases" })
	pages := v.Nav[i].Pages
	return pages[max(0, slices.IndexFunc(pages, func(l navLink) bool { return l.Title == number }))].Path
}

// apiPage is a page about the API: the introduction, the error types, or the operations or objects of a tag.
type apiPage struct {
	*view
	Path, Title string
	*tag
}

// newPages makes all pages. The base is the address of the service. Requests draw them.
func newPages(document *yaml.Node, base, version string) (map[string]*api.Page, error) {
	d, err := read(document)
	if err != nil {
		return nil, err
	}
	v := &view{spec: d, Version: version, base: base}
	if v.Style, v.Script, err = look(); err != nil {
		return nil, err
	}
	for _, x := range errorTypes {
		v.ErrorTypes = append(v.ErrorTypes, &errorType{Kind: x.kind, Text: x.text})
	}
	for _, t := range v.Tags {
		for _, o := range t.Operations {
			if err := v.addErrors(o); err != nil {
				return nil, err
			}
		}
	}
	pages := map[string]*api.Page{}
	add := func(name string, p apiPage) {
		pages[p.Path] = api.Lazily(func() (*api.Page, error) { return v.page(name, p) })
	}
	add("api", apiPage{v, apiPath, "API reference", nil})
	add("errors", apiPage{v, errorsPath, "Error types", nil})
	for _, t := range v.Tags {
		add("operations", apiPage{v, t.Path(), t.Name, t})
		if len(t.Objects) > 0 {
			add("objects", apiPage{v, t.ObjectsPath(), "Objects: " + t.Name, t})
		}
	}
	documents, pictures, err := v.readDocuments()
	if err != nil {
		return nil, err
	}
	v.addNav(documents)
	v.addDocuments(pages, documents, pictures)
	v.addSearch(pages, documents)
	return pages, nil
}

// look returns the style and the script that pages hold.
func look() (template.CSS, template.JS, error) {
	style, err := dashboard.Style()
	if err != nil {
		return "", "", err
	}
	css, err := files.ReadFile("page.css")
	if err != nil {
		return "", "", err
	}
	script, err := files.ReadFile("page.js")
	return template.CSS(style + string(css)), template.JS(script), err //nolint:gosec // our own files
}

// page draws a page. It loads pictures of its own origin and nothing else; the hashes of its style and script are all
// that its content security policy allows.
func (v *view) page(name string, data any) (*api.Page, error) {
	html, err := v.draw(name, data)
	if err != nil {
		return nil, fmt.Errorf("draw the page of %s: %w", name, err)
	}
	p := api.NewPage("text/html; charset=utf-8", html)
	sandbox, form := "sandbox", "'none'"
	if v.Script != "" {
		sandbox, form = "sandbox allow-scripts allow-forms", "'self'; script-src "+hashOf(string(v.Script))
	}
	p.Policy = sandbox + "; default-src 'none'; style-src " + hashOf(string(v.Style)) + "; img-src 'self' data:; " +
		"base-uri 'none'; frame-ancestors 'none'; form-action " + form
	return p, nil
}

// hashOf names a style or script in a content security policy.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// draw executes one of the templates.
func (v *view) draw(name string, data any) ([]byte, error) {
	t, err := template.New("page.html").Funcs(template.FuncMap{
		"markdown": func(text string) template.HTML { return v.relink(markdown(text)) },
		"fields":   v.fieldsOf, "parameters": v.parameters, "sample": v.sample, "body": v.body,
		"errors": errorsOf, "languages": func() any { return languages },
		"schema": func(s *schema) field { return v.field("", "", s) }, "lower": strings.ToLower,
		"webhook": v.webhook, "placeOf": func(anchor string) string { return v.places[anchor] },
		"answer": v.answer, "usual": func(e *errorType) bool { return len(e.Operations) > len(v.Paths)/2 },
	}).ParseFS(files, "page.html")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.ExecuteTemplate(&b, name, data)
	return b.Bytes(), err
}

// field is a field of an object, or a parameter.
type field struct {
	Name                 string
	Required, Deprecated bool
	Type                 template.HTML
	Bounds               template.HTML
	Description          string
	Fields               []field // of an object that has no name
}

func (d *spec) field(name, description string, s *schema) field {
	target := d.target(s)
	f := field{
		Name: name, Description: cmp.Or(description, s.Description, target.Description),
		Deprecated: s.Deprecated || target.Deprecated,
		Type:       template.HTML(d.typeOf(s)),                     //nolint:gosec // of our document, escaped
		Bounds:     template.HTML(strings.Join(d.bounds(s), "; ")), //nolint:gosec // of our document, escaped
	}
	for _, inner := range append([]*schema{s}, s.alternatives()...) {
		for inner.Items != nil {
			inner = inner.Items
		}
		if inner.Ref == "" && d.isObject(inner) {
			f.Fields = append(f.Fields, d.fieldsOf(inner)...)
		}
	}
	return f
}

func (d *spec) fieldsOf(s *schema) (fields []field) {
	properties, required := d.properties(s)
	for _, p := range properties {
		f := d.field(p.Name, "", p.Value)
		f.Required = slices.Contains(required, p.Name)
		fields = append(fields, f)
	}
	return fields
}

// parameters returns the parameters of an operation at one place: path, query or header.
func (d *spec) parameters(o *operation, in string) (fields []field) {
	for _, p := range o.Parameters {
		if p.In == in {
			f := d.field(p.Name, p.Description, p.Schema)
			f.Required, f.Deprecated = p.Required, p.Deprecated
			fields = append(fields, f)
		}
	}
	return fields
}

// errorsOf returns the types of errors in the examples of a response, each with its first example.
func errorsOf(r *response) (kinds ordered[*yaml.Node], err error) {
	for _, c := range r.Content {
		for i := range c.Value.Examples {
			e := &c.Value.Examples[i].Value.Value
			var body struct{ Error struct{ Type string } }
			if err := e.Decode(&body); err != nil {
				return nil, err
			}
			kind := body.Error.Type
			known := func(x entry[*yaml.Node]) bool { return x.Name == kind }
			if kind != "" && !slices.ContainsFunc(kinds, known) {
				kinds = append(kinds, entry[*yaml.Node]{kind, e})
			}
		}
	}
	return kinds, nil
}

// addErrors gives the types of errors their examples, and the operation that answers with them.
func (v *view) addErrors(o *operation) error {
	for _, r := range o.Responses {
		kinds, err := errorsOf(r.Value)
		if err != nil {
			return err
		}
		for _, kind := range kinds {
			i := slices.IndexFunc(v.ErrorTypes, func(e *errorType) bool { return e.Kind == kind.Name })
			if i < 0 {
				return fmt.Errorf("%s answers with %s, which is not explained", o.ID, kind.Name)
			}
			e := v.ErrorTypes[i]
			e.Operations = append(e.Operations, o)
			if e.Example == "" {
				if e.Example, err = indented(kind.Value); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// call is what a code sample does.
type call struct {
	Method, URL, Body, ContentType string
	Key, Stream                    bool
}

// sample writes the code that calls an operation.
func (v *view) sample(o *operation, language string) (string, error) {
	c := call{Method: o.Method, URL: v.base + o.Path, Key: o.Security == nil, Stream: o.answers("text/event-stream")}
	separator := "?"
	for _, p := range o.Parameters {
		value, err := v.parameterExample(p)
		switch {
		case err != nil:
			return "", err
		case p.In == "path":
			c.URL = strings.ReplaceAll(c.URL, "{"+p.Name+"}", value)
		case p.In == "query" && p.Required:
			c.URL += separator + p.Name + "=" + value
			separator = "&"
		}
	}
	if o.RequestBody != nil {
		c.ContentType = o.RequestBody.Content[0].Name
		var err error
		if c.Body, err = v.body(o.RequestBody.Content); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	err := samplesTemplate.ExecuteTemplate(&b, language, c)
	return strings.TrimSpace(b.String()), err
}

func (o *operation) answers(mediaType string) bool {
	return slices.ContainsFunc(o.Responses, func(r entry[*response]) bool {
		return slices.ContainsFunc(r.Value.Content, func(m entry[media]) bool { return m.Name == mediaType })
	})
}

// webhook is the head of the request that a destination receives.
func (v *view) webhook(o *operation) (string, error) {
	var b strings.Builder
	b.WriteString(o.Method + " /your/path HTTP/1.1\nHost: example.com\n")
	for _, p := range o.Parameters {
		value, err := v.parameterExample(p)
		if err != nil {
			return "", err
		}
		b.WriteString(p.Name + ": " + value + "\n")
	}
	return b.String(), nil
}
