package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/jobs"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// since returns the start of a window of one hour.
func since() string { return time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) }

// wantCounts checks the counts events and queued of a replay.
func (a *answer) wantCounts(events, queued int) *answer {
	a.t.Helper()
	if a.want(200).get("events") != float64(events) || a.get("queued") != float64(queued) || a.get("truncated") != false {
		a.t.Fatalf("want %d events, %d queued: %s", events, queued, a.raw)
	}
	return a
}

// Every matching event goes to each destination that is enabled now and whose filter matches.
func TestReplaySelection(t *testing.T) {
	c := newClient(t)
	created := c.do("POST", "/v1/endpoints",
		`{"provider":"stripe","verification":{"type":"stripe","secret":"whsec_planted"},
		"destinations":["https://a.example",{"url":"https://b.example","enabled":false},
		{"url":"https://c.example","filter":{"types":["order.*"]}},
		{"url":"https://d.example","filter":{"body":{"data.n":1}}}]}`).want(201)
	ep := created.text("id")
	first, disabled, typed, byBody := created.text("destinations.0.id"), created.text("destinations.1.id"),
		created.text("destinations.2.id"), created.text("destinations.3.id")
	send := func(body string) string {
		return c.do("POST", "/v1/endpoints/"+ep+"/events", body).want(202).text("id")
	}
	plain, order, one := send(`{"type":"a.b","data":{}}`), send(`{"type":"order.paid","data":{"n":2}}`),
		send(`{"type":"a.b","data":{"n":1}}`)
	duplicate, rejected := send(`{"type":"a.b","data":{}}`), send(`{"type":"a.b","data":{"n":1}}`)
	c.fake.events[mustID(t, duplicate)].Reason = event.Duplicate
	c.fake.events[mustID(t, rejected)].Verdict = event.VerdictRejected
	c.fake.details[mustID(t, one)] = func(d *event.Detail) {
		d.Deliveries = []event.Delivery{
			{Destination: first, Status: event.Failed, Reason: event.AttemptsExhausted},
			{Destination: byBody, Status: event.Retrying}}
	}

	body := map[string]any{"endpoint_id": ep, "since": since(), "dry_run": true}
	dry := c.do("POST", "/v1/replays", body).wantCounts(3, 5)
	if dry.get("run_id") != nil || len(c.fake.commands) > 0 || !strings.Contains(string(dry.raw), `"run_id":null`) {
		t.Fatalf("a dry run: %s, %d commands", dry.raw, len(c.fake.commands))
	}
	body["dry_run"], body["rate_per_second"] = false, 100
	began := time.Now()
	a := c.do("POST", "/v1/replays", body).wantCounts(3, 5)
	want := []struct {
		event, dest string
		prior       event.Status
		reason      event.Reason
	}{{plain, first, "", ""}, {order, first, "", ""}, {order, typed, "", ""},
		{one, first, event.Failed, event.AttemptsExhausted}, {one, byBody, "", ""}}
	for i, w := range c.fake.commands {
		if w.Event.ID.Text(id.Event) != want[i].event || w.Dest != want[i].dest || w.Prior != want[i].prior ||
			w.PriorReason != want[i].reason ||
			w.Run != a.text("run_id") || w.Trigger != event.TriggerReplay || w.Attempt != 1 || len(w.Event.Body) == 0 {
			t.Errorf("command %d: %+v, want %+v", i, w, want[i])
		}
		is.Equal(t, w.Due.Sub(c.fake.commands[0].Due), time.Duration(i)*10*time.Millisecond,
			"command %d is due … after the first", i)
	}
	if due := c.fake.commands[0].Due; due.Before(began.Add(-time.Millisecond)) || due.After(time.Now()) {
		t.Errorf("the first is due at %v", due)
	}
	// Restricted to destinations, even one created after the events; its endpoint is found.
	c.fake.commands = nil
	c.do("POST", "/v1/replays", map[string]any{"destination_id": []string{typed, disabled}, "since": since()}).
		wantCounts(3, 1)
	if len(c.fake.commands) != 1 || c.fake.commands[0].Dest != typed {
		t.Errorf("%+v", c.fake.commands)
	}
	none := c.do("POST", "/v1/replays", map[string]any{"destination_id": disabled, "since": since()}).wantCounts(3, 0)
	if none.text("warnings.0.param") != "destination_id" || none.text("run_id") == "" {
		t.Errorf("%s", none.raw)
	}
	// A rejected event is selected if its signature is valid now.
	good := newClient(t, func(_ *api.Config, d *api.Deps) {
		d.Reverify = func(_ *config.Endpoint, e *event.Event) ([32]byte, event.Reason, error) {
			return signedAs(e), "", nil
		}
	})
	good.fake.events = c.fake.events
	good.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since()}).wantCounts(4, 7)
	onlyRejected := map[string]any{"endpoint_id": ep, "status": "rejected", "since": since()}
	good.do("POST", "/v1/replays", onlyRejected).wantCounts(1, 2)
	verdictSent := func(want event.Verdict) {
		t.Helper()
		is.Equal(t, good.fake.commands[len(good.fake.commands)-1].Event.Verdict, want,
			"relay-verification of the rejected event is")
	}
	verdictSent(event.VerdictVerified)
	c.do("PATCH", "/v1/endpoints/"+ep, `{"verification":null}`).want(200)
	good.do("POST", "/v1/events/"+rejected+"/replay", nil).want(200)
	verdictSent(event.VerdictUnverified)
	// Unknown or deleted endpoints select or deliver nothing, with a warning.
	gone := c.do("POST", "/v1/replays", map[string]any{"endpoint_id": "ep_nope", "since": since()}).wantCounts(0, 0)
	is.Equal(t, gone.text("warnings.0.param"), "endpoint_id", "%s", gone.raw)
	c.do("DELETE", "/v1/endpoints/"+ep, nil).want(200)
	c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since()}).wantCounts(3, 0)
}

