package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/config/leak"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/leaktest"
)

// Reports of browsers are unverified, high at most, and cost nothing, whatever headers say. A server's response that
// shows a secret is critical.
func TestPlatformDecides(t *testing.T) {
	response := reportOf(1).with("type", "response", "where", object{"method": "GET", "path": "/api/me", "status": 200})
	for platform, want := range map[string]finding.Hit{
		leak.DSNServer:  {Severity: finding.Critical, Billed: true},
		leak.DSNBrowser: {Severity: finding.High, Unverified: true},
	} {
		w := newWorld(t, platform)
		w.report(response)
		h := w.Only()
		if h.Severity != want.Severity || h.Billed != want.Billed || h.Unverified != want.Unverified ||
			h.Location.URL != "/api/me" || h.Method != "GET" || h.Channel != "response" {
			t.Errorf("%s: %+v", platform, h)
		}
	}
}

// Test keys are tests, unknown rules and those of the application medium.
func TestSeverityOfRules(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	one := reportOf(1)
	w.report(one.with("rule", "relay-test-key", "masked", "rly_test***1234"),
		reportOf(2).with("rule", "newer", "masked", "***"),
		one.with("rule", "custom:own", "masked", "own_***", "fp1", nil))
	all := w.Hits()
	if len(all) != 3 || all[0].Severity != finding.Low || !all[0].Test || all[0].Billed ||
		all[1].Severity != finding.Medium || all[1].Rule != "other" || all[1].Fingerprint == "" ||
		all[2].Severity != finding.Medium || all[2].Rule != "custom:own" || all[2].Fingerprint != "" {
		t.Errorf("%+v", all)
	}
}

// People are notified of findings: the mask of a web address names no host that a stranger chose.
func TestMasksOfWebAddressesNameNoHost(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	const mask = "https://help:***@sign-in.example.org/app"
	w.report(reportOf(1).with("rule", "web-uri", "masked", mask), reportOf(2).with("rule", "newer", "masked", mask),
		reportOf(3).with("rule", "database-uri", "masked", "postgres://app:***@db/orders"))
	want := []string{"https://help:***@***", "https://help:***@***", "postgres://app:***@db/orders"}
	for i, h := range w.Hits() {
		is.Equal(t, h.Masked, want[i])
	}
}

// Without a fingerprint, secrets of a rule at one location are one finding: of a log line its file and function, of a
// response its path without numbers.
func TestLocationsWithoutFingerprint(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	of := func(members ...any) object {
		r := reportOf(1).with("rule", "generic-secret", "masked", "***", "fp1", nil, "where", object{}.with(members...))
		if _, has := r["where"].(object)["path"]; has {
			r["type"] = "response"
		}
		return r
	}
	w.report(of("file", "a.js", "function", "f", "line", 1), of("file", "a.js", "function", "f", "line", 2),
		of("file", "a.js", "function", "g"), of("path", "/users/1"), of("path", "/users/2"), of("path", "/me"))
	var got []int
	index := map[string]int{}
	for _, h := range w.Hits() {
		if _, seen := index[h.Finding]; !seen {
			index[h.Finding] = len(index)
		}
		got = append(got, index[h.Finding])
	}
	want := []int{0, 0, 1, 2, 2, 3}
	for i := range want {
		if len(got) != len(want) || got[i] != want[i] {
			t.Fatalf("findings %v, want %v", got, want)
		}
	}
}

// One of our own API keys is recognised by its fingerprint, and is outside the bounds.
func TestOwnKeyInAReport(t *testing.T) {
	w := newWorld(t, leak.DSNBrowser)
	text, _ := leakedKey(1)
	w.AddKey(text, &config.Key{ID: "key_1"})
	for i := 2; i < 60; i++ {
		w.report(reportOf(i))
	}
	w.report(reportOf(1))
	all := w.Hits()
	if h := all[len(all)-1]; h.KeyID != "key_1" || h.Severity != finding.Critical || h.Billed {
		t.Errorf("%+v", h)
	}
}

