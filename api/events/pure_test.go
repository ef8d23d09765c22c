package events

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eventrelay/relay/api/frame"
	"github.com/eventrelay/relay/api/wire"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/entity"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/id"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

func TestWhy(t *testing.T) {
	next := time.Date(2026, 8, 21, 22, 24, 36, 5e6, time.UTC)
	f := func(status event.Status, reason event.Reason, next time.Time, want string) {
		t.Helper()
		is.Equal(t, explain(status, reason, next, "").text(), want, "%s %s", status, reason)
	}
	var never time.Time
	f(event.Delivered, "", never, "delivered")
	f(event.Delivered, event.SignatureMismatch, never,
		"delivered, although the signature matches none of the endpoint's secrets")
	f(event.Pending, event.Queued, never, "waiting for its first attempt")
	f(event.Pending, event.Queued, next, "waiting for its first attempt; due at 2026-08-21T22:24:36.005Z")
	f(event.Pending, "", never, "waiting for its first attempt")
	f(event.Pending, event.LaneFull, next, "waiting: the destination has reached its limit of requests in flight")
	f(event.Retrying, "", next, "the last attempt failed; next attempt at 2026-08-21T22:24:36.005Z")
	f(event.Pending, event.Paced, next, "waiting: the destination's rate limit delays it; next attempt at "+
		"2026-08-21T22:24:36.005Z")
	f(event.Held, event.Manual, next, "held: paused by hand, delivered when unpaused")
	f(event.Pending, event.Manual, never, "held: paused by hand, delivered when unpaused") // the event of a held delivery
	f(event.Held, event.BreakerOpen, next, "held: the circuit breaker is open after consecutive failures; next probe at "+
		"2026-08-21T22:24:36.005Z")
	f(event.Pending, event.BreakerOpen, next, "held: the circuit breaker is open after consecutive failures; next "+
		"probe at "+
		"2026-08-21T22:24:36.005Z")
	f(event.Held, event.Behind, never, "held: its destination is ordered, and an earlier event of its key is not "+
		"delivered yet")
	// a reason of a newer version
	f(event.Held, "quarantined", next, "held: quarantined; next attempt at 2026-08-21T22:24:36.005Z")
	f(event.Failed, event.AttemptsExhausted, never, "failed: all attempts of the retry policy are used up")
	f(event.Failed, event.NotRetryable, never, "failed: the retry policy does not retry this response")
	f(event.Failed, event.Gone410, never, "failed: the destination answered 410 Gone")
	f(event.Failed, event.PayloadExpired, never, "failed: the payload is no longer kept: its retention ended, or it "+
		"was erased")
	f(event.Failed, event.Undecodable, never, "failed: the stored event could not be decoded")
	f(event.Skipped, event.NoDestination, never, "skipped: the endpoint had no enabled destination")
	f(event.Skipped, event.Filtered, never, "skipped: the destination's filter does not match it")
	f(event.Skipped, event.Duplicate, never, "skipped: it repeats an event that was stored before")
	f(event.Skipped, event.DestinationDisabled, never, "skipped: the destination was disabled before it was sent")
	f(event.Skipped, event.DestinationDeleted, never, "skipped: the destination was deleted")
	f(event.Skipped, event.EndpointDeleted, never, "skipped: the endpoint was deleted")
	f(event.Skipped, event.Superseded, never, "skipped: a replay delivered it before the retry was due")
	f(event.Skipped, event.Purged, never, "skipped: it was still open when the destination was purged")
	f(event.Skipped, event.JobStopped, never, "skipped: the recovery job stopped before it was sent")
	f(event.Skipped, event.JobCancelled, never, "skipped: the recovery job was cancelled before it was sent")
	f(event.Skipped, event.RunStopped, never, "skipped: the replay was stopped before it was sent")
	f(event.Skipped, event.Deadline, never, "skipped: the recovery job reached its deadline before it was sent")
	f(event.Skipped, "", never, "skipped")
	f(event.Rejected, event.SignatureMissing, never,
		"rejected: the request lacks the signature, or another header that it needs such as the timestamp")
	f(event.Rejected, event.SignatureMalformed, never, "rejected: the signature is not in the provider's format")
	f(event.Rejected, event.SignatureMismatch, never, "rejected: the signature matches none of the endpoint's secrets")
	f(event.Rejected, event.TimestampTolerance, never, "rejected: the signed time is too far from the time of receipt")
}

// The set of reasons is closed, and each has a text.
func TestEveryReasonHasAText(t *testing.T) {
	file := must.Get(parser.ParseFile(token.NewFileSet(), "../../pkg/event/status.go", nil, 0))(t)
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Reason" {
			return true
		}
		found++
		word := must.Get(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)
		if wire.Reasons[event.Reason(word)] == "" && event.Reason(word) != event.Queued {
			t.Errorf("%s has no text", word)
		}
		return true
	})
	if found <= len(wire.Reasons) { // Queued has no text
		t.Errorf("%d reasons are known, %d have a text", found, len(wire.Reasons))
	}
}

