package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventrelay/relay/test/must"
)

// testPipeline tests the main path, on embedded and on real engines: it writes on one node and reads on another, which
// may be the same.
func testPipeline(t *testing.T, write, read *process, readRounds int) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, write, read client)
	}{
		{"provider event is verified, delivered and read", providerEvent},
		{"sent event is delivered", sentEvent},
		{"delivery is retried after 503", retriedDelivery},
		{"event is replayed", replayedEvent},
		{"secrets rotate on both sides", rotatedSecrets},
		{"paused, purged, unpaused", pausedByHand},
		{"list pages without gap or repeat", pagedList},
		{"bytes stay the same", byteIdentity},
		{"receipts never go back from processed", parallelReceipts},
		{"usage counts every event once", usageCounts},
		{"reads see what was written", func(t *testing.T, write, read client) { readYourWrites(t, write, read, readRounds) }},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, write.forTest(t), read.forTest(t)) })
	}
	t.Run("ledger adds up", func(t *testing.T) {
		if r := awaitSettledLedger(t, write.streamConfig); r.Delivered == 0 || r.Skipped == 0 || r.Rejected == 0 ||
			r.Failed+r.Dead > 0 {
			t.Errorf("the ledger must count delivered, unrouted and forged events: %v", r.Counts)
		}
	})
}

// shortPipeline is the part of the main path that needs every engine and every role.
func shortPipeline(t *testing.T, p *process) {
	t.Run("event is retried, replayed and read", func(t *testing.T) {
		retriedDelivery(t, p.forTest(t), p.forTest(t))
		replayedEvent(t, p.forTest(t), p.forTest(t))
	})
	t.Run("secrets rotate on both sides", func(t *testing.T) { rotatedSecrets(t, p.forTest(t), p.forTest(t)) })
	t.Run("usage counts every event once", func(t *testing.T) { usageCounts(t, p.forTest(t), p.forTest(t)) })
	t.Run("ledger adds up", func(t *testing.T) { awaitSettledLedger(t, p.streamConfig) })
}

const (
	githubSecret = "it's a secret to everybody" // from GitHub's documentation
	arrival      = 30 * time.Second             // until an event arrives; eventually waits five times as long
)

func githubHeader(body []byte) map[string]string { return githubHeaderBy(githubSecret, body) }

func githubHeaderBy(secret string, body []byte) map[string]string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return map[string]string{
		"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)), "X-GitHub-Event": "pull_request",
		"Content-Type": "application/json",
	}
}

func providerEvent(t *testing.T, write, read client) {
	dest := newSink(t, nil)
	ep, in, secret := write.endpoint(map[string]any{
		"provider": "github", "verification": map[string]any{"type": "github", "secret": githubSecret},
		"destinations": []any{map[string]any{"url": dest.URL + "/hook"}},
	})
	body := []byte(`{"action":"opened","number":1}`)
	if resp := write.post(in, githubHeader(body), body); resp.StatusCode != http.StatusOK {
		t.Fatalf("ingest answered %s\n%s", resp.Status, write.logs)
	}
	got := dest.wait(t, 1, arrival)[0]
	if !bytes.Equal(got.body, body) {
		t.Fatalf("delivered %q", got.body)
	}
	verifyDelivery(t, secret, got)
	e := read.awaitStatus(got.event(), "delivered", arrival)
	if e["endpoint_id"] != ep || e["type"] != "pull_request" || e["body"] != string(body) {
		t.Fatalf("read %v", e)
	}
	forged := map[string]string{"X-Hub-Signature-256": "sha256=" + strings.Repeat("0", 64)}
	if resp := write.post(in, forged, body); resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("a forged request was answered %s", resp.Status)
	}
	if resp := write.post(in, githubHeader(body), append(body, '\n')); resp.StatusCode != http.StatusUnauthorized {
		t.Fatalf("a request with another body than the signed one was answered %s", resp.Status)
	}
	rows := read.list("&endpoint_id="+ep, 100)
	if len(rows) != 3 || rows[1]["status"] != "rejected" || rows[1]["reason"] != "signature_mismatch" ||
		rows[1]["verification"] != "rejected" || rows[2]["id"] != got.event() || rows[2]["verification"] != "verified" {
		t.Fatalf("list %v", rows)
	}
	for i, want := range []string{"[body_newline]", "[no_cause]", "[]"} {
		why := read.must(http.StatusOK, "GET", "/v1/events/"+rows[i]["id"].(string)+"/signature", nil)
		codes := []any{}
		for _, finding := range why["findings"].([]any) {
			codes = append(codes, finding.(map[string]any)["code"])
		}
		if fmt.Sprint(codes) != want {
			t.Errorf("%s: want %s, got %v", rows[i]["reason"], want, why)
		}
	}
}

