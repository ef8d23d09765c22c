package dashboard

import (
	"compress/gzip"
	"errors"
	"html"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/mux"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Dashboards of one process share the parsed pages, and not the functions, which know the time.
func TestDashboardsShareParsedPagesOnly(t *testing.T) {
	first, second := newRig(t), newRig(t)
	second.now = first.now.Add(time.Hour)
	stored := first.now.Add(-time.Hour).Format(time.RFC3339)
	for r, want := range map[*rig]string{first: "1\u00a0h ago", second: "2\u00a0h ago"} {
		r.api.responses["GET /v1/overview"] = func(apiCall) (int, http.Header, string) {
			return 200, http.Header{"Relay-Data-As-Of": {stored}}, overviewJSON
		}
		r.api.on("GET /v1/endpoints", 200, `{"data":[{"id":"ep_1"}]}`)
		r.signedIn().get("/app").want(200, want)
	}
	is.Equal(t, first.d.Site, second.d.Site, "the second dashboard parsed the pages or compressed the files again")
}

var assetPath = regexp.MustCompile(`"(/static/[^"#]+)`)

// assetPaths are the files that every page loads.
func assetPaths(t *testing.T) (paths []string) {
	for _, m := range assetPath.FindAllStringSubmatch(newRig(t).browser().get("/app/sign-in").body, -1) {
		paths = append(paths, m[1])
	}
	return paths
}

// The menu has the numbers of what waits for a person, on every page and without a call of the API. 0 is left out.
func TestMenuCountsWhatWaits(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	if page := b.get("/app/settings/password").want(200); strings.Contains(page.body, `class="count`) {
		t.Error("the menu counts nothing")
	}
	r.awaiting, r.outstanding = 1, 7
	calls := len(r.api.calls)
	b.get("/app/settings/password").want(200, `>1<span class="vh"> awaiting approval</span>`,
		`>7<span class="vh"> open or acknowledged</span>`)
	is.Equal(t, len(r.api.calls), calls, "the menu calls the API")
}

func TestUnknownPathsArePages(t *testing.T) {
	b := newRig(t).signedIn()
	for _, path := range []string{
		"/app/nothing", "/app//", "/app/../v1/me", "/app/%2e%2e", "/static/", "/static/0/x.js"} {
		a := b.get(path).want(404, "<!doctype html>", "Not found", "Request <code")
		is.Lacks(t, a.header.Get("Content-Security-Policy"), "sandbox", "%s is sandboxed", path)
	}
}

func TestStaticFilesAreCachedAndCompressed(t *testing.T) {
	rig := newRig(t)
	for _, path := range assetPaths(t) {
		a := rig.browser().get(path, "Accept-Encoding", "br, gzip;q=0.5").want(200)
		if a.header.Get("Content-Encoding") != "gzip" || a.header.Get("Vary") != "Accept-Encoding" ||
			a.header.Get("Cache-Control") != "public, max-age=31536000, immutable" ||
			a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, a.header)
		}
		z := must.Get(gzip.NewReader(strings.NewReader(a.body)))(t)
		unpacked := must.Get(io.ReadAll(z))(t)
		plain := rig.browser().get(path, "Accept-Encoding", "gzip;q=0").want(200)
		if plain.body != string(unpacked) || plain.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d bytes plain, %d unpacked", path, len(plain.body), len(unpacked))
		}
		kind := "text/css; charset=utf-8"
		if strings.HasSuffix(path, ".js") {
			kind = "text/javascript; charset=utf-8"
		} else if strings.HasSuffix(path, ".svg") {
			kind = "image/svg+xml"
		}
		is.Equal(t, a.header.Get("Content-Type"), kind, "%s has the type", path)
	}
	rig.browser().post(assetPaths(t)[0], url.Values{}).want(404)
}

