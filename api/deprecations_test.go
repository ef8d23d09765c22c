package api

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// madeUp is a part of the document that exists in tests only.
const madeUp = `
paths:
  /v1/old/{thing_id}:
    get:
      operationId: readOldThing
      responses:
        "200": {description: A thing.}
        "404": {$ref: "#/components/responses/NotFound"}
  /v1/things:
    get:
      operationId: listThings
      parameters:
        - {name: colour, in: query, schema: {type: string}}
        - $ref: "#/components/parameters/Limit"
      responses:
        "200":
          description: Things.
          headers:
            X-Request-Id: {$ref: "#/components/headers/X-Request-Id"}
          content:
            application/json: {schema: {$ref: "#/components/schemas/ThingList"}}
    post:
      operationId: createThing
      requestBody: {content: {application/json: {schema: {type: object, properties: {shape: {type: string}}}}}}
      responses:
        "204": {description: Created.}
components:
  schemas:
    ThingList: {type: object, properties: {data: {type: array, items: {$ref: "#/components/schemas/Thing"}}}}
    Thing: {type: object, properties: {size: {type: integer}, next: {$ref: "#/components/schemas/Thing"}}}
`

// withMadeUp joins the parts of the document and the one of the tests.
func withMadeUp() (*yaml.Node, error) {
	whole, err := joinTestParts()
	if err != nil {
		return nil, err
	}
	var part yaml.Node
	if err := yaml.Unmarshal([]byte(madeUp), &part); err != nil {
		return nil, err
	}
	return whole, addPart(whole, part.Content[0])
}

var (
	oldRoute = deprecation{Call: "GET /v1/old/{thing_id}", Since: "2026-12-01", Sunset: "2027-03-15",
		Instead: "Use GET /v1/things."}
	oldParameter = deprecation{Call: "GET /v1/things", Parameter: "colour", Since: "2026-11-01",
		Instead: "Filter the list yourself."}
	oldMember = deprecation{Schema: "Thing", Member: "size", Since: "2027-01-01", Sunset: "2027-06-01",
		Instead: "Use weight."}
)

// deprecatedAPI answers calls of the made-up routes, some of which are deprecated.
func deprecatedAPI(t *testing.T, entries ...deprecation) (*deprecationTable, func(method, path string) *web.Recorder) {
	t.Helper()
	table := must.Get(newDeprecationTable(entries, withMadeUp))(t)
	fine := func(w http.ResponseWriter, _ *http.Request, _ *config.Key) error {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	missing := func(http.ResponseWriter, *http.Request, *config.Key) error { return web.Missing("no such thing") }
	rt := frame.NewRouter(frame.RouterConfig{Hosts: web.HostsOf("http://localhost", nil), Announce: table.announce},
		[]frame.Route{
			{Path: "/v1/old/{thing}", Methods: frame.Methods{"GET": missing}},
			{Path: "/v1/things", Methods: frame.Methods{"GET": fine, "POST": fine}},
		}, &frame.IdempotentCalls{})
	front := &web.Front{BaseURL: "http://localhost"}
	key := &config.Key{ID: "usr_1", Scope: config.Read}
	return table, func(method, target string) *web.Recorder {
		r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+target, nil)
		return front.Call(r, func(w http.ResponseWriter, r *http.Request) error { return rt.ServeFor(w, r, key) })
	}
}

// headersOf are the headers of a deprecation.
func headersOf(rec *web.Recorder) (out [3]string) {
	for i, name := range []string{"Deprecation", "Sunset", "Link"} {
		out[i] = rec.Header().Get(name)
	}
	return out
}

func TestDeprecatedCallsSaySo(t *testing.T) {
	const link = `</docs/deprecations>; rel="deprecation"; type="text/html"`
	_, call := deprecatedAPI(t, oldRoute, oldParameter, oldMember)
	for target, want := range map[string]struct {
		status  int
		headers [3]string
	}{
		"GET /v1/old/7":             {404, [3]string{"@1796083200", "Mon, 15 Mar 2027 00:00:00 GMT", link}},
		"HEAD /v1/old/7":            {404, [3]string{"@1796083200", "Mon, 15 Mar 2027 00:00:00 GMT", link}},
		"GET /v1/things":            {204, [3]string{"@1798761600", "Tue, 01 Jun 2027 00:00:00 GMT", link}},
		"GET /v1/things?colour=red": {204, [3]string{"@1793491200", "Tue, 01 Jun 2027 00:00:00 GMT", link}},
		"POST /v1/things":           {403, [3]string{}},
		"POST /v1/old/7":            {404, [3]string{}},
		"GET /v1/nothing":           {404, [3]string{}},
	} {
		method, path, _ := strings.Cut(target, " ")
		rec := call(method, path)
		if got := headersOf(rec); rec.Status != want.status || got != want.headers {
			t.Errorf("%s: %d %q, want %d %q", target, rec.Status, got, want.status, want.headers)
		}
	}
	_, call = deprecatedAPI(t)
	is.Equal(t, headersOf(call("GET", "/v1/old/7")), [3]string{}, "nothing is deprecated")
}

