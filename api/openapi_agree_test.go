package api

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/pkg/event"
)

// described is the part of the document that these tests read.
type described struct {
	Paths map[string]map[string]json.RawMessage
}

type operation struct {
	OperationID string
	Parameters  []parameter
	Responses   map[string]json.RawMessage
	Security    []map[string][]string
}

type parameter struct {
	Ref     string `json:"$ref"`
	Name    string
	In      string
	Aliases []string `json:"x-aliases"`
}

// servedPages returns the public pages.
func servedPages(t *testing.T) map[string]*page {
	t.Helper()
	deprecated, err := newDeprecationTable(deprecations, joinParts)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := publicPages(deprecated, &Config{BaseURL: "https://relay.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func document(t *testing.T) described {
	t.Helper()
	pages := servedPages(t)
	var d described
	if err := json.Unmarshal(pages["/openapi.json"].body, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

var inBraces = regexp.MustCompile(`\{[^}]*\}`)

// calls returns the operations by method and path, with the variables as {}.
func (d described) calls(t *testing.T) map[string]operation {
	t.Helper()
	out := map[string]operation{}
	for path, item := range d.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var op operation
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatal(err)
			}
			call := strings.ToUpper(method) + " " + inBraces.ReplaceAllString(path, "{}")
			if _, twice := out[call]; twice {
				t.Errorf("%s is listed twice", call)
			}
			out[call] = op
		}
	}
	return out
}

// The document has every route and no other.
func TestDocumentHasTheRoutes(t *testing.T) {
	var served []string
	type stored struct{ Configuration }
	c := &core{}
	deps := Deps{Config: stored{}}
	fixtures, err := newFixtures(&events{core: c}, &deps)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range (&resources{
		drains: newDrains(&senders{core: c}), dsns: newDSNs(&senders{core: c}), domains: newDomains(c, &deps),
		scans: newScans(c, &deps), tripwires: newTripwires(c, &deps, nil, ""), fixtures: fixtures,
	}).routes() {
		for method := range x.methods {
			served = append(served, method+" "+inBraces.ReplaceAllString(x.path, "{}"))
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/openapi-compat.json", "/openapi.yaml",
		"/docs/errors",
		"/docs/deprecations"} {
		served = append(served, "GET "+path)
	}
	calls := document(t).calls(t)
	slices.Sort(served)
	if diff := gocmp.Diff(served, slices.Sorted(maps.Keys(calls))); diff != "" {
		t.Errorf("routes (-) and document (+):\n%s", diff)
	}
	ids := map[string]string{}
	for call, op := range calls {
		if other, twice := ids[op.OperationID]; twice || op.OperationID == "" {
			t.Errorf("%s and %s are both called %q", call, other, op.OperationID)
		}
		ids[op.OperationID] = call
		_, path, _ := strings.Cut(call, " ")
		if open := op.Security != nil; open == strings.HasPrefix(path, "/v1/") {
			t.Errorf("%s: needs a key: %v", call, !open)
		}
	}
}

// The document has the statuses of the contract for each operation that can return them.
func TestDocumentHasTheStatuses(t *testing.T) {
	for call, op := range document(t).calls(t) {
		method, path, _ := strings.Cut(call, " ")
		if !strings.HasPrefix(path, "/v1/") {
			continue
		}
		want := []string{"400", "401", "429", "500", "503", "504"}
		if method != "GET" {
			want = append(want, "403")
		}
		// what they name may not exist
		named := []string{"POST /v1/recoveries", "POST /v1/fixtures", "GET /v1/fixtures/export"}
		if strings.Contains(path, "{}") || slices.Contains(named, call) {
			want = append(want, "404")
		}
		var got []string
		for status := range op.Responses {
			if status[0] != '2' {
				got = append(got, status)
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +document)\n%s", call, diff)
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
	q := newQuery(httptest.NewRequestWithContext(t.Context(), "GET", "/", nil), "")
	a := &events{core: &core{clock: time.Now}}
	a.eventQuery(q, "")
	others := slices.DeleteFunc(q.aliases, func(name string) bool { return strings.HasSuffix(name, "[]") })
	for _, list := range [][2][]string{{q.names, names}, {others, aliases}} {
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
	if err := json.Unmarshal(pages["/openapi.json"].body, &doc); err != nil {
		t.Fatal(err)
	}
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
		if diff := gocmp.Diff(f.AllowedValues, words[f.Name]); diff != "" {
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
		for _, other := range []string{"since", "until", "rate_per_second", "dry_run", "event_id"} {
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
	pages := servedPages(t)
	if err := json.Unmarshal(pages["/openapi.json"].body, &doc); err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, d := range errorDocs {
		explained = append(explained, d.kind)
	}
	want, got := slices.Sorted(slices.Values(explained)),
		slices.Sorted(slices.Values(doc.Components.Schemas["ErrorType"].Words))
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-) and document (+):\n%s", diff)
	}
}

// Every id that an operation needs in its path is linked from the answer of another operation, so that tools can
// reach all of them.
func TestDocumentLinksReachEveryOperation(t *testing.T) {
	pages := servedPages(t)
	type link struct {
		Ref         string `json:"$ref"`
		OperationID string
		Parameters  map[string]string
	}
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Links map[string]link }
	}
	if err := json.Unmarshal(pages["/openapi.json"].body, &doc); err != nil {
		t.Fatal(err)
	}
	needs, reached := map[string][]string{}, map[string]bool{}
	var links []link
	for path, item := range doc.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var op struct {
				OperationID string
				Responses   map[string]struct{ Links map[string]link }
			}
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatal(err)
			}
			needs[op.OperationID] = inBraces.FindAllString(path, -1)
			for _, answer := range op.Responses {
				for name, l := range answer.Links {
					known, ok := doc.Components.Links[strings.TrimPrefix(l.Ref, "#/components/links/")]
					if !ok {
						t.Errorf("%s links to %s, which is not there", op.OperationID, name)
					}
					links = append(links, known)
				}
			}
		}
	}
	for _, l := range links {
		whole := true
		for _, name := range needs[l.OperationID] {
			whole = whole && l.Parameters[strings.Trim(name, "{}")] != ""
		}
		reached[l.OperationID] = reached[l.OperationID] || whole
	}
	for op, names := range needs {
		if len(names) > 0 && !reached[op] {
			t.Errorf("no answer links to %s with its %v", op, names)
		}
	}
}

// A value that two parts define is refused, because one of them would be lost.
func TestDocumentPartsMustNotOverlap(t *testing.T) {
	read := func(text string) *yaml.Node {
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(err)
		}
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
