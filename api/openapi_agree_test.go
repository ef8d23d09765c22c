package api

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/must"
)

// described is the part of the document that these tests read.
type described struct {
	Paths map[string]map[string]operation
}

type operation struct {
	OperationID string
	Parameters  []parameter
	Responses   map[string]struct {
		Links map[string]struct {
			OperationID string
			Parameters  map[string]string
		}
	}
}

type parameter struct {
	Ref     string `json:"$ref"`
	Name    string
	In      string
	Aliases []string `json:"x-aliases"`
}

// servedPages returns the public pages.
func servedPages(t *testing.T) map[string]*frame.Page {
	t.Helper()
	deprecated := must.Get(newDeprecationTable(deprecations, joinTestParts))(t)
	return must.Get(publicPages(deprecated, must.Get(newTestResources())(t).pages))(t)
}

func document(t *testing.T) described {
	t.Helper()
	pages := servedPages(t)
	var d described
	must.Do(t, json.Unmarshal(pages["/openapi.json"].Body, &d))
	return d
}

// calls returns the operations by method and path.
func (d described) calls(t *testing.T) map[string]operation {
	t.Helper()
	out := map[string]operation{}
	for path, item := range d.Paths {
		for method, op := range item {
			out[strings.ToUpper(method)+" "+path] = op
		}
	}
	return out
}

// Every route is described once, and every description is of a route or a public page, without misspelled fields.
func TestOperationsAreOfTheRoutes(t *testing.T) {
	routes := []frame.Route{{Path: "/v1/things/{thing}", Methods: frame.Methods{"GET": nil, "DELETE": nil}}}
	const read, remove = "GET /v1/things/{thing_id}: {operationId: readThing, answer: {Thing: A thing.}}\n",
		"DELETE /v1/things/{thing_id}: "
	for operations, want := range map[string]string{
		read + remove + "{}": "",
		read + remove + "{}\nGET /page: {page: {text/html: Text.}}": "",
		read:                                     "not described: [DELETE /v1/things/{}]",
		read + remove + "{}\nGET /v1/things: {}": "GET /v1/things has no route",
		read + remove + "{}\nGET /v1/things/{id}: {}":   "GET /v1/things/{} has no route, or is described twice",
		read + "DELETE /v1/things/{what}: {}":           "no schema for what",
		read + remove + "{sumary: Delete a thing}":      "unknown fields [sumary]",
		read + remove + "{links: {undo: undoDeletion}}": "link to undoDeletion",
	} {
		var texts, document yaml.Node
		must.Do(t, yaml.Unmarshal([]byte(operations), &texts))
		must.Do(t, yaml.Unmarshal([]byte("components: {schemas: {ThingId: {}}}"), &document))
		w := &operationWriter{}
		err := w.read("Things", texts.Content[0])
		if err == nil {
			err = w.write(document.Content[0], routes)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", operations, err, want)
		}
	}
}

// The document has every filter of the list of events, with its alternative names.
func TestDocumentHasTheFilters(t *testing.T) {
	var names, aliases []string
	for _, p := range document(t).calls(t)["GET /v1/events"].Parameters {
		if rest, ok := strings.CutPrefix(p.Ref, "#/components/parameters/"); ok {
			p.Name = strings.ToLower(rest)
		}
		names = append(names, p.Name)
		aliases = append(aliases, p.Aliases...)
	}
	q := frame.NewQuery(httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), "")
	x := must.Get(newTestResources())(t)
	x.events.Query(q, &config.Key{})
	others := slices.DeleteFunc(q.Aliases, func(name string) bool { return strings.HasSuffix(name, "[]") })
	for _, list := range [][2][]string{{q.Names, names}, {others, aliases}} {
		want, got := slices.Sorted(slices.Values(list[0])), slices.Sorted(slices.Values(list[1]))
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("code (-) and document (+):\n%s", diff)
		}
	}
}

// The document has the values of the filter table, and for replays the filters that the table marks.
func TestDocumentHasTheFilterTable(t *testing.T) {
	pages := servedPages(t)
	var doc any
	must.Do(t, json.Unmarshal(pages["/openapi.json"].Body, &doc))
	at := func(x any, path ...string) any { // nil if it does not exist
		for _, name := range path {
			members, _ := x.(map[string]any)
			x = members[name]
		}
		return x
	}
	words := map[string][]string{}
	for _, p := range at(doc, "paths", "/v1/events", "get", "parameters").([]any) {
		items := at(p, "schema", "items")
		if ref, ok := at(items, "$ref").(string); ok {
			items = at(doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		name, _ := at(p, "name").(string)
		values, _ := at(items, "enum").([]any)
		for _, v := range values {
			words[name] = append(words[name], v.(string))
		}
	}
	var replay []string
	for _, f := range event.Filters {
		if diff := gocmp.Diff(append(slices.Clone(f.AllowedValues), f.ListValues...), words[f.Name]); diff != "" {
			t.Errorf("words of %s (-table +document):\n%s", f.Name, diff)
		}
		if f.Replay {
			replay = append(replay, f.Name)
		}
	}
	slices.Sort(replay)
	for _, path := range []string{"ReplayAtTop", "ReplayTimesBeside properties filter", "ReplayInFilter properties filter",
		"ReplayRunFilter"} {
		place := append([]string{"components", "schemas"}, strings.Fields(path+" properties")...)
		members := at(doc, place...).(map[string]any)
		for _, other := range []string{"since", "until", "rate_per_second", "dry_run", "event_id", "only_undelivered",
			"tenant"} {
			delete(members, other)
		}
		if diff := gocmp.Diff(replay, slices.Sorted(maps.Keys(members))); diff != "" {
			t.Errorf("filters in %s (-table +document):\n%s", path, diff)
		}
	}
}

// The document has every explained error type, and every type in the document is explained.
func TestDocumentHasTheErrors(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas map[string]struct {
				Words []string `json:"x-extensible-enum"`
			}
		}
	}
	pages := must.Get(DrawnPages())(t)
	must.Do(t, json.Unmarshal(pages["/openapi.json"].Body, &doc))
	var explained []string
	for _, m := range regexp.MustCompile(`class="op" id="(\w+)"`).FindAllSubmatch(pages["/docs/errors"].Body, -1) {
		explained = append(explained, string(m[1]))
	}
	want, got := slices.Sorted(slices.Values(explained)),
		slices.Sorted(slices.Values(doc.Components.Schemas["ErrorType"].Words))
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-) and document (+):\n%s", diff)
	}
}

// A value that two parts define is refused, because one of them would be lost.
func TestDocumentPartsMustNotOverlap(t *testing.T) {
	read := func(text string) *yaml.Node {
		var n yaml.Node
		must.Do(t, yaml.Unmarshal([]byte(text), &n))
		return n.Content[0]
	}
	whole := read("components: {schemas: {A: {type: string}}}")
	err := addPart(whole, read("components: {schemas: {B: {type: string}}}"))
	if err != nil || member(member(member(whole, "components"), "schemas"), "B") == nil {
		t.Errorf("another schema: %v", err)
	}
	if err := addPart(whole, read("components: {schemas: {A: {type: object}}}")); err == nil {
		t.Error("a second schema A passes")
	}
}
