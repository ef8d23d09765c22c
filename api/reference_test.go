package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"go/format"
	"html"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

var (
	anchorID   = regexp.MustCompile(` id="([^"]+)"`)
	anchorLink = regexp.MustCompile(`href="(/docs(?:/errors)?)?#([^"]+)"`)
	loaded     = regexp.MustCompile(`<(?:script|link|img|iframe|form|object)\b[^>]*>|\bon[a-z]+="|url\(|@import`)
	preformed  = regexp.MustCompile(`(?s)<figure class="code ?([a-z]*)"><figcaption>([^<]*)</figcaption>` +
		`<pre[^>]*>(.*?)</pre>`)
	member = regexp.MustCompile(`"([a-z0-9_]+)": \[?\s*"([^"]*)"`)
)

// reference returns the two pages, and the anchors of each.
func reference(c *client) (pages map[string]string, anchors map[string][]string) {
	pages, anchors = map[string]string{}, map[string][]string{}
	for _, path := range []string{"/docs", "/docs/errors"} {
		pages[path] = string(c.do("GET", path, nil).want(200).raw)
		for _, m := range anchorID.FindAllStringSubmatch(pages[path], -1) {
			anchors[path] = append(anchors[path], html.UnescapeString(m[1]))
		}
	}
	return pages, anchors
}

// The pages run no script, load nothing, and their policy allows their own style only.
func TestReferenceLoadsNothing(t *testing.T) {
	c := newClient(t).as("")
	for _, path := range []string{"/docs", "/docs/errors"} {
		a := c.do("GET", path, nil).want(200)
		policy := a.Header.Get("Content-Security-Policy")
		if !regexp.MustCompile(`^sandbox; default-src 'none'; style-src 'sha256-[^' ]+'; img-src data:; base-uri 'none'; `+
			`form-action 'none'; frame-ancestors 'none'$`).MatchString(policy) ||
			!strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s is served with %v", path, a.Header)
		}
		// A browser applies the headers of a 304 to the cached page.
		kept := c.do("GET", path, nil, "If-None-Match", a.Header.Get("ETag")).want(http.StatusNotModified)
		is.Equal(t, kept.Header.Get("Content-Security-Policy"), policy, "the policy of the 304")
		for _, element := range loaded.FindAllString(string(a.raw), -1) {
			is.Equal(t, element, `<link rel="icon" href="data:,">`, "%s has", path)
		}
		is.Lacks(t, string(a.raw), "ZgotmplZ", "%s has a value that the template refused", path)
	}
	c.do("GET", "/docs/", nil).want(http.StatusNotFound)
}

// Every operation, webhook, tag, schema and type of error of the document has its anchor, once, and every link leads
// to an anchor.
func TestReferenceHasEveryAnchor(t *testing.T) {
	doc := must.Get(loadContract())(t)
	pages, anchors := reference(newClient(t).as(""))
	want := slices.Collect(maps.Keys(members(at(doc.source, "components", "schemas"))))
	for i := range want {
		want[i] = "schema-" + want[i]
	}
	for _, items := range []any{doc.source["paths"], doc.source["webhooks"]} {
		for _, item := range members(items) {
			for method, op := range members(item) {
				if method != "parameters" {
					want = append(want, at(op, "operationId").(string))
				}
			}
		}
	}
	for _, tag := range doc.source["tags"].([]any) {
		want = append(want, at(tag, "name").(string))
	}
	if len(want) < 300 {
		t.Fatalf("the document has %d anchors", len(want))
	}
	for _, name := range want {
		if !slices.Contains(anchors["/docs"], name) {
			t.Errorf("/docs has no anchor %s", name)
		}
	}
	for path, text := range pages {
		if unique := slices.Compact(slices.Sorted(slices.Values(anchors[path]))); len(unique) != len(anchors[path]) {
			t.Errorf("%s has an anchor twice", path)
		}
		for _, m := range anchorLink.FindAllStringSubmatch(text, -1) {
			if target := m[1]; !slices.Contains(anchors[map[bool]string{true: path, false: target}[target == ""]], m[2]) {
				t.Errorf("%s links to %s#%s, which does not exist", path, target, m[2])
			}
		}
	}
	if !strings.Contains(pages["/docs/errors"], `href="/docs#createEndpoint"`) ||
		!strings.Contains(pages["/docs"], `href="/docs/errors#invalid_request"`) {
		t.Error("the pages do not link to each other")
	}
}

