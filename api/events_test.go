package api_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/eventrelay/relay/api"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestSendBuildsTheEnvelope(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	data := "{ \"n\":1.50,\"n\":\"\\u00e9\",\n\"x\":[ ] }"
	sent := c.do("POST", "/v1/endpoints/"+ep+"/events", "{\"data\" : "+data+" ,\"type\":\"order.paid\"}",
		"Content-Type", "application/json; charset=utf-8", "User-Agent", "shop/1", "X-Tenant", "de", "Cookie", "session=1",
		"Idempotency-Key", "key-1", "X-Forwarded-For", "1.2.3.4", "Accept", "*/*").want(202)
	name := sent.text("id")
	d := must.Get(id.Parse(id.Event, name))(t)
	e := c.fake.events[d]
	want := `{"id":"` + name + `","type":"order.paid","timestamp":"` + sent.text("received_at") + `","data":` + data + `}`
	if string(e.Body) != want {
		t.Errorf("body\n%s, want\n%s", e.Body, want)
	}
	header := []event.Field{{Name: "Content-Type", Value: "application/json; charset=utf-8"},
		{Name: "User-Agent", Value: "shop/1"}, {Name: "X-Tenant", Value: "de"}}
	is.Same(t, e.Header, header)
	endpoint, _ := configuration.Endpoint(ep)
	if e.Account != endpoint.Account || e.Endpoint != ep || e.Source != event.SourceAPI ||
		e.Verdict != event.VerdictUnverified || e.Method != "POST" ||
		e.IdempotencyKey != "key-1" || d.Partition() != endpoint.Partition || e.Dests[0] != endpoint.Destinations[0].ID ||
		e.RemoteIP != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("%+v", e)
	}
	read := c.do("GET", "/v1/events/"+name, nil).want(200)
	if read.text("body") != want || read.text("body_encoding") != "utf8" || read.get("data.x") == nil ||
		read.text("headers.X-Tenant") != "de" || read.text("idempotency_key") != "key-1" {
		t.Errorf("%s", read.raw)
	}
	for k, v := range sent.Body {
		if k != "attempts" && k != "deliveries" && gocmp.Diff(v, read.Body[k]) != "" {
			t.Errorf("%s is %v in the answer, %v in the read", k, v, read.Body[k])
		}
	}
	bare := c.do("POST", "/v1/endpoints/"+ep+"/events", `{"type":"a","data":{}}`).want(202)
	is.Equal(t, c.do("GET", "/v1/events/"+bare.text("id"), nil).text("content_type"), "application/json",
		"content type")
}

func TestSendValidatesItsBody(t *testing.T) {
	c := newClient(t)
	target := "/v1/endpoints/" + c.endpoint(nil).text("id") + "/events"
	deep := func(n int) string { return strings.Repeat(`{"a":`, n-1) + `{}` + strings.Repeat("}", n-1) }
	for _, good := range []string{
		`{"type":"a","data":{}}`, `{"type":"` + strings.Repeat("A", 128) + `","data":{}}`, `{"type":"a_B.9:-","data":{}}`,
		`{"type":"orders/create","data":{}}`, `{"type":"ä","data":{}}`, `{"type":"a\"b\\c,*","data":{}}`,
		`{"type":"\u0061","data":{}}`,
		`{"type":"a","data":` + deep(64) + `}`, `{"type":"a","data":{"x":1,"x":2}}`,
		`{"type":"a","data":{"big":1e999,"id":1}}`,
	} {
		c.do("POST", target, good).want(202)
	}
	for _, bad := range []struct{ body, kind, param string }{
		{``, "invalid_request", "type"},
		{`{"type":"","data":{}}`, "invalid_request", "type"},
		{`{"type":"` + strings.Repeat("a", 129) + `","data":{}}`, "invalid_request", "type"},
		{`{"type":"a b","data":{}}`, "invalid_request", "type"},
		{`{"type":"a\u00a0b","data":{}}`, "invalid_request", "type"},
		{`{"type":"a\u200bb","data":{}}`, "invalid_request", "type"},
		{`{"type":"a\n","data":{}}`, "invalid_request", "type"},
		{`{"type":1,"data":{}}`, "invalid_request", "type"},
		{`{"type":"a","data":{},"id":"evt_x"}`, "invalid_request", "id"},
		{`{"type":"a","type":"b","data":{}}`, "invalid_request", "type"},
		{`{"type":"a","data":{},"data":{}}`, "invalid_request", "data"},
		{`{"type":"a","data":null}`, "invalid_request", "data"},
		{`{"type":"a","data":{"x":tru}}`, "invalid_request", ""},
		{`{"type":"a","data":{}} x`, "invalid_request", ""},
		{`{"type":"a","data":` + deep(65) + `}`, "invalid_request", ""},
		{`{"type":"a","data":{"x":"` + "\xff" + `"}}`, "invalid_request", ""},
		{`{"type":"a","data":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`, "payload_too_large", ""},
	} {
		c.do("POST", target, bad.body).wantError(400, bad.kind, bad.param)
	}
	// A body of exactly the limit is accepted.
	const frame = `{"type":"a","data":{"x":""}}`
	c.do("POST", target, strings.Replace(frame, `""`, `"`+strings.Repeat("x", 1<<20-len(frame))+`"`, 1)).want(202)
	c.do("POST", target, strings.Replace(frame, `""`, `"`+strings.Repeat("x", 1<<20-len(frame)+1)+`"`, 1)).wantError(
		400, "payload_too_large", "")
	c.do("POST", target, frame, "Content-Encoding", "gzip").wantError(400, "invalid_request", "content-encoding")
	c.do("POST", target, frame, "Content-Type", "text/plain").wantError(400, "invalid_request", "content-type")
	c.do("POST", target, frame, "Content-Type", "application/cloudevents+json").want(202)
}

