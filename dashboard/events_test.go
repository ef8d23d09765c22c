package dashboard

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/test/is"
)

const oneEvent = `{"data":[{"id":"evt_0000000000000000000000000a","object":"event","endpoint_id":"ep_1","type":"a<b>",
	"status":"pending","attempts":0,"source":"provider","processing":"none","size_bytes":12,
	"received_at":"2026-08-21T22:24:35.123Z","reason":null,"why":"held: breaker <open>","verification":"verified",
	"deliveries":[{"destination_id":"dst_1","status":"held","reason":"breaker_open"},
	{"destination_id":"dst_2","status":"delivered","reason":null}]}],"next_cursor":"c2"}`

func eventsRig(t *testing.T) *rig {
	r := newRig(t)
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[{"id":"ep_1","name":"payments"}]}`)
	r.api.on("GET /v1/events", http.StatusOK, oneEvent)
	return r
}

// listed returns the query of the last list of events.
func (r *rig) listed() url.Values {
	for i := len(r.api.calls) - 1; i >= 0; i-- {
		if c := r.api.calls[i]; c.Path == "/v1/events" {
			return c.Query
		}
	}
	return nil
}

func TestEventsSayWhy(t *testing.T) {
	b := eventsRig(t).signedIn()
	b.get(frame.EventsPath).want(200, "pending, held", "a&lt;b&gt;", "held: breaker &lt;open&gt;", "payments", "22:24:35",
		`aria-label="delivered"`, "Older events", "cursor=c2",
		`href="/app/events/evt_0000000000000000000000000a"`)
}

// Tabs have the number of events of each status, within the other filters; the chart has them by time, and its bars
// lead to their events. What destinations have answered stands in the row.
func TestListOfEventsHasCounts(t *testing.T) {
	r := eventsRig(t)
	r.api.on("GET /v1/events/counts", http.StatusOK, `{"counted":1000,"more":true,
		"statuses":{"delivered":900,"failed":100},"step_seconds":60,"steps":[{"at":"2026-08-21T22:20:00Z","delivered":900},
		{"at":"2026-08-21T22:22:00Z","failed":100}]}`)
	r.api.on("GET /v1/events", http.StatusOK, strings.NewReplacer(`"held","reason":"breaker_open"`,
		`"failed","reason":"attempts_exhausted","last_response_status":503`, `"a<b>"`, `"a.<b>"`).Replace(oneEvent))
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[{"id":"ep_1","name":"payments","destinations":[{"id":"dst_1",
		"name":"<ledger>","url":"https://a.example.com"}]}]}`)
	b := r.signedIn()
	b.get(frame.EventsPath+"?type=a.*&status=failed&since=1h").want(200,
		`href="/app/events?since=1h&amp;type=a.%2A">All`,
		`href="/app/events?since=1h&amp;status=delivered&amp;type=a.%2A">delivered <small class="num">900&#43;</small>`,
		`href="/app/events?since=1h&amp;status=failed&amp;type=a.%2A" aria-current="page">failed`, "newest 1,000: 100",
		`<span class="chip">1 h</span>`, `href="/app/events?since=24h&amp;status=failed&amp;type=a.%2A">24 h</a>`,
		`<title>22:22: 0 delivered, 0 open or skipped, 100 failed or rejected`, "until=2026-08-21T22%3A23%3A00Z",
		"<b>&lt;ledger&gt; answered 503</b>: ", `aria-label="&lt;ledger&gt;: failed"`, "a.<wbr>&lt;b&gt;")
	for _, c := range r.api.calls {
		if c.Path == "/v1/events/counts" && (c.Query.Has("status") || c.Query.Get("type") != "a.*" || c.Query.Has("limit")) {
			t.Errorf("counted are %s", c.Query.Encode())
		}
	}
	b.get(frame.EventsPath+"?endpoint_id=ep_1&destination_id=dst_1").want(200, "endpoint payments<",
		"destination payments → &lt;ledger&gt;<")
	is.Lacks(t, b.get(frame.EventsPath+"?q=x").want(200).main(), `aria-label="Status"`, "a search has counts")
	page := b.get(frame.EventsPath).main()
	if strings.Contains(page, "<th>Receipt") || strings.Contains(page, "<details open>") {
		t.Error("receipts that nobody uses have a column, or filters that are off are shown")
	}
	b.get(frame.EventsPath+"?source=api").want(200, "<details open><summary class=\"b q\">More filters")
}

