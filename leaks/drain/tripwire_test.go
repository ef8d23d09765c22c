package drain

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/test/leaktest"
)

// The key of a tripwire in a log, or its ingest URL, is a hit of the tripwire: seen, and high. The URL of an endpoint
// is none. Made-up keys that take all records of a request do not displace it.
func TestTripwireIsSeenInLogs(t *testing.T) {
	const url = "https://relay.example.com/in/"
	var flood strings.Builder
	for n := range maxRecords + 10 {
		flood.WriteString("key " + leakedKey(n+10) + "\n")
	}
	for _, c := range []struct{ canary, line string }{
		{leakedKey(1), `{"app":"shop","msg":"` + leakedKey(1) + `"}`},
		{leaktest.CanaryToken, `{"app":"shop","msg":"POST ` + url + leaktest.CanaryToken + `"}`},
		{leaktest.CanaryToken, "GET /in/" + leaktest.CanaryToken + "/info/refs 404 a.example"},
	} {
		w := newWorld(t)
		keys := leaktest.Keys
		w.Canary = leaktest.Fingerprint(c.canary)
		w.post(202, c.line+"\nGET "+url+"7b1xz0f3s8m5qk2v9rw4tn6hjc\n")
		h := w.Only()
		if h.Kind != finding.Tripwire || h.Severity != finding.High || h.Billed || h.Channel != "seen" ||
			h.Location.TripwireID != "trw_1" || h.Location.DrainID != drainID || h.Source != finding.Drain ||
			h.Finding != keys.TripwireID("trw_1", false) || strings.Contains(h.Masked, c.canary) {
			t.Errorf("%s: %+v", c.line, h)
		}
		w.post(202, c.line+"\n"+flood.String())
		w.post(202, flood.String()+c.line+"\n")
		seen := 0
		for _, x := range w.Hits() {
			if x.Kind == finding.Tripwire {
				seen++
			}
		}
		if seen != 3 {
			t.Errorf("%s: %d hits of the tripwire, want 3: before made-up keys and behind them", c.line, seen)
		}
	}
}
