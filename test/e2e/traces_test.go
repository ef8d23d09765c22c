package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/spans/spanstest"
)

// An event can be followed from its acceptance to its destination, over a retry and a replay: in the collector, the
// API, the log and the headers of its deliveries.
func TestTraces(t *testing.T) {
	collector := spanstest.New(t, nil)
	p := startDevProcess(t, t.TempDir(), "RELAY_TRACES_URL="+collector.URL, "RELAY_TRACES_SAMPLE=1",
		"RELAY_LOG_LEVEL=debug")
	dest := newSink(t, func(r received) int {
		if r.earlier == 0 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	_, ingestURL, _ := p.endpoint(map[string]any{"destinations": []any{dest.URL},
		"retry_policy": map[string]any{"strategy": "schedule", "schedule_seconds": []any{1},
			"max_attempts": 20, "jitter": 0}})
	const callers = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
	answer := p.post(ingestURL, map[string]string{"Traceparent": "00-" + callers + "-01"}, []byte(`{"a":1}`))
	id := answer.Header.Get("Relay-Event-Id")
	ev := p.awaitStatus(id, "delivered", arrival)
	trace, _ := ev["trace_id"].(string)
	if len(trace) != 32 || strings.HasPrefix(callers, trace) {
		t.Fatalf("the event has the trace %q", trace)
	}
	for _, a := range ev["attempts"].([]any) {
		if a.(map[string]any)["trace_id"] != trace {
			t.Errorf("an attempt: %v", a)
		}
	}
	p.must(http.StatusOK, "POST", "/v1/events/"+id+"/replay", nil)
	got := dest.wait(t, 3, arrival)
	traceOf := func(i int) string { return strings.Split(got[i].header.Get("Traceparent")+"---", "-")[1] }
	if traceOf(0) != trace || traceOf(1) != trace || len(traceOf(2)) != 32 || traceOf(2) == trace {
		t.Errorf("the destination got the traces %s, %s, %s", traceOf(0), traceOf(1), traceOf(2))
	}
	if !strings.Contains(p.logs.String(), "trace_id="+trace) {
		t.Error("the log does not have the trace")
	}
	all := collector.Wait(t, map[string]int{"accept": 1, "produce": 1, "wait": 2, "attempt": 3})
	accepted := spanstest.Named(all, "accept")[0]
	if accepted.Trace != trace || !slices.Equal(accepted.Links, []string{callers}) ||
		accepted.Attributes["messaging.message.id"] != id {
		t.Errorf("%+v", accepted)
	}
	for _, a := range spanstest.Named(all, "attempt") {
		if a.Trace == traceOf(2) && !slices.Equal(a.Links, []string{trace + "-" + accepted.ID}) {
			t.Errorf("%+v", a)
		}
	}
	token := ingestURL[strings.LastIndex(ingestURL, "/")+1:]
	if collector.Contains(token) || collector.Contains(dest.URL) {
		t.Error("the export has the token of the ingest URL, or the URL of the destination")
	}
}
