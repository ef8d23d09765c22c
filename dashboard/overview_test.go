package dashboard

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/ui"
	"github.com/eventrelay/relay/test/is"
)

// lastHourJSON are 120 requests of which 20 failed.
const lastHourJSON = `{"requests":120,"delivered":100,"failed":20,"first_attempts":110,"first_attempts_delivered":95,
"latency_ms":{"p50":12,"p95":81,"p99":12345}}`

const noRequestsJSON = `{"requests":0,"delivered":0,"failed":0,"first_attempts":0,"first_attempts_delivered":0,
"latency_ms":null}`

const minutesJSON = `[{"at":"2026-08-21T22:23:00.000Z","requests":70,"delivered":60,
"failed":10,"first_attempts":60,"first_attempts_delivered":55,"latency_ms":{"p50":1,"p95":2,"p99":3}},
{"at":"2026-08-21T22:24:00.000Z","requests":50,"delivered":40,"failed":10,"first_attempts":50,
"first_attempts_delivered":40,"latency_ms":{"p50":1,"p95":4,"p99":5}},
{"at":"2026-08-21T20:00:00.000Z","requests":1,"delivered":1,"failed":0,"first_attempts":0,
"first_attempts_delivered":0,"latency_ms":null}]`

// overviewJSON is an overview with one thing of each kind that needs a person.
const overviewJSON = `{"object":"overview","at":"2026-08-21T22:24:30.000Z","needs":{
"alerts":{"total":2,"data":[{"id":"alrt_1","object":"alert","type":"alert.destination.failing",
"rule":"consecutive_failures","endpoint_id":"ep_1","destination_id":"dst_1","recovery_id":null,"state":"firing",
"value":22,"threshold":20,"fired_at":"2026-08-21T22:00:00.000Z","resolved_at":null},
{"id":"alrt_2","object":"alert","type":"alert.destination.held","rule":"destination_state","endpoint_id":"ep_1",
"destination_id":"dst_1","recovery_id":null,"state":"firing","value":"breaker_open","threshold":null,
"fired_at":"2026-08-21T22:00:00.000Z","resolved_at":null}]},
"destinations":{"total":23,"data":[{"endpoint_id":"ep_1","endpoint_name":"orders<b>","destination_id":"dst_1",
"destination_name":"billing","host":"billing.example.com","state":"held","state_reason":"breaker_open",
"until":"2026-08-21T22:24:50.000Z"},{"endpoint_id":"ep_1","endpoint_name":"orders<b>","destination_id":"dst_2",
"destination_name":null,"host":"archive.example.net","state":"disabled","state_reason":"gone_410","until":null}]},
"recoveries":{"total":1,"data":[{"id":"rec_1","endpoint_id":"ep_1","endpoint_name":"orders<b>","destination_id":null,
"total":1267,"canary":{"total":5,"delivered":5,"failed":0},"deadline_at":"2026-08-22T09:03:00.000Z",
"created_by":"usr_1"}]},
"findings":{"total":1,"data":[{"id":"fnd_1","rule":"stripe","name":"Stripe live secret key","masked":"sk_live_***aB3d",
"opened_at":"2026-08-21T22:00:00.000Z"}]}},
"traffic":{"last_hour":` + lastHourJSON + `,"minutes":` + minutesJSON + `,"steps":` + minutesJSON + `,
"day_before":[{"at":"2026-08-20T22:23:00.000Z","requests":35}],
"busiest":[{"endpoint_id":"ep_1","name":"orders<b>","provider":"shopify","last_hour":` + lastHourJSON + `,"hours":[]}],
"worst":[{"endpoint_id":"ep_1","name":"orders<b>","provider":"shopify","last_hour":` + lastHourJSON + `,"hours":[
{"at":"2026-08-21T22:00:00.000Z","requests":120,"delivered":100,"failed":20},
{"at":"2026-08-21T04:00:00.000Z","requests":10,"delivered":10,"failed":0}],"destinations":[{"destination_id":"dst_1",
"requests":20,"delivered":1,"failed":19}]},
{"endpoint_id":"ep_gone","name":null,"provider":null,"last_hour":` + noRequestsJSON + `,"hours":[]}]}}`