// A list row and the answer to a send show the state at each destination, and both reads how the signature was checked.
func TestRowsShowVerificationAndDeliveries(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil)
	dst := ep.text("destinations.0.id")
	queued := []any{map[string]any{"destination_id": dst, "status": "pending", "reason": "queued",
		"last_response_status": nil}}
	sent := c.do("POST", "/v1/endpoints/"+ep.text("id")+"/events", `{"type":"a.b","data":{}}`).want(202)
	if diff := gocmp.Diff(queued, sent.get("deliveries")); diff != "" || sent.text("verification") != "sent" {
		t.Errorf("%s\n%s", diff, sent.raw)
	}
	d := must.Get(id.Parse(id.Event, sent.text("id")))(t)
	f := func(want string, source event.Source, verdict event.Verdict, ds ...event.Delivery) {
		t.Helper()
		c.fake.events[d].Source, c.fake.events[d].Verdict = source, verdict
		c.fake.details[d] = func(x *event.Detail) { x.Deliveries = ds }
		states := make([]any, len(ds))
		for i, d := range ds {
			states[i] = map[string]any{"destination_id": d.Destination, "status": string(d.Status), "reason": nil,
				"last_response_status": nil}
			if d.Reason != "" {
				states[i].(map[string]any)["reason"] = string(d.Reason)
			}
		}
		row := c.do("GET", "/v1/events?limit=1&endpoint_id="+ep.text("id"), nil).want(200)
		single := c.do("GET", "/v1/events/"+sent.text("id"), nil).want(200)
		if row.text("data.0.verification") != want || single.text("verification") != want {
			t.Errorf("want %s:\n%s\n%s", want, row.raw, single.raw)
		}
		is.Equal(t, gocmp.Diff(states, row.get("data.0.deliveries")), "", "%s", row.raw)
	}
	other := "dst_" + strings.Repeat("0", 26)
	f("sent", event.SourceTest, event.VerdictUnverified)
	f("verified", event.SourceProvider, event.VerdictVerified, event.Delivery{Destination: dst, Status: event.Delivered},
		event.Delivery{Destination: other, Status: event.Failed, Reason: event.Gone410})
	f("observed", event.SourceProvider, event.VerdictObserved)
	f("unverified", event.SourceProvider, event.VerdictUnverified)
	c.fake.events[d].Reason = event.SignatureMissing
	f("rejected", event.SourceProvider, event.VerdictRejected)
	f("rejected", event.SourceProvider, event.VerdictRejected, event.Delivery{Destination: dst, Status: event.Delivered})
}

func TestSendStates(t *testing.T) {
	c := newClient(t)
	capture := c.do("POST", "/v1/endpoints", `{"destinations":[{"url":"https://a.example","enabled":false}]}`).
		want(201).text("id")
	a := c.do("POST", "/v1/endpoints/"+capture+"/events", `{"type":"a","data":{}}`).want(202)
	if a.text("status") != "skipped" || a.text("reason") != "no_destination" || a.get("destinations.total") != 0.0 ||
		a.text("why") != "skipped: the endpoint had no enabled destination" {
		t.Errorf("%s", a.raw)
	}
	c.do("PATCH", "/v1/endpoints/"+capture, `{"enabled":false}`).want(200)
	c.do("POST", "/v1/endpoints/"+capture+"/events", `{"type":"a","data":{}}`).wantError(400, "invalid_state", "")
}

func TestSendWhileTheLogRefuses(t *testing.T) {
	c := newClient(t)
	target := "/v1/endpoints/" + c.endpoint(nil).text("id") + "/events"
	for _, err := range []error{
		stream.ErrBufferFull, id.ErrClock, context.DeadlineExceeded, errors.New("disk full at /var/lib/secret")} {
		c.fake.AcceptFunc = func(context.Context, *event.Event) error { return fmt.Errorf("produce: %w", err) }
		a := c.do("POST", target, `{"type":"a","data":{}}`).wantError(503, "unavailable", "")
		if a.Header.Get("Retry-After") != "1" || strings.Contains(string(a.raw), "/var/lib") {
			t.Errorf("%v: %v %s", err, a.Header, a.raw)
		}
	}
	is.Equal(t, len(c.fake.events), 0, "an event was stored")
}

// An event is stored even if its client leaves before the log has answered.
func TestEventIsStoredWhenTheClientLeaves(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	ctx, leave := context.WithCancel(t.Context())
	c.fake.AcceptFunc = func(accept context.Context, _ *event.Event) error {
		leave()
		return accept.Err()
	}
	c.doCtx(ctx, "POST", "/v1/endpoints/"+ep+"/events", `{"type":"a","data":{}}`).want(202)
}