func TestWhyOfADuplicate(t *testing.T) {
	s := &event.Summary{Status: event.Skipped, Reason: event.Duplicate, DuplicateOf: "evt_01m7w6h6kk00r00w2s1cbs4f8h"}
	for _, got := range []string{summaryWhy(s).text(), rowOf(s).Why,
		eventWhy(&event.Detail{Summary: *s}, nil, nil).text()} {
		is.Equal(t, got, "skipped: duplicate of evt_01m7w6h6kk00r00w2s1cbs4f8h")
	}
	s.Status, s.Reason = event.Delivered, "" // after a replay
	is.Equal(t, summaryWhy(s).text(), "delivered")
}

// erasedAlways says that every payload was erased.
type erasedAlways struct{ noErasures }

func (erasedAlways) ErasedAt(id.ID) time.Time { return time.Unix(1, 0) }

// What is open of an erased event announces no attempt, in lists, the detail and its deliveries; what has ended keeps
// its sentence, and does not say that its retention may have ended.
func TestWhyOfAnErasedEvent(t *testing.T) {
	next := time.Date(2026, 8, 21, 22, 24, 36, 0, time.UTC)
	const open = "the payload was erased: nothing more is sent; it ends as failed at 2026-08-21T22:24:36.000Z"
	a := &events{area: &area{Core: &frame.Core{RetentionDays: 30,
		Services: frame.Services{Erasures: erasedAlways{}}}}}
	for status, want := range map[event.Status]string{
		event.Pending: open, event.Retrying: open, event.Held: open, event.Delivered: "delivered",
		event.Failed: "failed: the payload was erased",
	} {
		d := &event.Detail{Event: &event.Event{}, Summary: event.Summary{Status: status, NextAttemptAt: next,
			Deliveries: []event.Delivery{{Destination: "a", Status: status, NextAttemptAt: next}}}}
		if status == event.Failed {
			d.Reason, d.Deliveries[0].Reason = event.PayloadExpired, event.PayloadExpired
		}
		v := a.detailOf(frame.Viewer{}, d, nil)
		for _, got := range []string{a.rowsOf([]event.Summary{d.Summary})[0].Why, v.Why, v.Deliveries[0].Why} {
			is.Equal(t, got, want, status)
		}
	}
}

// oneEndpoint is a configuration with this endpoint only, or with a tombstone if it is nil.
type oneEndpoint struct {
	frame.Configuration
	endpoint *config.Endpoint
}

func (c oneEndpoint) Endpoint(string) (*config.Endpoint, entity.Presence) {
	if c.endpoint == nil {
		return nil, entity.Deleted
	}
	return c.endpoint, entity.Present
}

// What is open announces no attempt once its endpoint or destination is deleted, disabled, purged or paused, in lists,
// the detail and its deliveries. What has ended keeps its sentence.
func TestWhyOfHaltedDeliveries(t *testing.T) {
	at := time.Date(2026, 8, 21, 22, 24, 36, 0, time.UTC)
	const failed = "attempt 1 failed (HTTP 503); "
	run := id.Lowest(at.Add(2 * time.Minute)).Text(id.Run)
	f := func(ep *config.Endpoint, status event.Status, run, want string) {
		t.Helper()
		a := &events{area: &area{Core: &frame.Core{RetentionDays: 30, Services: frame.Services{
			Erasures: noErasures{}, Config: oneEndpoint{endpoint: ep}}}}}
		next := at.Add(5 * time.Minute)
		if status.Terminal() {
			next = time.Time{}
		}
		d := &event.Detail{Event: &event.Event{}, Summary: event.Summary{ID: id.Lowest(at), Status: status,
			NextAttemptAt: next, Deliveries: []event.Delivery{
				{Destination: "a", Status: status, NextAttemptAt: next, Run: run}}}}
		if status != event.Pending {
			d.Attempts = []event.AttemptRow{{Destination: "a", Number: 1,
				Attempt: event.Attempt{Code: 503, ErrorCode: event.CodeHTTPStatus}}}
		}
		v := a.detailOf(frame.Viewer{}, d, nil)
		row := strings.Replace(a.rowsOf([]event.Summary{d.Summary})[0].Why, "the last attempt failed; ", failed, 1)
		for _, got := range []string{row, v.Why, v.Deliveries[0].Why} {
			is.Equal(t, got, want)
		}
	}
	endpoint := func(d config.Destination) *config.Endpoint {
		d.ID = "a"
		return &config.Endpoint{Destinations: []config.Destination{d}}
	}
	enabled := config.Destination{DestinationSettings: config.DestinationSettings{Enabled: true}}
	f(endpoint(enabled), event.Retrying, "", failed+"next attempt at 2026-08-21T22:29:36.000Z")
	f(nil, event.Retrying, "", failed+"the endpoint was deleted: nothing more is sent")
	f(nil, event.Pending, "", "the endpoint was deleted: nothing more is sent")
	f(nil, event.Held, "", "the endpoint was deleted: nothing more is sent")
	f(nil, event.Delivered, "", "delivered")
	f(&config.Endpoint{}, event.Retrying, "", failed+"the destination was deleted: nothing more is sent")
	f(endpoint(config.Destination{}), event.Retrying, "", failed+"the destination is disabled: nothing more is sent")
	purged := endpoint(config.Destination{
		DestinationSettings: config.DestinationSettings{Enabled: true}, PurgeBefore: at.Add(time.Minute)})
	f(purged, event.Retrying, "", failed+"the destination was purged: nothing more is sent")
	f(purged, event.Retrying, run, failed+"next attempt at 2026-08-21T22:29:36.000Z") // of a replay after the purge
	f(endpoint(config.Destination{
		DestinationSettings: config.DestinationSettings{Enabled: true, Paused: true}}), event.Retrying, "",
		failed+"the destination is paused: nothing is sent until it is unpaused")
	paused := endpoint(enabled)
	paused.Paused = true
	f(paused, event.Pending, "", "the endpoint is paused: nothing is sent until it is unpaused")
}

