package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// verifies reports whether a delivery is signed by a secret, by the official library.
func verifies(t *testing.T, secret string, got received) bool {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return verifier.Verify(got.body, got.header) == nil
}

// rotatedSecrets changes the secrets on both sides of the relay without a moment in which one of the parties
// must be refused.
func rotatedSecrets(t *testing.T, write, read client) {
	dest := newSink(t, nil)
	ep, in, first := write.endpoint(map[string]any{
		"provider": "github", "verification": map[string]any{"type": "github", "secret": githubSecret},
		"destinations": []any{dest.URL},
	})
	path := "/v1/endpoints/" + ep
	destinations := write.must(http.StatusOK, "GET", path, nil)["destinations"].([]any)
	target := path + "/destinations/" + destinations[0].(map[string]any)["id"].(string)
	secretOf := func(answer map[string]any) string { return answer["signing"].(map[string]any)["secret"].(string) }
	// signed sends events until one is signed by exactly the secrets that are meant to live: another node may
	// hear of a change a moment later.
	signed := func(live, dead []string) {
		t.Helper()
		eventually(t, arrival, func() string {
			before := len(dest.received())
			write.send(ep, before)
			got := dest.wait(t, before+1, arrival)[before]
			if n := len(strings.Fields(got.header.Get("Webhook-Signature"))); n != len(live) {
				return fmt.Sprintf("%d signatures, want %d", n, len(live))
			}
			for _, s := range live {
				if !verifies(t, s, got) {
					return "a living secret has not signed"
				}
			}
			for _, s := range dead {
				if verifies(t, s, got) {
					return "a dead secret has signed"
				}
			}
			return ""
		})
	}
	signed([]string{first}, nil)
	second := secretOf(write.must(http.StatusOK, "POST", target+"/rotate_secret", map[string]any{"overlap_seconds": 3600}))
	signed([]string{second, first}, nil)
	third := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	write.must(http.StatusOK, "PATCH", target, map[string]any{"signing": map[string]any{"secret": third}})
	signed([]string{third}, []string{first, second}) // brought along from elsewhere: at once
	fourth := secretOf(write.must(http.StatusOK, "POST", target+"/rotate_secret", map[string]any{"overlap_seconds": 1}))
	signed([]string{fourth}, []string{third}) // when the overlap is over

	const next = "the provider's next secret"
	accepts := func(secret string, want int) {
		t.Helper()
		body := []byte(`{"action":"rotated"}`)
		eventually(t, arrival, func() string {
			if resp := write.post(in, githubHeaderBy(secret, body), body); resp.StatusCode != want {
				return fmt.Sprintf("answered %s, want %d", resp.Status, want)
			}
			return ""
		})
	}
	accepts(githubSecret, http.StatusOK)
	accepts(next, http.StatusUnauthorized)
	shown := write.must(http.StatusOK, "GET", path, nil)["verification"].(map[string]any)["secret_last4"].(string)
	write.must(http.StatusOK, "PATCH", path,
		map[string]any{"verification": map[string]any{"secrets": []string{"****" + shown, next}}})
	accepts(next, http.StatusOK)
	accepts(githubSecret, http.StatusOK)
	write.must(http.StatusOK, "PATCH", path,
		map[string]any{"verification": map[string]any{"secrets": []string{"****" + next[len(next)-4:]}}})
	accepts(githubSecret, http.StatusUnauthorized)
	accepts(next, http.StatusOK)
	eventually(t, arrival, func() string { // before the sink ends
		for _, row := range read.list("&endpoint_id="+ep, 100) {
			if row["status"] != "delivered" && row["status"] != "rejected" {
				return fmt.Sprintf("%s is %s", row["id"], row["status"])
			}
		}
		return ""
	})
}

