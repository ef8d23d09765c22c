package webhook

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// cameBack is the event that a receiver creates at an endpoint by forwarding the headers of a delivery.
func cameBack(t *testing.T, work *event.Work, endpoint string, without ...string) *event.Work {
	t.Helper()
	record, err := work.Record() // as it comes out of a retry topic
	must.Do(t, err)
	if work, err = event.DecodeWork(record); err != nil {
		t.Fatal(err)
	}
	target := testTarget(t, "https://relay.example/in/x", sign.NewSecret())
	req := &http.Request{Host: "relay.example", Header: headerOf(t, work, target)}
	for _, name := range without {
		req.Header.Del(name)
	}
	next := testWork(t, []byte("x"), web.HeaderFields(req)...)
	next.Event.Endpoint, next.Event.Dests = endpoint, []string{"dst_test"}
	next.Event.SkipIfLoop(endpoint)
	return next
}

// Endpoints that deliver to each other: a loop ends after five deliveries at different endpoints, or at the second
// return to one of them, or, if the path header is lost on the way, after five deliveries again. The next event is
// stored and not delivered. Retries and replays count as the first attempt.
func TestDeliveryLoopEnds(t *testing.T) {
	for _, c := range []struct {
		endpoints []string
		without   string
		want      int
	}{
		{[]string{"ep_a"}, "", 2},
		{[]string{"ep_a", "ep_b"}, "", 3},
		{[]string{"ep_a", "ep_b", "ep_c"}, "", 4},
		{[]string{"ep_a", "ep_b", "ep_c", "ep_d", "ep_e", "ep_f"}, "", event.MaxHops},
		{[]string{"ep_a", "ep_b"}, event.HeaderPath, event.MaxHops},
	} {
		work, deliveries := testWork(t, []byte("x")), 0
		work.Event.Endpoint, work.Event.Dests = c.endpoints[0], []string{"dst_test"}
		for len(work.Event.Dests) > 0 {
			if deliveries++; deliveries > 10 {
				t.Fatal("the loop does not end")
			}
			work = cameBack(t, work, c.endpoints[deliveries%len(c.endpoints)], c.without)
			if got := work.Event.HeaderValue(event.HeaderHops); got != strconv.Itoa(deliveries) {
				t.Fatalf("delivery %d has the path %q", deliveries, got)
			}
		}
		if deliveries != c.want || work.Event.Reason != event.DeliveryLoop {
			t.Errorf("%v: ended after %d deliveries, %q", c.endpoints, deliveries, work.Event.Reason)
		}
	}
}

// An endpoint whose n destinations all lead back to it turns one event into at most n² events.
func TestFanOutOfALoopIsBounded(t *testing.T) {
	const fan = 4
	work := testWork(t, []byte("x"))
	work.Event.Endpoint, work.Event.Dests = "ep_a", []string{"dst_test"}
	events := 0
	for turn := []*event.Work{work}; len(turn) > 0; {
		var next []*event.Work
		for _, work := range turn {
			if events++; events > 1000 {
				t.Fatal("the loop does not end")
			}
			for range fan * len(work.Event.Dests) {
				next = append(next, cameBack(t, work, "ep_a"))
			}
		}
		turn = next
	}
	is.Equal(t, events, 1+fan+fan*fan, "events")
}

// No received header can be taken for one of the relay's, however a receiver treats punctuation, verified or not.
// Those of a provider that signs by the same scheme are kept in their own spelling.
func TestOurHeadersAreNotForged(t *testing.T) {
	names := []string{"Relay_Verification", "Relay_Webhook_Signature", "Relay_hops", "Relay.hops", "Webhook_Signature",
		"Webhook_id", "Webhook~Timestamp", "Relay-Anything"}
	var header []event.Field
	for _, name := range names {
		header = append(header, event.Field{Name: destination.Canonical(name), Value: "5"})
	}
	header = append(header, event.Field{Name: "X_other", Value: "x"})
	for _, verdict := range []event.Verdict{event.VerdictVerified, event.VerdictObserved, event.VerdictUnverified} {
		work := testWork(t, nil, header...)
		work.Event.Verdict = verdict
		got := headerOf(t, work, testTarget(t, "https://example.com/", sign.NewSecret()))
		for _, name := range names {
			if got[destination.Canonical(name)] != nil {
				t.Errorf("%s: %s is forwarded", verdict, name)
			}
		}
		if got["X_other"] == nil || got[event.HeaderHops][0] != "1" || len(got["Webhook-Signature"]) != 1 {
			t.Errorf("%s: %v", verdict, got)
		}
	}
	work := testWork(t, nil, event.Field{Name: "Webhook-Id", Value: "theirs"},
		event.Field{Name: "Webhook_id", Value: "forged"})
	got := headerOf(t, work, testTarget(t, "https://example.com/", sign.NewSecret()))
	if got.Get("Webhook-Id") != "theirs" || got["Webhook_id"] != nil {
		t.Errorf("%v", got)
	}
}