// Of several destinations, one that gets an attempt decides.
func TestWhyOfAHaltedDeliveryBesideAnother(t *testing.T) {
	at := time.Date(2026, 8, 21, 22, 24, 36, 0, time.UTC)
	a := &events{area: &area{Core: &frame.Core{RetentionDays: 30, Services: frame.Services{
		Erasures: noErasures{}, Config: oneEndpoint{
			endpoint: &config.Endpoint{Destinations: []config.Destination{{ID: "b",
				DestinationSettings: config.DestinationSettings{Enabled: true}}}}}}}}}
	d := &event.Detail{Event: &event.Event{}, Summary: event.Summary{ID: id.Lowest(at), Status: event.Retrying,
		NextAttemptAt: at, Deliveries: []event.Delivery{{Destination: "a", Status: event.Retrying, NextAttemptAt: at},
			{Destination: "b", Status: event.Retrying, NextAttemptAt: at.Add(time.Hour)}}}}
	const want = "the last attempt failed; next attempt at 2026-08-21T23:24:36.000Z"
	is.Equal(t, a.detailOf(frame.Viewer{}, d, nil).Why, "2 of 2 destinations: "+want)
	is.Equal(t, a.rowsOf([]event.Summary{d.Summary})[0].Why, want)
}

// The detail knows the attempts: its sentences name the attempt that matters and, of several destinations, those
// that decide.
func TestWhyOfDetail(t *testing.T) {
	next := time.Date(2026, 8, 21, 22, 24, 36, 5e6, time.UTC)
	row := func(dest string, n, code int, cause event.ErrorCode) event.AttemptRow {
		return event.AttemptRow{Attempt: event.Attempt{OK: cause == "", Code: code, ErrorCode: cause},
			Destination: dest, Number: n}
	}
	attempts := []event.AttemptRow{
		row("a", 1, 500, event.CodeHTTPStatus), row("a", 2, 503, event.CodeHTTPStatus), row("b", 1, 0, event.CodeDNS),
		row("c", 1, 302, event.CodeRedirectBlocked), row("d", 1, 200, ""),
	}
	f := func(want string, status event.Status, ds ...event.Delivery) {
		t.Helper()
		d := &event.Detail{Summary: event.Summary{Status: status, Deliveries: ds}, Attempts: attempts}
		is.Equal(t, eventWhy(d, nil, nil).text(), want)
	}
	a := event.Delivery{Destination: "a", Status: event.Retrying, NextAttemptAt: next.Add(time.Hour)}
	b := event.Delivery{Destination: "b", Status: event.Retrying, NextAttemptAt: next}
	c := event.Delivery{Destination: "c", Status: event.Failed, Reason: event.NotRetryable}
	d := event.Delivery{Destination: "d", Status: event.Delivered}
	f("attempt 1 failed (dns_error); next attempt at 2026-08-21T22:24:36.005Z", event.Retrying, b)
	f("2 of 3 destinations: attempt 1 failed (dns_error); next attempt at 2026-08-21T22:24:36.005Z",
		event.Retrying, a, b, c)
	f("1 of 2 destinations: failed: the retry policy does not retry this response; attempt 1 failed (redirect_blocked, "+
		"HTTP 302)", event.Failed, c, d)
	a.Status, a.Reason, a.NextAttemptAt = event.Failed, event.AttemptsExhausted, time.Time{}
	f("failed: all attempts of the retry policy are used up; attempt 2 failed (HTTP 503)", event.Failed, a)
	f("delivered", event.Delivered, d, d)
	d.Status, d.Reason = event.Pending, event.Queued // a replay
	f("waiting for another attempt", event.Pending, d)
	f("waiting for its first attempt", event.Pending,
		event.Delivery{Destination: "new", Status: event.Pending, Reason: event.Queued})
	f("1 of 2 destinations: held: paused by hand, delivered when unpaused", event.Pending, c,
		event.Delivery{Destination: "new", Status: event.Held, Reason: event.Manual, NextAttemptAt: next})
	f("skipped", event.Skipped)
}

