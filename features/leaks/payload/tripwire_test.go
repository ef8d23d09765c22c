package payload

import (
	"strings"
	"testing"

	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/leaktest"
)

// The key of a tripwire in an event, or its ingest URL, is a hit of the tripwire: seen, and high, wherever it stands
// and whoever has sent it. The URL of an endpoint is none.
func TestTripwireIsSeenInEvents(t *testing.T) {
	const url = "https://relay.example.com/in/"
	for _, c := range []struct{ canary, body, query, channel string }{
		{leakedKey(1), `{"log":["` + leakedKey(1) + `"]}`, "", "/log/0"},
		{leaktest.CanaryToken, `{"log":["` + strings.ReplaceAll(url, "/", `\/`) + leaktest.CanaryToken + `"]}`, "", "/log/0"},
		{leaktest.CanaryToken, "", "next=" + url + leaktest.CanaryToken, "/query/next"},
	} {
		w := newWorld(t)
		keys := leaktest.Keys
		w.Canary = leaktest.Fingerprint(c.canary)
		e := queried(c.query)
		e.Body = []byte(c.body)
		h := w.only(e)
		if h.Kind != finding.Tripwire || h.Severity != finding.High || h.Billed || h.Channel != "seen" || h.Unverified ||
			h.Location.TripwireID != "trw_1" || h.Location.Pointer != c.channel || h.Source != finding.Event ||
			h.Finding != keys.TripwireID("trw_1", false) || strings.Contains(h.Masked, c.canary) {
			t.Errorf("%s%s: %+v", c.body, c.query, h)
		}
		w.scan(received(`{"url":"` + url + `7b1xz0f3s8m5qk2v9rw4tn6hjc"}`))
		is.Equal(t, len(w.Hits()), 1, "hits with the URL of an endpoint")
	}
}

// Made-up keys in the same event do not hide the key of a tripwire.
func TestTripwireIsSeenBesideManySecrets(t *testing.T) {
	w := newWorld(t)
	canary := leakedKey(maxRecords + 1)
	w.Canary = leaktest.Fingerprint(canary)
	var body strings.Builder
	for i := range maxRecords + 3 {
		body.WriteString(leakedKey(i) + "\n")
	}
	w.scan(received(body.String()))
	seen, beyond := 0, uint32(0)
	for _, h := range w.Hits() {
		if h.Kind == finding.Tripwire {
			seen++
		}
		if h.Rule == finding.RuleFlood {
			beyond += h.N
		}
	}
	if n := len(w.Hits()); n != maxRecords+2 || seen != 1 || beyond != 2 {
		t.Errorf("%d hits, %d of the tripwire, %d beyond, want %d, 1 and 2", n, seen, beyond, maxRecords+2)
	}
}
