package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/test/is"
)

// firingAlert is an alert of a rule at a destination of ep_1.
func firingAlert(rule string) string {
	return `{"data":[{"id":"alrt_1","rule":"` + rule + `","endpoint_id":"ep_1","destination_id":"dst_1","state":"firing",
		"value":13,"threshold":10,"fired_at":"2026-08-21T22:00:00Z"}]}`
}

// An alert leads to the events that it is about, on its endpoint's page and in the list, and what failed to its
// recovery.
func TestAlertsLeadToTheirEvents(t *testing.T) {
	const recover = `href="/app/recoveries/new?endpoint_id=ep_1&amp;since=2026-08-21T21%3A00%3A00Z"`
	for rule, x := range map[string]struct {
		filter  string
		recover bool
	}{
		"delivery_failed": {"status=failed", true}, "failure_rate": {"status=failed%2Cretrying", true},
		"backlog_age": {"status=pending%2Cretrying", false}, "verification_failed": {"status=rejected", false},
		"processing_missing": {"processing=missing", false}, "usage": {"", false},
	} {
		r := newEndpointRig(t)
		r.api.on("GET /v1/alerts/history", http.StatusOK, firingAlert(rule))
		r.api.on("GET /v1/alerts", http.StatusOK, `{}`)
		b := r.signedIn()
		for _, path := range []string{"/app/endpoints/ep_1", frame.AlertHistoryPath} {
			page := b.get(path).want(200).main()
			links := strings.Contains(page, "/app/events?destination_id=dst_1&amp;endpoint_id=ep_1") &&
				strings.Contains(page, x.filter+`">Show events`)
			if links != (x.filter != "") || strings.Contains(page, recover) != x.recover {
				t.Errorf("%s on %s: leads to events %v, to a recovery %v", rule, path, links, strings.Contains(page, recover))
			}
		}
	}
}

// An alert about signatures says what is wrong with the newest request.
func TestAlertHasTheNewestDiagnosis(t *testing.T) {
	r := newEndpointRig(t)
	r.api.on("GET /v1/alerts/history", http.StatusOK, firingAlert("verification_failed"))
	r.api.on("GET /v1/events", http.StatusOK, `{"data":[{"id":"evt_1","status":"rejected"}]}`)
	r.api.on("GET /v1/alerts", http.StatusOK, `{}`)
	r.api.on("GET /v1/events/evt_1/signature", http.StatusOK,
		`{"object":"signature","findings":[{"code":"body_json","message":"A proxy wrote the <JSON> `+"`again`"+`."}]}`)
	b := r.signedIn()
	for _, path := range []string{"/app/endpoints/ep_1", "/app/alerts/history"} {
		b.get(path).want(200, `href="/app/events/evt_1"`, "A proxy wrote the &lt;JSON&gt; <code>again</code>.")
	}
	r.api.on("GET /v1/events/evt_1/signature", http.StatusBadRequest,
		`{"error":{"type":"invalid_state","message":"the payload was erased"}}`)
	b.get("/app/endpoints/ep_1").want(200, "with an invalid signature")
	r.api.on("GET /v1/events", http.StatusOK, emptyList)
	b.get("/app/endpoints/ep_1").want(200, "with an invalid signature")
}

// The events of one endpoint lead back to it, and those that failed to their recovery.
func TestEventsOfAnEndpointLeadOn(t *testing.T) {
	r := eventsRig(t)
	b := r.signedIn()
	const back, recover = `<a href="/app/endpoints/ep_1">payments</a>`, "/app/recoveries/new?endpoint_id=ep_1"
	b.get(frame.EventsPath+"?endpoint_id=ep_1&status=failed").want(200, back,
		`href="`+recover+`&amp;since=2026-08-21T22%3A24%3A35Z">Recover these`)
	if page := b.get(frame.EventsPath + "?status=failed").want(200).main(); strings.Contains(page, back) ||
		strings.Contains(page, recover) {
		t.Error("the events of all endpoints lead to one")
	}
	if page := b.get(frame.EventsPath+"?endpoint_id=ep_1").want(200, back); strings.Contains(page.main(), recover) {
		t.Error("what did not fail leads to a recovery")
	}
	newEndpointRig(t).signedIn().get("/app/endpoints/ep_1").want(200, `href="/app/events?endpoint_id=ep_1">Events</a>`)
}