// trafficJSON is the traffic of an endpoint whose destination dst_1 fails now and then.
const trafficJSON = `{"object":"endpoint_traffic","endpoint_id":"ep_1","destinations":[{"destination_id":"dst_1",
"last_hour":` + lastHourJSON + `,"hours":[{"at":"2026-08-21T21:00:00.000Z","requests":7,"delivered":7,"failed":0,
"first_attempts":7,"first_attempts_delivered":7,"latency_ms":{"p50":10,"p95":44,"p99":50}},
{"at":"2026-08-21T22:00:00.000Z","requests":120,"delivered":100,"failed":20,"first_attempts":110,
"first_attempts_delivered":95,"latency_ms":{"p50":12,"p95":81,"p99":12345}}],"total":{"requests":127,"delivered":107,
"failed":20,"latency_ms":{"p50":11,"p95":79,"p99":500}},"steps":[{"at":"2026-08-21T21:00:00.000Z","requests":7,
"delivered":7,"failed":0,"latency_ms":{"p50":10,"p95":44,"p99":50}},{"at":"2026-08-21T22:00:00.000Z","requests":120,
"delivered":100,"failed":20,"latency_ms":{"p50":12,"p95":81,"p99":12345}}]},
{"destination_id":"dst_removed","last_hour":` + noRequestsJSON + `,"hours":[]}],
"waiting":{"data":[{"id":"evt_9","type":"order<b>","status":"retrying","source":"provider",
"received_at":"2026-08-21T22:00:00.000Z","reason":null,"why":"waits for attempt 3 at 2026-08-21T22:30:00.000Z",
"verification":"verified","destinations":{"total":1,"delivered":0,"failed":0,"pending":1}}],"more":true}}`

// The overview names everything that needs a person once, with where to click, and shows the traffic of the last hour.
func TestOverviewPage(t *testing.T) {
	r := newEndpointRig(t)
	b := r.signedIn()
	page := b.get("/app").want(200, "25 things need attention", "Stripe live secret key", "sk_live_***aB3d",
		`href="/app/findings/fnd_1"`,
		"orders&lt;b&gt; → billing</a></b>: held after repeated failures; 22\u00a0failed attempts in a row; "+
			"5\u00a0% of 20\u00a0requests delivered in the last hour.", `href="/app/endpoints/ep_1/destinations/dst_1"`,
		"next try", "Try now", `name="destination_id" value="dst_1"`, "Show events", "Recover these",
		"22:24:50", "410 Gone", `href="/app/recoveries/rec_1"`, "its canary delivered 5 of 5.",
		"prepared by ops@example.com",
		"21 more destinations", "95 of 110", "86.4\u00a0%", "p95 of requests", "81\u00a0ms", "83.3\u00a0%",
		"orders&lt;b&gt;",
		"ep_gone <small>deleted",
		`<rect class="bad" x="115"`, `<rect class="ok" x="25"`, "Requests of the last 1\u00a0h: 100 delivered, 20 failed",
		`22:23</a></td><td class="r">60</td><td class="r">10</td><td class="r">35</td><td class="r">1</td>`+
			`<td class="r">2</td></tr>`,
		"22:24: 40 delivered, 10 failed, 0 the day before, p50 1\u00a0ms, p95 4\u00a0ms</title>", `L585 56.9L595 100"`,
		`data-live="/app?range=1h"`, `href="/app?range=30d"`)
	b.get("/app?range=6h").want(200)
	is.Equal(t, r.lastRange("/v1/overview"), "6h", "the overview is asked for the range")
	is.Equal(t, strings.Count(page.main(), "billing</a></b>"), 1, "a held destination is named … times")
	r.askFor("act_1")
	b.get("/app").want(200, "26 things need attention", `href="/app/confirm/act_1"`,
		"<b>claude &lt;b&gt;</b> asks for a change",
		"Deliver the event evt_1 again")
	r.actions.all = nil
	r.people.person.Scope = "read"
	is.Lacks(t, r.signedIn().get("/app").want(200).main(), "<form", "a person who may only read sees an action")
	// The store is away: what is known without it is shown.
	i := strings.Index(overviewJSON, `"traffic":`)
	r.api.on("GET /v1/overview", 200, overviewJSON[:i]+`"traffic":null}`)
	b.get("/app").want(200, "25 things need attention", "The event store does not answer", `href="/app/recoveries/rec_1"`)
	r.api.on("GET /v1/overview", http.StatusServiceUnavailable, storeAway)
	b.get("/app").want(200, "the event store is unavailable")
	r.api.on("GET /v1/overview", 200, `{"object":"overview","at":"2026-08-21T22:24:30.000Z","needs":{},"traffic":
		{"last_hour":`+noRequestsJSON+`,"minutes":[],"busiest":[],"worst":[]}}`)
	b.get("/app").want(200, "Nothing needs attention", "p95 of requests")
	r.api.on("GET /v1/overview", 200, `{"object":"overview","at":"2026-08-21T22:24:30.000Z","needs":{"alerts":{"total":1,
		"data":[{"rule":"delivery_failed","endpoint_id":"ep_1","value":"attempts_exhausted"}]}}}`)
	b.get("/app").want(200, ": attempts exhausted", `href="/app/events?endpoint_id=ep_1&amp;status=failed"`,
		"Show events")
	// Without an endpoint it says what to do first.
	r.api.on("GET /v1/endpoints", 200, emptyList)
	b.get("/app").want(200, "First steps", "Create an endpoint")
}