func TestEventFilters(t *testing.T) {
	now := time.Date(2026, 8, 21, 22, 24, 36, 0, time.UTC)
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Now = func() time.Time { return now } })
	account := configuration.Account().ID
	f := func(query string, want event.Query) {
		t.Helper()
		c.do("GET", "/v1/events?"+query, nil).want(200)
		want.Account = account
		want.Limit = 50
		got := c.fake.queries[len(c.fake.queries)-1]
		for _, empty := range []*event.Query{&got, &want} {
			*empty = normal(*empty)
		}
		is.Equal(t, gocmp.Diff(want, got), "", query)
	}
	day := func(d int) time.Time { return time.Date(2026, 8, d, 0, 0, 0, 0, time.UTC) }
	f("", event.Query{})
	f("endpoint_id=ep_a", event.Query{Endpoints: []string{"ep_a"}})
	f("endpoint=ep_a&endpoint_id[]=ep_b,ep_c&endpoint_id=", event.Query{Endpoints: []string{"ep_b", "ep_c", "ep_a"}})
	f("destination_id=dst_a&run_id=run_b", event.Query{Destinations: []string{"dst_a"}, Runs: []string{"run_b"}})
	f("status=failed&status=pending,%20retrying", event.Query{Statuses: []event.Status{"failed", "pending", "retrying"}})
	f("type=order.*,user.created", event.Query{Types: []string{"order.*", "user.created"}})
	f("source=api&source[]=provider", event.Query{Sources: []event.Source{"api", "provider"}})
	f("processing=missing,none&processing[]=failed",
		event.Query{Processing: []event.Processing{"missing", "none", "failed"}})
	f("processing=processing,processed", event.Query{Processing: []event.Processing{"processing", "processed"}})
	f("since=2026-08-20&until=2026-08-21T02:00:00%2B02:00", event.Query{Since: day(20), Until: day(21)})
	f("from=2026-08-20&to=2026-08-21T02:00:00+02:00", event.Query{Since: day(20), Until: day(21)})
	f("start=2026-08-20&end=2026-08-30", event.Query{Since: day(20)}) // an until in the future means now
	f("since=2026-08-25", event.Query{Since: day(25)})
	f("status=&type=,&since=&cursor=&limit=", event.Query{})

	for query, param := range map[string]string{
		"status=broken": "status", "status=Failed": "status", "source=web": "source",
		"type=*": "type", "type=a.*.b": "type",
		"since=tomorrow": "since", "from=x": "from", "end=2026-99-99": "end", "since=2026-08-21&until=2026-08-21": "until",
		"start=2026-08-22&to=2026-08-21":   "to",
		"from=2099-01-01&end=2099-01-02":   "end", // an until in the future means now
		"since=2026-08-01&from=2026-08-02": "from", "until=2026-08-01&until=2026-08-02": "until",
		"stauts=failed": "stauts", "endpointid=x": "endpointid",
		"processing=done": "processing",
		"Limit=1":         "Limit", "since[]=2026-08-01": "since[]", "a=%zz": "", "a;b": "",
		"type=" + strings.Repeat("x", 257): "type", "endpoint_id=" + strings.Repeat("x,", 101): "endpoint_id",
	} {
		a := c.do("GET", "/v1/events?"+query, nil).want(400)
		if got, _ := a.get("error.param").(string); got != param && param != "" {
			t.Errorf("%s: param %q, want %q", query, got, param)
		}
	}
	c.do("GET", "/v1/events?status=held,failed", nil).want(200)
	is.Has(t, c.do("GET", "/v1/events?since=2026-08-01&since=2026-08-02", nil).text("error.message"), "is sent 2 times")
	is.Has(t, c.do("GET", "/v1/events?type=*", nil).text("error.message"), "only after the last dot")
	a := c.do("GET", "/v1/events?stauts=failed", nil)
	if m := a.text("error.message"); !strings.Contains(m, "did you mean status?") ||
		!strings.Contains(m, "endpoint_id, destination_id, run_id, status, type, source, processing, tenant, since, until, "+
			"q, body, header, limit, cursor") {
		t.Errorf("%s", m)
	}
}

// normal replaces empty lists with nil.
func normal(q event.Query) event.Query {
	if len(q.Statuses) == 0 {
		q.Statuses = nil
	}
	if len(q.Sources) == 0 {
		q.Sources = nil
	}
	if len(q.Processing) == 0 {
		q.Processing = nil
	}
	return q
}

func TestCursorBelongsToItsFilters(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	c.send(ep)
	c.send(ep)
	page := c.do("GET", "/v1/events?limit=1&status=pending,failed&endpoint_id="+ep, nil).want(200)
	cursor := url.QueryEscape(page.text("next_cursor"))
	// the same filters in another form
	c.do("GET", "/v1/events?limit=7&endpoint="+ep+"&status=failed&status=pending&cursor="+cursor, nil).want(200)
	for _, other := range []string{
		"", "endpoint_id=" + ep, "status=pending&endpoint_id=" + ep, "status=pending,failed&endpoint_id=" + ep +
			"&since=2020-01-01"} {
		c.do("GET", "/v1/events?"+other+"&cursor="+cursor, nil).wantError(400, "invalid_request", "cursor")
	}
	hash := []byte(cursor) // the hash of the filters; the first byte is the version
	if hash[3] = 'A'; cursor[3] == 'A' {
		hash[3] = 'B'
	}
	for _, bad := range []string{"x", "====", cursor + "A", cursor[1:], string(hash), "AQ"} {
		c.do("GET", "/v1/events?status=pending,failed&endpoint_id="+ep+"&cursor="+bad, nil).wantError(
			400, "invalid_request", "cursor")
	}
	c.do("GET", "/v1/endpoints?cursor="+cursor, nil).wantError(400, "invalid_request", "cursor")
}

func TestStoreBehindAndUnavailable(t *testing.T) {
	c := newClient(t)
	asOf := time.Date(2026, 8, 21, 22, 24, 36, 5e6, time.UTC)
	c.fake.EventsFunc = func(context.Context, event.Query) (event.Page, error) { return event.Page{AsOf: asOf}, nil }
	a := c.do("GET", "/v1/events", nil).want(200)
	if a.Header.Get("Relay-Data-As-Of") != "2026-08-21T22:24:36.005Z" || string(a.raw) != "{\"data\":[]}\n" {
		t.Errorf("%v %s", a.Header, a.raw)
	}
	name := c.send(c.endpoint(nil).text("id"))
	d, _ := id.Parse(id.Event, name)
	c.fake.details[d] = func(x *event.Detail) { x.AsOf = asOf }
	if got := c.do("GET", "/v1/events/"+name, nil).want(200).Header.Get("Relay-Data-As-Of"); got == "" {
		t.Error("single read without Relay-Data-As-Of")
	}
	unavailable := fmt.Errorf("query clickhouse: %w", event.ErrUnavailable)
	c.fake.EventsFunc = func(context.Context, event.Query) (event.Page, error) { return event.Page{}, unavailable }
	c.fake.EventFunc = func(context.Context, string, id.ID) (*event.Detail, error) { return nil, unavailable }
	for _, target := range []string{"/v1/events", "/v1/events/" + name} {
		if a := c.do("GET", target, nil).wantError(503, "unavailable", ""); a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %v", target, a.Header)
		}
	}
	c.fake.EventFunc = func(context.Context, string, id.ID) (*event.Detail, error) {
		return nil, errors.New("code: 241, password=hunter2")
	}
	if a := c.do("GET", "/v1/events/"+name, nil).wantError(500, "internal", ""); strings.Contains(
		string(a.raw), "hunter2") {
		t.Errorf("%s", a.raw)
	}
}

