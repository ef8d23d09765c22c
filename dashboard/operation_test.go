package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/dashboard/frame"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
)

const oneAuditEntry = `{"data":[{"id":"aud_1","object":"audit_entry","at":"2026-08-21T22:20:36.000Z",
"actor":{"type":"user","id":"usr_1","name":"ops<b>@example.com"},"action":"endpoint.updated",
"entity":{"type":"endpoint","id":"ep_1"},"changes":["a1","a2","a3","a4","a5","a6","a7","a8","a9"],"request_id":"req_1",
"remote_ip":"192.0.2.1","use":null},
{"id":"aud_0","object":"audit_entry","at":"2026-08-21T22:00:00.000Z","actor":{"type":"key","id":"key_1","name":null},
"action":"key.used","entity":{"type":"key","id":"key_1"},"changes":[],"request_id":null,"remote_ip":null,
"use":{"count":1200,"last_at":"2026-08-21T22:10:00.000Z","node":"a"}}],"next_cursor":"c2"}`

// The audit log says who did what to what, from where; its links keep the filters.
func TestAuditLog(t *testing.T) {
	r := newRig(t)
	r.api.on("GET /v1/audit", http.StatusOK, oneAuditEntry)
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[{"id":"ep_1","name":"payments"}]}`)
	b := r.signedIn()
	page := b.get("/app/audit"+"?action=endpoint.*&actor=+usr_1+&other=x").want(200, "ops&lt;b&gt;@example.com",
		`<a href="/app/endpoints/ep_1">payments</a>`,
		"endpoint.updated", `href="/app/endpoints/ep_1"`, "192.0.2.1", "a8 and 1 more", "1,200\u00a0times until",
		`href="/app/audit?action=endpoint.%2A&amp;actor=usr_1&amp;cursor=c2"`,
		`href="/app/audit?action=endpoint.%2A&amp;actor=usr_1&amp;entity_id=ep_1"`,
		`href="/app/audit?action=endpoint.%2A&amp;actor=key_1"`, `name="action" value="endpoint.*"`)
	query := r.api.calls[len(r.api.calls)-1].Query
	is.Equal(t, query.Encode(), "action=endpoint.%2A&actor=usr_1&limit=50", "the API is asked for")
	is.Lacks(t, page.main(), "First page", "the first page leads to itself")
	r.api.on("GET /v1/audit", http.StatusOK, emptyList)
	b.get("/app/audit"+"?cursor=c2").want(200, "Nothing more", "Back to the first page")
	b.get("/app/audit"+"?actor=usr_9").want(200, "None match", "Remove the filters")
	b.get("/app/audit").want(200, "Nothing yet")
	r.api.on("GET /v1/audit", http.StatusServiceUnavailable, storeAway)
	b.get("/app/audit").want(503, "The event store is unavailable")
	r.api.on("GET /v1/audit", http.StatusBadRequest,
		`{"error":{"type":"invalid_request","message":"action: has \"x\", which is not an action","param":"action"}}`)
	b.get("/app/audit"+"?action=x").want(400, `href="#f-action"`, "which is not an action", "Nothing was searched")
}

const usageJSON = `{"period_start":"2026-08-01T00:00:00.000Z","period_end":"2026-09-01T00:00:00.000Z",
"as_of":"2026-08-21T22:24:30.000Z","events":{"received":9000,"sent":900,"findings":100,"total":10000},
"deliveries":12000,"attempts":12345,"bytes":4096,"allowance":8000,"remaining":0,"overage":{"events":2000},
"projection":{"events":15000,"overage_events":7000,"method":"last_7_days","confidence":"ok","overage_amount":null,
"currency":null},"by_endpoint":[{"endpoint_id":"ep_1","received":9000,"sent":900,"total":9900,"bytes":4096},
{"endpoint_id":"ep_gone","received":1,"sent":0,"total":1,"bytes":1}],
"daily":[{"date":"2026-08-20","received":4000,"sent":0,"findings":100,"total":4100,"bytes":1},
{"date":"2026-08-21","received":5000,"sent":900,"findings":0,"total":5900,"bytes":1}]}`

const usageDaysJSON = `{"object":"usage_days","from":"2026-07-23T00:00:00.000Z","to":"2026-08-22T00:00:00.000Z",
"as_of":"2026-08-21T22:24:30.000Z",
"daily":[{"date":"2026-08-19","received":0,"sent":0,"findings":0,"total":0,"bytes":0},
{"date":"2026-08-20","received":40,"sent":0,"findings":5,"total":45,"bytes":1},
{"date":"2026-08-21","received":50,"sent":9,"findings":0,"total":59,"bytes":1}],
"by_endpoint":[{"endpoint_id":"ep_1","received":70,"sent":9,"total":79,"bytes":4096,
"daily":[{"date":"2026-08-21","received":70,"sent":9,"total":79,"bytes":4096}]},
{"endpoint_id":"ep_gone","received":1,"sent":0,"total":1,"bytes":1,"daily":[]}]}`

// The usage says what is used, allowed and expected, by day and endpoint; without the store the page says so.
func TestUsagePage(t *testing.T) {
	r := newRig(t)
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[{"id":"ep_1","name":"payments"}]}`)
	r.api.on("GET /v1/usage", http.StatusOK, usageJSON)
	r.api.on("GET /v1/usage/daily", http.StatusOK, usageDaysJSON)
	b := r.signedIn()
	b.get("/app/usage").want(200, "<b>10,000</b>", "2,000 events above the allowance of 8,000", "125\u00a0% used",
		"15,000", "7,000 above the allowance", "at the rate of the last 7 days", "12,345",
		"2026-08-20</a></td><td class=\"r\">4,000</td>", `<rect class="ok"`,
		"10,000 events and findings in 2\u00a0days",
		`<a href="/app/endpoints/ep_1">payments</a>`, "<code>ep_gone</code>")
	// The last 30 days are drawn for all endpoints, or for one of them; each has a table.
	b.get("/app/usage").want(200, "104 events and findings in 3\u00a0days", "payments, events a day in the last 30 days",
		`href="/app/usage?endpoint_id=ep_1#h-l"`,
		`2026-08-20</a></td><td class="r">40</td><td class="r">0</td><td class="r">5</td></tr>`)
	b.get("/app/usage"+"?endpoint_id=ep_1").want(200, "Last 30 days of payments", "79 events of payments in 3\u00a0days",
		`2026-08-20</a></td><td class="r">0</td><td class="r">0</td></tr>`,
		`2026-08-21</a></td><td class="r">70</td><td class="r">9</td></tr>`)
	r.api.on("GET /v1/usage/daily", http.StatusServiceUnavailable, storeAway)
	b.get("/app/usage").want(200, "<b>10,000</b>", "The last 30 days cannot be read")
	free := strings.NewReplacer(`"allowance":8000,"remaining":0`, `"allowance":null,"remaining":null`,
		`"overage":{"events":2000}`, `"overage":{"events":0}`, `"confidence":"ok"`, `"confidence":"low"`).Replace(usageJSON)
	r.api.on("GET /v1/usage", http.StatusOK, free)
	if page := b.get("/app/usage").want(200, "<b>none</b>", "a rough number"); strings.Contains(page.main(), "% used") {
		t.Error("a share of no allowance is shown")
	}
	r.api.on("GET /v1/usage", http.StatusServiceUnavailable, storeAway)
	b.get("/app/usage").want(503, "The event store is unavailable")
}