func mustID(t testing.TB, name string) id.ID {
	t.Helper()
	d := must.Get(id.Parse(id.Event, name))(t)
	return d
}

// The places and the names of filters, and what is refused.
func TestReplayFilter(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(nil)
	ep, dest := created.text("id"), created.text("destinations.0.id")
	other := c.endpoint(nil).text("id")
	var began time.Time
	asked := func(body string) event.Query {
		t.Helper()
		c.fake.queries, began = nil, time.Now()
		c.do("POST", "/v1/replays", body).want(200)
		return c.fake.queries[0]
	}
	from := time.Now().Add(-24 * time.Hour).UTC().Truncate(time.Second)
	stamp := from.Format(time.RFC3339)
	for _, body := range []string{
		`{"endpoint_id":"%s","status":"failed","type":"order.*","since":"%s","until":"2100-01-01"}`,
		`{"filter":{"endpoint":"%s","status":["failed"],"type":["order.*"],"from":"%s"}}`,
		`{"filter":{"endpoint_id":["%s"],"status":"failed,failed"},"type":"order.*","start":"%s"}`,
	} {
		q := asked(fmt.Sprintf(body, ep, stamp))
		if !slices.Equal(q.Endpoints, []string{ep}) || q.Statuses[0] != event.Failed ||
			!slices.Equal(q.Types, []string{"order.*"}) || !q.Since.Equal(from) ||
			len(q.Destinations) > 0 || q.Until.Before(began) || time.Until(q.Until) > time.Second {
			t.Errorf("%s: %+v", body, q)
		}
	}
	if q := asked(`{"endpoint_id":"` + ep + `,` + other + `","since":"` + stamp + `","to":"` +
		from.Add(time.Minute).Format(time.RFC3339) + `"}`); len(q.Endpoints) != 2 || !q.Until.Equal(from.Add(time.Minute)) {
		t.Errorf("%+v", q)
	}
	// An element of an array is one value: the type of an event may contain a comma.
	if q := asked(`{"type":["x,y"," z","order.*"],"since":"` + stamp + `"}`); !slices.Equal(
		q.Types, []string{"x,y", " z", "order.*"}) {
		t.Errorf("%+v", q)
	}
	if q := asked(`{"endpoint_id":"` + ep + `","since":"` + stamp + `","until":null,"end":null,"rate_per_second":null,` +
		`"filter":{"from":null,"to":null}}`); !q.Since.Equal(from) || q.Until.Before(began) {
		t.Errorf("%+v", q)
	}
	if q := asked(`{"status":"failed","since":"` + stamp + `"}`); len(q.Endpoints) != 0 {
		t.Errorf("%+v", q)
	}
	bad := func(body, kind, param string) {
		t.Helper()
		c.fake.queries = nil
		c.do("POST", "/v1/replays", strings.ReplaceAll(strings.ReplaceAll(body, "EP", ep), "NOW", stamp)).wantError(
			400, kind, param)
		if len(c.fake.queries) > 0 {
			t.Errorf("%s was selected", body)
		}
	}
	const invalid = "invalid_request"
	bad(`{}`, invalid, "since")
	bad(`[]`, invalid, "")
	bad(`{"endpoint_id":"EP"}`, invalid, "since")
	bad(`{"since":"NOW"}`, invalid, "")
	bad(`{"since":null,"endpoint_id":"EP"}`, invalid, "since")
	bad(`{"since":"NOW","endpoint_id":"EP","dry_run":null}`, invalid, "dry_run")
	bad(`{"since":"NOW","endpoint_id":"EP","source":null}`, invalid, "source")
	bad(`{"since":"NOW","filter":null}`, invalid, "")
	bad(`{"since":"NOW","filter":"failed"}`, invalid, "filter")
	bad(`{"since":"NOW","filter":{"status":"failed","since":"NOW"}}`, invalid, "filter.since")
	bad(`{"since":"NOW","endpoint_id":"EP","filter":{"endpoint":"EP"}}`, invalid, "filter.endpoint")
	bad(`{"since":"NOW","endpoint_id":"EP","endpoint":"EP"}`, invalid, "endpoint")
	bad(`{"since":"NOW","from":"NOW","endpoint_id":"EP"}`, invalid, "from")
	bad(`{"since":"NOW","endpont_id":"EP"}`, invalid, "endpont_id")
	bad(`{"since":"NOW","endpoint_id":"EP","source":"api"}`, invalid, "source")
	bad(`{"since":"NOW","endpoint_id":"EP","filter":{"run_id":"x"}}`, invalid, "filter.run_id")
	bad(`{"since":"NOW","filter":{"endpoint_id":"EP","rate_per_second":5}}`, invalid, "filter.rate_per_second")
	for _, empty := range []string{`""`, `[]`, `null`, `5`, `[""]`, `["EP",""]`, `"EP,"`, `[["EP"]]`, `{"id":"EP"}`,
		`"` + strings.Repeat("x", 257) + `"`, `["` + strings.Repeat(`x","`, 100) + `x"]`} {
		bad(`{"since":"NOW","type":"a","endpoint_id":`+empty+`}`, invalid, "endpoint_id")
	}
	bad(`{"since":"NOW","status":"done"}`, invalid, "status")
	bad(`{"since":"NOW","status":"held"}`, invalid, "status")
	bad(`{"since":"NOW","filter":{"status":["failed","done"]}}`, invalid, "filter.status")
	bad(`{"since":"NOW","status":["failed,pending"]}`, invalid, "status")
	bad(`{"since":"NOW","type":"*"}`, invalid, "type")
	bad(`{"since":"NOW","type":"or*er.*"}`, invalid, "type")
	bad(`{"since":"last week","endpoint_id":"EP"}`, invalid, "since")
	bad(`{"since":5,"endpoint_id":"EP"}`, invalid, "since")
	bad(`{"since":"2100-01-01","endpoint_id":"EP"}`, invalid, "since")
	bad(`{"since":"NOW","until":"NOW","endpoint_id":"EP"}`, invalid, "until")
	bad(`{"since":"NOW","until":"2020-01-01","endpoint_id":"EP"}`, invalid, "until")
	bad(`{"since":"NOW","endpoint_id":"EP","dry_run":"yes"}`, invalid, "dry_run")
	for _, rate := range []string{"0", "101", "1.5", "5e0", `"5"`, "-1"} {
		bad(`{"since":"NOW","endpoint_id":"EP","rate_per_second":`+rate+`}`, invalid, "rate_per_second")
	}
	hundred := `"` + strings.Repeat(`x`, 256) + `"` + strings.Repeat(`,"x"`, 99)
	if q := asked(`{"since":"` + stamp + `","type":[` + hundred + `]}`); len(q.Types) != 100 {
		t.Errorf("%d types", len(q.Types))
	}
	for _, rate := range []string{"1", "100"} {
		asked(strings.ReplaceAll(`{"since":"`+stamp+`","endpoint_id":"EP","rate_per_second":`+rate+`}`, "EP", ep))
	}
	bad(`{"since":"NOW","destination_id":"dst_nope"}`, invalid, "destination_id")
	bad(`{"since":"NOW","endpoint_id":"`+other+`","filter":{"destination_id":"`+dest+`"}}`, invalid,
		"filter.destination_id")
	hint := c.do("POST", "/v1/replays", `{"since":"`+stamp+`","statu":"failed"}`).wantError(400, invalid, "statu")
	if m := hint.text("error.message"); !strings.Contains(m, "did you mean status?") ||
		!strings.Contains(m, "the members are filter, endpoint_id, endpoint, destination_id, status, type, tenant, since, ") {
		t.Errorf("%s", hint.raw)
	}
}

