package api_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"go/format"
	"html"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/eventrelay/relay/api"
	apiframe "github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/dashboard"
	"github.com/eventrelay/relay/docs"
	agentpages "github.com/eventrelay/relay/features/agents/pages"
	cataloguepages "github.com/eventrelay/relay/features/catalogue/pages"
	fixturepages "github.com/eventrelay/relay/features/fixtures/pages"
	issuepages "github.com/eventrelay/relay/features/issues/pages"
	leakpages "github.com/eventrelay/relay/features/leaks/pages"
	portalpages "github.com/eventrelay/relay/features/portal/pages"
	"github.com/eventrelay/relay/pkg/audit"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/limit"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// noUses are the uses of keys that were never used.
type noUses struct{}

func (noUses) KeyUses(context.Context, string, []string) (map[string]audit.Use, error) {
	return nil, nil
}

// noActions is a service without agents.
type noActions struct{ dashboard.AgentActions }

func (noActions) Pending(string) []*config.Action { return nil }

// pages are the pages of the dashboard over the API of a client, for a person who is signed in.
type pages struct {
	*client
	handler http.Handler
	cookies map[string]*http.Cookie
}

// newPages signs a new person in to the dashboard.
func newPages(c *client) *pages {
	c.t.Helper()
	p := openPages(c, dashboard.Config{BaseURL: baseURL, Version: "test"}, noActions{})
	email := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(c.t.Name())) + "@example.com"
	token, u, err := configuration.AddUser(c.t.Context(), email, config.ReadWrite)
	must.Do(c.t, err)
	c.t.Cleanup(func() { _ = configuration.RemoveUser(context.WithoutCancel(c.t.Context()), u.ID) })
	p.open("POST", "/app/link/"+token, http.StatusSeeOther)
	password := url.Values{"password": {"a good password"}, "again": {"a good password"}}
	p.open("POST", "/app/password", http.StatusSeeOther, password.Encode())
	return p
}

// site has the pages of the whole relay.
var site = sync.OnceValues(func() (*dashboard.Site, error) {
	return dashboard.NewSite(leakpages.Area(), agentpages.Area(), cataloguepages.Area(), fixturepages.Area(),
		issuepages.Area(), portalpages.Area())
})

// openPages returns the pages without a session.
func openPages(c *client, cfg dashboard.Config, actions dashboard.AgentActions) *pages {
	c.t.Helper()
	limits := must.Get(
		limit.New(limit.DefaultConfig(), limit.Deps{Log: slog.New(slog.DiscardHandler), Now: time.Now}))(c.t)
	d := must.Get(dashboard.New(cfg, dashboard.Deps{
		Account: func() string { return configuration.Account().ID }, API: c.api, Control: configuration,
		SignInLimit: limits.NewSignIns(), KeyUses: noUses{}, AgentActions: actions,
		Doctor: func(context.Context) ([]dashboard.Check, error) { return nil, nil },
	}, must.Get(site())(c.t)))(c.t)
	return &pages{c, d.Handler(), map[string]*http.Cookie{}}
}

// open sends a request of a browser, with the body of a form if there is one, and returns the page.
func (p *pages) open(method, target string, want int, form ...string) string {
	p.t.Helper()
	r := p.request(method, target, form...)
	w := httptest.NewRecorder()
	if p.handler.ServeHTTP(w, r); w.Code != want {
		p.t.Fatalf("%s %s: %d %s", method, target, w.Code, w.Body)
	}
	for _, c := range w.Result().Cookies() {
		p.cookies[c.Name] = c
	}
	return w.Body.String()
}

func (p *pages) request(method, target string, form ...string) *http.Request {
	r := httptest.NewRequestWithContext(p.t.Context(), method, target, strings.NewReader(strings.Join(form, "")))
	r.Host = strings.TrimPrefix(baseURL, "https://")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range p.cookies {
		r.AddCookie(c)
	}
	return r
}

