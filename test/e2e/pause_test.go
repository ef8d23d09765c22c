package e2e

import (
	"fmt"
	"github.com/eventrelay/relay/test/must"
	"net/http"
	"testing"
	"time"
)

// pausedByHand pauses a destination and its endpoint through the API. Events sent meanwhile are stored, and delivered
// when the pause ends. Purged ones are never delivered.
func pausedByHand(t *testing.T, write, read client) {
	dest := newSink(t, nil)
	ep, _, _ := write.endpoint(map[string]any{"destinations": []any{dest.URL}})
	path := "/v1/endpoints/" + ep
	first := func(answer map[string]any) map[string]any { return answer["destinations"].([]any)[0].(map[string]any) }
	target := path + "/destinations/" + first(write.must(http.StatusOK, "GET", path, nil))["id"].(string)
	held := func(id string) {
		t.Helper()
		eventually(t, arrival, func() string {
			e := read.event(id)
			d := e["deliveries"].([]any)[0].(map[string]any)
			if e["status"] != "pending" || d["status"] != "held" || d["reason"] != "manual" ||
				d["why"] != "held: paused by hand, delivered when unpaused" {
				return fmt.Sprintf("%v: %v", e["status"], d)
			}
			return ""
		})
	}
	const step = 30 * time.Second // parked deliveries are re-checked every 5 s, later on a busy machine

	write.must(http.StatusOK, "PATCH", target, map[string]any{"paused": true})
	if d := first(read.must(http.StatusOK, "GET", path, nil)); d["state"] != "paused" || d["state_reason"] != "manual" {
		t.Fatalf("%v", d)
	}
	purged := write.send(ep, 1)
	held(purged)
	write.must(http.StatusOK, "POST", target+"/purge", nil)
	kept := write.send(ep, 2)
	held(kept)
	if e := read.awaitStatus(purged, "skipped", step); e["reason"] != "purged" ||
		e["why"] != "skipped: it was still open when the destination was purged" {
		t.Errorf("%v", e)
	}
	write.must(http.StatusOK, "PATCH", path, map[string]any{"paused": true})
	write.must(http.StatusOK, "PATCH", target, map[string]any{"paused": false})
	later := write.send(ep, 3)
	held(later)
	must.Equal(t, len(dest.received()), 0, "requests during the pauses")
	write.must(http.StatusOK, "PATCH", path, map[string]any{"paused": false})
	read.awaitStatus(kept, "delivered", step)
	read.awaitStatus(later, "delivered", step)
	if got := dest.received(); len(got) != 2 {
		t.Errorf("%d requests, want 2", len(got))
	}
}