// What waits for a decision comes first, and what a person has paused is no need. All that is wrong with a destination
// is one line; five lines are in sight.
func TestOverviewBeginsWithTheMostUrgent(t *testing.T) {
	r := newEndpointRig(t)
	b := r.signedIn()
	const needs = `{"object":"overview","at":"2026-08-21T22:24:30.000Z","needs":{"recoveries":{"total":1,"data":[
{"id":"rec_1","endpoint_id":"ep_1","endpoint_name":"orders","total":9,"canary":{"total":5,"delivered":5}}]},
"findings":{"total":2,"data":[{"id":"fnd_1","name":"critical key","severity":"critical"},
{"id":"fnd_2","name":"high key","severity":"high"}]},
"destinations":{"total":TOTAL,"data":[{"endpoint_id":"ep_1","destination_id":"dst_1","destination_name":"stuck",
"state":"held"},PAUSED]},"alerts":{"total":FIRING,"data":[ALERTS]}}}`
	several := func(n int, text string) string { // NUMBER is 2, 3 and so on
		all := make([]string, n)
		for i := range all {
			all[i] = strings.ReplaceAll(text, "NUMBER", strconv.Itoa(i+2))
		}
		return strings.Join(all, ",")
	}
	show := func(paused, hidden, alerts int) string {
		text := strings.NewReplacer("TOTAL", strconv.Itoa(1+paused+hidden), "FIRING", strconv.Itoa(alerts), "PAUSED",
			several(paused, `{"endpoint_id":"ep_1","destination_id":"dst_3","endpoint_name":"orders",
				"destination_name":"idle","state":"paused"}`),
			"ALERTS", several(alerts, `{"rule":"backlog_age","endpoint_id":"ep_1","destination_id":"dst_NUMBER","value":301,
				"threshold":300,"fired_at":"2026-08-21T22:00:00.000Z"}`)).Replace(needs)
		r.api.on("GET /v1/overview", 200, text)
		return b.get("/app").want(200).main()
	}
	for _, x := range []struct {
		paused, hidden, alerts int
		want                   []string
	}{
		{1, 0, 1, []string{"Four things need attention", "waits for approval", "2\u00a0leaked keys", "critical key; high key",
			"stuck", "orders → archive.example.net/put</a></b>: a delivery has waited for 5\u00a0min 1\u00a0s.",
			`aria-label="Paused by hand"`, "idle</a></b> is paused by hand"}},
		{4, 16, 12, []string{"15 things need attention", "waits for approval", "stuck", "10 more</summary>",
			`aria-label="Paused by hand"`, "20\u00a0destinations</b> are paused by hand",
			"orders → idle; orders → idle; orders → idle and 17 more"}},
	} {
		page := show(x.paused, x.hidden, x.alerts)
		rest := page
		for _, text := range x.want {
			_, after, found := strings.Cut(rest, text)
			if !found {
				t.Fatalf("%q is missing, or not in its place: %s", text, page)
			}
			rest = after
		}
		is.Lacks(t, page, "more destinations", "paused destinations are listed twice")
	}
}

