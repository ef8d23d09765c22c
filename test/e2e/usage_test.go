package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// usageCounts sends events of every kind and compares the usage of their endpoints before and after. Other tests send
// at the same time, so of the account's totals it only checks that they add up.
func usageCounts(t *testing.T, write, read client) {
	dest := newSink(t, onceUnavailable)
	ep, in, _ := write.endpoint(map[string]any{
		"provider": "github", "verification": map[string]any{"type": "github", "secret": githubSecret},
		"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "schedule", "schedule_seconds": []any{1}, "max_attempts": 3, "jitter": 0},
	})
	body := []byte(`{"n":1}`)
	for i, header := range []map[string]string{githubHeader(body), {"X-Hub-Signature-256": "sha256=00"}} {
		if status := write.post(in, header, body).StatusCode; (status == http.StatusOK) != (i == 0) {
			t.Fatalf("request %d was answered %d", i, status)
		}
	}
	for i := range 40 { // more than any other endpoint of these tests, so that usage names this endpoint
		write.send(ep, i)
	}
	first := dest.wait(t, 1, arrival)[0].event()
	read.awaitStatus(first, "delivered", arrival) // by the second attempt
	write.must(http.StatusOK, "POST", "/v1/events/"+first+"/replay", nil)

	for _, c := range []client{write, read} {
		asked := time.Now().Truncate(time.Millisecond)
		var u map[string]any
		eventually(t, arrival, func() string { // retried while the store is behind
			u = c.must(http.StatusOK, "GET", "/v1/usage", nil)
			if asOf, err := time.Parse(time.RFC3339, u["as_of"].(string)); err != nil || asOf.Before(asked) {
				return fmt.Sprintf("usage is as of %v, asked at %v, %v", u["as_of"], asked, err)
			}
			return ""
		})
		var mine map[string]any
		for _, row := range u["by_endpoint"].([]any) {
			if row := row.(map[string]any); row["endpoint_id"] == ep {
				mine = row
			}
		}
		if mine == nil || mine["received"] != 1.0 || mine["sent"] != 40.0 || mine["total"] != 41.0 {
			t.Errorf("the usage of the endpoint is %v", mine)
		}
		days := 0.0
		for _, day := range u["daily"].([]any) {
			days += day.(map[string]any)["total"].(float64)
		}
		total := u["events"].(map[string]any)["total"].(float64)
		if days != total || total < 41 || u["attempts"].(float64) <= u["deliveries"].(float64) ||
			u["deliveries"].(float64) < 1 {
			t.Errorf("the days add up to %v: %v", days, u)
		}
	}
}

// allowanceIsUsedUp checks the usage beyond an allowance of 5 after the tests of the main path, which accepted all
// events.
func allowanceIsUsedUp(t *testing.T, c client) {
	u := c.must(http.StatusOK, "GET", "/v1/usage", nil)
	total := u["events"].(map[string]any)["total"].(float64)
	over, projection := u["overage"].(map[string]any), u["projection"].(map[string]any)
	if u["allowance"] != 5.0 || u["remaining"] != 0.0 || total <= 5 || over["events"] != total-5 {
		t.Errorf("wrong usage with an allowance of 5: %v", u)
	}
	if projection["confidence"] != "low" || projection["events"].(float64) < total ||
		projection["overage_events"] != projection["events"].(float64)-5 {
		t.Errorf("the projection of an account that is minutes old is %v", projection)
	}
}