func TestRetentionEnds(t *testing.T) {
	now := time.Now()
	c := newClient(t, func(_ *api.Config, d *api.Deps) { d.Now = func() time.Time { return now } })
	name := c.send(c.endpoint(nil).text("id"))
	expires := must.Get(time.Parse(time.RFC3339, c.do("GET", "/v1/events/"+name, nil).want(200).text("expires_at")))(t)
	now = expires.Add(-time.Millisecond)
	c.do("GET", "/v1/events/"+name, nil).want(200)
	now = expires
	c.do("GET", "/v1/events/"+name, nil).wantError(404, "not_found", "")
	c.do("GET", "/v1/events/"+name+"/attempts", nil).wantError(404, "not_found", "")
	c.do("POST", "/v1/events/"+name+"/replay", nil).wantError(404, "not_found", "")
}

func TestReadEvent(t *testing.T) {
	c := newClient(t)
	name := c.send(c.endpoint(nil).text("id"))
	d, _ := id.Parse(id.Event, name)
	at := time.Date(2026, 8, 21, 22, 24, 36, 5e6, time.UTC)
	c.fake.details[d] = func(x *event.Detail) {
		x.Event = &event.Event{
			ID: d, Account: x.Account, Endpoint: x.Endpoint, Source: event.SourceProvider, Method: "PUT", Query: "a=b",
			RemoteIP: netip.MustParseAddr("2001:db8::1"),
			Dests:    []string{"dst_a", "dst_b"}, Trace: "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
			Header: []event.Field{{Name: "Content-Type", Value: "image/png"}, {Name: "X-A", Value: "1"},
				{Name: "X-A", Value: "2"}, {Name: "X-High", Value: "Zo\xeb"}}, Body: []byte{0xff, 0xfe, 0},
		}
		x.Source = event.SourceProvider
		x.Deliveries = []event.Delivery{
			{Destination: "dst_a", Status: event.Retrying, Attempts: 1, NextAttemptAt: at, Run: "run_x"},
			{Destination: "dst_b", Status: event.Pending, Reason: event.Queued}}
		x.Attempts = attemptRows(x.Endpoint, 2, at)
		x.AttemptsTruncated = true
		x.Receipt = &event.Receipt{State: event.ProcessingDone, Details: `{"a":1}`, FirstAt: at.Add(-time.Second), At: at}
	}
	a := c.do("GET", "/v1/events/"+name, nil).want(200)
	for path, want := range map[string]any{
		"body": "//4A", "body_encoding": "base64", "content_type": "image/png", "method": "PUT", "query": "a=b",
		"remote_ip":   "2001:db8::1",
		"headers.X-A": "1, 2", "headers_raw.2.1": "2", "headers_raw.3.1": "Zo\ufffd", "headers_base64.2": nil,
		"headers_base64.3": "Wm/r", "data": nil, "attempts_truncated": true, "receipt.state": "processed",
		"receipt.details.a": 1.0, "receipt.reference": nil,
		"receipt.created_at": "2026-08-21T22:24:35.005Z", "receipt.updated_at": "2026-08-21T22:24:36.005Z",
		"deliveries.0.id": id.DeliveryOf(d, "dst_a"), "deliveries.0.destination_id": "dst_a",
		"deliveries.0.status": "retrying", "deliveries.0.run_id": "run_x",
		"deliveries.0.next_attempt_at": "2026-08-21T22:24:36.005Z", "deliveries.1.destination_id": "dst_b",
		"deliveries.1.status": "pending", "deliveries.1.reason": "queued",
		"attempts.0.attempt_number": 1.0, "attempts.0.event_id": name, "attempts.0.delivery_id": id.DeliveryOf(d, "dst_a"),
		"attempts.0.status":  "failed",
		"attempts.0.trigger": "initial", "attempts.0.response_status": 500.0, "attempts.0.error_code": "http_status",
		"attempts.0.error_message": "500",
		"attempts.0.duration_ms":   12.0, "attempts.0.ttfb_ms": 9.0, "attempts.0.request.url": "https://a.example/h",
		"attempts.0.request.method":      "POST",
		"attempts.0.request.headers.X-A": "1", "attempts.0.response.body": "oops",
		"attempts.0.response.body_encoding":       "utf8",
		"attempts.0.response.truncated":           true,
		"attempts.0.response.headers.Retry-After": "7", "attempts.0.retry_after_seconds": 7.0,
		"trace_id": "0af7651916cd43dd8448eb211c80319c", "attempts.0.trace_id": "0af7651916cd43dd8448eb211c80319c",
		"attempts.1.trace_id":               nil,
		"attempts.0.transformation_version": 3.0, "attempts.1.transformation_version": 0.0,
		"attempts.0.remote_ip": "203.0.113.7", "attempts.0.run_id": nil,
		"attempts.0.recovery_id": nil, "attempts.0.next_attempt_at": "2026-08-21T22:24:36.005Z",
		"attempts.0.started_at": "2026-08-21T22:24:36.005Z",
		"attempts.1.response":   nil, "attempts.1.response_status": nil, "attempts.1.recovery_id": "rec_1",
		"attempts.1.run_id": nil, "attempts.1.error_code": "timeout",
		"attempts.1.retry_after_seconds": nil, "attempts.1.next_attempt_at": nil, "attempts.1.remote_ip": nil,
	} {
		is.Equal(t, a.get(path), want, "%s is", path)
	}
	for _, member := range []string{"run_id", "recovery_id", "response", "response_status", "error_code", "error_message",
		"remote_ip", "next_attempt_at", "retry_after_seconds", "trace_id"} {
		if _, there := a.get("attempts.1").(map[string]any)[member]; !there {
			t.Errorf("attempts: %s is absent, want null", member)
		}
	}
	for _, member := range []string{
		"type", "reason", "last_attempt_at", "next_attempt_at", "idempotency_key", "duplicate_of"} {
		if _, there := a.Body[member]; !there {
			t.Errorf("%s is absent, want null", member)
		}
	}
}

