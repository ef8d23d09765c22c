package api

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/frame"
)

// deprecations lists what of the API is deprecated. The headers Deprecation (RFC 9745) and Sunset (RFC 8594), the marks
// in the OpenAPI document and /docs/deprecations are made of it. Each entry is announced in CHANGELOG.md, see
// TestDeprecationsAreAnnounced.
var deprecations []deprecation

// deprecation is one entry: a call, a query parameter of a call, or a member of a schema of the OpenAPI document.
type deprecation struct {
	Call           string // method and path as in the document: "GET /v1/endpoints/{endpoint_id}"; empty for a member
	Parameter      string // query parameter of Call; empty for the call itself
	Schema, Member string // member of a schema of the document
	Since          string // date of the announcement, such as 2026-12-01
	Sunset         string // date from which it may be missing; empty if it stays
	Instead        string // what to do, as one sentence
}

// Name is the entry as CHANGELOG.md and the page name it.
func (d *deprecation) Name() string {
	switch {
	case d.Schema != "":
		return d.Schema + "." + d.Member
	case d.Parameter != "":
		return d.Call + "?" + d.Parameter
	}
	return d.Call
}

// noticeDays is how long before its sunset something is announced.
const noticeDays = 90

// deprecationsPath is the page that the Link of a deprecated call leads to.
const deprecationsPath = "/docs/deprecations"

// deprecationTable finds the entries that concern a call.
type deprecationTable struct {
	entries []deprecation
	join    func() (*yaml.Node, error) // reads the OpenAPI document
	calls   map[string][]*deprecation  // by call, with the variables of the path as {}; nil if nothing is deprecated
}

var pathVariable = regexp.MustCompile(`\{[^}]*\}`)

// callName is a call as the key of a map: the document and the router name the variables of a path differently.
func callName(call string) string { return pathVariable.ReplaceAllString(call, "{}") }

// newDeprecationTable validates the entries against the OpenAPI document that join returns. A member concerns each call
// whose request or answer may have it.
func newDeprecationTable(entries []deprecation, join func() (*yaml.Node, error)) (*deprecationTable, error) {
	t := &deprecationTable{entries: entries, join: join}
	if len(entries) == 0 {
		return t, nil
	}
	document, err := join()
	if err != nil {
		return nil, err
	}
	operations := operationsOf(document)
	t.calls = map[string][]*deprecation{}
	for i := range entries {
		d := &entries[i]
		if err := markDeprecated(document, d); err != nil {
			return nil, fmt.Errorf("deprecation of %s: %w", d.Name(), err)
		}
		for call, op := range operations {
			if call == callName(d.Call) || d.Schema != "" && usesSchema(document, op, d.Schema) {
				t.calls[call] = append(t.calls[call], d)
			}
		}
	}
	return t, nil
}

// announce sets the headers of a deprecated call: the earliest dates of all entries that concern the request. A
// parameter concerns the requests that use it.
func (t *deprecationTable) announce(h http.Header, r *http.Request, method, path string) {
	if t.calls == nil {
		return
	}
	var since, sunset string
	for _, d := range t.calls[callName(method+" "+path)] {
		if d.Parameter != "" && !r.URL.Query().Has(d.Parameter) {
			continue
		}
		if since == "" || d.Since < since {
			since = d.Since
		}
		if d.Sunset != "" && (sunset == "" || d.Sunset < sunset) {
			sunset = d.Sunset
		}
	}
	if since == "" {
		return
	}
	h.Set("Deprecation", "@"+strconv.FormatInt(dateOf(since).Unix(), 10))
	h.Add("Link", "<"+deprecationsPath+`>; rel="deprecation"; type="text/html"`)
	if sunset != "" {
		h.Set("Sunset", dateOf(sunset).Format(http.TimeFormat))
	}
}

// dateOf is midnight UTC of a date that markDeprecated has validated.
func dateOf(date string) time.Time {
	t, _ := time.Parse(time.DateOnly, date)
	return t
}

// addDeprecations adds the page of the entries to the public pages.
func addDeprecations(pages map[string]*frame.Page, entries []deprecation) error {
	var buf bytes.Buffer
	if err := deprecationsTemplate.Execute(&buf, entries); err != nil {
		return err
	}
	pages[deprecationsPath] = frame.NewPage("text/html; charset=utf-8", buf.Bytes())
	return nil
}

