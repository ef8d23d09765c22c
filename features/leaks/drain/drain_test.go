package drain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eventrelay/relay/features/leaks/intake"
	"github.com/eventrelay/relay/pkg/apikey"
	"github.com/eventrelay/relay/pkg/config"
	"github.com/eventrelay/relay/pkg/finding"
	"github.com/eventrelay/relay/pkg/secrets"
	"github.com/eventrelay/relay/pkg/stream"
	"github.com/eventrelay/relay/test/is"
	"github.com/eventrelay/relay/test/must"
)

// A secret in each kind of body becomes one hit with its location, and its text is nowhere.
func TestSecretsBecomeHits(t *testing.T) {
	secret := leakedKey(1)
	object := `{"time":"2026-01-02T03:04:05Z","app":"web","env":"prod","release":"1.2","msg":"key ` + secret + `"}`
	for name, body := range map[string]string{
		"text":         "started\nkey=" + secret + "\nstopped\n",
		"ndjson":       `{"app":"other"}` + "\n" + object + "\n" + `{"app":"third"}`,
		"json":         `[{"app":"other"}, ` + object + `,{"app":"third"}]`,
		"gzip":         gzipped(object),
		"gzip of gzip": gzipped(gzipped(object)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			answer := w.post(202, body, "User-Agent", "shipper/1.0 "+leakedKey(2))
			h := w.Only()
			if h.N != 1 || h.Rule != "stripe-secret-live" || h.Sender != drainID || h.Account != "acc_1" || !h.Billed ||
				h.Source != finding.Drain || h.Severity != finding.High || h.Unverified || h.RemoteIP.String() != "192.0.2.7" ||
				!strings.HasPrefix(h.Masked, "sk_live_***") || h.Location.DrainID != drainID || h.Fingerprint == "" {
				t.Errorf("%+v", h)
			}
			if !strings.Contains(answer, `"hits":1`) || strings.Contains(h.Agent, "live_a") {
				t.Errorf("answer %s, agent %s", answer, h.Agent)
			}
			want := "web prod 1.2 2026-01-02T03:04:05Z"
			if name == "text" {
				want = "production   " + h.At.Format(time.RFC3339)
			}
			got := fmt.Sprintf("%s %s %s %s", h.Location.Label, h.Environment, h.Release, h.ObservedAt.Format(time.RFC3339))
			is.Equal(t, got, want, "location")
			w.mustNotHold(secret, leakedKey(2), token)
		})
	}
}

// ownRule returns a rule of the account.
func ownRule(severity secrets.Severity) secrets.Custom {
	return secrets.Custom{ID: "custom:acme", Name: "Acme key", Prefixes: []string{"acme_"}, Charset: "alnum", Min: 20,
		Max: 64, Left: "word", Right: "word", Severity: severity}
}

// The account's own rules apply from the next request after they change. Their hits have the rule's name and severity,
// and no fingerprint: equal texts in two applications are two findings.
func TestOwnRulesApply(t *testing.T) {
	w := newWorld(t)
	secret := "acme_" + leakedKey(1)[8:]
	body := `{"app":"a","msg":"` + secret + `"}` + "\n" + `{"app":"b","msg":"` + secret + " " + leakedKey(2) + `"}`
	w.post(202, `{"app":"a","msg":"`+secret+`"}`)
	must.Equal(t, len(w.Hits()), 0, "hits before there is a rule")
	w.own, w.revision = []secrets.Custom{ownRule(secrets.Critical)}, 1
	w.post(202, body, "User-Agent", "shipper "+secret)
	byApp := map[string]*finding.Hit{}
	for _, h := range w.Hits() {
		if h.Rule == "stripe-secret-live" {
			continue
		}
		if byApp[h.Location.Label] = h; h.Rule != "custom:acme" || h.RuleName != "Acme key" ||
			h.Severity != finding.High || h.Fingerprint != "" || !h.Billed {
			t.Errorf("%+v", h)
		}
	}
	if len(w.Hits()) != 3 || len(byApp) != 2 || byApp["a"].Finding == byApp["b"].Finding {
		t.Errorf("%d hits; of the rule: %v", len(w.Hits()), byApp)
	}
	w.mustNotHold(secret)
	w.own, w.revision = nil, 2
	w.post(202, body+" again")
	if n := len(w.Hits()); n != 4 { // the built-in rule's alone
		t.Errorf("%d hits after the rule was removed", n)
	}
}

// mustNotHold fails the test if anything that is stored, logged or counted has a text.
func (w *world) mustNotHold(texts ...string) {
	w.TB.Helper()
	all := w.everything()
	if !strings.Contains(all, drainID) {
		w.TB.Fatal("the searched text is not what was written")
	}
	for _, text := range texts {
		if strings.Contains(all, text) || strings.Contains(all, text[3:]) {
			w.TB.Errorf("%s is stored, logged or counted", text)
		}
	}
}