// The page of a destination shows its requests in a range, what waits for it, its newest failures with the ways on from
// them, and sends a test event to it alone: that is how one that is held is tried.
func TestDestinationIsAPlaceToWork(t *testing.T) {
	const path = "/app/endpoints/ep_1/destinations/dst_1"
	r := newEndpointRig(t)
	r.api.on("GET /v1/events", http.StatusOK, `{"data":[{"id":"evt_2","endpoint_id":"ep_1","type":"a.b",
		"status":"retrying","received_at":"2026-08-21T22:20:00Z","why":"x",
		"deliveries":[{"destination_id":"dst_1","status":"retrying","last_response_status":503}]},
		{"id":"evt_1","status":"pending","received_at":"2026-08-21T22:00:00Z","why":"x",
		"deliveries":[{"destination_id":"dst_1","status":"held"}]}]}`)
	b := r.signedIn()
	b.get(path+"?range=7d").want(200, "79\u00a0ms", "107 delivered", "15.7\u00a0%", "Waiting events</dt><dd><b>2</b>",
		`datetime="2026-08-21T22:00:00.000Z"`, `href="/app/events/evt_2"`, "Recover these",
		`href="/app/recoveries/new?destination_id=dst_1&amp;endpoint_id=ep_1&amp;since=`,
		`href="/app/events?destination_id=dst_1&amp;endpoint_id=ep_1&amp;status=failed%2Cretrying"`,
		`name="destination_id" value="dst_1"`, "Send test event", "<b>billing answered 503</b>: ",
		`href="/app/events?destination_id=dst_1&amp;endpoint_id=ep_1">Events</a>`, `href="`+path+`/settings">Settings</a>`)
	for _, call := range r.api.calls {
		if strings.HasSuffix(call.Path, "/traffic") && call.Query.Get("range") != "7d" {
			t.Errorf("the traffic is asked for with %s", call.Query.Encode())
		}
	}
	held := strings.Replace(sampleEndpoint, `"state":"active"`, `"state":"held"`, 1)
	r.api.on("GET /v1/endpoints/ep_1", http.StatusOK, held)
	b.get(path).want(200, "Try now", "<title>Failed requests, at most 16.7\u00a0%")
}

// An endpoint that rejects most of its requests says so wherever it is listed, unless an alert does.
func TestEndpointThatRejectsSaysSo(t *testing.T) {
	const text, state = "6 of 6\u00a0requests of the last hour were rejected", `class="st rejected on"`
	r := newEndpointRig(t)
	r.api.on("GET /v1/events", http.StatusOK, `{"data":[{"id":"evt_1","endpoint_id":"ep_1","status":"rejected"},
		{"id":"evt_2","endpoint_id":"ep_1","status":"rejected"}]}`)
	r.api.on("GET /v1/events/counts", http.StatusOK, `{"counted":6,"statuses":{"rejected":6}}`)
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[`+sampleEndpoint+`]}`)
	b := r.signedIn()
	for _, path := range []string{"/app", "/app/endpoints", "/app/endpoints/ep_1"} {
		b.get(path).want(200, text)
	}
	b.get("/app/endpoints").want(200, state)
	r.api.on("GET /v1/events/counts", http.StatusOK, `{"counted":6,"statuses":{"delivered":4,"rejected":2}}`)
	r.now = r.now.Add(time.Minute) // it is asked for every ten seconds
	for _, path := range []string{"/app", "/app/endpoints", "/app/endpoints/ep_1"} {
		is.Lacks(t, b.get(path).want(200).main(), "were rejected", "%s says it of an endpoint that accepts most", path)
	}
	r.api.on("GET /v1/events/counts", http.StatusOK, `{"counted":6,"statuses":{"rejected":6}}`)
	r.api.on("GET /v1/alerts/history", http.StatusOK, firingAlert("verification_failed"))
	is.Lacks(t, b.get("/app/endpoints/ep_1").want(200).main(), "were rejected", "the page says it twice")
}

// What fires is listed by cause; a filter lists each alert.
func TestAlertsAreGroupedByCause(t *testing.T) {
	r := newEndpointRig(t)
	one := strings.TrimSuffix(firingAlert("consecutive_failures"), "]}")
	other := strings.TrimPrefix(firingAlert("delivery_failed"), `{"data":[`)
	r.api.on("GET /v1/alerts/history", http.StatusOK, one+","+other)
	r.api.on("GET /v1/alerts", http.StatusOK, `{}`)
	b := r.signedIn()
	page := b.get(frame.AlertHistoryPath).want(200, "What fires, by cause", "Nothing was resolved").main()
	is.Equal(t, strings.Count(page, `<li class="why`), 1, "causes")
	b.get(frame.AlertHistoryPath+"?state=firing").want(200, "What fires, by cause")
	page = b.get(frame.AlertHistoryPath + "?endpoint_id=ep_1").want(200).main()
	is.Equal(t, strings.Count(page, "<td class=\"nb\"><span class=\"st failed on\">"), 2, "alerts")
}
