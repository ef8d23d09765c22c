package dashboard

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dashboard/frame"
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
		z, err := gzip.NewReader(strings.NewReader(a.body))
		must.Do(t, err)
		unpacked, err := io.ReadAll(z)
		must.Do(t, err)
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
	const most, mostStyles = 40 << 10, 22 << 10
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
	rig.addPage(frame.Route{"GET", "/app/test", frame.Reader, func(v *frame.Visit) error {
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
	rig.addPage(frame.Route{"POST", "/app/test", frame.Writer, func(v *frame.Visit) error {
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
	rig.addPage(frame.Route{"GET", "/app/panic", frame.Reader, func(*frame.Visit) error { panic("secret value") }}, "", "")
	rig.addPage(frame.Route{"GET", "/app/fails", frame.Reader, func(*frame.Visit) error { return io.ErrUnexpectedEOF }},
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
	if _, err := New(frame.Config{BaseURL: origin}, frame.Deps{}); err == nil {
		t.Error("it starts without any")
	}
	if _, err := New(frame.Config{BaseURL: "relay"}, newRig(t).deps); err == nil {
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
	if _, err := frame.NewSite(staticFiles, menu, append(areas(), areas()[0])...); err == nil {
		t.Error("an area was taken twice")
	}
}

// An area that is not registered has no pages and no items in the navigation, and the others work without it. All need
// that of the account, the last one, which has the sign-in.
func TestAreasCanBeLeftOut(t *testing.T) {
	r, all := newRig(t), areas()
	cookies := r.signedIn().cookies
	for i, left := range all[:len(all)-1] {
		pages, err := frame.NewSite(staticFiles, menu, slices.Delete(areas(), i, i+1)...)
		if err == nil {
			r.d, err = frame.New(r.cfg, r.deps, pages)
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