// A page reads the store as often as the JSON routes that it shows, and draws it with few allocations. Counts, because
// a time says more of the machine; BenchmarkPages has the times.
func TestPagesCostLittle(t *testing.T) {
	reads := &countedReads{}
	c := newClient(t, withRates(0, 0, 0), func(_ *api.Config, d *api.Deps) {
		reads.EventReader, d.Events = d.Events, reads
	})
	p := newPages(c)
	ep := c.endpoint(nil).text("id")
	var ev string
	for range 50 {
		ev = c.send(ep)
	}
	for _, x := range []struct {
		page, route string
		rows        int // of the test; 0: other tests add to them
	}{
		{"/app/events?endpoint_id=" + ep, "/v1/events?limit=50&endpoint_id=" + ep, 50},
		{"/app/events/" + ev, "/v1/events/" + ev, 1},
		{"/app/events/" + ev + "/attempts", "/v1/events/" + ev + "/attempts", 1},
		{"/app/endpoints", "/v1/endpoints?limit=50", 0},
		{"/app/endpoints/" + ep, "/v1/endpoints/" + ep, 1},
	} {
		p.open("GET", x.page, http.StatusOK) // caches
		reads.n = 0
		c.do("GET", x.route, nil).want(http.StatusOK)
		want := reads.n
		reads.n = 0
		if p.open("GET", x.page, http.StatusOK); reads.n != want {
			t.Errorf("%s reads the store %d times, its route %d times", x.page, reads.n, want)
		}
		most := 8_000 + 500*x.rows
		n := math.MaxInt // the fewest of some: what else the process does meanwhile counts too, more on a slow machine
		for range 5 {
			n = min(n, int(testing.AllocsPerRun(1, func() { p.open("GET", x.page, http.StatusOK) })))
		}
		if x.rows > 0 && n > most {
			t.Errorf("%s makes %d allocations, want at most %d", x.page, n, most)
		}
	}
}

