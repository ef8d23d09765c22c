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
