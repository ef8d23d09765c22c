package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/kit"
	"github.com/eventrelay/relay/test/must"
)

// Records of a topic go to another topic, to a bucket and in batches to a URL, through a SIGKILL: each at least once,
// and none makes two events.
func TestSourceToDestinationsOfEveryKind(t *testing.T) {
	t.Parallel()
	const records = 60
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders", "copies")))(t)
	t.Cleanup(cluster.Close)
	customer := must.Get(kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("copies")))(t)
	t.Cleanup(customer.Close)
	seen := seenRecords{by: map[string]map[string]bool{"kafka": {}, "s3": {}, "http_batch": {}}}
	env := kit.BucketServer(t, func(r *http.Request) bool {
		body := must.Get(io.ReadAll(r.Body))(t)
		r.Body = io.NopCloser(bytes.NewReader(body))
		for line := range strings.Lines(string(body)) {
			seen.add("s3", []byte(line))
		}
		return true
	})
	batches := newSink(t, func(x received) int {
		var events []json.RawMessage
		must.Do(t, json.Unmarshal(x.body, &events))
		for _, e := range events {
			seen.add("http_batch", e)
		}
		return http.StatusNoContent
	})
	brokers := map[string]any{"brokers": cluster.ListenAddrs(), "plaintext": true}
	with := func(more map[string]any) map[string]any {
		for name, value := range brokers {
			more[name] = value
		}
		return more
	}
	p := startDevProcess(t, t.TempDir(), "RELAY_EGRESS_ALLOW_HTTP=true")
	created := p.forTest(t).must(201, "POST", "/v1/endpoints", map[string]any{
		"source": map[string]any{"kafka": with(map[string]any{"topic": "orders", "start": "earliest"})},
		"destinations": []any{
			map[string]any{"name": "copies", "kafka": with(map[string]any{"topic": "copies"})},
			map[string]any{"name": "archive", "s3": map[string]any{"bucket": "backups", "region": "us-east-1",
				"endpoint":      strings.TrimPrefix(env[0], "AWS_ENDPOINT_URL="),
				"access_key_id": "test", "secret_access_key": "test"}},
			map[string]any{"url": batches.URL, "http_batch": map[string]any{"max_events": 20}},
		}})
	p.forTest(t).must(200, "PATCH", "/v1/alerts", map[string]any{"rules": map[string]any{"source_failing": map[string]any{
		"enabled": true, "seconds": 10}}})
	wrong := p.forTest(t).must(201, "POST", "/v1/endpoints", map[string]any{
		"source":       map[string]any{"kafka": with(map[string]any{"topic": "gone"})},
		"destinations": []any{map[string]any{"url": batches.URL}}})
	send := func(from, to int) {
		for n := from; n < to; n++ {
			must.Do(t, customer.ProduceSync(t.Context(), &kgo.Record{Topic: "orders",
				Value: fmt.Appendf(nil, `{"n":%d}`, n)}).FirstErr())
		}
	}
	send(0, records/2)
	eventually(t, arrival, func() string {
		if seen.count("http_batch") == 0 {
			return "no batch has arrived"
		}
		return ""
	})
	p.kill()
	send(records/2, records)
	p.start()
	eventually(t, arrival, func() string {
		moment, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, r := range customer.PollRecords(moment, records).Records() {
			seen.add("kafka", fmt.Appendf(nil, `{"body":%s}`, r.Value))
		}
		for kind := range seen.by {
			if n := seen.count(kind); n < records {
				return fmt.Sprintf("%s has %d of %d records", kind, n, records)
			}
		}
		return ""
	})
	c := p.forTest(t)
	path := "/v1/endpoints/" + created["id"].(string)
	eventually(t, arrival, func() string {
		status, _ := c.must(200, "GET", path, nil)["source_status"].(map[string]any)
		if status == nil || status["lag"] != 0.0 || status["error"] != nil {
			return fmt.Sprint(status)
		}
		return ""
	})
	events := c.must(200, "GET", "/v1/events?limit=100&endpoint_id="+created["id"].(string), nil)["data"].([]any)
	is.Equal(t, len(events), records, "events of %d records", records)
	eventually(t, arrival, func() string {
		alerts := c.must(200, "GET", "/v1/alerts/history?rule=source_failing", nil)["data"].([]any)
		if len(alerts) == 0 {
			return "no alert about the topic that does not exist"
		}
		a := alerts[0].(map[string]any)
		if a["endpoint_id"] != wrong["id"] || a["value"] != "topic gone not found" {
			t.Fatalf("alert %v", a)
		}
		return ""
	})
}

// seenRecords are the records that have arrived, by the kind of the destination.
type seenRecords struct {
	mu sync.Mutex
	by map[string]map[string]bool
}

func (s *seenRecords) add(kind string, line []byte) {
	var x struct{ Body struct{ N *int } }
	if json.Unmarshal(line, &x) != nil || x.Body.N == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.by[kind][fmt.Sprint(*x.Body.N)] = true
}

func (s *seenRecords) count(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.by[kind])
}

// sentReceipt is one of many concurrent receipts, with its answer.
type sentReceipt struct {
	state       string
	sent, heard time.Time
	answer      map[string]any
}