// attemptRows returns n attempts: the first failed with a status, the others timed out in a recovery job.
func attemptRows(endpoint string, n int, at time.Time) []event.AttemptRow {
	ids := id.NewGenerator(func() time.Time { return at })
	rows := make([]event.AttemptRow, n)
	for i := range rows {
		d, err := ids.New(0)
		if err != nil {
			panic(err)
		}
		rows[i] = event.AttemptRow{
			Endpoint: endpoint, Destination: "dst_a", Number: i + 1, Run: "rec_1", Attempt: event.Attempt{
				ID: d, StartedAt: at, Trigger: event.TriggerRecovery, ErrorCode: event.CodeTimeout, URL: "https://a.example/h",
				Method: "POST",
			}}
	}
	rows[0].Run, rows[0].NextAt = "", at
	rows[0].Attempt = event.Attempt{
		ID: rows[0].ID, StartedAt: at, Trigger: event.TriggerInitial, Code: 500, ErrorCode: event.CodeHTTPStatus,
		ErrorMessage: "500",
		Duration:     12_400 * time.Microsecond, TTFB: 9 * time.Millisecond, RetryAfter: 7 * time.Second,
		RemoteIP: netip.MustParseAddr("203.0.113.7"),
		URL:      "https://a.example/h", Method: "POST", RequestHeader: "X-A: 1\n",
		ResponseHeader: "Retry-After: 7\n", ResponseBody: []byte("oops"), Truncated: true,
		TransformationVersion: 3, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	return rows
}

func TestListAttempts(t *testing.T) {
	c := newClient(t)
	ep := c.endpoint(nil).text("id")
	name, other := c.send(ep), c.send(ep)
	d, _ := id.Parse(id.Event, name)
	rows := attemptRows(ep, 5, time.Now())
	c.fake.details[d] = func(x *event.Detail) { x.Attempts = rows }
	var numbers []float64
	for cursor := ""; ; {
		page := c.do("GET", "/v1/events/"+name+"/attempts?limit=2"+cursor, nil).want(200)
		for _, row := range page.get("data").([]any) {
			numbers = append(numbers, row.(map[string]any)["attempt_number"].(float64))
		}
		next, more := page.Body["next_cursor"].(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
		c.do("GET", "/v1/events/"+other+"/attempts?limit=2"+cursor, nil).wantError(400, "invalid_request", "cursor")
	}
	is.Same(t, numbers, []float64{5, 4, 3, 2, 1})
	is.Equal(t, c.do("GET", "/v1/events/"+name+"/attempts", nil).text("data.0.endpoint_id"), ep, "endpoint_id")
}

func TestReplayOneEvent(t *testing.T) {
	c := newClient(t)
	created := c.do("POST", "/v1/endpoints",
		`{"destinations":["https://a.example",{"url":"https://b.example","enabled":false},"https://c.example"]}`).want(201)
	ep, first, disabled, third := created.text("id"), created.text("destinations.0.id"), created.text("destinations.1.id"),
		created.text("destinations.2.id")
	name := c.send(ep)
	d, _ := id.Parse(id.Event, name)
	c.fake.details[d] = func(x *event.Detail) {
		x.Deliveries = []event.Delivery{
			{Destination: first, Status: event.Delivered}, {Destination: disabled, Status: event.Failed}}
	}
	a := c.do("POST", "/v1/events/"+name+"/replay", nil).want(200)
	if a.get("events") != 1.0 || a.get("queued") != 2.0 || a.get("truncated") != false {
		t.Errorf("%s", a.raw)
	}
	if _, err := id.Parse(id.Run, a.text("run_id")); err != nil {
		t.Error(err)
	}
	for i, want := range []struct {
		dest  string
		prior event.Status
	}{{first, event.Delivered}, {third, ""}} {
		w := c.fake.commands[i]
		if w.Dest != want.dest || w.Prior != want.prior || w.Trigger != event.TriggerReplay || w.Attempt != 1 ||
			w.Run != a.text("run_id") || w.Event.ID != d || w.Due.IsZero() {
			t.Errorf("command %d: %+v", i, w)
		}
	}
	one := c.do("POST", "/v1/events/"+name+"/replay", `{"destination_id":"`+third+`"}`).want(200)
	if one.get("queued") != 1.0 || one.text("run_id") == a.text("run_id") || c.fake.commands[2].Dest != third {
		t.Errorf("%s", one.raw)
	}
	if c.do("POST", "/v1/events/"+name+"/replay", `{"destination_id":"`+disabled+`"}`).want(200).get("queued") != 0.0 {
		t.Error("a disabled destination was queued")
	}
	if a.get("warnings") != nil {
		t.Errorf("%s", a.raw)
	}
	c.do("PATCH", "/v1/endpoints/"+ep+"/destinations/"+third, `{"filter":{"types":["other.*"]}}`).want(200)
	left := c.do("POST", "/v1/events/"+name+"/replay", nil).want(200)
	c.fake.commands = c.fake.commands[:3]
	if left.get("queued") != 2.0 || len(left.get("warnings").([]any)) != 1 || left.text("warnings.0.message") !=
		"the filter of "+third+" leaves this event out: its delivery ends as skipped (filtered); "+
			"change the filter and replay again to deliver it" {
		t.Errorf("with a filter: %s", left.raw)
	}
	c.do("POST", "/v1/events/"+name+"/replay", `{"destination_id":"dst_nope"}`).wantError(
		400, "invalid_request", "destination_id")
	// An unknown filter must not replay to every destination.
	c.do("POST", "/v1/events/"+name+"/replay", `{"destination":"`+third+`"}`).wantError(
		400, "invalid_request", "destination")

	calls := 0
	c.fake.CommandFunc = func(context.Context, *event.Work) error {
		if calls++; calls == 2 {
			return fmt.Errorf("produce to commands: %w", stream.ErrBufferFull)
		}
		return nil
	}
	half := c.do("POST", "/v1/events/"+name+"/replay", nil).wantError(503, "unavailable", "")
	if half.get("error.queued") != 1.0 || !strings.HasPrefix(half.text("error.run_id"), "run_") {
		t.Errorf("%s", half.raw)
	}
}

func TestReplayOfARejectedEvent(t *testing.T) {
	var reason event.Reason
	c := newClient(t, func(_ *api.Config, d *api.Deps) {
		d.Reverify = func(*config.Endpoint, *event.Event) (signed [32]byte, _ event.Reason, err error) {
			return signed, reason, nil
		}
	})
	ep := c.endpoint(map[string]any{"provider": "stripe", "verification": map[string]any{"type": "stripe",
		"secret": "whsec_planted"}}).text("id")
	name := c.send(ep)
	d, _ := id.Parse(id.Event, name)
	c.fake.events[d].Verdict = event.VerdictRejected
	reason = event.SignatureMismatch
	c.do("POST", "/v1/events/"+name+"/replay", nil).wantError(400, "invalid_state", "")
	reason = ""
	if a := c.do("POST", "/v1/events/"+name+"/replay", nil).want(200); a.get("queued") != 1.0 ||
		a.get("warnings") != nil {
		t.Errorf("%s", a.raw)
	}
	// Without verification there is nothing to check it with: a replay by its id delivers it with a warning.
	c.do("PATCH", "/v1/endpoints/"+ep, `{"provider":"generic","verification":null}`).want(200)
	if a := c.do("POST", "/v1/events/"+name+"/replay", nil).want(200); a.get("queued") != 1.0 ||
		!strings.Contains(a.text("warnings.0.message"), "unchecked") {
		t.Errorf("%s", a.raw)
	}
}

func TestBodyEncodings(t *testing.T) {
	c := newClient(t)
	name := c.send(c.endpoint(nil).text("id"))
	d, _ := id.Parse(id.Event, name)
	for _, body := range [][]byte{nil, []byte("text\r\n<&>\u2028"), []byte("\xff"), []byte("{\"a\":1,\"a\":2}"), {0}} {
		c.fake.details[d] = func(x *event.Detail) {
			e := *x.Event
			e.Body, e.Source = body, event.SourceProvider
			x.Event = &e
		}
		a := c.do("GET", "/v1/events/"+name, nil).want(200)
		got := []byte(a.text("body"))
		if a.text("body_encoding") == "base64" {
			var err error
			if got, err = base64.StdEncoding.DecodeString(a.text("body")); err != nil {
				t.Fatal(err)
			}
		}
		is.Equal(t, string(got), string(body), "%q comes back as %q", body, got)
	}
}

// deliver_at and expires_at of sends, single and in batches.
func TestTimesOfASend(t *testing.T) {
	_, remembering := withRedis(t)
	c := newClient(t, remembering)
	send := "/v1/endpoints/" + c.endpoint(nil).text("id") + "/events"
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339) }
	day := 24 * time.Hour
	f := func(deliver, expires any, param string) {
		t.Helper()
		item := map[string]any{"type": "a.b", "data": map[string]any{}, "deliver_at": deliver, "expires_at": expires}
		c.do("POST", send, item).wantError(400, "invalid_request", param)
		batch := c.do("POST", send+"/batch", map[string]any{"events": []any{item}}).want(202)
		if got := batch.text("data.0.error.param"); got != "events[0]."+param {
			t.Errorf("the batch has the parameter %q, want %q", got, param)
		}
	}
	f(in(31*day), nil, "deliver_at")
	const later = `{"type":"a.b","data":{},"deliver_at":"2126-01-01T00:00:00Z"}` // it may be valid at a repeat
	for range 2 {
		c.sendOnce(send, "later", later).replayed(false).wantError(400, "invalid_request", "deliver_at")
	}
	f("tomorrow", nil, "deliver_at")
	f(17, nil, "deliver_at")
	f(strings.TrimSuffix(in(day), "Z")+"+24:00", nil, "deliver_at")
	f(nil, in(-time.Hour), "expires_at")
	f(in(2*day), in(day), "expires_at")
	f(nil, "2026-13-01T00:00:00Z", "expires_at")
	at := in(day)
	sent := c.do("POST", send, map[string]any{"type": "a.b", "data": map[string]any{},
		"deliver_at": strings.TrimSuffix(at, "Z"), // UTC
		"expires_at": in(2 * day)}, "Idempotency-Key", "one").want(202)
	if sent.text("next_attempt_at")[:19] != at[:19] || sent.text("reason") != "scheduled" {
		t.Errorf("%s", sent.raw)
	}
	c.do("POST", send, map[string]any{"type": "a.b", "data": map[string]any{},
		"deliver_at": in(2 * day), "expires_at": in(3 * day)}, "Idempotency-Key", "one").
		wantError(400, "idempotency_mismatch", "Idempotency-Key")
}