// verifyDelivery checks a delivery's signature with the official Standard Webhooks library.
func verifyDelivery(t *testing.T, secret string, got received) {
	t.Helper()
	verifier := must.Get(standardwebhooks.NewWebhook(secret))(t)
	if err := verifier.Verify(got.body, got.header); err != nil {
		t.Fatalf("the delivery does not verify: %v", err)
	}
}

func sentEvent(t *testing.T, write, read client) {
	dest := newSink(t, nil)
	ep, _, secret := write.endpoint(map[string]any{"destinations": []any{dest.URL}})
	id := write.send(ep, 4200)
	got := dest.wait(t, 1, arrival)[0]
	if got.event() != id || !bytes.HasSuffix(got.body, []byte(`"data":{"n":4200}}`)) {
		t.Fatalf("event %s delivered as %s: %s", id, got.event(), got.body)
	}
	verifyDelivery(t, secret, got)
	if e := read.awaitStatus(id, "delivered", arrival); e["type"] != "order.paid" || e["source"] != "api" {
		t.Fatalf("read %v", e)
	}
}

// onceUnavailable answers the first request for each event with 503.
func onceUnavailable(r received) int {
	if r.earlier == 0 {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

func retriedDelivery(t *testing.T, write, read client) {
	dest := newSink(t, onceUnavailable)
	ep, _, _ := write.endpoint(map[string]any{
		"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "schedule", "schedule_seconds": []any{1}, "max_attempts": 3, "jitter": 0},
	})
	id := write.send(ep, 1)
	got := dest.wait(t, 2, arrival)
	if gap := got[1].at.Sub(got[0].at); gap < time.Second {
		t.Errorf("the retry was sent after %v, before its due time", gap)
	}
	attempts := read.awaitStatus(id, "delivered", arrival)["attempts"].([]any)
	var answers []any
	for _, a := range attempts {
		answers = append(answers, a.(map[string]any)["response_status"])
	}
	if want := []any{503.0, 200.0}; fmt.Sprint(answers) != fmt.Sprint(want) {
		t.Fatalf("attempts were answered %v, want %v", answers, want)
	}
}

func replayedEvent(t *testing.T, write, read client) {
	dest := newSink(t, nil)
	ep, _, _ := write.endpoint(map[string]any{"destinations": []any{dest.URL}})
	id := write.send(ep, 1)
	read.awaitStatus(id, "delivered", arrival)
	// The replay is requested on the reading node, which need not have accepted the event.
	if run := read.must(http.StatusOK, "POST", "/v1/events/"+id+"/replay", map[string]any{}); run["queued"] != 1.0 {
		t.Fatalf("replay %v", run)
	}
	got := dest.wait(t, 2, arrival)
	if got[1].event() != id || sum(got[1].body) != sum(got[0].body) {
		t.Fatalf("replayed as %s: %s", got[1].event(), got[1].body)
	}
	eventually(t, arrival, func() string {
		e := write.event(id)
		attempts := e["attempts"].([]any)
		if e["status"] == "delivered" && len(attempts) == 2 && attempts[1].(map[string]any)["trigger"] == "replay" {
			return ""
		}
		return fmt.Sprintf("status %v after the replay, attempts %v", e["status"], attempts)
	})
}

func pagedList(t *testing.T, write, read client) {
	const events = 20
	ep, _, _ := write.endpoint(
		map[string]any{"destinations": []any{map[string]any{"url": "https://example.com/h", "enabled": false}}})
	ids := make([]string, events) // newest first
	for i := range ids {
		ids[events-1-i] = write.send(ep, i)
	}
	for _, limit := range []int{1, 7, 100} {
		rows := read.list("&endpoint_id="+ep, limit)
		if len(rows) != events {
			t.Fatalf("limit %d: %d rows, want %d", limit, len(rows), events)
		}
		for i, row := range rows {
			if row["id"] != ids[i] {
				t.Fatalf("limit %d: row %d is %v, want %s", limit, i, row["id"], ids[i])
			}
		}
	}
}

func randomBytes(t *testing.T, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	must.Get(rand.Read(b))(t)
	return b
}

// byteIdentity checks that received, stored and delivered bodies are the same bytes.
func byteIdentity(t *testing.T, write, read client) {
	dest := newSink(t, nil)
	_, in, _ := write.endpoint(map[string]any{"destinations": []any{dest.URL}})
	random := randomBytes(t, 1<<20)
	f := func(name string, body []byte, chunked bool) {
		t.Helper()
		var reader io.Reader = bytes.NewReader(body)
		if chunked {
			reader = io.MultiReader(reader) // hides the length, so that the client sends chunks
		}
		before := len(dest.received())
		resp, err := http.Post(in, "application/octet-stream", reader)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: answered %s\n%s", name, resp.Status, write.logs)
		}
		got := dest.wait(t, before+1, 20*time.Second)[before]
		if sum(got.body) != sum(body) {
			t.Errorf("%s: delivered other bytes (%d, want %d)", name, len(got.body), len(body))
		}
		e := read.event(got.event())
		stored := []byte(e["body"].(string))
		if e["body_encoding"] == "base64" {
			if stored, err = base64.StdEncoding.DecodeString(e["body"].(string)); err != nil {
				t.Fatal(err)
			}
		}
		if sum(stored) != sum(body) {
			t.Errorf("%s: stored other bytes (%d, want %d)", name, len(stored), len(body))
		}
	}
	f("empty", nil, false)
	f("1 MiB of random bytes", random, false)
	f("1 MiB of random bytes, chunked", random, true)
	f("invalid UTF-8", []byte("a\xff\xfe\x80b"), false)
	f("CRLF", []byte("a\r\nb\r\n\r\n"), false)
	f("duplicate keys", []byte(`{"a":1,"a":2, "b" : 1.0 }`), false)
	f("chunked", []byte(`{"a":1}`), true)
	if resp := write.post(in, nil, append(random, 'x')); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("1 MiB + 1 was answered %s", resp.Status)
	}
}