// parallelReceipts sends 64 receipts for one event through two nodes at the same time. In any interleaving the event
// ends as processed, the answers fit into one order, and each receipt can be read on the other node at once.
func parallelReceipts(t *testing.T, write, read client) {
	const receipts = 64
	dest := newSink(t, nil)
	ep, _, _ := write.endpoint(map[string]any{"destinations": []any{dest.URL}})
	event := write.send(ep, 1)
	read.awaitStatus(event, "delivered", arrival)
	listed := func(filter string) int { return len(read.list("&endpoint_id="+ep+"&processing="+filter, 10)) }
	if listed("missing") != 1 || listed("none,failed") != 1 || listed("processed") != 0 {
		t.Error("processing=missing does not find a delivered event without a receipt")
	}
	path := "/v1/events/" + event + "/processing"
	for i, state := range []string{"processing", "failed"} { // each must be visible on the other node
		on, other := []client{write, read}[i], []client{read, write}[i]
		a := on.must(http.StatusOK, "POST", path,
			map[string]any{"state": state, "reference": "job 1", "details": map[string]any{"try": i}})
		if a["state"] != state || a["applied"] != true || a["reference"] != "job 1" {
			t.Fatalf("%v", a)
		}
		e := other.event(event)
		if r, ok := e["receipt"].(map[string]any); e["processing"] != state || !ok || r["state"] != state ||
			r["created_at"] != a["created_at"] || r["updated_at"] != a["updated_at"] {
			t.Fatalf("after %v the event reads %v, %v", a, e["processing"], e["receipt"])
		}
	}

	all := make([]sentReceipt, receipts)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			s := &all[i]
			s.state = []string{"failed", "processed"}[i/2%2]
			on := []client{write, read}[i%2]
			eventually(t, arrival, func() string {
				s.sent = time.Now()
				status, answer, _ := on.call("POST", path, map[string]any{"state": s.state, "reference": fmt.Sprint(i)})
				s.heard, s.answer = time.Now(), answer
				switch status {
				case http.StatusOK:
					return ""
				// The number of parallel requests is limited, and an engine on a slow machine may be late; retry.
				case http.StatusTooManyRequests, http.StatusServiceUnavailable:
					return fmt.Sprintf("receipt %d: %d %v", i, status, answer)
				}
				t.Errorf("receipt %d: %d %v", i, status, answer)
				return ""
			})
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	fitsOneOrder(t, all)

	for _, c := range []client{write, read} {
		e := c.event(event)
		stands := e["receipt"].(map[string]any)
		late := c.must(http.StatusOK, "POST", path, map[string]any{"state": "failed"})
		if e["processing"] != "processed" || late["state"] != "processed" || late["applied"] != false ||
			late["reference"] != stands["reference"] {
			t.Errorf("the event reads %v, %v; a late failure was answered %v", e["processing"], stands, late)
		}
	}
	if listed("missing,none,failed,processing") != 0 || listed("processed") != 1 {
		t.Error("processing=processed does not find the event")
	}
}

// fitsOneOrder fails the test if no order of the receipts explains the answers.
func fitsOneOrder(t *testing.T, all []sentReceipt) {
	t.Helper()
	var processed time.Time // when an answer first showed processed
	for _, s := range all {
		if s.state == "processed" && (processed.IsZero() || s.heard.Before(processed)) {
			processed = s.heard
		}
	}
	kept := 0
	for i, s := range all {
		applied := s.answer["applied"] == true
		switch {
		case s.answer["created_at"] != all[0].answer["created_at"]:
			t.Errorf("receipt %d: the first one came at %v, another answer says %v", i, s.answer["created_at"],
				all[0].answer["created_at"])
		case applied && (s.answer["state"] != s.state || s.answer["reference"] != fmt.Sprint(i)):
			t.Errorf("receipt %d (%s) is reported as applied, but the answer is %v", i, s.state, s.answer)
		case !applied && (s.answer["state"] != "processed" || s.state == "processed"):
			t.Errorf("receipt %d (%s) was not applied, but the answer is %v", i, s.state, s.answer)
		case applied && s.state == "failed" && s.sent.After(processed):
			t.Errorf("receipt %d (failed) was applied, though it was sent %v after an answer showed processed", i,
				s.sent.Sub(processed))
		case !applied:
			kept++
		}
	}
	t.Logf("%d of %d receipts, half of them failed, came after the first processed", kept, len(all))
}

// payloadIsErased erases the payload of a parked event: nothing shows it any more, and it is not delivered.
func payloadIsErased(t *testing.T, c client) {
	const planted = "planted-payload"
	dest := newSink(t, nil)
	ep, _, _ := c.endpoint(map[string]any{"destinations": []any{map[string]any{"url": dest.URL, "paused": true}}})
	sent := c.must(http.StatusAccepted, "POST", "/v1/endpoints/"+ep+"/events",
		map[string]any{"type": "a.b", "data": map[string]any{"x": planted}})
	path := fmt.Sprint("/v1/events/", sent["id"])
	if body := fmt.Sprint(c.must(http.StatusOK, "GET", path, nil)["body"]); !strings.Contains(body, planted) {
		t.Fatalf("the body is %q", body)
	}
	at := c.must(http.StatusOK, "DELETE", path+"/payload", nil)["payload_erased_at"]
	read := c.must(http.StatusOK, "GET", path, nil)
	if strings.Contains(fmt.Sprint(read), planted) || read["payload_erased_at"] != at || at == nil {
		t.Fatalf("erased at %v, and read as %v", at, read)
	}
	c.must(http.StatusOK, "PATCH", "/v1/endpoints/"+ep,
		map[string]any{"destinations": []any{map[string]any{"url": dest.URL, "paused": false}}})
	eventually(t, time.Minute, func() string {
		if e := c.must(http.StatusOK, "GET", path, nil); e["status"] != "failed" || e["reason"] != "payload_expired" {
			return fmt.Sprintf("status %v, reason %v", e["status"], e["reason"])
		}
		return ""
	})
	if got := dest.received(); len(got) > 0 {
		t.Errorf("%d deliveries of an erased payload", len(got))
	}
	is.Has(t, fmt.Sprint(c.must(http.StatusOK, "GET", "/v1/audit", nil)), "erasure.created",
		"the audit log has no entry for the erasure")
}
