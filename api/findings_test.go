package api_test

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// Findings, Finding and Occurrences answer from the rows of a test, newest first.
func (f *fake) Findings(_ context.Context, q finding.Query) (page finding.Page, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.findingQueries = append(f.findingQueries, q)
	if f.hitsErr != nil {
		return page, f.hitsErr
	}
	for _, row := range f.findings {
		older := q.After.IsZero() || row.FirstSeen.Before(q.After.FirstSeen) ||
			row.FirstSeen.Equal(q.After.FirstSeen) && row.ID < q.After.ID
		switch {
		case !older || !q.Keep(row.ID) || q.IDs != nil && !slices.Contains(q.IDs, row.ID):
		case len(page.Rows) == q.Limit:
			page.More = true
		default:
			page.Rows = append(page.Rows, row)
		}
	}
	return page, nil
}

func (f *fake) Finding(_ context.Context, account, name string) (finding.Row, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hitsErr != nil {
		return finding.Row{}, time.Time{}, f.hitsErr
	}
	for _, row := range f.findings {
		if row.ID == name && account == configuration.Account().ID {
			return row, time.Time{}, nil
		}
	}
	return finding.Row{}, time.Time{}, event.ErrNotFound
}

func (f *fake) Occurrences(_ context.Context, q finding.OccurrenceQuery) (page finding.OccurrencePage, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.occurrences {
		older := q.After.At.IsZero() || o.At.Before(q.After.At) ||
			o.At.Equal(q.After.At) && slices.Compare(o.Hit[:], q.After.Hit[:]) < 0
		switch {
		case !older:
		case len(page.Rows) == q.Limit:
			page.More = true
		default:
			page.Rows = append(page.Rows, o)
		}
	}
	return page, nil
}

// finding creates a finding whose key was seen once, and returns its id.
func (c *client) finding(change ...func(*leak.Finding)) string {
	c.t.Helper()
	// Each finding has a time of its own, so that the newest comes first.
	at := time.Now().UTC().Truncate(time.Millisecond).Add(time.Duration(len(c.fake.findings)) * time.Millisecond)
	name := id.Random(finding.Prefix)
	open := func(*leak.Finding) (*leak.Finding, config.Announcer) {
		f := &leak.Finding{Kind: finding.Secret, Rule: "stripe-secret-live", Severity: finding.High, Status: finding.Open,
			Masked: "sk_live_***4242", Fingerprint: "fpr_" + strings.Repeat("0", 32), OpenedAt: at,
			First: leak.FirstHit{At: at, Source: finding.Drain, Sender: "drn_1", Label: "shop"}}
		for _, set := range change {
			set(f)
		}
		return f, nil
	}
	_, f, err := configuration.DecideFinding(c.t.Context(), name, open)
	must.Do(c.t, err)
	location := finding.Location{Source: finding.Drain, Label: "shop", DrainID: "drn_1"}
	row := finding.Row{ID: name, Kind: f.Kind, Rule: f.Rule, Severity: f.Severity, Masked: f.Masked,
		Fingerprint: f.Fingerprint, Sources: []finding.Source{finding.Drain}, FirstSeen: at, LastSeen: at.Add(time.Second),
		Occurrences: 3, Environment: "production",
		Locations: []finding.CountedLocation{
			{Location: location, Count: 3, LastSeen: at.Add(time.Second), Lines: []int{3, 9}},
		}}
	c.fake.mu.Lock()
	defer c.fake.mu.Unlock()
	c.fake.findings = append([]finding.Row{row}, c.fake.findings...)
	return name
}

// ids returns the ids of a list.
func (a *answer) ids() (ids []string) {
	for _, row := range a.Body["data"].([]any) {
		ids = append(ids, row.(map[string]any)["id"].(string))
	}
	return ids
}

