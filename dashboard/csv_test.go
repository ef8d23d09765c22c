package dashboard

import (
	"encoding/csv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// lines returns the lines of a CSV file.
func (a *answer) lines() [][]string {
	a.t.Helper()
	lines := must.Get(csv.NewReader(strings.NewReader(a.want(200).body)).ReadAll())(a.t)
	return lines
}

// A file has all pages of the list, with the filters of the page, and is no page of this host.
func TestDownloadCSV(t *testing.T) {
	r := operationRig(t)
	r.api.responses["GET /v1/audit"] = func(c apiCall) (int, http.Header, string) {
		if c.Query.Get("cursor") == "c2" {
			return 200, http.Header{}, strings.NewReplacer(`"next_cursor":"c2"`, `"next_cursor":""`, `"user"`, `"=cmd"`).Replace(
				oneAuditEntry)
		}
		return 200, http.Header{}, oneAuditEntry
	}
	b := r.signedIn()
	b.get("/app/audit"+"?actor=usr_1&action=endpoint.*").want(200,
		`href="/app/csv/audit?action=endpoint.%2A&amp;actor=usr_1"`)
	a := b.get("/app/csv/audit?action=endpoint.%2A&actor=usr_1&other=x")
	lines := a.lines()
	if len(lines) != 5 || lines[0][0] != "id" || lines[1][8] != "a1, a2, a3, a4, a5, a6, a7, a8, a9" ||
		lines[2][11] != "1200" || lines[3][2] != "'=cmd" {
		t.Errorf("the file is %q", lines)
	}
	if got := a.header.Get("Content-Disposition"); got != `attachment; filename="audit.csv"` ||
		a.header.Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Errorf("%s, %s", got, a.header.Get("Content-Type"))
	}
	is.Equal(t, r.api.calls[len(r.api.calls)-2].Query.Encode(), "action=endpoint.%2A&actor=usr_1&limit=100",
		"the API is asked for")
	r.people.person.Scope = config.Read
	r.api.on("GET /v1/recoveries/rec_1/items", http.StatusOK, strings.Replace(recoveryItemsJSON, `"c2"`, `""`, 1))
	if lines := b.get("/app/csv/recovery-items?id=rec_1&state=failed").lines(); lines[1][3] != "a<b>" {
		t.Errorf("the items are %q", lines)
	}
	b.get("/app/csv/nothing").want(404, "no such list")
	b.get("/app/csv/recovery-items").want(404)
	r.browser().get("/app/csv/audit").want(303)
}

// Every list has the columns of the API; the days, the endpoints and the deliveries of events have a line each.
func TestCSVLists(t *testing.T) {
	r := operationRig(t)
	r.api.on("GET /v1/recoveries", http.StatusOK, `{"data":[`+recoveryJSON+`]}`)
	r.api.on("GET /v1/recoveries/rec_1/items", http.StatusOK, strings.Replace(recoveryItemsJSON, `"c2"`, `""`, 1))
	r.api.on("GET /v1/audit", http.StatusOK, strings.Replace(oneAuditEntry, `"c2"`, `""`, 1))
	r.api.on("GET /v1/alerts/history", http.StatusOK, oneAlert)
	r.api.on("GET /v1/events", http.StatusOK, strings.Replace(oneEvent, `"c2"`, `""`, 1))
	r.api.on("GET /v1/replays", http.StatusOK, `{"data":[`+runJSON+`]}`)
	r.api.on("GET /v1/findings", http.StatusOK, `{"data":[{"id":"fnd_1","name":"key","masked":"sk_****"}]}`)
	b := r.signedIn()
	all := must.Get(allPages())(t)
	for name, want := range map[string]int{"events": 1, "deliveries": 2, "findings": 1, "audit": 2, "recoveries": 1,
		"replays": 1, "recovery-items": 2, "alerts": 2, "usage-days": 2, "usage-endpoints": 2, "usage-30-days": 3} {
		lines := b.get("/app/csv/" + name + "?id=rec_1").lines()
		if len(lines) != 1+want || !slices.Equal(lines[0], strings.Fields(all.Lists[name].Columns)) || lines[1][0] == "" {
			t.Errorf("%s: %q", name, lines)
		}
	}
	is.Equal(t, len(all.Lists), 11, "lists, of which 11 were read")
	b.get("/app/csv/deliveries?body_path=a.b&body_value=1&cursor=x").want(200, "dst_1,held,breaker_open")
	is.Equal(t, r.listed().Encode(), "body%5Ba.b%5D=1&limit=100", "the API is asked for")
}

// A file is bounded and says so; one that cannot be completed ends the connection.
func TestCSVIsBounded(t *testing.T) {
	r := operationRig(t)
	calls, status := 0, 200
	r.api.responses["GET /v1/audit"] = func(c apiCall) (int, http.Header, string) {
		if calls++; calls > 2 && status != 200 {
			return status, http.Header{}, storeAway
		}
		var rows []string
		for i := range 100 {
			rows = append(rows, `{"id":"aud_`+strconv.Itoa(calls*100+i)+`"}`)
		}
		return 200, http.Header{}, `{"data":[` + strings.Join(rows, ",") + `],"next_cursor":"c"}`
	}
	b := r.signedIn()
	a := b.get("/app/csv/audit").want(200, "There are more rows: a file has at most 10,000")
	if n := strings.Count(a.body, "\n"); n != 10000+2 || calls > 10000/100+1 {
		t.Errorf("%d lines by %d calls", n, calls)
	}
	calls, status = 0, 503
	isCutOff(t, "a page that cannot be read", func() { b.get("/app/csv/audit") })
	calls = 2 // the first page fails already
	b.get("/app/csv/audit").want(503, "The event store is unavailable")
	calls, status = 0, 200
	r.api.responses["GET /v1/audit"] = func(apiCall) (int, http.Header, string) {
		r.people.person.Epoch++ // signed out everywhere meanwhile
		return 200, http.Header{}, `{"data":[],"next_cursor":"c"}`
	}
	isCutOff(t, "a session that has ended", func() { b.get("/app/csv/audit") })
}

// isCutOff fails unless the connection is closed in the middle of the answer.
func isCutOff(t *testing.T, name string, get func()) {
	t.Helper()
	defer func() {
		if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // compared as net/http compares it
			t.Errorf("%s: the connection was not closed: %v", name, v)
		}
	}()
	get()
}