// 31 days, 100,000 deliveries and 1 GiB of bodies, each at the limit and above it.
func TestReplayBounds(t *testing.T) {
	c := newClient(t)
	created := c.do("POST", "/v1/endpoints", `{"destinations":["https://a.example","https://b.example"]}`).want(201)
	ep := created.text("id")
	from := time.Now().UTC().Add(-40 * 24 * time.Hour).Truncate(time.Second)
	window := func(d time.Duration) *answer {
		return c.do("POST", "/v1/replays",
			map[string]any{"endpoint_id": ep, "since": from.Format(time.RFC3339Nano),
				"until": from.Add(d).Format(time.RFC3339Nano), "dry_run": true})
	}
	window(31 * 24 * time.Hour).want(200)
	window(31*24*time.Hour+time.Millisecond).wantError(400, "selection_too_large", "since")
	now := func(ago time.Duration) *answer {
		return c.do("POST", "/v1/replays",
			map[string]any{"endpoint_id": ep, "since": time.Now().UTC().Add(-ago).Format(time.RFC3339Nano), "dry_run": true})
	}
	now(31 * 24 * time.Hour).want(200) // as a client computes it
	now(31*24*time.Hour+2*time.Minute).wantError(400, "selection_too_large", "since")

	selecting := func(n, size int, dest string) *answer {
		c.fake.SelectFunc = func(_ context.Context, _ event.Query, page func([]event.Match) error) error {
			return inPages(n, event.Match{Endpoint: ep, Type: "a", Verdict: event.VerdictUnverified, Size: size}, page)
		}
		body := map[string]any{"endpoint_id": ep, "since": since(), "dry_run": true}
		if dest != "" {
			body["destination_id"] = dest
		}
		return c.do("POST", "/v1/replays", body)
	}
	one := created.text("destinations.0.id")
	selecting(50_000, 1, "").wantCounts(50_000, 100_000)
	selecting(50_001, 1, "").wantError(400, "selection_too_large", "")
	selecting(100_000, 1, one).wantCounts(100_000, 100_000)
	over := selecting(100_001, 1, one).wantError(400, "selection_too_large", "")
	is.Has(t, over.text("error.message"), "/v1/recoveries", "%s", over.raw)
	selecting(1024, 512<<10, "").wantCounts(1024, 2048) // 1 GiB
	selecting(1024, 512<<10+1, "").wantError(400, "selection_too_large", "")
	// Events without a destination are limited too.
	c.do("PATCH", "/v1/endpoints/"+ep, `{"destinations":[{"url":"https://a.example","enabled":false},{"url":"https://`+
		`b.example","enabled":false}]}`).want(200)
	selecting(1_000_000, 1, "").wantCounts(1_000_000, 0)
	selecting(1_000_001, 1, "").wantError(400, "selection_too_large", "")
	if len(c.fake.commands) > 0 {
		t.Errorf("%d commands", len(c.fake.commands))
	}
}

// Rejected events must be read to decide whether they are selected; those that stay rejected count too.
func TestReplayReadsABoundedNumberOfRejectedEvents(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(map[string]any{"provider": "stripe", "verification": map[string]any{"type": "stripe",
		"secret": "whsec_planted"}}).text("id")
	read := 0
	c.fake.StoredFunc = func(_ context.Context, _ string, ids []id.ID) ([]event.Stored, error) {
		read += len(ids)
		return nil, nil // all of them are still refused
	}
	selecting := func(n, size int) *answer {
		c.fake.SelectFunc = func(_ context.Context, _ event.Query, page func([]event.Match) error) error {
			return inPages(n, event.Match{Endpoint: ep, Verdict: event.VerdictRejected, Size: size}, page)
		}
		read = 0
		return c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since(), "dry_run": true})
	}
	selecting(100_000, 1).wantCounts(0, 0)
	selecting(100_001, 1).wantError(400, "selection_too_large", "")
	if read > 100_000 {
		t.Errorf("%d were read", read)
	}
	selecting(1<<14, 64<<10).wantCounts(0, 0) // 1 GiB
	selecting(1<<14+1, 64<<10).wantError(400, "selection_too_large", "")
	// Without verification none of them is read, but they still match.
	c.do("PATCH", "/v1/endpoints/"+ep, `{"provider":"generic","verification":null}`).want(200)
	selecting(1_000_000, 64<<10).wantCounts(0, 0)
	if read > 0 {
		t.Errorf("%d were read", read)
	}
	selecting(1_000_001, 1).wantError(400, "selection_too_large", "")
}