// 10,000 made-up reports of a browser open 20 findings and the flood of the DSN, and cost nothing. The flood gets one
// row a minute. Findings that are known are outside the bound.
func TestForgedReportsAreBounded(t *testing.T) {
	w := newWorld(t, leak.DSNBrowser)
	w.report(reportOf(0))
	w.Known[w.Only().Finding] = true
	for from := 1; from <= 10_000; from += maxReports {
		if from%2500 == 1 {
			w.now = w.now.Add(time.Minute)
		}
		var all []object
		for i := range maxReports {
			r := reportOf(from + i)
			if i%2 == 0 {
				r = r.with("rule", "newer", "masked", "***") // below high
			}
			all = append(all, r)
		}
		if got := w.report(all...); got.Accepted != maxReports {
			t.Fatalf("%+v", got)
		}
	}
	w.report(reportOf(0))
	findings, floods := map[string]bool{}, map[string]int{}
	for _, h := range w.Hits() {
		findings[h.Finding] = true
		if h.Billed || !h.Unverified || h.Severity > finding.High {
			t.Fatalf("%+v", h)
		}
		if h.Rule == finding.RuleFlood {
			floods[h.Finding]++
		}
	}
	if len(findings) != 21 || len(floods) != 1 {
		t.Errorf("%d findings, floods %v", len(findings), floods)
	}
	for _, rows := range floods {
		is.Equal(t, rows, 4, "rows of the flood")
	}
	w.now = w.now.Add(24 * time.Hour)
	w.report(reportOf(20_000))
	if all := w.Hits(); all[len(all)-1].Rule == finding.RuleFlood {
		t.Error("the next day has no room")
	}
}

// Every DSN has a flood of its own.
func TestFloodIsOfTheDSN(t *testing.T) {
	floods := map[string]bool{}
	for _, id := range []string{"dsn_1", "dsn_2"} {
		w := newWorld(t, leak.DSNServer)
		w.to.ID = id
		keys := leaktest.Keys
		h := hits{in: w.in, to: &w.to, batch: &batch{}, keys: keys, at: w.now}
		x := h.flood(7)
		floods[x.Finding] = true
		if x.N != 7 || x.Severity != finding.High || x.Location.DSNID != id || x.Location.Label != "shop" || !x.Billed {
			t.Errorf("%+v", x)
		}
	}
	is.Equal(t, len(floods), 2, "two DSNs share a flood")
}

// The sender's clock may be wrong: a secret was seen as long before the arrival as before the batch was sent.
func TestObservedAt(t *testing.T) {
	f := func(sent, last string, want time.Duration) {
		t.Helper()
		w := newWorld(t, leak.DSNServer)
		w.send(202, w.batchOf(reportOf(1).with("last_at", last)).with("sent_at", sent).String())
		is.Equal(t, w.now.Sub(w.Only().ObservedAt), want, "sent %s, seen %s … before the arrival", sent, last)
	}
	f("2026-08-21T22:24:36.000Z", "2026-08-21T22:24:26.000Z", 10*time.Second)
	f("1999-01-01T00:00:10.000Z", "1999-01-01T00:00:00.000Z", 10*time.Second)
	f("2099-01-01T00:00:10.000Z", "2099-01-01T00:00:00.000Z", 10*time.Second)
	f("2026-08-21T22:24:36.000Z", "2026-08-21T23:24:26.000Z", 0)
	f("2026-08-21T22:24:36Z", "2026-08-21t22:24:26.5z", 9500*time.Millisecond)
	f("2026-08-21T22:24:36.125000000Z", "2026-08-22T00:24:26.000000+02:00", 10125*time.Millisecond)
}