// readYourWrites checks that after a 202 a read and a list always find the event. A list that the store could not serve
// in time says so and is read again. A round mostly waits for the flush that its read triggers.
// There are ten flushes a second, and concurrent readers share one. So five readers run in parallel, each with its own
// endpoint.
func readYourWrites(t *testing.T, write, read client, rounds int) {
	const readers = 5
	var late atomic.Int64
	var all sync.WaitGroup
	for r := range readers {
		ep, _, _ := write.endpoint(
			map[string]any{"destinations": []any{map[string]any{"url": "https://example.com/h", "enabled": false}}})
		all.Go(func() {
			for i := r; i < rounds; i += readers {
				readOwnWrite(t, write, read, ep, i, &late)
			}
		})
	}
	all.Wait()
	if n := late.Load(); n > 0 { // a busy machine
		t.Logf("%d lists in %d rounds were late", n, rounds)
	}
}

// readOwnWrite sends an event and reads it back, once.
func readOwnWrite(t *testing.T, write, read client, ep string, i int, late *atomic.Int64) {
	id := write.send(ep, i)
	read.must(http.StatusOK, "GET", "/v1/events/"+id, nil)
	eventually(t, arrival, func() string {
		status, answer, header := read.call("GET", "/v1/events?limit=1&endpoint_id="+ep, nil)
		if status != http.StatusOK {
			t.Fatalf("round %d: list answered %d %v", i, status, answer)
		}
		rows := answer["data"].([]any)
		if len(rows) == 1 && rows[0].(map[string]any)["id"] == id {
			return ""
		}
		if header.Get("Relay-Data-As-Of") == "" {
			t.Fatalf("round %d: the list is %v, want it to begin with %v", i, rows, id)
		}
		late.Add(1)
		return fmt.Sprintf("round %d: the list never began with %v", i, id)
	})
}
