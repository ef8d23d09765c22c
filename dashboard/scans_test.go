package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
)

const oneScan = `{"id":"scn_1","domain_id":"dom_1","hostname":"shop.example.com","status":"running","trigger":"manual",
"pages":3,"resources":20,"bytes":4096,"findings_new":0,"findings_seen":0,"skipped":[],"skipped_more":0,"third_party":[],
"catch_all":false,"budget_exhausted":null,"error":null,"created_at":"2026-08-21T20:00:00.000Z","finished_at":null}`

// A person starts a scan on the page of a verified domain. Its page shows the progress, then what was found and what
// was not looked at.
func TestScanADomain(t *testing.T) {
	r := newRig(t)
	b := r.signedIn()
	verified := strings.NewReplacer(`"pending"`, `"verified"`, `"verified_at":null`,
		`"verified_at":"2026-08-21T22:24:30.000Z"`).Replace(oneDomain)
	r.api.on("GET /v1/domains/dom_1", http.StatusOK, verified)
	r.api.on("GET /v1/tripwires", http.StatusOK, emptyList)
	r.api.on("POST /v1/scans", http.StatusCreated, oneScan)
	nonce := b.get("/app/domains/dom_1").want(200, "Scan now").nonce()
	b.post("/app/domains/dom_1/scan", url.Values{"nonce": {nonce}}).wantRedirect("/app/scans/scn_1")
	if call := r.api.calls[len(r.api.calls)-1]; call.Body != `{"domain_id":"dom_1"}` || call.Key != nonce {
		t.Errorf("%+v", call)
	}
	r.api.on("GET /v1/scans/scn_1", http.StatusOK, oneScan)
	b.get("/app/scans/scn_1").want(200, "Running: 3 pages", `data-live="/app/scans/scn_1"`)
	done := strings.NewReplacer(`"running"`, `"completed"`, `"findings_new":0`, `"findings_new":2`, `"findings_seen":0`,
		`"findings_seen":1`, `"skipped":[]`, `"skipped":[{"path":"/<b>","reason":"query"},{"path":"/c","reason":"new"}]`,
		`"third_party":[]`, `"third_party":["cdn.example.com"]`, `"budget_exhausted":null`, `"budget_exhausted":"pages"`,
		`"skipped_more":0`, `"skipped_more":7`, `"catch_all":false`, `"catch_all":true`).Replace(oneScan)
	r.api.on("GET /v1/scans/scn_1", http.StatusOK, done)
	body := b.get("/app/scans/scn_1").want(200, "2 new findings, and 1 that were known", "/&lt;b&gt;",
		"may change something", "cdn.example.com",
		"budget of pages", "and 7 more", "answers to every path", "new: <code>/c</code>").body
	is.Lacks(t, body, "data-live", "the page of a scan that has ended goes on asking")
	r.api.on("GET /v1/scans/scn_1", http.StatusOK, strings.Replace(strings.Replace(oneScan, `"running"`, `"failed"`, 1),
		`"error":null`, `"error":"verification_expired"`, 1))
	b.get("/app/scans/scn_1").want(200, "Failed. The proof of the domain is missing")
	r.api.on("GET /v1/scans", http.StatusOK, `{"data":[`+oneScan+`,`+done+`],"next_cursor":"x"}`)
	b.get("/app/scans").want(200, `href="/app/scans/scn_1"`, "running", "completed", "cursor=x")
	r.api.on("GET /v1/scans", http.StatusOK, `{"data":[]}`)
	b.get("/app/scans").want(200, "No scan yet")
	b.get("/app/scans/scn_2").want(404, "no such scan")
	r.people.person.Scope = config.Read
	is.Lacks(t, b.get("/app/domains/dom_1").want(200).body, "Scan now", "a read person sees an action")
}
