package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

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
	if audit := fmt.Sprint(c.must(http.StatusOK, "GET", "/v1/audit", nil)); !strings.Contains(audit, "erasure.created") {
		t.Errorf("the audit log has no entry for the erasure: %s", audit)
	}
}