// A secret is found wherever the connection or a read cuts it.
func TestSecretsAreFoundAtEveryCut(t *testing.T) {
	w := newWorld(t)
	secret := leakedKey(3)
	for cut := range len(secret) + 1 {
		body := io.MultiReader(strings.NewReader("key "+secret[:cut]), strings.NewReader(secret[cut:]+" "+fmt.Sprint(cut)))
		if status, text := w.send(http.MethodPost, path, body); status != 202 || !strings.Contains(text, `"hits":1`) {
			t.Errorf("cut at %d: %d %s", cut, status, text)
		}
	}
	ids := map[string]bool{}
	for _, h := range w.Hits() {
		ids[h.Finding] = true
	}
	is.Equal(t, len(ids), 1, "findings of one secret")
}

// The hits of one request merge by finding and location.
func TestEqualHitsMerge(t *testing.T) {
	w := newWorld(t)
	var body strings.Builder
	for i := range 12 {
		fmt.Fprintf(&body, `{"app":"app-%d","msg":"%s"}`+"\n", i%2, leakedKey(i%3))
	}
	w.post(202, body.String())
	all := w.Hits()
	total := 0
	for _, h := range all {
		total += int(h.N)
	}
	if len(all) != 6 || total != 12 {
		t.Errorf("%d hits with %d secrets, want 6 with 12", len(all), total)
	}
}

// Above 100 records of a request a secret gets no further record for another application; the number of secrets stays
// exact. The rule depends on the body alone: lines that are sent again later, at another rate, count once.
func TestManyLocationsMerge(t *testing.T) {
	w := newWorld(t)
	lines := func(request, apps int) string {
		var body strings.Builder
		for i := range apps {
			fmt.Fprintf(&body, `{"app":"app-%d","request":%d,"msg":"%s"}`+"\n", i, request, leakedKey(1))
		}
		return body.String()
	}
	for request := range 20 {
		w.post(202, lines(request, 150))
	}
	w.post(202, lines(0, 150))
	all, total := w.Hits(), 0
	for _, h := range all {
		total += int(h.N)
	}
	if len(all) != 20*maxByLocation || total != 20*150 {
		t.Errorf("%d hits with %d secrets", len(all), total)
	}
}

// A drain that makes too many records is refused for a minute; nothing is stored, and another drain is not concerned.
func TestRecordsOfAMinuteAreBounded(t *testing.T) {
	w := newWorld(t)
	w.drain.deps.Records.AddMany(t.Context(), drainID, maxRecordsPerMinute+1)
	w.post(429, leakedKey(1))
	w.post(202, "no secret")
	is.Equal(t, len(w.Hits()), 0, "hits")
}

// A request makes at most 1,000 records, and those beyond it are counted in the finding flood.
func TestRecordsOfARequestAreBounded(t *testing.T) {
	w := newWorld(t)
	w.KnowsAll = true
	var body strings.Builder
	for i := range maxRecords + 20 {
		body.WriteString(leakedKey(i) + "\n")
	}
	w.post(202, body.String())
	all := w.Hits()
	if last := all[len(all)-1]; len(all) != maxRecords+1 || last.Rule != finding.RuleFlood || last.N != 20 {
		t.Errorf("%d records, the last one is %+v", len(all), last)
	}
}

// A client that gets a 5xx sends the same lines again, compressed or not; what was stored before counts once.
func TestARetryCountsOnce(t *testing.T) {
	w := newWorld(t)
	var body strings.Builder
	for i := range 40 {
		fmt.Fprintf(&body, "line %d %s\n", i, leakedKey(i%20))
	}
	n := 0
	w.Answer = func(*stream.Record) error {
		if n++; n%3 == 0 {
			return errors.New("the broker is away")
		}
		return nil
	}
	w.post(503, body.String())
	w.post(503, gzipped(body.String()))
	if stored := len(w.Hits()); stored == 0 || stored > 20 {
		t.Fatalf("%d hits are stored in part", stored)
	}
	w.Answer = nil
	w.post(202, body.String())
	w.post(202, gzipped(body.String()))
	all, total := w.Hits(), 0
	for _, h := range all {
		total += int(h.N)
	}
	if len(all) != 20 || total != 40 || w.metric("unavailable") != 2 {
		t.Errorf("%d hits with %d secrets", len(all), total)
	}
}

// A log that does not answer is a 503 after ten seconds, and so is a configuration without its keys.
func TestLogIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Silent = true
		began := time.Now()
		w.post(503, leakedKey(1))
		is.Equal(t, time.Since(began), intake.ProduceTimeout, "answered after")
		w.post(202, "nothing to store")
		w.Silent, w.KeysErr = false, errors.New("no keys")
		w.post(503, leakedKey(1))
		is.Equal(t, len(w.Hits()), 0, "hits")
	})
}