// A time is one of RFC 3339, with at most nine decimals.
func TestTimesAreChecked(t *testing.T) {
	for text, want := range map[string]bool{
		"2026-08-21T22:24:36Z": true, "2026-08-21T22:24:36.1Z": true, "2026-08-21T22:24:36.123456789Z": true,
		"2026-08-21T22:24:36-11:30": true, "2026-08-21t22:24:36.12z": true, "2024-02-29T00:00:00Z": true,

		"2026-08-21T22:24:36.1234567890Z": false, "2026-08-21T22:24:36.Z": false, "2026-08-21T22:24:36,123Z": false,
		"2026-08-21T22:24:36": false, "2026-08-21 22:24:36Z": false, "2026-08-21": false, "": false, "1787178276": false,
		"2026-08-21T22:24:36+24:00": false, "2026-08-21T22:24:36+23:60": false, "0001-01-01T00:00:00+23:59": false,
		"2026-08-21T2:24:36Z": false, "2026-08-21T24:24:36Z": false, "2026-02-29T00:00:00Z": false,
		"12026-08-21T22:24:36Z":    false,
		"2026-08-21T22:24:36+2:00": false, "2026-08-21T22:24:36+25:00": false, "2026-08-21T22:24:36Z ": false,
	} {
		if _, ok := parseTime(text); ok != want {
			t.Errorf("%q: accepted %v, want %v", text, ok, want)
		}
		w := newWorld(t, leak.DSNServer)
		code := map[bool]int{true: 202, false: 400}[want]
		w.send(code, w.batchOf().with("sent_at", text).String())
		rec := w.send(202, w.batchOf(reportOf(1).with("first_at", text)).String())
		is.Equal(t, strings.Contains(rec.Body.String(), `"accepted":1`), want, "first_at %q: %s", text, rec.Body)
	}
}

// The agent, like every text of a request, is stored without what is invisible and without secrets.
func TestAgentIsCleaned(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	secret, _ := leakedKey(3)
	w.to.Name = "shop \u202e" + secret
	h := hits{in: w.in, to: &w.to, batch: &batch{}, agent: "a\u202eb\n" + secret}
	x := h.newHit("r", 0)
	if strings.ContainsAny(x.Agent, "\u202e\n") || strings.Contains(x.Agent, secret[8:]) {
		t.Errorf("%q", x.Agent)
	}
	if l := h.location(&report{}); strings.Contains(l.Label, "\u202e") || strings.Contains(l.Label, secret[8:]) {
		t.Errorf("%q", l.Label)
	}
}

// A report with the key of a tripwire is a hit of the tripwire: high, and not billed.
func TestTripwireIsSeen(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	text, _ := leakedKey(1)
	keys := leaktest.Keys
	w.Canary = leaktest.Fingerprint(text)
	w.report(reportOf(1))
	all := w.Hits()
	if h := all[len(all)-1]; h.Kind != finding.Tripwire || h.Severity != finding.High || h.Billed || h.Channel != "seen" ||
		h.Location.TripwireID != "trw_1" || h.Finding != keys.TripwireID("trw_1", false) || h.Source != finding.SDK {
		t.Errorf("%+v", h)
	}
}

// total returns the rows of a log and how often its secrets were seen, without and in the flood.
func (w *world) total() (rows int, seen, flooded uint64) {
	for _, h := range w.Hits() {
		if rows++; h.Rule == finding.RuleFlood {
			flooded += uint64(h.N)
		} else {
			seen += uint64(h.N)
		}
	}
	return rows, seen, flooded
}

