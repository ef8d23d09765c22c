package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/eventrelay/relay/test/must"
)

// isSignedBy reports whether the official Standard Webhooks library accepts a delivery's signature with the secret.
func isSignedBy(t *testing.T, secret string, got received) bool {
	t.Helper()
	verifier := must.Get(standardwebhooks.NewWebhook(secret))(t)
	return verifier.Verify(got.body, got.header) == nil
}

// rotatedSecrets rotates the provider's secret and the signing secret with overlaps, so that no valid request is
// refused at any time.
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
	// signed sends events until one is signed by exactly the live secrets: another node may apply a change a moment
	// later.
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
				if !isSignedBy(t, s, got) {
					return "a live secret has not signed"
				}
			}
			for _, s := range dead {
				if isSignedBy(t, s, got) {
					return "an expired secret has signed"
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
	signed([]string{third}, []string{first, second}) // a secret given by the caller, without an overlap
	fourth := secretOf(write.must(http.StatusOK, "POST", target+"/rotate_secret", map[string]any{"overlap_seconds": 1}))
	signed([]string{fourth}, []string{third}) // after the overlap

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
	eventually(t, arrival, func() string { // before the sink stops
		for _, row := range read.list("&endpoint_id="+ep, 100) {
			if row["status"] != "delivered" && row["status"] != "rejected" {
				return fmt.Sprintf("%s is %s", row["id"], row["status"])
			}
		}
		return ""
	})
}

// repeatedEvents sends events again, on another node if there is one, and expects one delivery of each. Redis has 50 ms
// to answer. On a busy machine that may fail; then the repeat is accepted as a new event, which is allowed, and the
// next round tries another event.
func repeatedEvents(t *testing.T, write, read client) {
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
		must.Equal(t, len(after), before+2, "events are listed")
		first := after[1]["id"].(string)
		if after[0]["status"] != "skipped" || after[0]["reason"] != "duplicate" ||
			after[0]["why"] != "skipped: duplicate of "+first {
			return fmt.Sprintf("%v after %s", after[0], first)
		}
		if e := read.event(after[0]["id"].(string)); e["duplicate_of"] != first ||
			len(e["deliveries"].([]any)) != 0 {
			t.Fatalf("%v", e)
		}
		read.awaitStatus(first, "delivered", arrival)
		return ""
	}
	retryRound(t, round)
	retryRound(t, func(n int) string {
		send := func(c client, data string) (*http.Response, string) {
			t.Helper()
			req := must.Get(http.NewRequest(http.MethodPost, c.url+"/v1/endpoints/"+ep+"/events", strings.NewReader(data)))(t)
			req.Header.Set("Authorization", "Bearer "+c.key)
			req.Header.Set("Idempotency-Key", fmt.Sprint("key-", n))
			resp := must.Get(http.DefaultClient.Do(req))(t)
			defer resp.Body.Close()
			text := must.Get(io.ReadAll(resp.Body))(t)
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

// retryRound repeats a round that may fail by chance.
func retryRound(t *testing.T, round func(n int) (fault string)) {
	t.Helper()
	fault := ""
	for n := range 20 {
		if fault = round(n); fault == "" {
			return
		}
	}
	t.Fatal(fault)
}

// idOf returns the first id in an answer.
func idOf(text string) string {
	_, rest, _ := strings.Cut(text, `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}