// What a first visit loads, compressed: style sheets, scripts and a page.
func TestFirstLoadIsSmall(t *testing.T) {
	const most, mostStyles = 40 << 10, 24 << 10
	rig := newRig(t)
	size, styles := len(rig.signedIn().get("/app").want(200).body), 0
	for _, path := range assetPaths(t) {
		size += len(rig.browser().get(path, "Accept-Encoding", "gzip").body)
		if strings.HasSuffix(path, ".css") {
			styles += len(rig.browser().get(path).body)
		}
	}
	if size > most || styles > mostStyles {
		t.Errorf("a first visit loads %d bytes, at most %d; the style sheets have %d, at most %d",
			size, most, styles, mostStyles)
	}
}

func TestFragments(t *testing.T) {
	rig := newRig(t)
	rig.addPage(ui.Route{"GET", "/app/test", ui.Reader, func(v *ui.Visit) error {
		return v.Page("test",
			"here")
	}}, "test",
		`<p>all</p>{{template "#rows" .}}{{end}}{{define "#rows"}}<p id="rows">{{.Data}}</p>`)
	b := rig.signedIn()
	b.get("/app/test").want(200, "<!doctype html>", "<p>all</p>", `<p id="rows">here</p>`)
	if got := b.get("/app/test", "Relay-Part", "main").want(200).body; strings.Contains(got, "<nav") ||
		!strings.Contains(got, "<title>Test · EventRelay</title>") || !strings.Contains(got, "<p>all</p>") {
		t.Errorf("the fragment is %s", got)
	}
	if got := b.get("/app/test", "Relay-Part", "rows").want(200).
		body; got != `<p id="rows">here</p>` {
		t.Errorf("the part is %s", got)
	}
	b.get("/app/test", "Relay-Part", "nothing").want(200, "<p>all</p>")
	a := rig.browser().get("/app/test", "Relay-Part", "main").want(200)
	is.Equal(t, a.header.Get("Relay-Redirect"), "/app/sign-in?next=%2Fapp%2Ftest", "signed out, live.js is sent to")
}

