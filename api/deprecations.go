package api

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
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
func addDeprecations(pages map[string]*page, entries []deprecation) error {
	var buf bytes.Buffer
	if err := deprecationsTemplate.Execute(&buf, entries); err != nil {
		return err
	}
	p := newPage("text/html; charset=utf-8", buf.Bytes())
	pages[deprecationsPath] = &p
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
