package dashboard

import (
	"errors"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/mux"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// pageVariables are the ids that the tests of all pages put into paths. A new page needs its variable here, and the
// answers of its calls in everyPageRig.
var pageVariables = strings.NewReplacer("{endpoint}", "ep_1", "{destination}", "dst_1", "{event}", "evt_1", "{run}",
	"run_1", "{recovery}", "rec_1", "{finding}", "fnd_1", "{drain}", "drn_1", "{fixture}", "fix_1", "{domain}", "dom_1",
	"{dsn}", "dsn_1", "{act}", "act_1", "{scan}", "scn_1", "{tripwire}", "trw_1",
	"{list}", "usage-days", "{event_type}", "orders%2Fpaid", "{issue}", "iss_1")

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
	answerCatalogue(r).askFor("act_1")
	return r
}

// everyPage returns the paths of all pages behind the sign-in, with their access.
func everyPage(t *testing.T) map[string]frame.Access {
	pages := map[string]frame.Access{}
	for _, x := range routes(t) {
		if path := pageVariables.Replace(x.Path); x.Method == http.MethodGet && x.Access != frame.Public {
			if pages[path] = x.Access; strings.Contains(path, "{") {
				t.Fatalf("pageVariables lacks a variable of %s", path)
			}
		}
	}
	pages["/app/replays/new?endpoint_id=ep_1"] = frame.Writer
	pages["/app/recoveries/new?endpoint_id=ep_1"] = frame.Writer
	pages[frame.EventsPath+"?status=failed"] = frame.Reader
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
	served, access := mux.NewRouter().UseEncodedPath(), map[string]frame.Access{}
	for _, x := range routes(t) {
		name := x.Method + " " + x.Path
		served.Path(x.Path).Methods(x.Method).Name(name)
		access[name] = x.Access
	}
	offered := func(page, method, target string) {
		u, err := url.Parse(html.UnescapeString(target))
		must.Do(t, err, page)
		var m mux.RouteMatch
		if !served.Match(httptest.NewRequest(method, u.EscapedPath(), nil), &m) || access[m.Route.GetName()] == frame.Writer {
			t.Errorf("%s offers %s %s, which is refused", page, method, target)
		}
	}
	for path, who := range everyPage(t) {
		if who == frame.Writer {
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
		if path == frame.EventsPath+"/evt_1/body" || strings.HasPrefix(path, "/app/csv") {
			a.want(http.StatusServiceUnavailable) // a file
			continue
		}
		shows := path == frame.KeysPath
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