// inPages passes on n copies of a match, each with its own id, newest first.
func inPages(n int, m event.Match, page func([]event.Match) error) error {
	all := make([]event.Match, n)
	for i := range all {
		all[i] = m
		all[i].ID = id.Lowest(time.UnixMilli(int64(1e12 - i)))
	}
	for chunk := range slices.Chunk(all, 4000) {
		if err := page(chunk); err != nil {
			return err
		}
	}
	return nil
}

// Events that an endpoint rejected are not replayed after it stopped verifying signatures, unless the request asks
// for the status rejected; then there is a warning.
func TestReplayOfRejectedEventsWithoutAVerification(t *testing.T) {
	c := newClient(t, func(_ *api.Config, d *api.Deps) {
		d.Reverify = func(*config.Endpoint, *event.Event) (signed [32]byte, reason event.Reason, err error) {
			return signed, "", nil
		} // like those of an endpoint without verification
	})
	ep := c.endpoint(nil).text("id")
	good, forged := c.send(ep), c.send(ep)
	c.fake.events[mustID(t, forged)].Verdict = event.VerdictRejected
	selecting := func(more map[string]any) *answer {
		body := map[string]any{"endpoint_id": ep, "since": since()}
		maps.Copy(body, more)
		c.fake.commands = nil
		return c.do("POST", "/v1/replays", body)
	}
	for _, more := range []map[string]any{nil, {"type": "a.b"}, {"status": []string{"pending", "delivered"}}} {
		if a := selecting(more).wantCounts(1, 1); a.get("warnings") != nil || len(c.fake.commands) != 1 ||
			c.fake.commands[0].Event.ID.Text(id.Event) != good {
			t.Errorf("%v: %s", more, a.raw)
		}
	}
	a := selecting(map[string]any{"status": "rejected"}).wantCounts(1, 1)
	if a.text("warnings.0.param") != "status" || !strings.Contains(a.text("warnings.0.message"),
		"1 of these events") || c.fake.commands[0].Event.ID.Text(id.Event) != forged {
		t.Errorf("%s", a.raw)
	}
}

// Rejected events that are selected because the current secrets accept them are named, unless they are asked for.
func TestReplayNamesTheRejectedEventsItIncludes(t *testing.T) {
	c := newClient(t, func(_ *api.Config, d *api.Deps) {
		d.Reverify = func(_ *config.Endpoint, e *event.Event) ([32]byte, event.Reason, error) {
			return signedAs(e), "", nil
		}
	})
	ep := c.endpoint(map[string]any{"provider": "stripe", "verification": map[string]any{"type": "stripe",
		"secret": "whsec_planted"}}).text("id")
	c.send(ep)
	for range 3 {
		c.fake.events[mustID(t, c.send(ep))].Verdict = event.VerdictRejected
	}
	for _, dryRun := range []bool{true, false} {
		body := map[string]any{"endpoint_id": ep, "since": since(), "dry_run": dryRun}
		a := c.do("POST", "/v1/replays", body).wantCounts(4, 4)
		if text := a.text("warnings.0.message"); a.text("warnings.0.param") != "status" ||
			!strings.HasPrefix(text, "3 of these events were rejected") ||
			!strings.HasSuffix(text, "A status that does not contain rejected leaves them out") {
			t.Errorf("%s", a.raw)
		}
		body["status"] = "pending"
		if a := c.do("POST", "/v1/replays", body).wantCounts(1, 1); a.get("warnings") != nil {
			t.Errorf("%s", a.raw)
		}
		body["status"] = "rejected"
		if a := c.do("POST", "/v1/replays", body).wantCounts(3, 3); a.get("warnings") != nil {
			t.Errorf("asked for: %s", a.raw)
		}
	}
}

// signedAs stands for the hash of what the signature of an event covers.
func signedAs(e *event.Event) [sha256.Size]byte {
	if bytes.Contains(e.Body, []byte(`"copy"`)) {
		return sha256.Sum256([]byte("copy"))
	}
	return sha256.Sum256(e.ID[:])
}

// A selection leaves out what was refused for its age, unless it asks for the status rejected, and sends copies of one
// signed request once. A dry run counts the same.
func TestReplayOfOldSignedRequests(t *testing.T) {
	c := newClient(t, func(_ *api.Config, d *api.Deps) {
		d.Reverify = func(_ *config.Endpoint, e *event.Event) ([32]byte, event.Reason, error) {
			return signedAs(e), "", nil
		}
	})
	ep := c.endpoint(map[string]any{"provider": "stripe", "verification": map[string]any{"type": "stripe",
		"secret": "whsec_planted"}}).text("id")
	c.send(ep)
	reject := func(reason event.Reason, body string) string {
		text := c.send(ep)
		e := c.fake.events[mustID(t, text)]
		e.Verdict, e.Reason, e.Body = event.VerdictRejected, reason, []byte(body)
		return text
	}
	for range 5 {
		reject(event.TimestampTolerance, `{"a":"copy"}`)
	}
	other := reject(event.TimestampTolerance, `{"a":"other"}`)
	for range 3 { // rejected before the secret was set
		reject(event.SignatureMismatch, `{"a":"copy"}`)
	}
	for _, dryRun := range []bool{true, false} {
		body := map[string]any{"endpoint_id": ep, "since": since(), "dry_run": dryRun}
		a := c.do("POST", "/v1/replays", body).wantCounts(2, 2)
		if !strings.HasPrefix(a.text("warnings.0.message"), "6 events are left out because they were refused") ||
			!strings.HasPrefix(a.text("warnings.1.message"), "2 rejected events are left out because they are copies") {
			t.Errorf("dry run %v: %s", dryRun, a.raw)
		}
		body["status"] = "rejected"
		a = c.do("POST", "/v1/replays", body).wantCounts(2, 2)
		if !strings.HasPrefix(a.text("warnings.0.message"), "7 rejected events are left out because they are copies") {
			t.Errorf("dry run %v: %s", dryRun, a.raw)
		}
	}
	c.do("POST", "/v1/events/"+other+"/replay", `{}`).wantCounts(1, 1) // by its id
}