// Whatever a DSN sends of known secrets, its rows of a minute and of a day are bounded. What is beyond is counted: of
// some findings in their own rows, of the others in the flood, one row a minute each, also what came after that row.
func TestRowsOfADSNAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const minutes, batches, findings = 5, 10, maxSums + 3
		for platform := range maxRows {
			w := newWorld(t, platform)
			w.in.deps.Now, w.KnowsAll = time.Now, true
			w.in.rows = map[string]rowBounds{platform: {minute: 2*findings + 1, day: 8*findings + 1}}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.in.Run(ctx) }()
			var all []object
			for i := range findings {
				all = append(all, reportOf(i))
			}
			for minute := range minutes {
				for range batches {
					w.report(all...)
				}
				if rows, _, _ := w.total(); minute == 0 && rows != 2*findings+1+maxSums+1 {
					t.Errorf("%s: %d rows of a minute", platform, rows)
				}
				time.Sleep(time.Minute)
			}
			stop()
			<-ended
			rows, seen, flooded := w.total()
			if rows > 8*findings+1+(minutes+1)*(maxSums+1) || flooded == 0 || seen <= flooded ||
				seen+flooded != minutes*batches*findings*3 {
				t.Errorf("%s: %d rows of a day, seen %d times and %d in the flood", platform, rows, seen, flooded)
			}
			w.in.deps.Now = func() time.Time { return time.Now().Add(24 * time.Hour) }
			if w.report(all...); len(w.Hits()) != rows+findings {
				t.Errorf("%s: the next day has no room", platform)
			}
		}
	})
}

// New findings and our own API keys have rows when the DSN has no room left: one a minute.
func TestKnownSecretsHideNoNewOnes(t *testing.T) {
	w := newWorld(t, leak.DSNServer)
	w.in.rows = map[string]rowBounds{leak.DSNServer: {minute: 2, day: 2}}
	text, _ := leakedKey(9)
	w.KnowsAll = true
	w.report(reportOf(1), reportOf(2), reportOf(3), reportOf(3))
	w.AddKey(text, &config.Key{ID: "key_1"})
	w.report(reportOf(9), reportOf(9))
	w.KnowsAll = false
	w.report(reportOf(4), reportOf(4))
	var got []string
	for _, h := range w.Hits() {
		got = append(got, fmt.Sprint(h.Masked, " ", h.KeyID, " ", h.N))
	}
	want := []string{"sk_live_***0001  3", "sk_live_***0002  3", "sk_live_***0003  3", "sk_live_***0009 key_1 3",
		"sk_live_***0009 key_1 3", "sk_live_***0004  3", "sk_live_***0004  3"}
	is.List(t, got, want)
}

// What the log has not confirmed is neither lost nor counted twice.
func TestSumsOutlastTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, leak.DSNServer)
		w.in.deps.Now, w.KnowsAll = time.Now, true
		w.in.rows = map[string]rowBounds{leak.DSNServer: {}}
		w.Answer = func(*stream.Record) error { return errors.New("away") }
		w.report(reportOf(1), reportOf(2))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.in.Run(ctx) }()
		time.Sleep(90 * time.Second)
		w.Mu.Lock()
		w.Answer = nil
		w.Mu.Unlock()
		time.Sleep(time.Minute)
		if rows, seen, _ := w.total(); rows != 2 || seen != 6 {
			t.Errorf("%d rows, seen %d times", rows, seen)
		}
		time.Sleep(time.Minute)
		w.in.sums.mu.Lock()
		if len(w.in.sums.byFinding)+len(w.in.sums.ofSender) > 0 {
			t.Error("sums that have ended stay in memory")
		}
		w.in.sums.mu.Unlock()
		stop()
		<-ended
	})
}

// Of counts at the same time, on any nodes, no more than the bound succeed.
func TestTakeIsExact(t *testing.T) {
	f := func(counted, n, most, want int) {
		t.Helper()
		is.Equal(t, take(t.Context(), &countedWindow{n: counted}, "k", n, most), want,
			"%d of %d after %d", n, most, counted)
	}
	f(0, 3, 5, 3)
	f(3, 3, 5, 2)
	f(5, 3, 5, 0)
	f(50, 3, 5, 0)
	f(3, 0, 5, 0)
}

// countedWindow counts one key.
type countedWindow struct {
	Window
	n int
}

func (w *countedWindow) AddMany(_ context.Context, _ string, n int) int {
	w.n += n
	return w.n
}