var deprecationsTemplate = template.Must(template.New("deprecations").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>EventRelay: deprecations</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head><body>
<h1>Deprecations</h1>
<p>Answers of a deprecated call have the header <code>Deprecation</code>, and <code>Sunset</code> with the date from
which it may be missing, at least 90 days later. CHANGELOG.md announces each of them.</p>
{{if .}}<dl>{{range .}}
<dt><code>{{.Name}}</code></dt>
<dd>Deprecated since {{.Since}}{{if .Sunset}}, until {{.Sunset}}{{end}}. {{.Instead}}</dd>{{end}}
</dl>{{else}}<p>Nothing is deprecated.</p>{{end}}
</body></html>
`))

// operationsOf returns the operations of the document by callName.
func operationsOf(document *yaml.Node) map[string]*yaml.Node {
	operations := map[string]*yaml.Node{}
	for path, item := range members(member(document, "paths")) {
		for method, operation := range members(item) {
			operations[callName(strings.ToUpper(method)+" "+path)] = operation
		}
	}
	return operations
}

// usesSchema reports whether an operation refers to a schema, also through other schemas and components.
func usesSchema(document, operation *yaml.Node, schema string) bool {
	const root = "#/components/"
	seen := map[string]bool{}
	var look func(n *yaml.Node) bool
	look = func(n *yaml.Node) bool {
		if n == nil {
			return false
		}
		if n.Kind == yaml.MappingNode {
			if ref := member(n, "$ref"); ref != nil && strings.HasPrefix(ref.Value, root) {
				kind, name, _ := strings.Cut(strings.TrimPrefix(ref.Value, root), "/")
				if seen[ref.Value] {
					return false
				}
				seen[ref.Value] = true
				return kind == "schemas" && name == schema || look(nodeAt(document, "components", kind, name))
			}
		}
		return slices.ContainsFunc(n.Content, look)
	}
	return look(operation)
}

// deprecationHeaders describe the headers of announce in the OpenAPI document.
var deprecationHeaders = map[string]string{
	"Deprecation": "Since when this call, or something that the request uses or the answer has, is deprecated: `@` and " +
		"seconds since 1970 (RFC 9745).",
	"Sunset": "From when it may be missing (RFC 8594).",
	"Link":   "The page that says what to use instead.",
}

// document returns the OpenAPI document with all entries marked, and the headers on the answers that may have them.
func (t *deprecationTable) document() (*yaml.Node, error) {
	document, err := t.join()
	if err != nil {
		return nil, err
	}
	for i := range t.entries {
		if err := markDeprecated(document, &t.entries[i]); err != nil {
			return nil, fmt.Errorf("deprecation of %s: %w", t.entries[i].Name(), err)
		}
	}
	operations := operationsOf(document)
	described := map[*yaml.Node]bool{}
	for call := range t.calls {
		for _, response := range members(member(operations[call], "responses")) {
			if ref := member(response, "$ref"); ref != nil { // errors of all calls share their responses
				response = nodeAt(document, strings.Split(strings.TrimPrefix(ref.Value, "#/"), "/")...)
			}
			if !described[response] {
				described[response] = true
				addDeprecationHeaders(response)
			}
		}
	}
	return document, nil
}

func addDeprecationHeaders(response *yaml.Node) {
	headers := member(response, "headers")
	if headers == nil {
		headers = mapping()
		addMember(response, "headers", headers)
	}
	for _, name := range slices.Sorted(maps.Keys(deprecationHeaders)) {
		if member(headers, name) != nil {
			continue
		}
		addMember(headers, name,
			mapping("description", deprecationHeaders[name], "schema", mapping("type", "string")))
	}
}

// markDeprecated validates an entry and marks what it names in the document.
func markDeprecated(document *yaml.Node, d *deprecation) error {
	since, err := time.Parse(time.DateOnly, d.Since)
	if err != nil {
		return fmt.Errorf("since: %w", err)
	}
	if d.Sunset != "" {
		sunset, err := time.Parse(time.DateOnly, d.Sunset)
		if err != nil {
			return fmt.Errorf("sunset: %w", err)
		}
		if sunset.Before(since.AddDate(0, 0, noticeDays)) {
			return fmt.Errorf("sunset is less than %d days after it was announced", noticeDays)
		}
	}
	if d.Instead == "" {
		return errors.New("nothing says what to do instead")
	}
	target := d.find(document)
	if target == nil || target.Kind != yaml.MappingNode {
		return errors.New("the OpenAPI document has no such thing")
	}
	if member(target, "$ref") != nil && d.Schema == "" {
		return errors.New("the parameter is shared by several calls: write it out where it is deprecated")
	}
	marks := mapping("deprecated", true, "x-deprecated-since", d.Since, "x-instead", d.Instead,
		"x-sunset", d.Sunset) // the name that oasdiff reads
	target.Content = append(target.Content, marks.Content...)
	return nil
}

// find returns what an entry names in the document, nil if there is no such thing.
func (d *deprecation) find(document *yaml.Node) *yaml.Node {
	if d.Schema != "" {
		return memberOfSchema(nodeAt(document, "components", "schemas", d.Schema), d.Member)
	}
	method, path, _ := strings.Cut(d.Call, " ")
	operation := nodeAt(document, "paths", path, strings.ToLower(method))
	if d.Parameter == "" || operation == nil {
		return operation
	}
	for _, p := range listOf(member(operation, "parameters")) {
		target := p
		if ref := member(p, "$ref"); ref != nil {
			target = nodeAt(document, strings.Split(strings.TrimPrefix(ref.Value, "#/"), "/")...)
		}
		if name := member(target, "name"); name != nil && name.Value == d.Parameter {
			return p
		}
	}
	return nil
}

// memberOfSchema returns a member of a schema, which may be in one of the schemas that it is composed of.
func memberOfSchema(schema *yaml.Node, name string) *yaml.Node {
	if found := nodeAt(schema, "properties", name); found != nil {
		return found
	}
	for _, part := range listOf(nodeAt(schema, "allOf")) {
		if found := memberOfSchema(part, name); found != nil {
			return found
		}
	}
	return nil
}