// With only_undelivered no destination gets an event that it has, or that is on its way there: not of a selection, not
// of one event. An event that every destination has is not selected.
func TestReplayOnlyUndelivered(t *testing.T) {
	c := newClient(t)
	created := c.endpoint(map[string]any{"destinations": []any{"https://a.example", "https://b.example",
		"https://c.example", "https://d.example"}})
	ep := created.text("id")
	var dests []string
	for i := range 4 {
		dests = append(dests, created.text(fmt.Sprintf("destinations.%d.id", i)))
	}
	some, all := c.send(ep), c.send(ep)
	c.fake.details[mustID(t, some)] = func(d *event.Detail) {
		d.Deliveries = []event.Delivery{ // the last destination is younger than the event
			{Destination: dests[0], Status: event.Delivered}, {Destination: dests[1], Status: event.Failed},
			{Destination: dests[2], Status: event.Retrying},
		}
	}
	c.fake.details[mustID(t, all)] = func(d *event.Detail) {
		d.Deliveries = nil
		for _, dest := range dests {
			d.Deliveries = append(d.Deliveries, event.Delivery{Destination: dest, Status: event.Delivered})
		}
	}
	sent := func(want ...string) {
		t.Helper()
		var got []string
		for _, w := range c.fake.commands {
			got = append(got, w.Dest)
		}
		is.List(t, got, want, "sent to")
		c.fake.commands = nil
	}
	body := map[string]any{"endpoint_id": ep, "since": since(), "only_undelivered": true, "dry_run": true}
	c.do("POST", "/v1/replays", body).wantCounts(1, 2)
	body["dry_run"] = false
	a := c.do("POST", "/v1/replays", body).wantCounts(1, 2)
	sent(dests[1], dests[3])
	if run := c.do("GET", "/v1/replays/"+a.text("run_id"), nil); run.get("filter.only_undelivered") != true {
		t.Errorf("%s", run.raw)
	}
	body["destination_id"] = dests[1]
	c.do("POST", "/v1/replays", body).wantCounts(1, 1)
	sent(dests[1])

	one := "/v1/events/" + some + "/replay"
	c.do("POST", one, `{"only_undelivered":true}`).wantCounts(1, 2)
	sent(dests[1], dests[3])
	run := c.do("POST", one, map[string]any{"destination_id": []string{dests[0], dests[1]}}).wantCounts(1, 2)
	sent(dests[0], dests[1])
	shown := c.do("GET", "/v1/replays/"+run.text("run_id"), nil)
	if shown.text("filter.destination_id.1") != dests[1] || shown.get("filter.only_undelivered") != nil {
		t.Errorf("%s", shown.raw)
	}
	none := c.do("POST", "/v1/events/"+all+"/replay", `{"only_undelivered":true}`).wantCounts(1, 0)
	if sent(); none.text("warnings.0.param") != "only_undelivered" {
		t.Errorf("%s", none.raw)
	}
	c.do("POST", one, `{"only_undelivered":1}`).wantError(400, "invalid_request", "only_undelivered")
	c.do("POST", one, `{"destination_id":[]}`).wantError(400, "invalid_request", "destination_id")
	c.do("POST", one, map[string]any{"destination_id": []string{dests[0], "dst_nope"}}).
		wantError(400, "invalid_request", "destination_id")
}

// A rejected event that no destination takes is not said to be delivered.
func TestReplayDoesNotNameRejectedEventsWithoutDeliveries(t *testing.T) {
	c := newClient(t, func(_ *api.Config, d *api.Deps) {
		d.Reverify = func(_ *config.Endpoint, e *event.Event) ([32]byte, event.Reason, error) {
			return signedAs(e), "", nil
		}
	})
	ep := c.endpoint(map[string]any{"provider": "stripe", "verification": map[string]any{"type": "stripe",
		"secret": "whsec_planted"}, "destinations": []any{map[string]any{"url": "https://a.example",
		"filter": map[string]any{"types": []string{"other.type"}}}}}).text("id")
	c.fake.events[mustID(t, c.send(ep))].Verdict = event.VerdictRejected
	a := c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since(), "dry_run": true}).wantCounts(1, 0)
	if a.text("warnings.0.param") != "destination_id" || a.get("warnings.1") != nil {
		t.Errorf("%s", a.raw)
	}
}

// After its key was revoked, a running call queues no further page.
func TestReplayStopsWhenItsKeyIsRevoked(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	for range 700 {
		c.send(ep)
	}
	text, k, err := configuration.CreateKey(t.Context(), config.NewKey{Name: "replays", Scope: config.ReadWrite})
	must.Do(t, err)
	c.fake.CommandFunc = func(context.Context, *event.Work) error {
		if len(c.fake.commands) == 100 {
			return configuration.RevokeKey(context.Background(), k.ID)
		}
		return nil
	}
	a := c.as(text).do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since()})
	if a.want(401).text("error.type") != "invalid_api_key" || a.get("error.queued") != 500.0 {
		t.Fatalf("%s", a.raw)
	}
	if run, _ := configuration.ReplayRun(a.text("error.run_id")); run == nil || run.State != jobs.RunInterrupted ||
		run.Queued != 500 {
		t.Errorf("%+v", run)
	}
}