func TestDocumentMarksDeprecations(t *testing.T) {
	table, _ := deprecatedAPI(t, oldRoute, oldParameter, oldMember)
	node := must.Get(table.document())(t)
	text := must.Get(writeYAML(node))(t)
	var document map[string]any
	must.Do(t, yaml.Unmarshal(text, &document))
	at := func(path string) map[string]any {
		var x any = document
		for name := range strings.SplitSeq(path, " ") {
			if list, ok := x.([]any); ok {
				x = list[0]
			} else {
				members, _ := x.(map[string]any)
				x = members[name]
			}
		}
		members, _ := x.(map[string]any)
		return members
	}
	for path, d := range map[string]deprecation{
		"paths /v1/old/{thing_id} get":             oldRoute,
		"paths /v1/things get parameters 0":        oldParameter,
		"components schemas Thing properties size": oldMember,
	} {
		sunset, _ := at(path)["x-sunset"].(string)
		if at(path)["deprecated"] != true || at(path)["x-instead"] != d.Instead || sunset != d.Sunset ||
			at(path)["x-deprecated-since"] != d.Since {
			t.Errorf("%s: %v", path, at(path))
		}
	}
	for path, want := range map[string]bool{
		"paths /v1/old/{thing_id} get responses 200": true, "components responses NotFound": true,
		"paths /v1/things get responses 200": true, "paths /v1/things post responses 204": false,
		"paths /v1/me get responses 200": false,
	} {
		headers, _ := at(path)["headers"].(map[string]any)
		got := headers["Deprecation"] != nil && headers["Sunset"] != nil && headers["Link"] != nil
		if got != want {
			t.Errorf("%s: describes the headers: %v; it has %v", path, got, slices.Collect(maps.Keys(headers)))
		}
	}
	pages := must.Get(publicPages(table, nil))(t)
	for _, want := range []string{"<code>GET /v1/old/{thing_id}</code>", "since 2026-12-01, until 2027-03-15. Use GET",
		"<code>GET /v1/things?colour</code>", "since 2026-11-01. Filter", "<code>Thing.size</code>"} {
		if !strings.Contains(string(pages[deprecationsPath].Body), want) {
			t.Errorf("the page has no %q:\n%s", want, pages[deprecationsPath].Body)
		}
	}
	if page := string(servedPages(t)[deprecationsPath].Body); len(deprecations) == 0 &&
		!strings.Contains(page, "Nothing is deprecated") {
		t.Errorf("an empty page:\n%s", page)
	}
}

func TestInvalidDeprecations(t *testing.T) {
	for want, change := range map[string]func(*deprecation){
		"less than 90 days":         func(d *deprecation) { d.Sunset = "2027-02-28" },
		"since":                     func(d *deprecation) { d.Since = "1.12.2026" },
		"sunset":                    func(d *deprecation) { d.Sunset = "soon" },
		"what to do instead":        func(d *deprecation) { d.Instead = "" },
		"no such thing":             func(d *deprecation) { d.Call = "DELETE /v1/old/{thing_id}" },
		"has no such thing":         func(d *deprecation) { d.Parameter = "colour" },
		"document has no such":      func(d *deprecation) { d.Call, d.Schema, d.Member = "", "Thing", "colour" },
		"OpenAPI document has no":   func(d *deprecation) { d.Call, d.Schema, d.Member = "", "Nothing", "size" },
		"shared by several calls":   func(d *deprecation) { d.Call, d.Parameter = "GET /v1/things", "limit" },
		"deprecation of GET /v1/no": func(d *deprecation) { d.Call = "GET /v1/no" },
	} {
		d := oldRoute
		change(&d)
		if _, err := newDeprecationTable([]deprecation{d}, withMadeUp); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", d, err, want)
		}
	}
}