func TestReadFinding(t *testing.T) {
	c := newClient(t)
	name := c.finding()
	a := c.as(readKey).do("GET", "/v1/findings/"+name, nil).want(200)
	if a.text("id") != name || a.text("object") != "finding" || a.text("status") != "open" ||
		a.text("severity") != "high" || a.text("name") != "Stripe live secret key" || a.text("provider") != "stripe" ||
		!strings.HasPrefix(a.text("docs_url"), "https://") || a.get("occurrences") != 3.0 ||
		a.text("locations.0.drain_id") != "drn_1" || a.get("locations.0.count") != 3.0 ||
		fmt.Sprint(a.get("locations.0.lines")) != "[3 9]" ||
		a.text("environment") != "production" || a.get("release") != nil || a.get("resolved_at") != nil ||
		a.get("version") != 1.0 || a.get("updated_by") != nil {
		t.Errorf("%s", a.raw)
	}
	for _, other := range []string{id.Random(finding.Prefix), "fnd_nope", "evt_1", strings.ToUpper(name)} {
		c.do("GET", "/v1/findings/"+other, nil).want(404)
		c.do("GET", "/v1/findings/"+other+"/occurrences", nil).want(404)
		c.do("PATCH", "/v1/findings/"+other, `{"status":7}`).want(404)
	}
	// The store is behind, or away.
	c.fake.findings = nil
	if a = c.do("GET", "/v1/findings/"+name, nil).want(200); a.get("occurrences") != 1.0 ||
		len(a.get("locations").([]any)) != 0 || a.text("sources.0") != "drain" {
		t.Errorf("%s", a.raw)
	}
	c.fake.hitsErr = event.ErrUnavailable
	c.do("GET", "/v1/findings/"+name, nil).want(503)
	c.do("GET", "/v1/findings", nil).want(503)
}

// People act on a finding although the store is away.
func TestFindingIsMoved(t *testing.T) {
	c := newClient(t)
	name := c.finding()
	target := "/v1/findings/" + name
	patch := func(body string, status int) *answer { t.Helper(); return c.do("PATCH", target, body).want(status) }
	c.as(readKey).do("PATCH", target, `{"status":"acknowledged"}`).want(403)
	a := patch(`{"status":"acknowledged","note":"asked sk_live_51H8xQ2eZvKYlo2CjKkPq7s","odd":1}`, 200)
	if a.text("status") != "acknowledged" || a.get("version") != 2.0 || !strings.HasPrefix(a.text("updated_by"), "key_") ||
		a.text("warnings.0.param") != "odd" || !strings.HasPrefix(a.text("note"), "asked sk_live_***") {
		t.Errorf("%s", a.raw)
	}
	refuse := func(body, kind, param string) {
		t.Helper()
		a := patch(body, 400)
		if a.text("error.type") != kind || a.text("error.param") != param {
			t.Errorf("%s: %s", body, a.raw)
		}
	}
	refuse(`{"status":"resolved"}`, "invalid_request", "resolution")
	refuse(`{"status":"ignored"}`, "invalid_request", "ignore_reason")
	refuse(`{"status":"resolved","resolution":"eaten"}`, "invalid_request", "resolution")
	refuse(`{"status":"gone"}`, "invalid_request", "status")
	refuse(`{"resolution":"revoked"}`, "invalid_request", "resolution")
	refuse(`{"status":"ignored","ignore_reason":"accepted_risk","ignore_until":"2020-01-01"}`, "invalid_request",
		"ignore_until")
	refuse(`{"ignore_until":"soon"}`, "invalid_request", "ignore_until")
	refuse(`{"note":"`+strings.Repeat("x", 501)+`"}`, "invalid_request", "note")
	refuse(`{"version":1,"status":"resolved","resolution":"revoked"}`, "conflict", "version")
	refuse(`{"version":"2"}`, "invalid_request", "version")

	c.fake.hitsErr = event.ErrUnavailable
	a = patch(`{"version":2,"status":"resolved","resolution":"revoked"}`, 200)
	if a.text("status") != "resolved" || a.text("resolution") != "revoked" || a.get("resolved_at") == nil ||
		a.Header.Get("Relay-Data-As-Of") == "" {
		t.Errorf("%s", a.raw)
	}
	c.fake.hitsErr = nil
	refuse(`{"status":"acknowledged"}`, "invalid_state", "status")
	refuse(`{"status":"ignored","ignore_reason":"accepted_risk"}`, "invalid_state", "status")
	if a = patch(`{"status":"open","note":null}`, 200); a.get("resolution") != nil || a.get("resolved_at") != nil ||
		a.get("note") != nil {
		t.Errorf("%s", a.raw)
	}
	a = patch(`{"status":"ignored","ignore_reason":"accepted_risk","ignore_until":"2126-01-01"}`, 200)
	is.Equal(t, a.text("ignore_until"), "2126-01-01T00:00:00.000Z", "%s", a.raw)
	same := c.do("PATCH", target, string(a.raw)).want(200) // what was read can be sent back
	if same.get("version") != a.get("version") || same.get("warnings") != nil {
		t.Errorf("%s", same.raw)
	}
	if a = patch(`{"ignore_until":null}`, 200); a.get("ignore_until") != nil {
		t.Errorf("%s", a.raw)
	}
	audited := c.do("GET", "/v1/audit?entity_id="+name, nil).want(200)
	if len(audited.ids()) < 5 || strings.Contains(string(audited.raw), "asked") {
		t.Errorf("%s", audited.raw)
	}
}