// Every text that somebody else wrote is escaped, and its invisible characters are visible.
func TestForeignTextIsHarmless(t *testing.T) {
	const script = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`
	rig := newRig(t)
	rig.people.person.Email = script + "@example.com"
	rig.api.on("GET /v1/endpoints", 200, `{"data":[{"id":"ep_1"}]}`)
	rig.api.on("GET /v1/overview", 503, `{"error":{"type":"unavailable","message":"`+
		strings.ReplaceAll(script, `"`, `\"`)+`"}}`)
	rig.addPage(ui.Route{"POST", "/app/test", ui.Writer, func(v *ui.Visit) error {
		return v.Redirect("/app",
			script)
	}}, "", "")
	b := rig.browser()
	b.post("/app/sign-in", url.Values{"email": {script}, "password": {"x"}}).want(400)
	b.get("/app/sign-in?next=" + url.QueryEscape(script)).want(200)
	b.get("/app/" + url.PathEscape(script)).want(404)
	signed := rig.signedInAs()
	signed.post("/app/test", url.Values{}).wantRedirect("/app")
	for _, a := range []*answer{signed.get("/app"), b.post("/app/sign-in", url.Values{"email": {script}})} {
		if strings.Contains(a.body, "<script>alert") || strings.Contains(a.body, "<img src=x") {
			t.Errorf("a script runs: %s", a.body)
		}
	}
}

// signedInAs is a browser with a session of the person, whatever the address.
func (r *rig) signedInAs() *browser {
	email := r.people.person.Email
	r.people.person.Email = "ops@example.com"
	b := r.signedIn()
	r.people.person.Email = email
	return b
}

func TestPanicsAndErrorsArePages(t *testing.T) {
	rig := newRig(t)
	rig.addPage(ui.Route{"GET", "/app/panic", ui.Reader, func(*ui.Visit) error { panic("secret value") }}, "", "")
	rig.addPage(ui.Route{"GET", "/app/fails", ui.Reader, func(*ui.Visit) error { return io.ErrUnexpectedEOF }},
		"", "")
	b := rig.signedIn()
	for _, path := range []string{"/app/panic", "/app/fails"} {
		a := b.get(path).want(500, "<!doctype html>", "Something failed", "ops@example.com", a500)
		if strings.Contains(a.body, "secret value") || strings.Contains(a.body, "EOF") {
			t.Errorf("%s shows its cause: %s", path, a.body)
		}
		is.Has(t, rig.log.String(), a.header.Get("X-Request-Id"), "%s is not logged", path)
	}
}

const a500 = "Request <code"

func TestDashboardDoesNotStartWithoutItsDependencies(t *testing.T) {
	if _, err := New(ui.Config{BaseURL: origin}, ui.Deps{}, nil); err == nil {
		t.Error("it starts without any")
	}
	if _, err := New(ui.Config{BaseURL: "relay"}, newRig(t).deps, nil); err == nil {
		t.Error("it starts without a base URL")
	}
}

// The scripts that the repository holds use no function that the policy forbids.
func TestOwnScriptsObeyThePolicy(t *testing.T) {
	for _, name := range []string{"app.js", "live.js"} {
		text := must.Get(os.ReadFile("static/" + name))(t)
		for _, word := range []string{"eval(", "Function(", "innerHTML", "outerHTML", "document.write", "style="} {
			is.Lacks(t, string(text), word, "%s has %s", name, word)
		}
	}
}

func TestHead(t *testing.T) {
	newRig(t).signedIn().send(http.MethodHead, "/app", nil).want(200)
}

// Two areas with a page of the same name are refused: one would hide the other.
func TestPagesHaveOneName(t *testing.T) {
	if _, err := ui.NewSite(staticFiles, menu, append(areas(), areas()[0])...); err == nil {
		t.Error("an area was taken twice")
	}
}

// An area that is not registered has no pages and no items in the navigation, and the others work without it. All need
// that of the account, the last one, which has the sign-in.
func TestAreasCanBeLeftOut(t *testing.T) {
	r, all := newRig(t), allAreas()
	cookies := r.signedIn().cookies
	r.deps.AgentActions = nil
	for i, left := range all[:len(all)-1] {
		pages, err := ui.NewSite(staticFiles, menu, slices.Delete(allAreas(), i, i+1)...)
		if err == nil {
			r.d, err = ui.New(r.cfg, r.deps, pages)
		}
		must.Do(t, err)
		b := &browser{r, origin, cookies}
		for _, x := range left.Routes {
			if x.Method == http.MethodGet && !strings.Contains(x.Path, "{") {
				if a := b.get(x.Path).want(404); strings.Contains(a.body, `href="`+x.Path+`"`) && x.Path != "/app" {
					t.Errorf("the navigation has %s", x.Path)
				}
			}
		}
		if i > 0 {
			b.get("/app").want(200)
		}
	}
}

// pageVariables are the ids that the tests of all pages put into paths. A new page needs its variable here, and the
// answers of its calls in everyPageRig.
var pageVariables = strings.NewReplacer("{endpoint}", "ep_1", "{destination}", "dst_1", "{event}", "evt_1", "{run}",
	"run_1", "{recovery}", "rec_1", "{finding}", "fnd_1", "{drain}", "drn_1", "{fixture}", "fix_1", "{domain}", "dom_1",
	"{dsn}", "dsn_1", "{act}", "act_1", "{scan}", "scn_1", "{tripwire}", "trw_1",
	"{list}", "usage-days", "{event_type}", "orders%2Fpaid", "{issue}", "iss_1", "{tenant}", "customer:1")

// everyPageRig answers the calls of all pages.
func everyPageRig(t *testing.T) *rig {
	r := newEndpointRig(t)
	for _, other := range []*rig{replayRig(t), eventRig(t), newWorkbenchRig(t), alertRig(t), operationRig(t)} {
		maps.Copy(r.api.responses, other.api.responses)
	}
	for path, body := range map[string]string{
		"/v1/endpoints": `{"data":[` + sampleEndpoint + `]}`, "/v1/findings": `{"data":[` + oneFinding + `]}`,
		"/v1/findings/fnd_1": oneFinding, "/v1/findings/fnd_1/occurrences": emptyList,
		"/v1/drains": `{"data":[` + oneDrain + `]}`, "/v1/drains/drn_1": oneDrain,
		"/v1/fixtures": `{"data":[` + oneFixture + `]}`, "/v1/fixtures/fix_1": oneFixture,
		"/v1/fixtures/export": `{}`, "/v1/events/evt_1/attempts": emptyList,
		"/v1/dsns": `{"data":[` + browserDSN + `]}`, "/v1/dsns/dsn_1": browserDSN,
		"/v1/settings/detection": twoRules,
		"/v1/domains":            `{"data":[` + oneDomain + `]}`, "/v1/domains/dom_1": oneDomain,
		"/v1/scans": `{"data":[` + oneScan + `]}`, "/v1/scans/scn_1": oneScan,
		"/v1/tripwires": `{"data":[` + oneTripwire + `]}`, "/v1/tripwires/trw_1": oneTripwire,
	} {
		r.api.on("GET "+path, http.StatusOK, body)
	}
	answerTenants(answerCatalogue(r)).askFor("act_1")
	return r
}

// everyPage returns the paths of all pages behind the sign-in, with their access.
func everyPage(t *testing.T) map[string]ui.Access {
	pages := map[string]ui.Access{}
	for _, x := range routes(t) {
		if path := pageVariables.Replace(x.Path); x.Method == http.MethodGet && x.Access != ui.Public {
			if pages[path] = x.Access; strings.Contains(path, "{") {
				t.Fatalf("pageVariables lacks a variable of %s", path)
			}
		}
	}
	pages["/app/replays/new?endpoint_id=ep_1"] = ui.Writer
	pages["/app/recoveries/new?endpoint_id=ep_1"] = ui.Writer
	pages[ui.EventsPath+"?status=failed"] = ui.Reader
	return pages
}

var (
	linkTag = regexp.MustCompile(`href="(/app[^"]*)"`)
	postTag = regexp.MustCompile(`<form[^>]* method="post"[^>]* action="([^"]*)"`)
)

// A person who may only read sees no link and no form, on any page, that would be refused, and each chart with its
// table.
func TestReadPersonIsOfferedNothingThatIsRefused(t *testing.T) {
	r := everyPageRig(t)
	r.people.person.Scope = config.Read
	b := r.signedIn()
	served, access := mux.NewRouter().UseEncodedPath(), map[string]ui.Access{}
	for _, x := range routes(t) {
		name := x.Method + " " + x.Path
		served.Path(x.Path).Methods(x.Method).Name(name)
		access[name] = x.Access
	}
	offered := func(page, method, target string) {
		u, err := url.Parse(html.UnescapeString(target))
		must.Do(t, err, page)
		var m mux.RouteMatch
		if !served.Match(httptest.NewRequest(method, u.EscapedPath(), nil), &m) || access[m.Route.GetName()] == ui.Writer {
			t.Errorf("%s offers %s %s, which is refused", page, method, target)
		}
	}
	for path, who := range everyPage(t) {
		if who == ui.Writer {
			b.get(path).want(http.StatusForbidden)
			continue
		}
		a := b.get(path)
		if a.code != http.StatusOK && a.code != http.StatusSeeOther {
			t.Errorf("%s: %d %s", path, a.code, a.main())
		}
		if charts := strings.Count(a.body, `<svg class="g bars"`); charts > strings.Count(a.body, ">Figures</summary>") {
			t.Errorf("%s has %d charts, not all with a table", path, charts)
		}
		for _, link := range linkTag.FindAllStringSubmatch(a.body, -1) {
			offered(path, http.MethodGet, link[1])
		}
		for _, form := range postTag.FindAllStringSubmatch(a.body, -1) {
			offered(path, http.MethodPost, form[1])
		}
	}
}

// What makes a URL or a secret useless is asked for in a dialog, which opens without a script, on every page.
func TestRotationsAsk(t *testing.T) {
	r := everyPageRig(t)
	r.api.on("GET /v1/alerts", http.StatusOK,
		`{"channels":{"webhook":{"enabled":true,"url":"https://a.example.com/****"}},"rules":{}}`)
	b, asked := r.signedIn(), map[string]bool{}
	for path := range everyPage(t) {
		body := b.get(path).body
		for _, at := range postTag.FindAllStringSubmatchIndex(body, -1) {
			action := body[at[2]:at[3]]
			if !strings.Contains(action[strings.LastIndex(action, "/"):], "rotate") {
				continue
			}
			asked[action] = true
			if before := body[:at[0]]; strings.LastIndex(before, "<dialog") <= strings.LastIndex(before, "</dialog>") {
				t.Errorf("%s rotates with one click: %s", path, action)
			}
		}
	}
	is.Equal(t, len(asked), 6, "rotations are offered: %v", asked)
}

var (
	headingTag = regexp.MustCompile(`<h([1-6])`)
	loudButton = regexp.MustCompile(`class="b go"[^>]*>(?:<svg.*?</svg>)?([^<]*)`)
	dialogs    = regexp.MustCompile(`(?s)<dialog.*?</dialog>|<div class="dlg".*?</form></div>`)
)

// On every page no level of headings is left out, and channels have one spelling. A page that shows a thing has at most
// one loud button outside of its dialogs.
func TestPagesFollowTheDesign(t *testing.T) {
	r := everyPageRig(t)
	r.api.on("GET /v1/domains/dom_1", http.StatusOK, strings.NewReplacer(`"pending"`, `"verified"`, `"verified_at":null`,
		`"verified_at":"2026-08-21T22:24:30.000Z"`).Replace(oneDomain))
	b := r.signedIn()
	for path := range everyPage(t) {
		a := b.get(path)
		if a.code != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			continue
		}
		_, main, _ := strings.Cut(a.body, "<main")
		level := "0"
		for _, x := range headingTag.FindAllStringSubmatch(main, -1) {
			if x[1] > level && x[1][0]-level[0] > 1 {
				t.Errorf("%s: h%s follows h%s", path, x[1], level)
			}
			level = x[1]
		}
		if strings.Contains(strings.ToLower(main), "e-mail") || strings.Contains(main, "<b>slack</b>") {
			t.Errorf("%s spells a channel in another way: %s", path, a.main())
		}
		loud := loudButton.FindAllStringSubmatch(dialogs.ReplaceAllString(main, ""), -1)
		if len(loud) > 1 {
			t.Errorf("%s has %d loud buttons: %q", path, len(loud), loud)
		}
	}
}