// The page of an endpoint has the traffic of each destination, what waits with its reason, and what fires. A
// destination whose requests fail does not look well.
func TestEndpointPageShowsItsTraffic(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("GET /v1/alerts/history", 200, `{"data":[{"id":"alrt_1","rule":"consecutive_failures","endpoint_id":"ep_1",
"destination_id":"dst_1","recovery_id":null,"state":"firing","value":22,"threshold":20,
"fired_at":"2026-08-21T22:00:00.000Z","resolved_at":null}]}`)
	b := r.signedIn()
	page := b.get("/app/endpoints/ep_1?range=24h").want(200,
		"20 of 120\u00a0requests in the last hour failed", "83.3\u00a0%",
		"81\u00a0ms", "billing</a></b>: 22\u00a0failed attempts in a row.", "order&lt;b&gt;", "waits for attempt 3",
		"All that wait", "None: destinations get the body",
		`href="/app/endpoints/ep_1/workbench"`, "Requests of the last 24\u00a0h: 107 delivered, 20 failed",
		`until=2026-08-21T22%3A00%3A00Z">21:00</a></td><td class="r">7</td><td class="r">0</td></tr>`,
		`href="/app/endpoints/ep_1?range=7d"`)
	is.Lacks(t, page.main(), "Show the events", "attempts that fail lead to the events that have failed for good")
	if !strings.Contains(page.main(), `class="st retrying on"`) || strings.Contains(page.main(), `class="st delivered"`) {
		t.Error("a failing destination looks well")
	}
	r.api.on("GET /v1/alerts/history", 200, `{"data":[{"rule":"delivery_failed","endpoint_id":"ep_1","state":"firing",
"value":"attempts_exhausted","fired_at":"2026-08-21T22:00:00.000Z"}]}`)
	b.get("/app/endpoints/ep_1").want(200, `href="/app/events?endpoint_id=ep_1&amp;status=failed"`)
	r.api.on("GET /v1/endpoints/ep_1/traffic", 200, strings.Replace(trafficJSON, lastHourJSON, noRequestsJSON, 1))
	b.get("/app/endpoints/ep_1").want(200, `class="st delivered"`) // nothing was sent: that is no warning
	r.api.on("GET /v1/endpoints/ep_1/traffic", 200, strings.Replace(trafficJSON, `"status":"retrying"`,
		`"status":"pending","deliveries":[{"destination_id":"dst_1","status":"held"}]`, 1))
	r.api.on("GET /v1/events/counts", 200, `{"statuses":{"failed":25,"rejected":13}}`)
	b.get("/app/endpoints/ep_1").want(200, "pending, held</span>",
		`href="/app/events?endpoint_id=ep_1&amp;since=24h&amp;status=failed">failed 25</a>`, ">rejected 13</a>")
	for _, c := range r.api.calls {
		if c.Path == "/v1/alerts/history" && (c.Query.Get("endpoint_id") != "ep_1" || c.Query.Get("state") != "firing") {
			t.Errorf("alerts are asked for with %s", c.Query.Encode())
		}
	}
	for _, x := range []struct{ traffic, mark string }{
		{strings.ReplaceAll(trafficJSON, `"delivered":100`, `"delivered":0`), `class="st failed on"`},
		{strings.ReplaceAll(trafficJSON, `"failed":20`, `"failed":0`), `class="st delivered"`},
	} {
		r.api.on("GET /v1/endpoints/ep_1/traffic", 200, x.traffic)
		b.get("/app/endpoints/ep_1").want(200, x.mark)
	}
	const well = "Events are delivered to it as they arrive"
	destination := func(traffic, want string, refused ...string) {
		t.Helper()
		r.api.on("GET /v1/endpoints/ep_1/traffic", 200, traffic)
		page := b.get("/app/endpoints/ep_1/destinations/dst_1").want(200, want).main()
		for _, text := range refused {
			is.Lacks(t, page, text, "the page of a destination says %q", text)
		}
	}
	destination(strings.Replace(trafficJSON, lastHourJSON, noRequestsJSON, 1), well)
	destination(trafficJSON, "20 of 120\u00a0requests in the last hour failed.", well)
	destination(strings.ReplaceAll(trafficJSON, `"delivered":100`, `"delivered":0`), "failing</span>", well,
		"active</span>")
	r.api.on("GET /v1/endpoints/ep_1/traffic", http.StatusServiceUnavailable, storeAway)
	b.get("/app/endpoints/ep_1/destinations/dst_1").want(200, "Whether its requests succeed is not known")
	away := b.get("/app/endpoints/ep_1").want(200, "The event store is unavailable", "Retry policy", "not known")
	is.Lacks(t, away.main(), `class="st delivered"`, "a destination looks well although nothing is known of it")
}