// An event with many destinations has the marks that matter most and a number, so that its row is as wide as others.
func TestMarksAreBounded(t *testing.T) {
	r := eventsRig(t)
	deliveries := strings.Repeat(`{"destination_id":"dst_1","status":"delivered"},`, 19) +
		`{"destination_id":"dst_2","status":"failed"}`
	r.api.on("GET /v1/events", 200, `{"data":[{"id":"evt_1","status":"failed","deliveries":[`+deliveries+`]}]}`)
	row := regexp.MustCompile(`<span class="marks">.*?</span></span>`).FindString(r.signedIn().get(frame.EventsPath).body)
	if !strings.HasPrefix(row, `<span class="marks"><svg class="i failed"`) || strings.Count(row, "<svg") != 5 ||
		!strings.Contains(row, ">+15<") {
		t.Errorf("%s", row)
	}
}

// Every filter of the page reaches the API under the name of the API, and stays in the form and in the links.
func TestFiltersReachTheAPI(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	query := url.Values{"body_path": {"data.order.id"}, "body_value": {"4 2"}, "header_path": {"x-a"},
		"header_value": {"1"}}
	names := []string{"since", "until", "q"}
	for _, f := range event.Filters {
		names = append(names, f.Name)
	}
	for _, name := range names {
		query.Set(name, "v-"+name)
	}
	page := b.get(frame.EventsPath + "?" + query.Encode()).want(200)
	got := r.listed()
	for _, name := range names {
		is.Equal(t, got.Get(name), "v-"+name, "%s reached the API as", name)
		if !strings.Contains(page.main(), `value="v-`+name+`"`) && !strings.Contains(page.main(), "v-"+name) {
			t.Errorf("%s is not in the form", name)
		}
	}
	if got.Get("body[data.order.id]") != "4 2" || got.Get("header[x-a]") != "1" || got.Get("limit") != "50" {
		t.Errorf("%v", got)
	}
	next := url.Values{"cursor": {"c2"}}
	for name := range query {
		next.Set(name, query.Get(name))
	}
	page.want(200, `href="`+frame.EventsPath+"?"+strings.NewReplacer("&", "&amp;", "+",
		"&#43;").Replace(next.Encode())+`"`)
	b.get(frame.EventsPath + "?unknown=1&limit=1000000")
	if got := r.listed(); got.Has("unknown") || got.Get("limit") != "50" {
		t.Errorf("%v", got)
	}
}

// The list leads to the form of a replay that selects the same events, or none that a replay can tell from others.
func TestListOfEventsLeadsToItsReplay(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	const oldest = "since=2026-08-21T22%3A24%3A35Z" // is when the oldest event was received
	for query, want := range map[string]string{
		"status=failed&type=a.*":                  oldest + "&amp;status=failed&amp;type=a.%2A",
		"endpoint_id=ep_1&since=2026-08-20":       "endpoint_id=ep_1&amp;since=2026-08-20",
		"status=failed&since=2026-08-20&until=21": "since=2026-08-20&amp;status=failed&amp;until=21",
		"destination_id=dst_1&run_id=":            "destination_id=dst_1&amp;" + oldest,
		"":                                        "",
		"since=2026-08-20":                        "",
		"status=failed&source=api":                "",
		"status=failed&q=x":                       "",
		"status=failed&body_path=a&body_value=1":  "",
		"status=failed&tail=1":                    "",
		"status=failed&cursor=c2":                 "",
	} {
		page := b.get(frame.EventsPath + "?" + query).want(200).main()
		switch link := `href="` + frame.NewReplayPath + "?" + want + `"`; {
		case want == "" && strings.Contains(page, frame.NewReplayPath):
			t.Errorf("%q leads to a replay of other events", query)
		case want != "" && !strings.Contains(page, link):
			t.Errorf("%q does not lead to %s", query, link)
		}
	}
	r.people.person.Scope = config.Read
	if page := r.signedIn().get(frame.EventsPath + "?status=failed").want(200).main(); strings.Contains(page,
		frame.NewReplayPath) {
		t.Error("a person who may only read is led to a replay")
	}
}

func TestSearchForAnIDOpensTheEvent(t *testing.T) {
	b := eventsRig(t).signedIn()
	b.get(frame.EventsPath + "?q=+evt_0000000000000000000000000A").
		wantRedirect(frame.EventsPath + "/evt_0000000000000000000000000A")
	b.get(frame.EventsPath + "?q=evt_").want(200)
}