// repeats sends what was sent before, on another node where there is one: it is delivered once. Redis has 50 ms
// for an answer, which a loaded machine may not give it; then an event is not recognised, which is allowed, and
// the next round has another.
func repeats(t *testing.T, write, read client) {
	dest := newSink(t, nil)
	ep, in, _ := write.endpoint(
		map[string]any{"dedup": map[string]any{"key": "body:$.id", "window_seconds": 600}, "destinations": []any{dest.URL}})
	readIn := read.url + in[strings.Index(in, "/in/"):]
	rows := func(wait func(rows []map[string]any) bool) []map[string]any {
		t.Helper()
		for deadline := time.Now().Add(busy * arrival); ; time.Sleep(20 * time.Millisecond) {
			if rows := read.list("&endpoint_id="+ep, 100); wait(rows) || time.Now().After(deadline) {
				return rows
			}
		}
	}
	round := func(n int) string {
		body := []byte(fmt.Sprintf(`{"id":"evt-%d"}`, n))
		before := len(rows(func([]map[string]any) bool { return true }))
		for _, url := range []string{in, readIn} {
			eventually(t, arrival, func() string {
				if resp := write.post(url, nil, body); resp.StatusCode != http.StatusOK {
					return resp.Status
				}
				return ""
			})
		}
		after := rows(func(rows []map[string]any) bool { return len(rows) == before+2 })
		if len(after) != before+2 {
			t.Fatalf("%d events are there, want %d", len(after), before+2)
		}
		first := after[1]["id"].(string)
		if after[0]["status"] != "skipped" || after[0]["reason"] != "duplicate" ||
			after[0]["why"] != "skipped: duplicate of "+first {
			return fmt.Sprintf("%v after %s", after[0], first)
		}
		if e := read.must(http.StatusOK, "GET", "/v1/events/"+after[0]["id"].(string), nil); e["duplicate_of"] != first ||
			len(e["deliveries"].([]any)) != 0 {
			t.Fatalf("%v", e)
		}
		read.waitStatus(first, "delivered", arrival)
		return ""
	}
	tries(t, round)
	tries(t, func(n int) string {
		send := func(c client, data string) (*http.Response, string) {
			t.Helper()
			req, err := http.NewRequest(http.MethodPost, c.url+"/v1/endpoints/"+ep+"/events", strings.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+c.key)
			req.Header.Set("Idempotency-Key", fmt.Sprint("key-", n))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp, string(text)
		}
		first, firstText := send(write, `{"type":"a","data":{}}`)
		again, againText := send(read, `{"type":"a","data":{}}`)
		other, _ := send(read, `{"type":"b","data":{}}`)
		if first.StatusCode != http.StatusAccepted || again.StatusCode != http.StatusAccepted {
			t.Fatalf("%s %s, then %s %s", first.Status, firstText, again.Status, againText)
		}
		if again.Header.Get("Idempotent-Replayed") != "true" || idOf(firstText) != idOf(againText) ||
			other.StatusCode != http.StatusBadRequest {
			return fmt.Sprintf("%s, then %v %s, then %s", firstText, again.Header, againText, other.Status)
		}
		return ""
	})
	ids := map[string]int{}
	for _, got := range dest.received() {
		ids[got.event()]++
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
}

// A provider sends again what was not answered, while the node that takes it is killed in the middle of things and
// Redis remembers: every event is there and delivered, and the only ones that may come twice are those that a death
// left unanswered.
func TestProvidersRetryThroughKills(t *testing.T) {
	t.Parallel()
	long(t)
	node := newCluster(t, engines{
		startEngine(t, "kafka").url, startEngine(t, "redis").url, startEngine(t, "clickhouse").url}, "retries").start("a")[0]
	dest := newSink(t, nil)
	ep, in, _ := node.endpoint(
		map[string]any{"dedup": map[string]any{"key": "header:X-Id"}, "destinations": []any{dest.URL}})
	const providers = 16
	kills := rounds(1, 1, 20)
	var next atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range providers {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					provide(t, in, strconv.FormatInt(next.Add(1), 10))
				}
			}
		})
	}
	for range kills {
		time.Sleep(time.Duration(500+rand.IntN(500)) * time.Millisecond)
		node.kill()
		node.start()
	}
	close(stop)
	wg.Wait()
	sent := int(next.Load())
	eventually(t, time.Minute, func() string {
		if n := len(eventsByID(dest)); n < sent {
			return fmt.Sprintf("%d of %d events were delivered", n, sent)
		}
		return ""
	})
	twice := 0
	for _, events := range eventsByID(dest) {
		twice += len(events) - 1
	}
	duplicates := len(node.list("&status=skipped&endpoint_id="+ep, 100))
	t.Logf("%d kills: %d events, 0 lost, %d repeats found out, %d delivered as another event", kills, sent,
		duplicates, twice)
	if twice > kills*providers {
		t.Errorf("%d were delivered as another event, at most %d were left unanswered", twice, kills*providers)
	}
}

// provide sends an event until it is answered 200. A claim that its node has died with lasts for 30 s.
func provide(t *testing.T, url, id string) {
	client := http.Client{Timeout: 15 * time.Second}
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		req, err := http.NewRequest(http.MethodPost, url, strings.NewReader("{}"))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("X-Id", id)
		resp, err := client.Do(req)
		if err != nil {
			continue // nobody is listening at the moment
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
	}
	t.Errorf("event %s was never taken", id)
}

// eventsByID are the events that the sink got, by what the provider calls them.
func eventsByID(s *sink) map[string]map[string]bool {
	got := map[string]map[string]bool{}
	for _, r := range s.received() {
		id := r.header.Get("X-Id")
		if got[id] == nil {
			got[id] = map[string]bool{}
		}
		got[id][r.event()] = true
	}
	return got
}

// tries repeats a round that chance may spoil.
func tries(t *testing.T, round func(n int) (fault string)) {
	t.Helper()
	fault := ""
	for n := range 20 {
		if fault = round(n); fault == "" {
			return
		}
	}
	t.Fatal(fault)
}

// idOf is the first id in an answer.
func idOf(text string) string {
	_, rest, _ := strings.Cut(text, `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}
