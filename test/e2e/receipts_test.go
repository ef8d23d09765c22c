package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

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