// The list of endpoints shows at a look which of them need somebody, with the figures of the overview: no row costs a
// read of its own. Without them nothing looks well that may fail.
func TestListOfEndpointsShowsWhatFails(t *testing.T) {
	r := newEndpointRig(t)
	endpoint := func(id, destinations string) string {
		return `{"id":"` + id + `","name":"` + id + `","enabled":true,"destinations":[` + destinations + `]}`
	}
	destination := func(id, state string) string {
		return `{"id":"` + id + `","name":"` + id + `","state":"active","enabled":true` + state + `}`
	}
	r.api.on("GET /v1/endpoints", 200, `{"data":[`+strings.Join([]string{
		endpoint("ep_held", destination("dst_1", `,"state":"held","state_reason":"breaker_open"`)),
		endpoint("ep_alert", destination("dst_2", "")+","+destination("dst_3", "")),
		endpoint("ep_partly", destination("dst_4", "")+","+destination("dst_6", "")+","+destination("dst_7", "")),
		endpoint("ep_idle", destination("dst_5", "")),
	}, ",")+`]}`)
	traffic := `{"last_hour":` + noRequestsJSON + `,"minutes":[],"busiest":[],"worst":[{"endpoint_id":"ep_partly",
"name":"","last_hour":` + lastHourJSON + `,"hours":[],"destinations":[
{"destination_id":"dst_4","requests":60,"delivered":59,"failed":1},
{"destination_id":"dst_6","requests":41,"delivered":41,"failed":0},
{"destination_id":"dst_7","requests":19,"delivered":0,"failed":19}]}]}`
	overview := `{"at":"2026-08-21T22:24:30.000Z","needs":{"alerts":{"total":1,"data":[{"rule":"failure_rate",
"endpoint_id":"ep_alert","destination_id":"dst_2"}]}},"traffic":` + traffic + `}`
	r.api.on("GET /v1/overview", 200, overview)
	b := r.signedIn()
	before := len(r.api.calls)
	page := b.get(ui.EndpointsPath).want(200, "dst_1 is held after repeated failures",
		`<svg class="i failed" role="img" aria-label="dst_2: failing">`,
		"20 of 120\u00a0requests in the last hour failed", "destination held</span>",
		"<svg class=\"i retrying\" role=\"img\" aria-label=\"dst_4: active, 1 of 60\u00a0requests in the last hour failed\">",
		`<svg class="i delivered" role="img" aria-label="dst_6: active">`,
		`<svg class="i failed" role="img" aria-label="dst_7: failing">`,
		`<svg class="i delivered" role="img" aria-label="dst_5: active">`)
	if main := page.main(); strings.Count(main, `class="st retrying on"`) != 2 ||
		strings.Count(main, `class="st held on"`) != 1 || strings.Count(main, `class="st delivered"`) != 1 {
		t.Errorf("the states are wrong: %s", main)
	}
	is.Equal(t, len(r.api.calls)-before, 3, "the list makes … calls")
	// Twenty others are busier and ten are worse: nothing is known of an endpoint that is among neither.
	many := strings.Repeat(`{"endpoint_id":"ep_x","last_hour":`+noRequestsJSON+`},`, 20)
	r.api.on("GET /v1/overview", 200, strings.NewReplacer(`"busiest":[`, `"busiest":[`+many[:len(many)-1], `"worst":[`,
		`"worst":[`+many).Replace(overview))
	b.get(ui.EndpointsPath).want(200,
		`<svg class="i note" role="img" aria-label="dst_5: active, requests are not known">`)
	for status, body := range map[int]string{200: strings.Replace(overview, traffic, "null", 1), 503: storeAway} {
		r.api.on("GET /v1/overview", status, body)
		page := b.get(ui.EndpointsPath).want(200, "requests are not known at the moment", "dst_1 is held")
		is.Lacks(t, page.main(), `class="st delivered"`, "an endpoint looks well although nothing is known of it")
	}
}