func TestTestEvents(t *testing.T) {
	_, remembering := withRedis(t)
	c := newClient(t, remembering)
	ep := c.endpoint(map[string]any{"provider": "stripe"}).text("id")
	target := "/v1/endpoints/" + ep + "/test"
	for body, want := range map[string]string{
		"": "stripe", "{}": "stripe", `{"provider":null,"type":null}`: "stripe", `{"provider":"slack"}`: "slack",
		`{"provider":"shopify","type":"orders/create"}`: "orders/create", `{"type":"` + strings.Repeat("a", 128) +
			`"}`: strings.Repeat("a", 128),
	} {
		a := c.do("POST", target, body).want(202)
		if a.text("source") != "test" || a.text("status") != "pending" || a.text("type") != want ||
			a.text("endpoint_id") != ep {
			t.Errorf("%s: %s", body, a.raw)
		}
		if d := c.do("GET", "/v1/events/"+a.text("id"), nil).want(200); d.get("data") != nil ||
			!strings.Contains(d.text("body"), `"data":{`) {
			t.Errorf("%s", d.raw)
		}
	}
	if a := c.do("POST", target, `{"provder":"slack"}`).want(202); !strings.Contains(
		a.text("warnings.0.message"), "did you mean provider") {
		t.Errorf("%s", a.raw)
	}
	for body, param := range map[string]string{
		`{"provider":"nobody"}`: "provider", `{"provider":7}`: "provider", `{"provider":""}`: "provider",
		`{"type":""}`: "type", `{"type":7}`: "type",
		`{"type":"a b"}`: "type", `{"type":"` + strings.Repeat("a", 129) + `"}`: "type", `[]`: "", `{`: "",
	} {
		c.do("POST", target, body).wantError(400, "invalid_request", param)
	}
	add := func(enabled bool) string {
		return c.do("POST", "/v1/endpoints/"+ep+"/destinations",
			map[string]any{"url": "https://x.example/", "enabled": enabled}).want(201).text("id")
	}
	dest, off := add(true), add(false)
	a := c.do("POST", target, map[string]any{"destination_id": dest}).want(202)
	if a.text("deliveries.0.destination_id") != dest || a.get("destinations.total") != 1.0 {
		t.Errorf("%s", a.raw)
	}
	for _, x := range []any{off, "dst_nope", "", 7} {
		c.do("POST", target, map[string]any{"destination_id": x}).wantError(400, "invalid_request", "destination_id")
	}
	first := c.sendOnce(target, "k", `{}`).want(202).replayed(false)
	if again := c.sendOnce(target, "k", `{}`).want(202).replayed(true); again.text("id") != first.text("id") {
		t.Errorf("%s", again.raw)
	}
	c.sendOnce(target, "k", `{"provider":"slack"}`).wantError(400, "idempotency_mismatch", "Idempotency-Key")
	c.as(readKey).do("POST", target, nil).wantError(403, "insufficient_scope", "")
	c.do("POST", "/v1/endpoints/ep_nope/test", nil).wantError(404, "not_found", "")
	c.do("POST", "/v1/endpoints/"+c.endpoint(map[string]any{"enabled": false}).text("id")+"/test", nil).wantError(
		400, "invalid_state", "")
	c.fake.AcceptFunc = func(context.Context, *event.Event) error { return stream.ErrBufferFull }
	c.do("POST", target, nil).wantError(503, "unavailable", "")
	d, _ := id.Parse(id.Event, first.text("id"))
	if c.fake.events[d].IdempotencyKey != "k" {
		t.Errorf("%+v", c.fake.events[d])
	}
}