// The values are those that the sentence is made of.
func TestWhyDetails(t *testing.T) {
	next := time.Date(2026, 8, 21, 22, 24, 36, 5e6, time.UTC)
	x := &event.Delivery{Destination: "a", Status: event.Retrying, NextAttemptAt: next}
	attempts := []event.AttemptRow{{Destination: "a", Number: 2,
		Attempt: event.Attempt{Code: 503, ErrorCode: event.CodeHTTPStatus}}}
	f := func(got explained, want string) {
		t.Helper()
		is.Equal(t, strings.TrimSpace(string(web.Encode(got.Why))), want)
	}
	const cause = `"cause":"attempt 2 failed (HTTP 503)"}`
	f(deliveryWhy(x, attempts, nil, ""), `{"code":"retrying","until":"2026-08-21T22:24:36.005Z",`+cause)
	f(deliveryWhy(x, attempts, nil, wire.HaltEndpointPaused), `{"code":"endpoint_paused","until":null,`+cause)
	f(deliveryWhy(x, attempts, nil, "").erased(web.Time(next)),
		`{"code":"payload_erased","until":"2026-08-21T22:24:36.005Z",`+cause)
	f(explain(event.Held, event.Manual, next, ""), `{"code":"manual","until":null,"cause":null}`)
	f(explain(event.Failed, event.PayloadExpired, time.Time{}, "").erased(web.Time{}),
		`{"code":"payload_erased","until":null,"cause":null}`)
}

func TestEnvelopeKeepsData(t *testing.T) {
	d := must.Get(id.NewGenerator(nil).New(3))(t)
	data := []byte("{ \"data\" : {\"a\":1.0,\"a\":2}, \"x\":\",\\\"data\\\":\" }")
	body := appendEnvelope(nil, d, "a.b", data)
	is.Equal(t, cap(body), len(body), "bytes set aside for %d", len(body))
	if got := envelopeData(body); !bytes.Equal(got, data) {
		t.Errorf("%s, want %s", got, data)
	}
	var v struct{ ID, Type, Timestamp string }
	if err := json.Unmarshal(body, &v); err != nil || v.ID != d.Text(id.Event) || v.Type != "a.b" ||
		v.Timestamp != d.Time().Format("2006-01-02T15:04:05.000Z") {
		t.Errorf("%+v %v", v, err)
	}
	for _, bad := range []string{"", "x", "{}", `{"id":1,"data":`} {
		_ = envelopeData([]byte(bad)) // a body of another form: no panic
	}
}

func FuzzParseSend(f *testing.F) {
	for _, seed := range []string{
		`{"type":"a.b","data":{}}`, `{"data":{"a":[1,{}]},"type":"x","other":1}`, `{"type":"a","data":{},"data":{}}`,
		`{"type":1}`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := parseSend(body)
		if s.refusal != nil {
			return
		}
		var object map[string]json.RawMessage
		if !event.ValidType(s.eventType) || json.Unmarshal(s.data, &object) != nil || !bytes.Contains(body, s.data) {
			t.Fatalf("%q gave type %q and data %q", body, s.eventType, s.data)
		}
	})
}

// Every reason of the contract has a text, and there are no others.
func TestEveryReasonIsExplained(t *testing.T) {
	all := strings.Fields(`signature_missing signature_malformed signature_mismatch timestamp_outside_tolerance
		certificate_expired
		no_destination filtered duplicate delivery_loop destination_disabled destination_deleted endpoint_deleted
		superseded purged job_stopped job_cancelled run_stopped deadline expired cancelled_by_rule scheduled
		attempts_exhausted not_retryable gone_410 receiver_aborted receiver_disabled payload_expired too_large
		transform_failed
		undecodable order_full paced lane_full manual breaker_open behind not_pulled`)
	for _, r := range all {
		if text := wire.Reasons[event.Reason(r)]; text == "" {
			t.Errorf("%s is not explained", r)
		}
	}
	for r := range wire.Reasons {
		if !slices.Contains(all, string(r)) && r != event.AlreadyDelivered {
			t.Errorf("%s is no reason of the contract", r)
		}
	}
}