// The months before this one have a page, which leads to their neighbours, and their own files.
func TestUsagePageOfAMonth(t *testing.T) {
	r := newRig(t)
	r.api.on("GET /v1/endpoints", http.StatusOK, `{"data":[{"id":"ep_1","name":"payments"}]}`)
	r.api.on("GET /v1/usage/daily", http.StatusOK, usageDaysJSON)
	show := func(month, query string, want ...string) string {
		t.Helper()
		r.api.on("GET /v1/usage", http.StatusOK, strings.Replace(usageJSON, "2026-08", month, 1))
		return r.signedIn().get("/app/usage"+query).want(200, want...).main()
	}
	main := show("2026-08", "", `href="/app/usage?period=2026-07"`, "Projected for the month")
	is.Lacks(t, main, "Month after", "the page of this month leads to the next")
	main = show("2026-06", "?period=2026-06", `href="/app/usage?period=2026-05"`, `href="/app/usage?period=2026-07"`,
		"Usage of June 2026", "June 2026 by day", "Above the allowance",
		"/app/csv/usage-days?period=2026-06", "/app/csv/usage-endpoints?period=2026-06")
	if strings.Contains(main, "Projected") || strings.Contains(main, "30 days") || strings.Contains(main, "This month") {
		t.Error("a month that has ended has a projection or the last 30 days")
	}
	if got := r.api.calls[len(r.api.calls)-1]; got.Path != "/v1/usage" || got.Query.Encode() != "period=2026-06" {
		t.Errorf("the API is asked for %s?%s", got.Path, got.Query.Encode())
	}
	show("2026-07", "?period=2026-07", `href="/app/usage" rel="next"`)
	is.Lacks(t, show("2025-08", "?period=2025-08"), "Month before", "the page leads to a month that may not be kept")
	r.signedIn().get("/app/csv/usage-days?period=2026-06&other=1").want(200)
	is.Equal(t, r.api.calls[len(r.api.calls)-1].Query.Encode(), "period=2026-06", "the file asks for")
}

// operationPages are pages of daily operation that every test of the group opens.
var operationPages = []string{"/app/audit", "/app/usage", frame.RecoveriesPath, "/app/recoveries/rec_1",
	frame.AlertHistoryPath, "/app/alerts/rules", "/app/alerts/channels"}

// A person with the scope read sees these pages without a control that would be refused.
func TestReadPersonSeesNoActionOfOperation(t *testing.T) {
	r := operationRig(t)
	r.people.person.Scope = config.Read
	b := r.signedIn()
	for _, path := range operationPages {
		main := b.get(path).want(200).main()
		is.Lacks(t, main, `method="post"`, "%s has a form that would be refused", path)
	}
}

// What others wrote is text on every page.
func TestForeignTextOfOperationIsHarmless(t *testing.T) {
	r := operationRig(t)
	const script = `<script>alert(1)</script>`
	for route, respond := range r.api.responses {
		r.api.responses[route] = func(c apiCall) (int, http.Header, string) {
			status, header, body := respond(c)
			return status, header, strings.ReplaceAll(body, "payments", script)
		}
	}
	b := r.signedIn()
	for _, path := range operationPages {
		if body := b.get(path + "?since=" + url.QueryEscape(script)).want(200).body; strings.Contains(body, "<script>alert") {
			t.Errorf("%s runs a script", path)
		}
	}
}

// operationRig answers the calls of these pages.
func operationRig(t *testing.T) *rig {
	r := recoveryRig(t)
	r.api.on("GET /v1/alerts", http.StatusOK, alertSettingsJSON)
	r.api.on("GET /v1/alerts/history", http.StatusOK, oneAlert)
	r.api.on("GET /v1/audit", http.StatusOK, strings.ReplaceAll(oneAuditEntry, "ops<b>", "payments"))
	r.api.on("GET /v1/usage", http.StatusOK, usageJSON)
	r.api.on("GET /v1/usage/daily", http.StatusOK, usageDaysJSON)
	return r
}