// saysUnavailable matches what pages say in place of data that they could not read.
var saysUnavailable = regexp.MustCompile(`is unavailable|cannot be read|does not answer|not known|Unavailable`)

// While ClickHouse does not answer, every page that shows something of it stays up and says so.
func TestEveryPageWithoutTheEventStore(t *testing.T) {
	r := everyPageRig(t)
	i := strings.Index(overviewJSON, `"traffic":`)
	r.api.on("GET /v1/overview", http.StatusOK, overviewJSON[:i]+`"traffic":null}`)
	ofStore := []string{"/v1/overview"}
	for _, path := range strings.Fields(`events events/evt_1 events/evt_1/attempts events/evt_1/signature usage usage/daily
		endpoints/ep_1/traffic audit findings findings/fnd_1/occurrences recoveries/rec_1/items`) {
		ofStore = append(ofStore, "/v1/"+path)
		r.api.on("GET /v1/"+path, http.StatusServiceUnavailable, storeAway)
	}
	r.account.usesErr, r.account.keys = errors.New("no store"), []*config.Key{{ID: "key_1", Name: "orders"}}
	b := r.signedIn()
	for path, who := range everyPage(t) {
		before := len(r.api.calls)
		a := b.get(path)
		if path == ui.EventsPath+"/evt_1/body" || strings.HasPrefix(path, "/app/csv") {
			a.want(http.StatusServiceUnavailable) // a file
			continue
		}
		shows := path == ui.KeysPath
		for _, c := range r.api.calls[before:] {
			shows = shows || c.Method == http.MethodGet && slices.Contains(ofStore, c.Path)
		}
		switch {
		case a.code != http.StatusOK && a.code != http.StatusSeeOther && a.code != http.StatusServiceUnavailable:
			t.Errorf("%s: %d %s", path, a.code, a.main())
		case shows && !saysUnavailable.MatchString(a.main()):
			t.Errorf("%s (%v) does not say that something is missing: %s", path, who, a.main())
		}
	}
}