// BenchmarkPages is what pages of 50 events cost beside their JSON routes, without the store that is behind both.
func BenchmarkPages(b *testing.B) {
	c := newClient(b, withRates(0, 0, 0))
	p := newPages(c)
	ep := c.endpoint(nil).text("id")
	var ev string
	for range 50 {
		ev = c.send(ep)
	}
	for _, x := range []struct{ page, route string }{
		{"/app/events", "/v1/events?limit=50"}, {"/app/events/" + ev, "/v1/events/" + ev},
		{"/app/endpoints", "/v1/endpoints?limit=50"}, {"/app/endpoints/" + ep, "/v1/endpoints/" + ep},
	} {
		name := strings.NewReplacer(ep, "{endpoint}", ev, "{event}").Replace(x.page)
		b.Run("page "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.handler.ServeHTTP(httptest.NewRecorder(), p.request("GET", x.page))
			}
		})
		b.Run("route of "+name, func(b *testing.B) {
			b.ReportAllocs()
			r := httptest.NewRequest("GET", x.route, nil)
			r.Header.Set("Authorization", "Bearer "+writeKey)
			for b.Loop() {
				c.api.Handler().ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}

// countedReads counts the reads of a store. Each waits for the fence, which asks the writer for one flush at most.
type countedReads struct {
	api.EventReader
	n int
}

func (r *countedReads) Events(ctx context.Context, q event.Query) (event.Page, error) {
	r.n++
	return r.EventReader.Events(ctx, q)
}

func (r *countedReads) Event(ctx context.Context, account string, d id.ID) (*event.Detail, error) {
	r.n++
	return r.EventReader.Event(ctx, account, d)
}

func (r *countedReads) Attempts(ctx context.Context, account string, ev, before id.ID, limit int) (event.AttemptPage,
	error) {
	r.n++
	return r.EventReader.Attempts(ctx, account, ev, before, limit)
}

// liveElement is an element that live.js fetches again: its id, the path and how often, in seconds.
var liveElement = regexp.MustCompile(`id="([^"]+)"[^>]* data-live="([^"]+)" data-every="([0-9]+)"`)

// Ten open tabs of any page that follows events cause at most ten flushes a second, whether scripts poll or the pages
// reload.
func TestOpenTabsCauseFewFlushes(t *testing.T) {
	reads := &countedReads{}
	c := newClient(t, withRates(0, 0, 0), func(_ *api.Config, d *api.Deps) {
		reads.EventReader, d.Events = d.Events, reads
	})
	p := newPages(c)
	made, _ := c.receive("stripe", time.Now().Truncate(time.Second), `{"a":1}`, func(*event.Event) {})
	pending := c.send(c.endpoint(nil).text("id"))
	for name, path := range map[string]string{
		"list": "/app/events?tail=1", "set-up of an endpoint": "/app/endpoints/" + made.text("id") + "/wait",
		"event": "/app/events/" + pending,
	} {
		t.Run(name, func(t *testing.T) {
			page := p.open("GET", path, http.StatusOK)
			live := liveElement.FindAllStringSubmatch(page, -1)
			if len(live) == 0 {
				t.Fatal("the page follows nothing")
			}
			var ids []string // of parts with the same path, which are fetched together
			for _, part := range live {
				if ids = append(ids, part[1]); part[2] != live[0][2] || part[3] != live[0][3] {
					t.Fatalf("the page follows several paths: %q", live)
				}
			}
			poll := html.UnescapeString(live[0][2])
			every, err := strconv.Atoi(live[0][3])
			if err != nil || every < 1 {
				t.Fatalf("%q", live)
			}
			const tabs = 10
			span := 2 * every // seconds; all others repeat them
			reads.n = 0
			for second := range span {
				for tab := range tabs {
					if (second+tab)%every == 0 { // tabs were opened one after the other
						p.poll(poll, ids)
					}
				}
			}
			byScript := reads.n
			if most := 10 * span; byScript > most || byScript < span*tabs/every {
				t.Errorf("%d reads in %d s, at most %d", byScript, span, most)
			}
			if reload := regexp.MustCompile(`http-equiv="refresh" content="([0-9]+)"`).FindStringSubmatch(page); reload != nil {
				reads.n = 0
				p.open("GET", path, http.StatusOK)
				seconds, _ := strconv.Atoi(reload[1])
				if seconds < 1 || reads.n*tabs > 10*seconds {
					t.Errorf("a page that reloads every %d s reads %d times", seconds, reads.n)
				}
			}
			t.Logf("%d reads by scripts of %d tabs in %d s", byScript, tabs, span)
		})
	}
}

// Tabs that show the figures of the overview, reloaded again and again, share their reads of the store: each figure is
// read once in ten seconds, so any number of tabs causes less than one flush a second.
func TestOpenTabsOfTheOverviewShareReads(t *testing.T) {
	var seconds, reads int
	began := time.Now()
	c := newClient(t, withRates(0, 0, 0), func(_ *api.Config, d *api.Deps) {
		d.Now = func() time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	})
	c.fake.OverviewFunc = func(string, time.Time) (event.Overview, error) { reads++; return event.Overview{}, nil }
	c.fake.TrafficFunc = func(string) (event.DestinationTraffic, error) { reads++; return event.DestinationTraffic{}, nil }
	c.fake.LastDaysFunc = func() (*event.UsageDays, error) {
		reads++
		return &event.UsageDays{From: time.Now(), To: time.Now(), Figures: event.Figures{AsOf: time.Now()}}, nil
	}
	p := newPages(c)
	paths := []string{"/app", "/app/endpoints", "/app/endpoints/" + c.endpoint(nil).text("id"), "/app/usage"}
	const tabs, span, figures = 8, 25, 3
	for seconds = 0; seconds < span; seconds += 4 {
		for tab := range tabs {
			p.open("GET", paths[tab%len(paths)], http.StatusOK)
		}
	}
	if most := figures * (span/10 + 1); reads < figures || reads > most {
		t.Errorf("%d reads of the store in %d s, at most %d", reads, span, most)
	}
}

// poll fetches parts of a page as live.js does.
func (p *pages) poll(path string, ids []string) {
	p.t.Helper()
	r := p.request("GET", path)
	r.Header.Set("Relay-Part", strings.Join(ids, " "))
	w := httptest.NewRecorder()
	p.handler.ServeHTTP(w, r)
	for _, id := range ids {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `id="`+id+`"`) {
			p.t.Fatalf("poll %s: %d without %s: %s", path, w.Code, id, w.Body)
		}
	}
}

// A page of a feature is served as it is: readable by everybody, without scripts and without a key.
func TestPagesOfFeatures(t *testing.T) {
	c := newClient(t, func(_ *api.Config, deps *api.Deps) {
		deps.Areas = append(deps.Areas, func(*apiframe.Core) apiframe.Area {
			return apiframe.Area{Pages: func(*yaml.Node) (map[string]*apiframe.Page, error) {
				return map[string]*apiframe.Page{
					"/scan-bot": apiframe.NewPage("text/html; charset=utf-8", []byte("<!doctype html>it"))}, nil
			}}
		})
	}).as("")
	a := c.do("GET", "/scan-bot", nil).want(http.StatusOK)
	if string(a.raw) != "<!doctype html>it" || a.Header.Get("Content-Type") != "text/html; charset=utf-8" ||
		a.Header.Get("Content-Security-Policy") != "sandbox; default-src 'none'" {
		t.Errorf("%v %s", a.Header, a.raw)
	}
}

var (
	anchorID  = regexp.MustCompile(` id="([^"]+)"`)
	linkTo    = regexp.MustCompile(`\b(?:href|src|srcset|action)="([^"]*)"`)
	loaded    = regexp.MustCompile(`<(?:script|link|iframe|object)\b[^>]*>|<[^>]+ on[a-z]+="|<[^>]+ style="|@import`)
	preformed = regexp.MustCompile(`(?s)<figure class="code ?([a-z]*)"><figcaption>([^<]*)</figcaption>` +
		`<pre[^>]*>(.*?)</pre>`)
	member = regexp.MustCompile(`"([a-z0-9_]+)": \[?\s*"([^"]*)"`)
	oneOp  = regexp.MustCompile(`(?s)<section class="op" id="(\w+)".*?</section>`)
)

// drawnSite returns the pages of the documentation, and the anchors of each.
func drawnSite(t *testing.T) (pages map[string]string, anchors map[string][]string) {
	t.Helper()
	pages, anchors = map[string]string{}, map[string][]string{}
	for path, p := range must.Get(api.DrawnPages())(t) {
		pages[path] = string(p.Body)
		if !strings.HasPrefix(path, "/docs") || strings.HasPrefix(path, "/docs/pictures/") {
			continue
		}
		for _, m := range anchorID.FindAllStringSubmatch(pages[path], -1) {
			anchors[path] = append(anchors[path], html.UnescapeString(m[1]))
		}
	}
	return pages, anchors
}

// The pages run their own script only, load nothing but pictures of the relay, and their policy allows no more.
func TestDocumentationLoadsNothing(t *testing.T) {
	c := newClient(t).as("")
	policies := regexp.MustCompile(`^sandbox allow-scripts allow-forms; default-src 'none'; style-src 'sha256-[^' ]+'; ` +
		`img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'self'; script-src 'sha256-[^' ]+'$`)
	for _, path := range []string{"/docs", "/docs/errors", "/docs/api/endpoints", "/docs/search?q=%3Cscript%3E"} {
		a := c.do("GET", path, nil).want(200)
		policy := a.Header.Get("Content-Security-Policy")
		if !policies.MatchString(policy) || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s is served with %v", path, a.Header)
		}
		// A browser applies the headers of a 304 to the cached page.
		kept := c.do("GET", path, nil, "If-None-Match", a.Header.Get("ETag")).want(http.StatusNotModified)
		is.Equal(t, kept.Header.Get("Content-Security-Policy"), policy, "the policy of the 304")
	}
	pages, anchors := drawnSite(t)
	for path := range anchors {
		for _, element := range loaded.FindAllString(pages[path], -1) {
			if element != "<script>" && element != `<link rel="icon" href="data:,">` {
				t.Errorf("%s has %s", path, element)
			}
		}
		is.Lacks(t, pages[path], "ZgotmplZ", "%s has a value that the template refused", path)
	}
	is.Equal(t, c.do("GET", "/docs/pictures/path-light.svg", nil).want(200).Header.Get("Content-Type"), "image/svg+xml")
	c.do("GET", "/docs/", nil).want(http.StatusNotFound)
}