// Who does not know the URL learns nothing; a drain that is paused or deleted stores nothing.
func TestWhoMaySend(t *testing.T) {
	w := newWorld(t)
	f := func(method, path string, want int, headers ...string) {
		t.Helper()
		if status, text := w.send(method, path, strings.NewReader(leakedKey(1)), headers...); status != want ||
			strings.Contains(text, token) {
			t.Errorf("%s %s: %d %s, want %d", method, path, status, text, want)
		}
	}
	f("POST", PathPrefix+drainID+"/tokenofanother", 404)
	f("POST", PathPrefix+"drn_2/"+token, 404)
	f("POST", PathPrefix+drainID, 404)
	f("POST", PathPrefix+drainID+"/", 404)
	f("POST", PathPrefix, 404)
	f("GET", path, 405)
	f("HEAD", path, 200)
	f("POST", PathPrefix+drainID, 404, "Authorization", "Bearer wrong")
	must.Equal(t, len(w.Hits()), 0, "hits")
	f("PUT", path, 202)
	f("POST", PathPrefix+drainID, 202, "Authorization", "bearer "+token)
	w.to.Paused = true
	f("POST", path, 200)
	w.deleted = true
	f("POST", path, 410)
	w.Only() // the same body twice counts once
	is.Equal(t, w.metric("paused"), 1, "paused requests are counted")
	w.mustNotHold(token, "tokenofanother")
}

// One of our own keys is named; while it is accepted the hit is critical. A test key is a test, low, and costs nothing.
func TestOwnKeys(t *testing.T) {
	w := newWorld(t)
	works, revoked, fake := apikey.New(), apikey.New(), testKey()
	w.AddKey(works, &config.Key{ID: "key_1"})
	w.AddKey(revoked, &config.Key{ID: "key_2", RevokedAt: time.Now()})
	w.post(202, works+"\n"+revoked+"\n"+fake+"\n"+apikey.New())
	var got []string
	for _, h := range w.Hits() {
		got = append(got, fmt.Sprint(h.KeyID, " ", h.Severity, " ", h.Test, " ", h.Billed))
	}
	want := []string{"key_1 critical false true", "key_2 high false true", " low true false", " high false true"}
	is.List(t, got, want)
	w.mustNotHold(works, revoked, fake)
}

// More than 200 requests a second, and more than 32 at the same time, are refused.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range maxRequestsPerSecond {
			w.post(202, "line")
		}
		w.post(429, "line")
		time.Sleep(time.Second)
		var taken []*slot
		for range maxRunningOfDrain {
			one := must.Get(w.drain.running.enter(drainID))(t)
			taken = append(taken, one)
		}
		w.post(429, "line")
		for i := range maxRunning - maxRunningOfDrain {
			must.Get(w.drain.running.enter(fmt.Sprint(i)))(t)
		}
		taken[0].leave()
		w.post(202, "line")
		must.Get(w.drain.running.enter("another"))(t)
		w.post(503, "line")
	})
}

// What a drain received is reported within two seconds, again until the log has it, and at the end.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, stop := contextWithCancel(t)
		done := make(chan error, 1)
		w.run(ctx, done)
		last := func() *finding.Counts {
			t.Helper()
			all := w.counts()
			if len(all) == 0 {
				t.Fatal("no report")
			}
			return all[len(all)-1]
		}
		w.post(202, "one\ntwo\n"+leakedKey(1))
		time.Sleep(intake.ReportInterval)
		synctest.Wait()
		c := last()
		if c.Sender != drainID || c.Requests != 1 || c.Lines != 3 || c.Bytes != uint64(8+len(leakedKey(1))) || c.Hits != 1 ||
			c.Platform != "generic" || c.LastAt.IsZero() || c.LastError != "" || c.Node != "node-1" {
			t.Errorf("%+v", c)
		}
		w.SetAnswer(func(*stream.Record) error { return errors.New("away") })
		w.post(202, "four")
		w.post(413, strings.Repeat("x", maxBody+1))
		time.Sleep(2 * intake.ReportInterval)
		synctest.Wait()
		w.SetAnswer(nil)
		time.Sleep(intake.ReportInterval)
		synctest.Wait()
		if c := last(); c.Requests != 3 || c.Lines < 4 || c.Rejected != 1 || c.LastError != "too_large" || c.Version < 3 {
			t.Errorf("%+v", c)
		}
		n := len(w.counts())
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(w.counts()) != n {
			t.Errorf("%d reports without a request", len(w.counts())-n)
		}
		w.post(202, "five")
		stop()
		if err := <-done; err != nil || last().Requests != 1 {
			t.Errorf("at the end: %v, %+v", err, last())
		}
	})
}

// The answer counts what was received.
func TestAnswer(t *testing.T) {
	w := newWorld(t)
	var got received
	must.Do(t, json.Unmarshal([]byte(w.post(202, gzipped("one\n\ntwo"))), &got))
	is.Equal(t, got, (received{Lines: 3, Bytes: 8}))
}