// CHANGELOG.md announces what is deprecated, in a list "Deprecated", with the date from which it may be missing.
func TestDeprecationsAreAnnounced(t *testing.T) {
	text := must.Get(os.ReadFile("../CHANGELOG.md"))(t)
	for _, problem := range unannounced(deprecations, string(text)) {
		t.Error(problem)
	}
}

func TestUnannouncedDeprecationsAreFound(t *testing.T) {
	const entries = "\n### Added\n\n- A thing.\n\n### Deprecated\n\n- `GET /v1/old/{thing_id}` may be missing\n  from " +
		"2027-03-15 on: use `GET /v1/things`.\n- `Thing.size`, until 2027-06-01.\n- `GET /v1/things?colour` stays.\n"
	all := []deprecation{oldRoute, oldParameter, oldMember}
	for changelog, want := range map[string][]string{
		"# Changelog\n\n## Unreleased\n" + entries:           nil,
		"# Changelog\n\n## 0.2.0 - 2026-12-15\n" + entries:   nil,
		"# Changelog\n\n## [0.2.0] - 2026-12-16\n" + entries: {"GET /v1/old/{thing_id} was announced on 2026-12-16"},
		"## 0.2.0\n" + entries:                               {"## 0.2.0 has no date", "## 0.2.0 has no date"},
		"## Unreleased\n\n### Deprecated\n\n- `Thing.size`.\n": {"GET /v1/old/{thing_id} is",
			"GET /v1/things?colour is", "Thing.size is"},
		"## Unreleased\n" + strings.ReplaceAll(entries, "### Deprecated", "### Changed"): {"GET /v1/old/{thing_id} is",
			"GET /v1/things?colour is", "Thing.size is"},
	} {
		got := unannounced(all, changelog)
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%s: %s", changelog, gocmp.Diff(want, got))
		}
	}
}

var (
	sectionHead = regexp.MustCompile(`(?m)^## .*$`)
	listHead    = regexp.MustCompile(`(?m)^### .*$`)
	releaseDate = regexp.MustCompile(`- (\d{4}-\d{2}-\d{2})$`)
	newItem     = regexp.MustCompile(`(?m)^- `)
)

// unannounced returns what is wrong with the announcements of the entries in a changelog. A release announces on its
// date; what is not released yet has no date, and 90 days are between the dates of its entry.
func unannounced(entries []deprecation, changelog string) (problems []string) {
	for i := range entries {
		d := &entries[i]
		release, found := announcedIn(d, changelog)
		if !found {
			problems = append(problems, d.Name()+" is deprecated, and no item below ### Deprecated of CHANGELOG.md has `"+
				d.Name()+"` "+d.Sunset)
			continue
		}
		if release == "## Unreleased" || d.Sunset == "" {
			continue
		}
		date := releaseDate.FindStringSubmatch(release)
		if date == nil {
			problems = append(problems, release+" has no date, and announces "+d.Name())
		} else if dateOf(d.Sunset).Before(dateOf(date[1]).AddDate(0, 0, noticeDays)) {
			problems = append(problems, d.Name()+" was announced on "+date[1]+", less than 90 days before "+d.Sunset)
		}
	}
	return problems
}

// announcedIn returns the heading of the first section of a changelog that announces an entry.
func announcedIn(d *deprecation, changelog string) (release string, found bool) {
	heads := sectionHead.FindAllStringIndex(changelog, -1)
	for i, at := range heads {
		end := len(changelog)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		for _, list := range splitBefore(listHead, changelog[at[1]:end]) {
			if !strings.HasPrefix(list, "### Deprecated\n") {
				continue
			}
			for _, item := range splitBefore(newItem, list) {
				item = strings.Join(strings.Fields(item), " ")
				if strings.Contains(item, "`"+d.Name()+"`") && strings.Contains(item, d.Sunset) {
					return changelog[at[0]:at[1]], true
				}
			}
		}
	}
	return "", false
}

// splitBefore cuts a text before each match.
func splitBefore(r *regexp.Regexp, text string) (parts []string) {
	begin := 0
	for _, at := range r.FindAllStringIndex(text, -1) {
		parts, begin = append(parts, text[begin:at[0]]), at[0]
	}
	return append(parts, text[begin:])
}

// A fault of the documents ends the start with its reason.
func TestFaultOfTheDocumentsEndsRun(t *testing.T) {
	table := &deprecationTable{join: func() (*yaml.Node, error) { return nil, errors.New("a part is broken") }}
	a := &API{public: newPublic(&Config{}, &Deps{}, table, &areas{})}
	is.Failed(t, a.Run(t.Context()), "a part is broken", "Run")
}
