package webhook

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"

	"github.com/eventrelay/relay/dispatcher/destination"
	"github.com/eventrelay/relay/pkg/egress"
	"github.com/eventrelay/relay/pkg/event"
	"github.com/eventrelay/relay/pkg/sign"
	"github.com/eventrelay/relay/pkg/web"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
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
			must.Equal(t, work.Event.HeaderValue(event.HeaderHops), strconv.Itoa(deliveries),
				"delivery %d has the path", deliveries)
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

// A receiver that says of every request that it has not processed it gets a bounded number of requests, with and
// without a body.
func TestRefusedConnectionsAreBounded(t *testing.T) {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	roots := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"", "with a body"} {
		var requests atomic.Int64
		port := kit.ServeFrames(t, srv.TLS.Certificates, func(n int64, f *http2.Framer, _ uint32) {
			requests.Store(n)
			_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
		})
		transport := must.Get(egress.NewTransport(egress.Config{Policy: loopback(), CAFile: roots}))(t)
		t.Cleanup(transport.CloseIdleConnections)
		c := newTestClient(transport)
		work := testWork(t, []byte(body))
		target := testTarget(t, fmt.Sprintf("https://127.0.0.1:%d/hook", port), sign.NewSecret())
		target.Timeout = 20 * time.Second
		began := time.Now()
		attempt := c.send(t.Context(), work.Event.ID, target, work, destination.Stored(work))
		if attempt.Code != 0 || attempt.ErrorCode != event.CodeConnectionReset || requests.Load() > maxConnections ||
			time.Since(began) > 15*time.Second {
			t.Errorf("body %q: %s %q after %v and %d requests, at most %d", body, attempt.ErrorCode, attempt.ErrorMessage,
				time.Since(began),
				requests.Load(), maxConnections)
		}
		if classified := Classify(attempt.Code, attempt.ErrorCode, nil); classified.Class != destination.Retryable {
			t.Errorf("it is not retried")
		}
	}
}

// docs/start/clients.md and the OpenAPI document name every header that a delivery adds, and no other.
func TestDeliveryHeadersAreDocumented(t *testing.T) {
	header := headerOf(t, testWork(t, []byte("x")), testTarget(t, "https://example.com/", sign.NewSecret()))
	delete(header, destination.HeaderUserAgent)
	var sent []string
	for name := range header {
		sent = append(sent, strings.ToLower(name))
	}
	f := func(path, begin, end, pattern string, sent []string) {
		t.Helper()
		slices.Sort(sent)
		text := must.Get(os.ReadFile(path))(t)
		_, list, _ := strings.Cut(string(text), begin)
		list, _, ended := strings.Cut(list, end)
		if !ended {
			t.Fatalf("%s has no list of the headers of a delivery", path)
		}
		var named []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(list, -1) {
			named = append(named, m[1])
		}
		slices.Sort(named)
		if diff := cmp.Diff(sent, named); diff != "" {
			t.Errorf("sent (-) and named in %s (+):\n%s", path, diff)
		}
	}
	f("../../../docs/start/clients.md", "| header | value |\n", "\n\n", "[|,] `((?:webhook|relay)-[a-z-]+)`", sent)
	f("../../../api/openapi/webhooks.yaml", "operationId: receiveDelivery\n", "requestBody:", `(?m)^ +- name: (.+)$`,
		append(sent, "traceparent")) // of traced events only
}