// The answer and the run say how many deliveries were queued.
func TestReplayStopsHalfWay(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	const events = 700
	for range events {
		c.send(ep)
	}
	body := map[string]any{"endpoint_id": ep, "since": since()}
	check := func(a *answer, status, queued int, state jobs.RunState) {
		t.Helper()
		if a.want(status).get("error.queued") != float64(queued) {
			t.Fatalf("want %d queued: %s", queued, a.raw)
		}
		if run, _ := configuration.ReplayRun(a.text("error.run_id")); run == nil || run.State != state ||
			state == jobs.RunInterrupted && run.Queued != queued {
			t.Fatalf("want %s with %d: %+v", state, queued, run)
		}
	}
	refuseAt := func(n int, err error) {
		c.fake.commands = nil
		c.fake.CommandFunc = func(context.Context, *event.Work) error {
			if len(c.fake.commands) == n {
				return err
			}
			return nil
		}
	}
	refuseAt(600, fmt.Errorf("produce: %w", stream.ErrBufferFull))
	check(c.do("POST", "/v1/replays", body), 503, 600, jobs.RunInterrupted)
	refuseAt(0, fmt.Errorf("produce: %w", stream.ErrBufferFull))
	check(c.do("POST", "/v1/replays", body), 503, 0, jobs.RunInterrupted)
	c.fake.CommandFunc = nil
	calls := 0
	c.fake.StoredFunc = func(ctx context.Context, account string, ids []id.ID) ([]event.Stored, error) {
		if calls++; calls == 2 {
			return nil, event.ErrUnavailable
		}
		stored := make([]event.Stored, len(ids))
		for i, d := range ids {
			stored[i].Event = c.fake.events[d]
		}
		return stored, nil
	}
	check(c.do("POST", "/v1/replays", body), 503, 500, jobs.RunInterrupted)
	c.fake.StoredFunc = nil
	// The client leaves during the first page: that page is queued, the next one is not.
	ctx, leave := context.WithCancel(t.Context())
	c.fake.commands = nil
	c.fake.CommandFunc = func(ctx context.Context, _ *event.Work) error {
		if leave(); ctx.Err() != nil {
			t.Error("the page ended with its caller")
		}
		return nil
	}
	before := len(c.fake.queries)
	c.fake.StoredFunc = func(ctx context.Context, account string, ids []id.ID) ([]event.Stored, error) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		stored := make([]event.Stored, len(ids))
		for i, d := range ids {
			stored[i].Event = c.fake.events[d]
		}
		return stored, nil
	}
	left := c.doCtx(ctx, "POST", "/v1/replays", body)
	check(left, left.Status, 500, jobs.RunInterrupted)
	if len(c.fake.commands) != 500 || len(c.fake.queries) != before+1 {
		t.Errorf("%d commands", len(c.fake.commands))
	}
	c.fake.StoredFunc = nil
	// It is unknown whether a page is durable: the run stays as it is until it is interrupted and counted.
	refuseAt(650, errors.New("connection lost"))
	check(c.do("POST", "/v1/replays", body), 500, 650, jobs.RunQueueing)
	// The store is behind: no run was started.
	c.fake.SelectFunc = func(context.Context, event.Query, func([]event.Match) error) error { return event.ErrUnavailable }
	if a := c.do("POST", "/v1/replays", map[string]any{"endpoint_id": c.endpoint(nil).text("id"), "since": since()}).
		wantError(503, "unavailable", ""); a.get("error.run_id") != nil {
		t.Errorf("%s", a.raw)
	}
}

// A second replay of an endpoint waits and gets 429 if that takes too long; other endpoints do not wait.
func TestOneReplayPerEndpoint(t *testing.T) {
	c := newClient(t)
	ep, other := c.endpoint(nil).text("id"), c.endpoint(nil).text("id")
	c.send(ep)
	c.send(other)
	var running, most atomic.Int32
	c.fake.SelectFunc = func(context.Context, event.Query, func([]event.Match) error) error {
		kit.Raise(&most, running.Add(1))
		time.Sleep(100 * time.Millisecond)
		running.Add(-1)
		return nil
	}
	replay := func(body map[string]any) *answer {
		body["since"] = since()
		return c.do("POST", "/v1/replays", body)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { replay(map[string]any{"endpoint_id": ep}).want(200) })
	}
	all.Wait()
	is.Equal(t, most.Load(), 1, "ran at once")
}

// A replay waits five seconds for another of the same endpoint or of all endpoints, but not for those of other
// endpoints.
func TestReplayWaitsFiveSeconds(t *testing.T) {
	ep, _ := configuration.Endpoint(newClient(t).endpoint(nil).text("id"))
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, withConfig(frozenConfiguration{configuration, ep}))
		hold := make(chan struct{})
		c.fake.SelectFunc = func(_ context.Context, q event.Query, _ func([]event.Match) error) error {
			if len(q.Statuses) > 0 {
				<-hold
			}
			return nil
		}
		replay := func(body map[string]any) *answer {
			body["since"], body["dry_run"] = since(), true
			return c.do("POST", "/v1/replays", body)
		}
		var all sync.WaitGroup
		all.Go(func() { replay(map[string]any{"endpoint_id": "ep_1", "status": "failed"}).want(200) })
		synctest.Wait()
		replay(map[string]any{"endpoint_id": "ep_2"}).want(200)
		began := time.Now()
		for _, body := range []map[string]any{{"endpoint_id": []string{"ep_1", "ep_2"}}, {"type": "a.b"}} {
			all.Go(func() {
				a := replay(body).wantError(429, "rate_limited", "")
				if waited := time.Since(began); waited != 5*time.Second || a.Header.Get("Retry-After") != "1" {
					t.Errorf("%v: refused after %v, Retry-After %q", body, waited, a.Header.Get("Retry-After"))
				}
			})
		}
		time.Sleep(6 * time.Second)
		all.Go(func() { replay(map[string]any{"endpoint_id": "ep_1"}).want(200) })
		time.Sleep(time.Second)
		close(hold)
		all.Wait()
		if waited := time.Since(began); waited > 8*time.Second {
			t.Errorf("it went on after %v", waited)
		}
	})
}