// Many findings are updated by their ids, or by drain and rule, at most 100 at once; sent again, nothing changes. Those
// of our own API keys are updated by their ids only.
func TestManyFindingsAreUpdated(t *testing.T) {
	c := newClient(t)
	of := func(sender, rule, key string) string {
		return c.finding(func(f *leak.Finding) { f.First.Sender, f.Rule, f.KeyID = sender, rule, key })
	}
	var fakes []string
	for range 105 {
		fakes = append(fakes, of("drn_many", "r", ""))
	}
	own, other := of("drn_many", "r", "key_1"), of("drn_other", "r", "")
	update := func(body string, want string) {
		t.Helper()
		a := c.do("POST", "/v1/findings/update", body).want(200)
		is.Equal(t, fmt.Sprint(a.get("updated"), a.get("unchanged"), a.get("more"), a.get("failed")), want, body)
	}
	const byRule = `{"drain_id":"drn_many","rule":"r","status":"resolved","resolution":"false_positive"}`
	c.as(readKey).do("POST", "/v1/findings/update", byRule).want(403)
	update(byRule, "100 0 true []")
	update(byRule, "5 0 false []")
	update(byRule, "0 0 false []")
	is.Equal(t, len(c.do("GET", "/v1/findings?status=open", nil).want(200).ids()), 2, "findings are open")
	byID := func(status, ids string) string {
		return `{"ids":["` + ids + `"],"status":"` + status + `","ignore_reason":"accepted_risk"}`
	}
	update(byID("ignored", own+`","`+other+`","`+own), "2 0 false []")
	update(byID("ignored", own), "0 1 false []")
	version := fmt.Sprint(c.do("GET", "/v1/findings/"+own, nil).want(200).get("version"))
	with := func(status, version string) string {
		return `{"ids":["` + own + `"],"status":"` + status + `","ignore_reason":null,"version":` + version + `}`
	}
	a := c.do("POST", "/v1/findings/update", with("open", "1")).want(200)
	is.Equal(t, a.text("failed.0.type"), "conflict", "an update of an earlier version: %s", a.raw)
	update(with("open", version), "1 0 false []")
	update(with("open", version), "0 1 false []") // it has taken effect
	update(byID("ignored", own), "1 0 false []")
	gone := id.Random(finding.Prefix)
	a = c.do("POST", "/v1/findings/update", byID("ignored", fakes[0]+`","`+gone)).want(200)
	if a.text("failed.0.id") != fakes[0] || a.text("failed.0.type") != "invalid_state" ||
		a.text("failed.1.id") != gone || a.text("failed.1.type") != "not_found" {
		t.Errorf("%s", a.raw)
	}
	for body, param := range map[string]string{
		`{"ids":["` + own + `"]}`: "status", `{"status":"open"}`: "ids", `{"status":"open","rule":"r"}`: "drain_id",
		`{"status":"open","drain_id":"drn_1"}`: "rule", `{"status":"resolved","ids":["` + own + `"]}`: "resolution",
		`{"status":"ignored","ids":["` + own + `"]}`: "ignore_reason", `{"status":"open","ids":["x"]}`: "ids",
		`{"status":"open","drain_id":"drn_1","rule":"r","version":1}`:    "version",
		`{"status":"open","ids":["` + own + `"],"rule":"r"}`:             "ids",
		`{"status":"open","ids":["` + own + `"],"odd":1}`:                "odd",
		`{"status":"open","ids":["` + strings.Join(fakes, `","`) + `"]}`: "ids",
	} {
		c.do("POST", "/v1/findings/update", body).wantError(400, "invalid_request", param)
	}
	if audited := c.do("GET", "/v1/audit?entity_id="+fakes[0], nil).want(200); len(audited.ids()) != 1 {
		t.Errorf("%s", audited.raw)
	}
}