// Each document is a page of a bounded size, and every link and anchor leads somewhere.
func TestDocumentationHasNoDeadLink(t *testing.T) {
	pages, anchors := drawnSite(t)
	must.Do(t, fs.WalkDir(docs.Files, ".", func(name string, d fs.DirEntry, err error) error {
		page := strings.TrimSuffix("/docs/"+strings.TrimSuffix(name, ".md"), "/README")
		if strings.HasSuffix(name, ".md") && len(pages[page]) < 1000 {
			t.Errorf("%s is no page", name)
		}
		return err
	}))
	outside := regexp.MustCompile(`^(?:https?:|mailto:|data:|/app|/catalogue|/tools|/v1|/in/)`)
	links := 0
	for path, text := range pages {
		if anchors[path] == nil {
			continue
		}
		if most := 150_000; len(text) > most {
			t.Errorf("%s has %d bytes, at most %d", path, len(text), most)
		}
		if unique := slices.Compact(slices.Sorted(slices.Values(anchors[path]))); len(unique) != len(anchors[path]) {
			t.Errorf("%s has an anchor twice", path)
		}
		for _, m := range linkTo.FindAllStringSubmatch(text, -1) {
			address := html.UnescapeString(m[1])
			target, anchor, _ := strings.Cut(address, "#")
			target = cmp.Or(target, path)
			switch known := pages[target] != ""; {
			case outside.MatchString(address):
			case !known, anchor != "" && !slices.Contains(anchors[target], anchor):
				t.Errorf("%s links to %s, which does not exist", path, address)
			}
			links++
		}
	}
	if len(anchors) < 100 || links < 5000 {
		t.Errorf("%d pages with %d links", len(anchors), links)
	}
	is.Has(t, pages["/docs/start/tour"], `<a href="https://github.com/eventrelay/relay/blob/1234567/README.md`)
	is.Has(t, html.UnescapeString(pages["/docs"]), `href="/docs/releases/0.3.0" title="Version 0.3.0-dev+1234567`)
}