// A search finds endpoints, destinations, findings and pages by their names, and events by their texts. An id opens its
// page, and a shortened one, copied from a page, finds what is in memory.
func TestSearchOverEverything(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("GET /v1/findings", http.StatusOK, `{"data":[{"id":"fnd_1","name":"Order <key>","status":"open"},
		{"id":"fnd_2","name":"other"}]}`)
	r.api.on("GET /v1/events", http.StatusOK, `{"data":[{"id":"evt_1","type":"a<b>","status":"delivered","why":"x"}]}`)
	b := r.signedIn()
	page := b.get("/app/search?q=ORDER").want(200, `href="/app/endpoints/ep_1"`, `href="/app/findings/fnd_1"`,
		"Order &lt;key&gt;", `href="/app/events/evt_1"`, "a&lt;b&gt;", `href="/app/events?q=ORDER"`).main()
	is.Lacks(t, page, "fnd_2", "a finding without the text is found")
	for text, want := range map[string]string{
		"bill":    `href="/app/endpoints/ep_1/destinations/dst_1">orders → billing`,
		"archive": `href="/app/endpoints/ep_1/destinations/dst_2">orders → archive.example.net`,
		"…p_1":    `href="/app/endpoints/ep_1"`,
		"audit":   `href="/app/audit"`, "": "Type an id",
	} {
		b.get("/app/search?q="+text).want(200, want)
	}
	const id = "evt_01m8f2y1ct00r01b6j0ncztkkj"
	b.get("/app/search?q=+" + id + "+").wantRedirect("/app/events/" + id)
	b.get("/app/search?q=dst_2").wantRedirect("/app/endpoints/ep_1/destinations/dst_2")

	// While somebody types, the field offers the same from memory, and commands.
	for text, want := range map[string]string{"ORDER": `"path":"/app/endpoints/ep_1"`, "audit": `"path":"/app/audit"`,
		"create": `"name":"Create an endpoint"`, id: `"path":"/app/events/` + id, "failed": `"kind":"command"`,
		"dst_2": `/app/endpoints/ep_1/destinations/dst_2`, "<b>": `[]`} {
		is.Has(t, b.get("/app/palette?q="+url.QueryEscape(text)).want(200).body, want, "offers for "+text)
	}
	r.api.on("GET /v1/findings", http.StatusNotFound, `{"error":{"type":"not_found","message":"no such path"}}`)
	r.api.on("GET /v1/events", http.StatusServiceUnavailable, storeAway)
	b.get("/app/search?q=order").want(200, `href="/app/endpoints/ep_1"`, "The event store is unavailable")
	r.api.on("GET /v1/events", http.StatusOK, emptyList)
	b.get("/app/search?q=zzz").want(200, "Nothing was found")
}

// What the layout, the session and the checks of a page cost, without its data.
func BenchmarkPage(b *testing.B) {
	rig := newRig(b)
	rig.addPage(ui.Route{"GET", "/app/test", ui.Reader, func(v *ui.Visit) error { return v.Page("test", nil) }},
		"test", "<p>here")
	cookies := rig.signedIn().cookies
	handler := rig.d.Handler()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodGet, "/app/test", nil)
		r.Host = "relay.example.com"
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			b.Fatalf("%d %s", w.Code, w.Body)
		}
	}
}