// A list shows findings that the configuration has, with a status that it asks for. Its pages are stable while others
// arrive.
func TestListFindings(t *testing.T) {
	c := newClient(t)
	var all []string
	for i := range 5 {
		severity := []finding.Severity{finding.Low, finding.Critical}[i%2]
		all = append([]string{c.finding(func(f *leak.Finding) { f.Severity = severity })}, all...)
	}
	unknown := finding.Row{ID: id.Random(finding.Prefix), FirstSeen: time.Now(), LastSeen: time.Now()}
	c.fake.findings = append([]finding.Row{unknown}, c.fake.findings...)
	c.do("PATCH", "/v1/findings/"+all[0], `{"status":"resolved","resolution":"removed"}`).want(200)
	list := func(query string, want ...string) {
		t.Helper()
		a := c.do("GET", "/v1/findings?"+query, nil).want(200)
		if !slices.Equal(a.ids(), want) || a.get("next_cursor") != nil {
			t.Errorf("%s: %v, want %v", query, a.ids(), want)
		}
	}
	list("", all...)
	list("status=open", all[1:]...)
	list("status=resolved,ignored", all[0])
	list("status=acknowledged")
	list("severity=critical", all[1], all[3])
	list("severity=low&status=open", all[2], all[4])

	var got []string
	target := "/v1/findings?limit=2&status=open"
	for range 3 {
		a := c.do("GET", target, nil).want(200)
		got = append(got, a.ids()...)
		next, more := a.Body["next_cursor"].(string)
		if !more {
			break
		}
		c.finding() // arrives between two pages
		target = "/v1/findings?limit=2&status=open&cursor=" + next
	}
	is.List(t, got, all[1:], "pages have")
	cursor := c.do("GET", "/v1/findings?limit=1", nil).want(200).text("next_cursor")
	for _, wrong := range []string{"cursor=" + cursor + "&status=open", "cursor=" + cursor[:20], "status=opened",
		"severity=5", "source=log", "kind=key", "since=x", "since=2026-02-01&until=2026-01-01",
		"since=2099-02-01&until=2099-02-02", "state=open", "limit=0"} {
		param, _, _ := strings.Cut(wrong, "=")
		if a := c.do("GET", "/v1/findings?"+wrong, nil).want(400); a.text("error.param") != param &&
			a.text("error.param") != "until" {
			t.Errorf("%s: %s", wrong, a.raw)
		}
	}
	c.do("GET", "/v1/findings?"+url.Values{"source": {"drain,event"}, "kind": {"secret"}, "rule": {"a", "b"},
		"since": {"2026-01-01"}, "until": {"2026-02-01"}}.Encode(), nil).want(200)
	q := c.fake.findingQueries[len(c.fake.findingQueries)-1]
	if !slices.Equal(q.Sources, []finding.Source{finding.Drain, finding.Event}) || len(q.Rules) != 2 ||
		!slices.Equal(q.Kinds, []finding.Kind{finding.Secret}) || q.IDs != nil || q.Since.IsZero() || q.Until.IsZero() {
		t.Errorf("%+v", q)
	}
}