// Every operation, webhook, tag, schema and type of error of the document has its anchor, which older addresses name.
func TestReferenceHasEveryAnchor(t *testing.T) {
	doc := must.Get(loadContract())(t)
	pages, anchors := drawnSite(t)
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
		if !slices.Contains(anchors["/docs/api"], name) {
			t.Errorf("/docs/api has no anchor %s", name)
		}
	}
	is.Has(t, pages["/docs/api"], `<li id="createEndpoint"><a href="/docs/api/endpoints#createEndpoint">`)
	is.Has(t, pages["/docs/api/endpoints"], `href="/docs/errors#invalid_request"`)
}

// What an answer shows is what its request has sent.
func TestExamplesOfAnswersFitTheirRequests(t *testing.T) {
	pages, _ := drawnSite(t)
	checked := 0
	for _, text := range pages {
		for _, op := range oneOp.FindAllStringSubmatch(text, -1) {
			var sent, got map[string]any
			for _, m := range preformed.FindAllStringSubmatch(op[0], -1) {
				example := html.UnescapeString(m[3])
				if _, body, ok := strings.Cut(example, "<<'BODY'\n"); m[1] == "curl" && ok {
					_ = json.Unmarshal([]byte(strings.TrimSuffix(body, "\nBODY")), &sent)
				} else if m[2] == "Answer" {
					_ = json.Unmarshal([]byte(example), &got)
				}
			}
			for name, value := range sent {
				if answered, ok := got[name]; ok && reflect.TypeOf(value).Comparable() {
					is.Equal(t, answered, value, "%s: %s", op[1], name)
					checked++
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("%d fields", checked)
	}
	_, create, _ := strings.Cut(pages["/docs/api/endpoints"], `<section class="op" id="createEndpoint"`)
	create, _, _ = strings.Cut(create, "</section>")
	for _, part := range []string{`"type": "stripe"`, `"provider": "stripe"`, `"secret": "whsec_`} {
		is.Has(t, html.UnescapeString(create), part)
	}
}

// The search ranks titles first, needs no exact words, takes any query, and shows nothing as HTML.
func TestSearchOfDocumentation(t *testing.T) {
	c := newClient(t).as("")
	search := func(query string) string {
		a := c.do("GET", "/docs/search?q="+url.QueryEscape(query), nil).want(200)
		_, results, _ := strings.Cut(string(a.raw), "<main")
		return results
	}
	for query, want := range map[string]string{
		"rotate signing secret": "/docs/api/destinations#rotateSecret", "Your customers": "/docs/start/customers",
		"create an endpoint": "/docs/api/endpoints#createEndpoint", "rate_limited": "/docs/errors#rate_limited",
		"kubernetes": "/docs/operate/kubernetes", "glossary": "/docs/start/glossary",
	} {
		first := regexp.MustCompile(`<li><a href="([^"]+)">`).FindStringSubmatch(search(query))
		if first == nil || first[1] != want {
			t.Errorf("%q finds %v first, want %s", query, first, want)
		}
	}
	is.Has(t, search("dedup window"), "<mark>dedup</mark>")
	is.Has(t, search("zzqqxx"), "No page has “zzqqxx”")
	is.Lacks(t, search("<b>x</b>"), "<b>x</b>")
	if n := len(search(strings.Repeat("a é ", 5000))); n > 60_000 {
		t.Errorf("an answer has %d bytes", n)
	}
}

// Every operation has a code sample in each language; no example has a value to fill in.
func TestReferenceHasExamples(t *testing.T) {
	pages, _ := drawnSite(t)
	count := map[string]int{}
	for path, text := range pages {
		if !strings.HasPrefix(path, "/docs/api") && path != "/docs/errors" {
			continue
		}
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
	for path, most := range map[string]int{"/docs/api/endpoints": 30 << 10, "/docs/errors": 30 << 10} {
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