// Two selections of an account are counted at a time, whatever their endpoints; a third waits and is refused.
func TestReplayCountsTwoAtATime(t *testing.T) {
	ep, _ := configuration.Endpoint(newClient(t).endpoint(nil).text("id"))
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, withConfig(frozenConfiguration{configuration, ep}))
		hold := make(chan struct{})
		var running, most atomic.Int32
		c.fake.SelectFunc = func(context.Context, event.Query, func([]event.Match) error) error {
			kit.Raise(&most, running.Add(1))
			<-hold
			running.Add(-1)
			return nil
		}
		replay := func(ep string) *answer {
			return c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since(), "dry_run": true})
		}
		var all sync.WaitGroup
		all.Go(func() { replay("ep_1").want(200) })
		all.Go(func() { replay("ep_2").want(200) })
		synctest.Wait()
		began := time.Now()
		if a := replay("ep_3").wantError(429, "rate_limited", ""); time.Since(began) != 5*time.Second ||
			a.Header.Get("Retry-After") != "1" {
			t.Errorf("refused after %v, Retry-After %q", time.Since(began), a.Header.Get("Retry-After"))
		}
		all.Go(func() { replay("ep_3").want(200) })
		time.Sleep(time.Second)
		close(hold)
		all.Wait()
		is.Equal(t, most.Load(), 2, "were counted at once")
	})
}

// Runs are listed newest first, by endpoint and state, with their counts; an ended delivery is counted once.
func TestRunsAreListed(t *testing.T) {
	c := newClient(t)
	ep, other := c.endpoint(nil).text("id"), c.endpoint(nil).text("id")
	c.fake.RunCountsFunc = func(runs []string) (map[string]event.RecoveryCounts, time.Time, error) {
		counts := map[string]event.RecoveryCounts{}
		for i, run := range runs {
			counts[run] = event.RecoveryCounts{Delivered: i}
		}
		return counts, time.Time{}, nil
	}
	var runs []string
	for range 3 {
		runs = append(runs, c.do("POST", "/v1/events/"+c.send(ep)+"/replay", nil).want(200).text("run_id"))
	}
	runs = append(runs, c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since()}).want(200).
		text("run_id"))
	c.do("POST", "/v1/replays", map[string]any{"endpoint_id": other, "since": since()}).want(200)
	page := c.do("GET", "/v1/replays?limit=3&state=queued,interrupted&endpoint_id="+ep, nil).want(200)
	if page.text("data.0.run_id") != runs[3] || page.text("data.1.run_id") != runs[2] || page.get("data.3") != nil ||
		page.get("data.1.delivered") != 1.0 {
		t.Fatalf("%s", page.raw)
	}
	if !strings.HasPrefix(page.text("data.1.filter.event_id"), "evt_") || len(page.Body) != 2 {
		t.Errorf("%s", page.raw)
	}
	rest := c.do("GET", "/v1/replays?limit=3&state=interrupted,queued&endpoint="+ep+"&cursor="+page.text("next_cursor"),
		nil).want(200)
	if rest.text("data.0.run_id") != runs[0] || rest.get("data.1") != nil || rest.get("next_cursor") != nil {
		t.Fatalf("%s", rest.raw)
	}
	if c.do("GET", "/v1/replays?state=queueing&endpoint_id="+ep, nil).want(200).get("data.0") != nil {
		t.Error("a run is queueing")
	}
	c.do("GET", "/v1/replays?cursor="+page.text("next_cursor"), nil).wantError(400, "invalid_request", "cursor")
	c.do("GET", "/v1/replays?state=done", nil).wantError(400, "invalid_request", "state")
	c.do("GET", "/v1/replays?status=queued", nil).wantError(400, "invalid_request", "status")
	c.do("GET", "/v1/replays?limit=0", nil).wantError(400, "invalid_request", "limit")
	for _, name := range []string{"run_nope", ep, "run_01m7w6h6kk00r00w2s1cbs4f8h"} {
		c.do("GET", "/v1/replays/"+name, nil).wantError(404, "not_found", "")
	}
	c.fake.RunCountsFunc = func([]string) (map[string]event.RecoveryCounts, time.Time, error) {
		return nil, time.Unix(1e9, 0), nil
	}
	if c.do("GET", "/v1/replays/"+runs[3], nil).want(200).Header.Get("Relay-Data-As-Of") == "" {
		t.Error("a store that is behind")
	}
	c.fake.RunCountsFunc = func([]string) (map[string]event.RecoveryCounts, time.Time, error) {
		return nil, time.Time{}, event.ErrUnavailable
	}
	c.do("GET", "/v1/replays/"+runs[3], nil).wantError(503, "unavailable", "")
}

// What a POST sends or ends is said in its body. A parameter in the URL, such as dry_run, is refused, not ignored, and
// the request without it may have the same Idempotency-Key.
func TestSelectionsTakeNoParameters(t *testing.T) {
	c := newClient(t)
	c.fake.recoveries = map[string]event.RecoveryCounts{}
	created := c.endpoint(nil)
	ep, dst := created.text("id"), created.text("destinations.0.id")
	d := c.send(ep)
	run := c.do("POST", "/v1/events/"+d+"/replay", nil).want(200).text("run_id")
	job := c.recovery(ep).text("id")
	selection := map[string]any{"endpoint_id": ep, "since": since()}
	recovery := map[string]any{"endpoint_id": ep, "since": since(), "rate_per_second": 5}
	queued := len(c.fake.commands)
	for _, x := range []struct {
		target, parameter string
		body              any
		status            int
	}{
		{"/v1/replays", "dry_run", selection, 200},
		{"/v1/events/" + d + "/replay", "destination_id", nil, 200},
		{"/v1/replays/" + run, "action", `{"action":"cancel"}`, 200},
		{"/v1/recoveries", "destination_id", recovery, 201},
		{"/v1/recoveries/" + job, "action", `{"action":"cancel"}`, 200},
		{"/v1/endpoints/" + ep + "/destinations/" + dst + "/purge", "before", nil, 200},
	} {
		headers := []string{"Idempotency-Key", "parameter of " + x.target}
		query := "?" + x.parameter + "=1"
		c.do("POST", x.target+query, x.body, headers...).wantError(400, "invalid_request", x.parameter)
		c.do("POST", x.target+query, x.body).wantError(400, "invalid_request", x.parameter)
		c.as(readKey).do("POST", x.target+query, x.body).wantError(403, "insufficient_scope", "")
		must.Equal(t, len(c.fake.commands), queued, "%s%s queued deliveries", x.target, query)
		c.do("POST", x.target, x.body, headers...).want(x.status)
		queued = len(c.fake.commands)
	}
	c.do("POST", "/v1/replays/run_nope?action=cancel", nil).wantError(404, "not_found", "")
}