// Every operation has a code sample in each language; no example has a value to fill in.
func TestReferenceHasExamples(t *testing.T) {
	pages, _ := reference(newClient(t).as(""))
	count := map[string]int{}
	for path, text := range pages {
		for _, m := range preformed.FindAllStringSubmatch(text, -1) {
			kind, example := m[1]+m[2], html.UnescapeString(m[3])
			count[kind]++
			for _, m := range member.FindAllStringSubmatch(example, -1) {
				if strings.ReplaceAll(m[1], "_", " ") == m[2] {
					t.Errorf("%s: an example has %s, which is no value", path, m[0])
				}
			}
			for _, placeholder := range []string{`""`, "[null", "/{", "ZgotmplZ", "<no value>"} {
				is.Lacks(t, example, placeholder, "%s: an example has %s", path, placeholder)
			}
			if m[2] == "Answer" && !json.Valid([]byte(example)) {
				t.Errorf("%s: an answer is no JSON:\n%s", path, example)
			}
			if m[1] == "go" {
				if formatted, err := format.Source([]byte(example + "\n")); err != nil || string(formatted) != example+"\n" {
					t.Errorf("%s: a sample is no formatted Go (%v):\n%s", path, err, example)
				}
			}
		}
	}
	if n := count["curlcurl"]; n < 80 || count["jsJavaScript"] != n || count["pyPython"] != n || count["goGo"] != n ||
		count["Answer"] < 80 || count["Request"] < 1 {
		t.Errorf("examples: %v", count)
	}
}

// The pages are small as sent, and a client without gzip gets the same page.
func TestReferenceIsCompressed(t *testing.T) {
	c := newClient(t).as("")
	for path, most := range map[string]int{"/docs": 300 << 10, "/docs/errors": 30 << 10} {
		plain := c.do("GET", path, nil, "Accept-Encoding", "gzip;q=0").want(200)
		sent := c.do("GET", path, nil, "Accept-Encoding", "gzip").want(200)
		if sent.Header.Get("Content-Encoding") != "gzip" || sent.Header.Get("Vary") != "Accept-Encoding" ||
			plain.Header.Get("Vary") != "Accept-Encoding" || sent.Header.Get("ETag") == plain.Header.Get("ETag") {
			t.Errorf("%s: %v and %v", path, plain.Header, sent.Header)
		}
		z := must.Get(gzip.NewReader(bytes.NewReader(sent.raw)))(t)
		if text, err := io.ReadAll(z); err != nil || !bytes.Equal(text, plain.raw) {
			t.Errorf("%s differs when it is decompressed: %v", path, err)
		}
		if len(sent.raw) > most {
			t.Errorf("%s has %d bytes, at most %d", path, len(sent.raw), most)
		}
		c.do("GET", path, nil, "Accept-Encoding", "gzip", "If-None-Match", sent.Header.Get("ETag")).want(304)
	}
}

// The examples of the document are valid answers: the closed schemas, which checks of answers use, accept them.
func TestExamplesOfSchemas(t *testing.T) {
	doc := must.Get(loadContract())(t)
	checked := 0
	for name, s := range members(at(doc.source, "components", "schemas")) {
		examples, _ := at(s, "examples").([]any)
		for _, example := range examples {
			schema, err := doc.schemas.Compile("relay:closed#/$defs/" + name)
			if err != nil {
				continue // no answer refers to it
			}
			is.OK(t, schema.Validate(example), name)
			checked++
		}
	}
	if checked < 10 {
		t.Errorf("%d examples", checked)
	}
}