func TestTailFollowsTheFirstPage(t *testing.T) {
	b := eventsRig(t).signedIn()
	b.get(frame.EventsPath+"?tail=1&status=failed").want(200, `data-live="/app/events?status=failed&amp;tail=1"`,
		`<noscript><meta http-equiv="refresh"`, "Following", "Pause")
	part := b.get(frame.EventsPath+"?tail=1", "Relay-Part", "rows").want(200, `id="rows"`)
	if strings.Contains(part.body, "<html") || strings.Contains(part.body, `id="filter"`) {
		t.Errorf("the part is a page: %s", part.body)
	}
	if page := b.get(frame.EventsPath + "?tail=1&cursor=c2").want(200); strings.Contains(page.body, "data-live") {
		t.Error("an older page is followed")
	}
}

// A list that is not followed counts what arrives while it is open, if that costs no search.
func TestListCountsWhatArrives(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	list := func(next string, ids ...string) {
		r.api.on("GET /v1/events", 200, `{"data":[{"id":"`+strings.Join(ids, `"},{"id":"`)+`"}],"next_cursor":`+next+`}`)
	}
	list("null", "evt_1")
	b.get(frame.EventsPath+"?status=failed").want(200, `data-live="/app/events?newer=evt_1&amp;status=failed"`)
	for _, x := range []struct{ next, ids, want string }{
		{"null", "evt_1", "></span>"}, {"null", "evt_3 evt_2 evt_1 evt_0", ">2 new<"},
		{"null", "evt_3", ">1 new<"}, {`"c2"`, "evt_9 evt_8", ">over 2 new<"},
	} {
		list(x.next, strings.Fields(x.ids)...)
		b.get(frame.EventsPath+"?newer=evt_1&status=failed", "Relay-Part", "newer").want(200, x.want)
	}
	for _, other := range []string{"?q=x", "?body_path=a&body_value=1", "?until=1h", "?tail=1", "?cursor=c2"} {
		if page := b.get(frame.EventsPath + other).want(200); strings.Contains(page.body, "newer=") {
			t.Errorf("%s counts", other)
		}
	}
}

// Each filter that is on has a chip that removes it, a search for a text too.
func TestChipsRemoveFilters(t *testing.T) {
	eventsRig(t).signedIn().get(frame.EventsPath+"?q=x+y&status=failed").want(200,
		`<a class="chip" href="/app/events?q=x&#43;y">status failed<`,
		`<a class="chip" href="/app/events?status=failed">text x y<`)
}

func TestSearchSaysHowFarItCame(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/events", 200, `{"data":[],"partial":true,"scanned":120000,"next_cursor":"c3"}`)
	b.get(frame.EventsPath+"?q=x").want(200, "Nothing found in the 120,000 events read so far", "Search on", "cursor=c3")
	r.api.on("GET /v1/events", 200, `{"data":[],"scanned":9}`)
	b.get(frame.EventsPath+"?q=x").want(200, "No event matches", "31 days at most", "Searched 9 events")
	r.api.on("GET /v1/events", 200, `{"data":[]}`)
	b.get(frame.EventsPath).want(200, "No event yet", origin+"/v1/endpoints/ep_",
		`-H &#34;Content-Type: application/j<span class="nb">son&#34;`)
}

func TestSearchShowsWarnings(t *testing.T) {
	r := eventsRig(t)
	r.api.on("GET /v1/events", 200, `{"data":[],"scanned":9,
"warnings":[{"param":"body[/a]","message":"the / is literal"}]}`)
	r.signedIn().get(frame.EventsPath+"?body_path=/a&body_value=1").want(200, "Body[/a]: the / is literal.")
}

func TestEventsWithoutTheStoreAndWithAWrongFilter(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	r.api.on("GET /v1/events", 503, `{"error":{"type":"unavailable","message":"the event store is unavailable"}}`)
	b.get(frame.EventsPath).want(503, "The event store is unavailable.", "still accepted and delivered")
	r.api.on("GET /v1/events", 400, `{"error":{"type":"invalid_request","param":"body[a","message":"body[a: is no path"}}`)
	b.get(frame.EventsPath+"?body_path=[&body_value=1").want(400, `href="#f-body_path"`, "Is no path.",
		"change the filter")
	b.get(frame.EventsPath+"?header_path=a").want(400, `href="#f-header_value"`, "Is required", "change the filter")
}