// selector implements the part of the store that replays read.
type selector struct{ *fake }

// Select returns the events that match a selection.
func (f selector) Select(ctx context.Context, q event.Query, page func([]event.Match) error) error {
	f.mu.Lock()
	f.queries = append(f.queries, q)
	ids := slices.SortedFunc(maps.Keys(f.events), func(a, b id.ID) int { return slices.Compare(b[:], a[:]) })
	var found []event.Match
	for _, d := range ids {
		e, at := f.events[d], d.Time()
		if (len(q.Endpoints) == 0 || slices.Contains(q.Endpoints, e.Endpoint)) &&
			(len(q.Types) == 0 || slices.Contains(q.Types, e.Type)) &&
			(len(q.Statuses) == 0 || slices.Contains(q.Statuses, f.detail(e).Status)) && !at.Before(q.Since) &&
			at.Before(q.Until) && e.Account == q.Account {
			found = append(found, event.Match{
				ID: d, Endpoint: e.Endpoint, Type: e.Type, Verdict: e.Verdict, Reason: e.Reason, Size: len(e.Body)})
		}
	}
	f.mu.Unlock()
	if f.SelectFunc != nil {
		return f.SelectFunc(ctx, q, page)
	}
	for chunk := range slices.Chunk(found, 3) {
		if err := page(chunk); err != nil {
			return err
		}
	}
	return nil
}

func (f selector) Stored(ctx context.Context, account string, ids []id.ID) (stored []event.Stored, err error) {
	if f.StoredFunc != nil {
		return f.StoredFunc(ctx, account, ids)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range ids {
		if e := f.events[d]; e != nil && e.Account == account {
			stored = append(stored, event.Stored{Event: e, Deliveries: f.detail(e).Deliveries})
		}
	}
	return stored, nil
}

func (f selector) RecoveryCounts(_ context.Context, _ string, runs ...string) (
	map[string]event.RecoveryCounts, time.Time, error) {
	if f.RunCountsFunc != nil {
		return f.RunCountsFunc(runs)
	}
	return nil, time.Time{}, nil
}

func (f selector) CountCommands(_ context.Context, run string, _ time.Time, newer id.ID) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.commands {
		if w.Run == run && slices.Compare(w.Event.ID[:], newer[:]) > 0 {
			n++
		}
	}
	return n, nil
}

// A run names its author. Cancelling it needs write access, changes it once, and counts what the store knows.
func TestCancelRun(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	for range 3 {
		c.send(ep)
	}
	queued := c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since()}).want(200)
	path := "/v1/replays/" + queued.text("run_id")
	me := c.do("GET", "/v1/me", nil).text("key_id")
	if run := c.do("GET", path, nil).want(200); run.text("created_by") != me || run.text("state") != "queued" ||
		run.get("ended") != false {
		t.Fatalf("%s", run.raw)
	}
	c.as(readKey).do("POST", path, `{"action":"cancel"}`).wantError(403, "insufficient_scope", "")
	c.do("POST", path, `{}`).wantError(400, "invalid_request", "action")
	c.do("POST", path, `{"action":"stop"}`).wantError(400, "invalid_request", "action")
	c.do("POST", path, `{"action":"cancel","run":1}`).wantError(400, "invalid_request", "run")
	c.do("POST", "/v1/replays/run_none", `{"action":"cancel"}`).wantError(404, "not_found", "")
	c.fake.RunCountsFunc = func(runs []string) (map[string]event.RecoveryCounts, time.Time, error) {
		return map[string]event.RecoveryCounts{runs[0]: {Delivered: 1, Skipped: 2}}, time.Time{}, nil
	}
	var first *jobs.Run
	for range 2 {
		a := c.do("POST", path, `{"action":"cancel"}`).want(200)
		if a.text("state") != "cancelled" || a.get("queued") != 3.0 || a.get("delivered") != 1.0 || a.get("skipped") != 2.0 ||
			a.get("ended") != true {
			t.Errorf("%s", a.raw)
		}
		run, _ := configuration.ReplayRun(queued.text("run_id"))
		if first == nil {
			first = run
		} else if run.Rev != first.Rev {
			t.Error("the second call has changed the run")
		}
	}
	list := c.do("GET", "/v1/replays?state=cancelled&endpoint_id="+ep, nil).want(200)
	is.Equal(t, list.text("data.0.run_id"), queued.text("run_id"), "%s", list.raw)
}

// A run that is cancelled while it queues its first page queues no other, and counts that page.
func TestCancelWhileQueueing(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	for range 700 {
		c.send(ep)
	}
	c.fake.CommandFunc = func(_ context.Context, w *event.Work) error {
		if len(c.fake.commands) != 100 {
			return nil
		}
		run, err := configuration.CancelRun(context.Background(), w.Run)
		if err == nil && (run.State != jobs.RunQueueing || run.ReportedState() != jobs.RunCancelled) {
			t.Errorf("%+v", run)
		}
		return err
	}
	a := c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since()})
	if a.wantError(400, "invalid_state", "").get("error.queued") != 500.0 {
		t.Fatalf("%s", a.raw)
	}
	run, _ := configuration.ReplayRun(a.text("error.run_id"))
	if run == nil || run.State != jobs.RunCancelled || run.Queued != 500 || len(c.fake.commands) != 500 {
		t.Errorf("%+v with %d commands", run, len(c.fake.commands))
	}
	c.do("POST", "/v1/replays", map[string]any{"endpoint_id": ep, "since": since(), "dry_run": true}).want(200)
}