func TestSearchFilters(t *testing.T) {
	c := newClient(t)
	get := func(query ...string) *answer {
		values := url.Values{}
		for i := 0; i < len(query); i += 2 {
			values.Add(query[i], query[i+1])
		}
		return c.do("GET", "/v1/events?"+values.Encode(), nil)
	}
	last := func() event.Query { return c.fake.queries[len(c.fake.queries)-1] }
	a := get("q", "50% of_it", "body[data.order.id]", "4,2", "body[data.order.id]", "x", "body[$.a]", "1", "header[x-tag]",
		"b, c", "status", "failed").want(200)
	want := &event.Search{
		Text: "50% of_it",
		Body: []event.BodyMatch{
			{Members: []string{"a"}, Values: []string{"1"}},
			{Members: []string{"data", "order", "id"}, Values: []string{"4,2", "x"}}},
		Header: []event.HeaderMatch{{Name: "x-tag", Values: []string{"b, c"}}},
	}
	q := last()
	if !reflect.DeepEqual(q.Search, want) || len(q.Statuses) != 1 || a.get("scanned") != 0.0 || a.get("partial") != nil {
		t.Errorf("%+v, %s", q.Search, a.raw)
	}
	if ago := time.Since(q.Since); ago < 24*time.Hour-time.Second || ago > 24*time.Hour+time.Minute || !q.Until.IsZero() {
		t.Errorf("the search covers %v to %v", q.Since, q.Until)
	}
	if a.get("warnings") != nil {
		t.Errorf("%s", a.raw)
	}
	for _, path := range []string{"/data/n", "data.o.k.*.x", "items[0].id"} {
		a := get("body["+path+"]", "1").want(200)
		if a.text("warnings.0.param") != "body["+path+"]" || !strings.Contains(a.text("warnings.0.message"), "literal") {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	get("q", "", "body[a]", "", "header[b]", "").want(200)
	if last().Search != nil || !last().Since.IsZero() {
		t.Errorf("empty filters are %+v", last().Search)
	}
	if get("q", "x", "until", "2026-03-03T00:00:00Z").want(200); last().Since.Format(
		time.RFC3339) != "2026-03-02T00:00:00Z" {
		t.Errorf("the search starts at %v", last().Since)
	}
	if a := get().want(200); a.get("scanned") != nil {
		t.Errorf("a list counts: %s", a.raw)
	}
	long := func(n int) string { return strings.Repeat("é", n) }
	var many []string
	for i := range 10 {
		many = append(many, fmt.Sprintf("body[a%d]", i), "1")
	}
	get("q", long(200)).want(200)
	get(many...).want(200)
	get("body[a]", strings.Repeat("x", 256)).want(200)
	get("q", "x", "since", "2026-01-01T00:00:00Z", "until", "2026-02-01T00:00:00Z").want(200)
	for param, query := range map[string][]string{
		"q": {"q", long(201)}, "header[z]": append([]string{"header[z]", "1"}, many...),
		"body[a]": {"body[a]", strings.Repeat("x", 257)},
		"body[]":  {"body[]", "1"}, "body": {"body", "1"}, "header": {"header", "1"}, "body[a..b]": {"body[a..b]", "1"},
		"header[a b]": {"header[a b]", "1"},
		"body[a":      {"body[a", "1"}, "q[]": {"q[]", "1"},
		"since": {"q", "x", "since", "2025-12-31T23:59:59.999Z", "until", "2026-02-01T00:00:00Z"},
		"start": {"q", "x", "start", "2026-01-01T00:00:00Z"}, "cursor": {"q", "x", "cursor", "x"},
	} {
		get(query...).wantError(400, "invalid_request", param)
	}
	get("q", "a", "q", "b").wantError(400, "invalid_request", "q")
	is.Has(t, get("quer", "x").wantError(400, "invalid_request", "quer").text("error.message"), "body")
	if text := get("statu", "x").wantError(400, "invalid_request", "statu").text("error.message"); !strings.Contains(
		text, "did you mean status?") {
		t.Errorf("%s", text)
	}
}

// Malformed input is refused with the name of the parameter, or searched for literally.
func TestSearchHostileInput(t *testing.T) {
	c := newClient(t)
	f := func(name, value, param string) {
		t.Helper()
		target := "/v1/events?" + url.Values{name: {value}}.Encode()
		if name != "q" && !strings.Contains(name, "[") {
			target += "&q=x"
		}
		if param != "" {
			c.do("GET", target, nil).wantError(400, "invalid_request", param)
			return
		}
		c.do("GET", target, nil).want(200)
		s := c.fake.queries[len(c.fake.queries)-1].Search
		values := []string{s.Text}
		for _, m := range s.Body {
			values = append(values, m.Values...)
		}
		for _, m := range s.Header {
			values = append(values, m.Values...)
		}
		if !slices.Contains(values, value) {
			t.Errorf("%s=%q searches for %q", name, value, values)
		}
	}
	for _, letters := range []string{
		"\x00", "a\x00b", "\x01\x1f\x7f", "\r\n\t", "\u202e\ufeff", "' OR 1=1 --", `\'; DROP TABLE events; --`, "{p1:String}",
		"%_\\", "?", "$1", "(a+)+$", strings.Repeat("\x00", 200),
	} {
		f("q", letters, "")
		f("body[a]", letters, "")
		if strings.ContainsAny(letters, "\x00\x01\r") {
			f("header[a]", letters, "header[a]")
		} else {
			f("header[a]", letters, "")
		}
	}
	f("q", "\xff", "q")
	f("q", "a\xc3", "q")
	f("q", strings.Repeat("\x00", 201), "q")
	f("q", strings.Repeat("x", 1<<15), "q")
	f("body[a]", "\xff", "") // a body may contain it, although it is not UTF-8
	f("body[a]", strings.Repeat("\x00", 257), "body[a]")
	f("body["+strings.Repeat("a.", 40)+"a]", "1", "body["+strings.Repeat("a.", 40)+"a]")
	f("body["+strings.Repeat("a", 257)+"]", "1", "body["+strings.Repeat("a", 192)+"…")
	for _, name := range []string{"\x00", "a\nb", "a:b", "ü", "a b", `"`, ""} {
		f("header["+name+"]", "1", "header["+name+"]")
	}
	for _, hostile := range []string{
		"\x00", "\xff", "' OR 1=1 --", "0", "-1", "99999999999999999999", "2026-01-01T00:00:00Z\x00"} {
		f("since", hostile, "since")
		f("until", hostile, "until")
		f("cursor", hostile, "cursor")
		f("status", hostile, "status")
		f("source", hostile, "source")
		f("processing", hostile, "processing")
		if strings.Trim(hostile, "123456789") != "" { // any number from 1 is valid
			f("limit", hostile, "limit")
		}
	}
	f("since", "0001-01-01T00:00:00Z", "since")
	f("from", "1970-01-01T00:00:00Z", "from")
}

func TestSearchPages(t *testing.T) {
	c := newClient(t)
	edge := must.Get(id.NewGenerator(nil).New(1))(t)
	page := event.Page{Partial: true, ResumeBefore: edge, Scanned: 12_345}
	c.fake.EventsFunc = func(context.Context, event.Query) (event.Page, error) { return page, nil }
	target := "/v1/events?q=x&since=" + time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04:05") + ".0004Z"
	a := c.do("GET", target, nil).want(200)
	first := c.fake.queries[len(c.fake.queries)-1]
	if a.get("partial") != true || a.get("scanned") != 12345.0 || len(a.get("data").([]any)) != 0 {
		t.Errorf("%s", a.raw)
	}
	cursor := a.text("next_cursor")
	page = event.Page{}
	if b := c.do("GET", target+"&cursor="+cursor, nil).want(200); b.get("partial") != nil || b.get("next_cursor") != nil {
		t.Errorf("%s", b.raw)
	}
	second := c.fake.queries[len(c.fake.queries)-1]
	if second.Before != edge || !second.Since.Equal(first.Since) {
		t.Errorf("goes on below %s since %v, not %s since %v", second.Before, second.Since, edge, first.Since)
	}
	for _, other := range []string{
		"/v1/events?q=y&cursor=" + cursor, "/v1/events?cursor=" + cursor, "/v1/events?q=x&cursor=" + cursor +
			"&cursor=" + cursor} {
		c.do("GET", other, nil).wantError(400, "invalid_request", "cursor")
	}
	// A forged cursor without a time limit searches no longer window than any other.
	forged := must.Get(base64.RawURLEncoding.DecodeString(cursor))(t)
	binary.BigEndian.PutUint64(forged[len(forged)-8:], 0)
	c.do("GET", target+"&cursor="+base64.RawURLEncoding.EncodeToString(forged), nil).want(200)
	if since := c.fake.queries[len(c.fake.queries)-1].Since; time.Since(since) > 31*24*time.Hour+time.Minute {
		t.Errorf("a forged cursor searches back to %v", since)
	}
	c.fake.EventsFunc = func(context.Context, event.Query) (event.Page, error) { return event.Page{}, event.ErrOverloaded }
	if a := c.do("GET", "/v1/events?q=x", nil).wantError(429, "rate_limited", ""); a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}