// Names in the body and headers of an event end with its payload, erased or expired, also where a finding shows them.
func TestFindingShowsNothingOfAnErasedEvent(t *testing.T) {
	c := newClient(t)
	name, ev := c.finding(), c.received(`{"joe.doe":1}`)
	at := finding.Location{Source: finding.Event, Label: "orders", EventID: ev, Pointer: "/joe.doe/note"}
	c.fake.occurrences = []finding.Occurrence{{
		OccurrenceKey: finding.OccurrenceKey{At: time.Now()}, ObservedAt: time.Now(), N: 1, Source: finding.Event,
		Severity: finding.High, Location: at, Agent: "Joe's client", Method: "POST",
	}}
	target := "/v1/findings/" + name + "/occurrences"
	shown := func() string {
		a := c.do("GET", target, nil).want(200)
		return fmt.Sprintln(a.get("data.0.user_agent"), a.get("data.0.location.pointer"), a.get("data.0.method"))
	}
	is.Equal(t, shown(), "Joe's client /joe.doe/note POST\n", "before")
	c.do("DELETE", "/v1/events/"+ev+"/payload", nil).want(200)
	is.Equal(t, shown(), "<nil> <nil> POST\n", "after the erasure")
	old := id.Lowest(time.Now().AddDate(0, 0, -40)) // erasures are forgotten a day after the retention
	c.fake.occurrences[0].Location.EventID = old.Text(id.Event)
	is.Equal(t, shown(), "<nil> <nil> POST\n", "after the retention")
}

func TestListOccurrences(t *testing.T) {
	c := newClient(t)
	name := c.finding()
	at := time.Now().UTC().Truncate(time.Millisecond)
	for i := range 5 { // all at the same time
		c.fake.occurrences = append([]finding.Occurrence{{
			OccurrenceKey: finding.OccurrenceKey{At: at, Hit: [16]byte{byte(i)}}, ObservedAt: at.Add(-time.Hour), N: 2,
			Source: finding.Drain, Severity: finding.High, Channel: "log",
			Location:  finding.Location{Source: finding.Drain, Label: fmt.Sprint("app", i), DrainID: "drn_1"},
			RemoteNet: netip.MustParsePrefix("192.0.2.0/24"), // after 30 days, without the address
		}}, c.fake.occurrences...)
	}
	var got []string
	for target := "/v1/findings/" + name + "/occurrences?limit=2"; ; {
		a := c.as(readKey).do("GET", target, nil).want(200)
		for i := range a.Body["data"].([]any) {
			got = append(got, a.text(fmt.Sprintf("data.%d.location.label", i)))
			if a.text(fmt.Sprintf("data.%d.remote_network", i)) != "192.0.2.0/24" ||
				a.get(fmt.Sprintf("data.%d.remote_ip", i)) != nil {
				t.Errorf("%s", a.raw)
			}
		}
		next, more := a.Body["next_cursor"].(string)
		if !more {
			break
		}
		target = "/v1/findings/" + name + "/occurrences?limit=2&cursor=" + next
	}
	is.List(t, got, []string{"app4", "app3", "app2", "app1", "app0"})
	c.do("GET", "/v1/findings/"+name+"/occurrences?source=drain", nil).want(400)
	c.do("GET", "/v1/findings/"+name+"/occurrences?cursor=xyz", nil).want(400)
}
